"""Lines: the parts of a demo's text that every demo has, for a terminal of a given width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from unhub.demo.examples import Example, Examples
from unhub.demo.finding import Answer
from unhub.evaluation.hubness import Hubs

NAME_COLUMNS = 11  # for the name of a ranking


def paragraph(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Return a text in lines of a width; `first` begins the first one, `indent` the others."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(parts: Iterable[str], width: int, indent: str, first: str) -> Iterator[str]:
    """Yield parts separated by commas, in lines of a width; an emoji takes two columns."""
    line, empty = first, True
    for part in parts:
        longer = f"{line}{'' if empty else ', '}{part}"
        if not empty and cell_len(longer) >= width:  # a comma may follow
            yield f"{line},"
            longer = f"{indent}{part}"
        line, empty = longer, False
    yield line


def hubs_title(found: Hubs, items: str) -> str:
    """Return the title of the hubs; `items` is what to call them."""
    return f"The worst hubs: the {items} most often among the first {found.before.k}"


def evenness_title(found: Hubs, items: str, query: str) -> str:
    """Return the title of the table of evenness."""
    return f"How evenly {items} are shown, {found.before.k} for each {query}"


def examples_title(examples: Examples) -> str:
    """Return the title of the examples."""
    gains = sum(one.corrected_rank < one.raw_rank for one in examples.shown)
    return f"The largest gains ({gains}) and losses ({len(examples.shown) - gains}), side by side"


def on_examples(examples: Examples, queries: str, item: str) -> str:
    """Say how typical the examples are; `queries` and `item` are what to call them."""
    total = examples.nearer + examples.further + examples.same
    return (
        f"Of {total:,} {queries}, the right {item} moved up for {examples.nearer:,}, moved down for "
        f"{examples.further:,} and kept its rank for {examples.same:,}. These moved most; the right one is in brackets."
    )


def ranked_places(one: Example) -> dict[str, str]:
    """Return the rank of the right item for each ranking, as texts of one width."""
    ranks = {"raw": one.raw_rank, "corrected": one.corrected_rank}
    places = {ranking: f"rank {rank:,g}" for ranking, rank in ranks.items()}
    room = max(map(len, places.values()))
    return {ranking: place.ljust(room) for ranking, place in places.items()}


def unknown_lines(answer: Answer, width: int) -> Iterator[str]:
    """Yield what was left out of a description, if anything."""
    if answer.unknown:
        yield from paragraph(f"Left out, words that the demo does not know: {', '.join(answer.unknown)}.", width)
