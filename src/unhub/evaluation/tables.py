"""Tables as plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence

NUMBER = re.compile(r"[+-]?[0-9][0-9,.]*%?( \[.*\])?|")


def as_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns as wide as their widest cell; columns of numbers are aligned to the right.

    What is not UTF-8, in a name of a file, is shown as \\udce9.
    """
    rows = [[cell.encode("utf-8", "backslashreplace").decode() for cell in row] for row in rows]
    columns = list(zip(heads, *rows, strict=True))
    widths = widths_of(heads, rows)
    numbers = [len(rows) > 0 and all(map(NUMBER.fullmatch, column[1:])) for column in columns]
    lines = []
    for row in (heads, ["─" * width for width in widths], *rows):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def widths_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return how wide each column is."""
    return [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
