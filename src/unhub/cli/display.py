"""How the command line shows things: tables on stdout, progress on stderr where someone is watching."""

from __future__ import annotations

import codecs
import io
import itertools
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import typer

if TYPE_CHECKING:
    from unhub.files.corrections import Manifest, Set
    from unhub.files.models import ModelManifest, TowerManifest


# What the cost of a fit says it kept, where that is one word.
KEPT = {
    "nothing": "",
    "fp32": "the matrix, in float32",
    "16-bit": "the matrix, in 16 bits a pair",
    "recomputed": "nothing: the matrix was computed anew for each iteration",
}


class Advance(Protocol):
    """Moves a bar on; a label may take the place of the one before."""

    def __call__(self, done: int, total: int, label: str | None = None) -> None: ...


def escape_unprintable() -> None:
    """Let stdout take every text: what its encoding does not have is written as JSON escapes it, \\udce9.

    So an id that is not UTF-8, as the name of a file may be, stays what it is in JSON, and ends no command.
    """
    codecs.register_error("unhub_json", _json_escapes)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="unhub_json")


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Advance | None]:
    """Yield a function of (done, total) that draws a bar with the time left; None unless stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None)

        def advance(done: int, total: int, label: str | None = None) -> None:
            bars.update(task, completed=done, total=total, description=label)

        yield advance


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under heads."""
    from unhub.evaluation.tables import as_text

    typer.echo(as_text(heads, rows))


def wrapped(row: Sequence[str], widths: Mapping[int, int]) -> list[list[str]]:
    """Return a row as several, so that the cells of some columns keep to a width; what goes on stands below."""
    cells = [textwrap.wrap(cell, widths.get(at, len(cell) + 1)) or [""] for at, cell in enumerate(row)]
    return [list(line) for line in itertools.zip_longest(*cells, fillvalue="")]


def facts(manifest: Manifest) -> list[tuple[str, str]]:
    """Return what a saved correction is and what its fit cost, as (name, value) for people."""
    cost = manifest["cost"]
    dimensions = "" if manifest["dimensions"] is None else f", {manifest['dimensions']} dimensions"
    rows = [
        ("method", f"{manifest['method']} ({manifest['kind']})"),
        ("similarity", f"{manifest['similarity']}{dimensions}"),
        ("items", f"{_set(manifest['items'])}, ids {manifest['ids']}"),
        ("bank", _set(manifest["bank"])),
        ("bank items", _set(manifest["bank_items"])),
        ("cost", f"{_passes(cost['passes'])}, {cost['seconds']:.2f} s, {_size(cost['peak_memory'])} peak memory"),
        ("kernel", cost["kernel"]),
        ("kept", KEPT.get(cost["kept"], cost["kept"])),
        ("iterations", f"{cost['iterations']}" if cost["iterations"] else ""),
        ("marginal errors", _errors(cost["row_error"], cost["column_error"])),
        *(("note", note) for note in cost["notes"]),
    ]
    return [(name, value) for name, value in rows if value]


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
    return "" if saved is None else f"{saved['count']:,}"


def _passes(count: float) -> str:
    return f"{count:.3g} {'pass' if count == 1 else 'passes'}"


def _errors(row: float | None, column: float | None) -> str:
    sides = {"queries": row, "items": column}
    return ", ".join(f"{side} {error:.2g}" for side, error in sides.items() if error is not None)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
