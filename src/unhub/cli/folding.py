"""Tables that fit the terminal they are shown on; piped, nothing is folded or cut."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import typer

from unhub.cli.display import table
from unhub.evaluation.tables import widths_of

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]

GAP = 2  # between two columns


def terminal_width() -> int | None:
    """Return how many columns stdout has; None where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def width_of(shown: Table) -> int:
    """Return how wide a table is."""
    heads, rows = shown
    return sum(widths_of(heads, rows)) + GAP * (len(heads) - 1)


def show(shown: Table) -> None:
    """Print a table, in parts below one another where the terminal is too narrow for it."""
    width = terminal_width()
    for number, part in enumerate([shown] if width is None else folded(shown, width)):
        if number:
            typer.echo()
        table(*part)


def folded(shown: Table, width: int) -> Iterator[Table]:
    """Yield a table in parts that keep to a width as far as they can, each with the first column."""
    heads, rows = shown
    widths = widths_of(heads, rows)
    taken: list[int] = []
    for column in range(1, len(heads)):
        if taken and widths[0] + sum(GAP + widths[one] for one in (*taken, column)) > width:
            yield _part(shown, taken)
            taken = []
        taken.append(column)
    yield _part(shown, taken)


def _part(shown: Table, columns: Sequence[int]) -> Table:
    heads, rows = shown
    return [heads[at] for at in (0, *columns)], [[row[at] for at in (0, *columns)] for row in rows]
