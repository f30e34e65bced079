"""Exports: the biases of a correction, one line per item, for programs that subtract them themselves."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO, TypeAlias, cast

from unhub.arrays import spans
from unhub.atomic import replacing
from unhub.correction import Bias, Correction, check_correction
from unhub.errors import ArgumentError, optional

Exporter: TypeAlias = Callable[[Bias, Path], None]

TABLE = "unhub_h"  # of the SQL script
LINES_PER_INSERT = 500


def export(correction: Correction, path: str | os.PathLike[str]) -> None:
    """Write id and bias h of every item to a .csv, .jsonl, .parquet or .sql file; rank by score - h.

    A correction with a gate has a column `active` too: h applies to queries whose raw best item is active.
    """
    check_correction(correction, "export")
    if not isinstance(correction, Bias):
        raise ArgumentError(
            "correction",
            f"of {correction.spec!r} re-scores whole rows of similarities and is not one number per item",
            "fit one that is, for example nnn, is or sn",
        )
    writer = bias_writer(path)
    with replacing(path) as temporary:
        writer(correction, temporary)


def bias_writer(path: str | os.PathLike[str]) -> Exporter:
    """Return the writer for a file of this name, by its suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in EXPORTERS:
        raise ArgumentError("path", f"must end in {', '.join(EXPORTERS)}, got {os.fspath(path)!r}")
    return EXPORTERS[suffix]


def _rows(correction: Bias) -> Iterator[dict[str, object]]:
    """Yield id, h and, with a gate, active."""
    active = correction.active
    for row, (one, h) in enumerate(zip(correction.ids.tolist(), correction.bias.tolist(), strict=True)):
        yield {"id": one, "h": h} if active is None else {"id": one, "h": h, "active": bool(active[row])}


def _heads(correction: Bias) -> list[str]:
    return ["id", "h"] if correction.active is None else ["id", "h", "active"]


def _opened(path: Path) -> TextIO:
    # A file name that is not UTF-8 reaches Python as surrogates, which are written as they came.
    return path.open("w", encoding="utf-8", errors="surrogateescape", newline="")


def _write_csv(correction: Bias, path: Path) -> None:
    with _opened(path) as file:
        # Texts in quotes: a lone \r in an id would end the line for some readers.
        writer = csv.DictWriter(file, _heads(correction), lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(_rows(correction))


def _write_jsonl(correction: Bias, path: Path) -> None:
    with _opened(path) as file:
        file.writelines(json.dumps(row) + "\n" for row in _rows(correction))


def _write_parquet(correction: Bias, path: Path) -> None:
    arrow = optional("pyarrow", "parquet", "writing a .parquet file")
    optional("pyarrow.parquet", "parquet", "writing a .parquet file")
    columns = {"id": correction.ids.tolist(), "h": correction.bias}
    if correction.active is not None:
        columns["active"] = correction.active
    arrow.parquet.write_table(arrow.table(columns), path)


def _write_sql(correction: Bias, path: Path) -> None:
    """Write a script in standard SQL: a table of ids and biases, in one transaction."""
    kind = "BIGINT" if correction.ids.dtype.kind == "i" else "TEXT"
    gate = "" if correction.active is None else ", active BOOLEAN NOT NULL"
    with _opened(path) as file:
        file.write(f"BEGIN;\nCREATE TABLE {TABLE} (id {kind} PRIMARY KEY, h DOUBLE PRECISION NOT NULL{gate});\n")
        lines = ["(" + ", ".join(map(_literal, row.values())) + ")" for row in _rows(correction)]
        for start, stop in spans(len(lines), LINES_PER_INSERT):
            file.write(f"INSERT INTO {TABLE} ({', '.join(_heads(correction))}) VALUES\n")
            file.write(",\n".join(lines[start:stop]) + ";\n")
        file.write("COMMIT;\n")


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper() if isinstance(value, bool) else repr(cast("float", value))


EXPORTERS: Mapping[str, Exporter] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
    ".sql": _write_sql,
}
