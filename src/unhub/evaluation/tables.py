"""Tables in columns of plain text, results that are shown as tables, counts in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from unhub.html_tables import Table, as_html, numeric, visible


class Tabled(ABC):
    """A result that is shown as tables and lines between them: by print as text, in a notebook as HTML."""

    @abstractmethod
    def shown(self) -> Sequence[str | Table]:
        """Return the lines and tables, in order."""

    def __str__(self) -> str:
        return "\n".join(part if isinstance(part, str) else as_text(*part) for part in self.shown())

    def _repr_html_(self) -> str:
        return as_html(self.shown())


def as_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns as wide as their widest cell; columns of numbers are aligned to the right."""
    heads, rows = [visible(cell) for cell in heads], [[visible(cell) for cell in row] for row in rows]
    widths = widths_of(heads, rows)
    numbers = numeric(heads, rows)
    lines = []
    for row in (heads, ["─" * width for width in widths], *rows):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def widths_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(len(visible(cell)) for cell in column) for column in zip(heads, *rows, strict=True)]


def counted(number: int, one: str, many: str) -> str:
    """Return a number with what it counts, for a sentence: 1 query has, 2,000 queries have."""
    return f"1 {one}" if number == 1 else f"{number:,} {many}"
