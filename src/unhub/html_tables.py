"""Tables as HTML, for notebooks; text is escaped, and what no terminal should get is spelled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]]]  # heads and rows

# Characters that a terminal acts on instead of showing: control characters, line ends, marks of writing direction. And
# surrogates, from file names that are not UTF-8, which cannot be encoded.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
NUMBER = re.compile(r"[+-]?[0-9][0-9,.]*%?( \[.*\])?|")


def as_html(parts: Sequence[str | Table]) -> str:
    """Return lines and tables as HTML, in which their text is escaped."""
    return "".join(_table(*part) if not isinstance(part, str) else f"<p>{_escaped(part)}</p>" for part in parts if part)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    styles = [' style="text-align: right"' if right else ' style="text-align: left"' for right in numeric(heads, rows)]
    top = "".join(f"<th{style}>{_escaped(cell)}</th>" for cell, style in zip(heads, styles, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{style}>{_escaped(cell)}</td>" for cell, style in zip(row, styles, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(text: str) -> str:
    return escape(visible(text))


def numeric(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Return which columns hold numbers alone; they are aligned to the right."""
    return [len(rows) > 0 and all(map(NUMBER.fullmatch, column[1:])) for column in zip(heads, *rows, strict=True)]


def visible(text: str) -> str:
    """Return a text with unprintable characters escaped as in Python: \\x1b, \\n, \\u202e."""
    if text.isprintable():
        return text
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
