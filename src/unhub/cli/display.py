"""How the command line shows things: tables on stdout, progress on stderr where someone is watching."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import typer

from unhub.cli import stop_if_interrupted
from unhub.evaluation.tables import as_text
from unhub.html_tables import visible

if TYPE_CHECKING:
    from unhub.compute.progress import Advance
    from unhub.files.corrections import Manifest, Set
    from unhub.files.models import ModelManifest, TowerManifest
    from unhub.foreseeing import Forecast


# What a fit kept: as its cost says it, and as it is shown.
KEPT = {
    "nothing": "",
    "fp32": "the matrix, in float32",
    "16-bit": "the matrix, in 16 bits a pair",
    "sparse": "a part of the matrix",
    "recomputed": "nothing; the matrix was computed again for each iteration",
}


# The characters beyond ASCII that we print, for terminals that lack them.
PLAIN = str.maketrans({"─": "-", "…": "."})
INVISIBLE_IN_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Advance]:
    """Yield a function of (done, total) that shows progress on stderr: a bar at a terminal, else a line a minute.

    It also raises a ctrl-C that was lost on its way.
    """
    if quiet:
        yield lambda done, total, label=None: stop_if_interrupted()
        return
    from unhub.compute.progress import shown  # here, since it loads numpy

    with shown(label) as show:

        def advance(done: int, total: int, label: str | None = None) -> None:
            stop_if_interrupted()
            show(done, total, label)

        yield advance


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under heads."""
    write_table(heads, rows, sys.stdout)


def write_table(heads: Sequence[str], rows: Sequence[Sequence[str]], file: TextIO) -> None:
    """Write rows under heads to a stream; cells that it cannot encode are escaped, and the columns stay aligned."""
    text = as_text(heads, rows)
    if not _encodes(file, text):
        head, *cells = ([spelled(cell, file) for cell in row] for row in (heads, *rows))
        text = spelled(as_text(head, cells), file)
    file.write(f"{text}\n")


def echo(text: str = "", err: bool = False) -> None:
    """Print lines for people; control characters and those that the terminal lacks are escaped."""
    lines = "\n".join(map(visible, text.split("\n")))
    typer.echo(spelled(lines, sys.stderr if err else sys.stdout), err=err)


def echo_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json_text(value, sys.stdout))


