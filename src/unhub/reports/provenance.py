"""How a report was made: the data with their hashes, the parameters, the versions and the command."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata

from unhub.correction import Correction
from unhub.data.fingerprint import Fingerprint
from unhub.data.vectors import Vectors
from unhub.reports.report_inputs import ReportInputs

LIBRARIES = ("unhub", "numpy", "matplotlib")


def facts(
    inputs: ReportInputs, corrections: Mapping[str, Correction], command: str | None = None
) -> list[tuple[str, str]]:
    """Return what is needed to make the report again, as pairs (name, value)."""
    return [
        *((name, _data(inputs, name)) for name in ("items", "bank", "queries") if name in inputs.hashes),
        ("similarity", inputs.similarity),
        *(("correction", _fitted(name, one)) for name, one in corrections.items()),
        *_curves(inputs),
        ("seed", str(inputs.seed)),
        *((("command", command),) if command else ()),
        ("versions", _versions()),
        ("made", _now()),
    ]


def _curves(inputs: ReportInputs) -> list[tuple[str, str]]:
    if inputs.study_bank is None:
        return []
    used = len(inputs.study_queries), len(inputs.study_bank)
    return [("curves", f"{used[0]:,} of the queries, {used[1]:,} of the bank queries")]


def _data(inputs: ReportInputs, name: str) -> str:
    vectors: Vectors = getattr(inputs, name)
    digest = Fingerprint.of(inputs.hashes[name]).digest
    return f"{len(vectors):,} rows, {vectors.dimensions} dimensions, hash {digest:016x}"


def _fitted(name: str, correction: Correction) -> str:
    bank = "" if correction.source.bank is None else f" on a bank of {correction.source.bank.count:,}"
    known = f"{name}: {correction.spec}" if name != correction.spec else name
    notes = "".join(f"; {note}" for note in correction.cost.notes)
    return f"{known}, fitted{bank} in {correction.cost.seconds:.2f} s{notes}"


def _versions() -> str:
    found = []
    for library in LIBRARIES:
        try:
            found.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            continue  # run from a checkout that is not installed
    return ", ".join([*found, f"Python {platform.python_version()}"])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
