"""Plain text: tables in columns, counts in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Characters that a terminal acts on instead of showing: control characters, line ends, marks of writing direction. And
# surrogates, from file names that are not UTF-8, which cannot be encoded.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
NUMBER = re.compile(r"[+-]?[0-9][0-9,.]*%?( \[.*\])?|")


def as_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns as wide as their widest cell; columns of numbers are aligned to the right."""
    heads, rows = [visible(cell) for cell in heads], [[visible(cell) for cell in row] for row in rows]
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
    """Return the width of each column."""
    return [max(len(visible(cell)) for cell in column) for column in zip(heads, *rows, strict=True)]


def visible(text: str) -> str:
    """Return a text with unprintable characters escaped as in Python: \\x1b, \\n, \\u202e."""
    if text.isprintable():
        return text
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def counted(number: int, one: str, many: str) -> str:
    """Return a number with what it counts, for a sentence: 1 query has, 2,000 queries have."""
    return f"1 {one}" if number == 1 else f"{number:,} {many}"