def json_text(value: object, stream: TextIO, indent: int | None = 2) -> str:
    """Return a value as JSON that a terminal shows as it is, and that the stream can encode."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = INVISIBLE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # the same text to a JSON reader
    return text if _encodes(stream, text) else json.dumps(value, indent=indent)


def _encodes(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")  # a stream in memory has none
    except UnicodeEncodeError:
        return False
    return True


def spelled(text: str, stream: TextIO, others: str = "backslashreplace") -> str:
    """Return a text that the stream can encode, with simpler characters or escapes such as \\xe9, \\u4e2d.

    others: the error handler of Python for what has no simpler character.
    """
    if _encodes(stream, text):
        return text
    encoding = stream.encoding
    return text.translate(PLAIN).encode(encoding, others).decode(encoding)


def wrapped(row: Sequence[str], widths: Mapping[int, int]) -> list[list[str]]:
    """Return a row as several, so that some columns keep to a width; long cells continue below."""
    cells = [textwrap.wrap(cell, widths.get(at, len(cell) + 1)) or [""] for at, cell in enumerate(row)]
    return [list(line) for line in itertools.zip_longest(*cells, fillvalue="")]


def facts(manifest: Manifest) -> list[tuple[str, str]]:
    """Return what a saved correction is and what its fit cost, as (name, value) for people."""
    from unhub.compute.workers import written_bytes

    cost = manifest["cost"]
    dimensions = "" if manifest["dimensions"] is None else f", {manifest['dimensions']} dimensions"
    rows = [
        ("method", f"{manifest['method']} ({manifest['kind']})"),
        ("similarity", f"{manifest['similarity']}{dimensions}"),
        ("items", f"{_set(manifest['items'])}, ids {manifest['ids']}"),
        ("bank", _set(manifest["bank"])),
        ("bank items", _set(manifest["bank_items"])),
        (
            "cost",
            f"{_passes(cost['passes'])}, {cost['seconds']:.2f} s, {written_bytes(cost['peak_memory'])} peak memory",
        ),
        ("kernel", cost["kernel"]),
        ("kept", KEPT.get(cost["kept"], cost["kept"])),
        ("iterations", f"{cost['iterations']}" if cost["iterations"] else ""),
        ("marginal errors", _errors(cost["row_error"], cost["column_error"])),
        ("estimated", _estimated(cost.get("pairs"), cost.get("error"), cost.get("how", ""))),
        *(("note", note) for note in cost["notes"]),
    ]
    return [(name, value) for name, value in rows if value]


def show_forecast(forecast: Forecast, as_json: bool) -> None:
    """Print what a fit will take, as (name, value) for people or as JSON."""
    if as_json:
        echo_json(dataclasses.asdict(forecast))
        return
    from unhub.compute.workers import written_bytes

    at_most = "at most about " if forecast.most else ""
    again = "nothing: the matrix is computed again for each iteration"
    rows = [
        ("method", forecast.method),
        ("pairs", f"{at_most}{forecast.pairs:,} of {forecast.items:,} items and {forecast.bank:,} bank queries"),
        ("passes", f"{at_most}{_passes(forecast.passes)}"),
        ("time", f"about {forecast.seconds:.3g} s, {forecast.threads} threads, kernel {forecast.kernel}"),
        ("memory", f"{written_bytes(forecast.memory)} beside the vectors"),
        ("kept", again if forecast.kept == "recomputed" else KEPT.get(forecast.kept, forecast.kept)),
        *(("cheaper", one) for one in forecast.cheaper),
    ]
    for name, value in rows:
        if value:
            echo(f"{name:<8} {value}")


def model_facts(manifest: ModelManifest) -> list[tuple[str, str]]:
    """Return what a saved model is and how it was trained, as (name, value) for people."""
    training = manifest["training"]
    rows = [
        ("model", f"head {manifest['head']}, {manifest['dimensions']} dimensions"),
        ("text tower", _tower(manifest["text"])),
        ("item tower", _tower(manifest["item"])),
    ]
    settings, data = training["settings"], training["data"].get("training")
    if settings and data:  # a model that was made by hand has none
        queries = settings["queries"]
        drawn = f"1 or {queries}" if settings["combination"] and queries > 1 else f"{queries}"
        rows += [
            ("trained on", f"{data['items']:,} items, {data['captions']:,} captions, {drawn} for each and step"),
            ("seed", str(settings["seed"])),
        ]
    for one in training["tried"]:
        if one.get("failed"):
            continue  # the notes say so
        kept = one["epochs"][one["best"] - 1]
        recall = "" if kept["recall"] is None else f", validation R@1 {kept['recall']:.2f}"
        chosen = " (chosen)" if one["rate"] == training["rate"] and len(training["tried"]) > 1 else ""
        rows.append((f"rate {one['rate']:g}", f"epoch {one['best']}, loss {kept['loss']:.4f}{recall}{chosen}"))
    return [*rows, *(("note", note) for note in training["notes"])]


def _tower(saved: TowerManifest) -> str:
    prepared = {None: "", False: ", standardised", True: ", square root, standardised"}[saved["root"]]
    return f"{saved['kind']}, {saved['features']:,} features{prepared}"


def _set(saved: Set | None) -> str:
    if saved is None:
        return ""
    return f"{saved['count']:,}" + (f", of weight {saved['weight']:,.6g}" if "weight" in saved else "")


def _passes(count: float) -> str:
    return f"{count:.3g} {'pass' if count == 1 else 'passes'}"


def _estimated(pairs: int | None, error: float | None, how: str) -> str:
    """Return what a fit within an error computed, and the error; nothing of a fit of all pairs."""
    if error is None:
        return ""
    if pairs is None:  # it was changed since
        return f"h of the fit had a standard error of {error:.2g}: {how}; what was added since is exact"
    return f"h has a standard error of {error:.2g}; {pairs:,} pairs: {how}"


def _errors(row: float | None, column: float | None) -> str:
    sides = {"queries": row, "items": column}
    return ", ".join(f"{side} {error:.2g}" for side, error in sides.items() if error is not None)
