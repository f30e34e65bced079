"""Markup: elements of a page. Text is escaped unless it is markup already, so a user's text never becomes markup."""

from __future__ import annotations

from html import escape
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already and is not escaped."""

    __slots__ = ()


Child: TypeAlias = str | Markup | None


def text(child: Child) -> Markup:
    """Return a child as markup: escaped unless it is markup already, empty for None."""
    if child is None:
        return Markup("")
    return child if isinstance(child, Markup) else Markup(escape(child))


def join(*children: Child) -> Markup:
    """Return children side by side."""
    return Markup("".join(map(text, children)))


def tag(name: str, *children: Child, **attributes: str | None) -> Markup:
    """Return an element; an attribute that is None is left out, and `kind` is the class."""
    pairs = {"class" if key == "kind" else key.replace("_", "-"): value for key, value in attributes.items()}
    inside = "".join(f' {key}="{escape(value)}"' for key, value in pairs.items() if value is not None)
    return Markup(f"<{name}{inside}>{join(*children)}</{name}>")


def breakable(spec: str) -> Markup:
    """Return a method as it is typed, with line breaks allowed after a colon or a comma."""
    return Markup(escape(spec).replace(":", ":<wbr>").replace(",", ",<wbr>"))


def table(heads: list[Child], rows: list[list[Child]], kind: str | None = None) -> Markup:
    """Return a table that scrolls if it is too wide for the page; the first cell of a row is its head."""
    top = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))) if any(heads) else Markup("")
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    # A region that scrolls must be reachable by keyboard.
    return tag("div", tag("table", top, tag("tbody", *body), kind=kind), kind="scroll", tabindex="0")
