"""How the command line shows things: tables on stdout, progress on stderr where someone is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from unhub.files.saved import Manifest, Set


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function of (done, total) that draws a bar with the time left; None unless stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under heads, in cells that wrap on a terminal and are never cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    # Only a terminal has a width to fit into, and what stands in a cell is text, not markup.
    width = None if sys.stdout.isatty() else 10_000
    shown = Table(box=box.SIMPLE_HEAD, show_header=any(heads), pad_edge=False)
    for head in heads:
        shown.add_column(head, overflow="fold")
    for row in rows:
        shown.add_row(*row)
    Console(width=width, markup=False, highlight=False, emoji=False).print(shown)


def write_columns(heads: Sequence[str], rows: Sequence[Sequence[str]], file: TextIO) -> None:
    """Write any number of rows in columns as wide as their widest cell; `table` takes a minute for 100,000."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, ["─" * width for width in widths], *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        file.write(f"{'  '.join(cells).rstrip()}\n")


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
        ("kernel", f"{cost['kernel']}, kept {cost['kept']}"),
        ("iterations", f"{cost['iterations']}" if cost["iterations"] else ""),
        ("marginal errors", _errors(cost["row_error"], cost["column_error"])),
        *(("note", note) for note in cost["notes"]),
    ]
    return [(name, value) for name, value in rows if value]


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
