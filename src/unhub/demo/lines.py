"""Lines: what the demo says, as text for a terminal of some width; emoji stand last, since fonts draw them wider."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from unhub.demo.examples import Example, Examples
from unhub.demo.finding import Answer, Hit
from unhub.demo.hubs import Swallowed
from unhub.demo.space import Descriptions, Space
from unhub.evaluation.hubness import Hubs
from unhub.multi.results import SetEvaluation

NAME = 11  # columns for the name of a ranking
WIDER = 1  # an emoji takes two columns
APART = "  "  # between two emoji, since some terminals draw them over one another


def paragraph(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Return a text in lines of some width; `first` begins the first one, `indent` the others."""
    return textwrap.wrap(
        text, width, initial_indent=indent if first is None else first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def listed(parts: Iterable[str], width: int, indent: str, first: str) -> Iterator[str]:
    """Yield parts with commas between them, in lines of some width; an emoji takes two columns."""
    line, empty = first, True
    for part in parts:
        longer = f"{line}{'' if empty else ', '}{part}"
        if not empty and cell_len(longer) >= width:  # there may be a comma to come
            yield f"{line},"
            longer = f"{indent}{part}"
        line, empty = longer, False
    yield line


def what_is_shown(space: Space) -> list[str]:
    """Say what hubs are and what was done, in a paragraph each."""
    bank = space.correction.source.bank
    past = "" if bank is None else f" {bank.count:,}"
    return [
        f"{len(space.items):,} emoji can be searched by description. A model puts descriptions and pictures into one "
        "space, and a search shows the emoji that are nearest to what you wrote. Some emoji are nearer to everything "
        "than others are: these hubs turn up in search after search, even where nobody means them, and take the places "
        "of the emoji that are meant. How strong that is here, and what it costs, is measured below.",
        f"unhub looked at{past} descriptions from the past and learnt how much each emoji is favoured. That is one "
        f"number for each, which it takes off when it ranks ({space.correction.spec}). It was not told which emoji "
        "those descriptions meant, and the model stays as it is.",
    ]


def on_measures(found: SetEvaluation, asked: Descriptions, bank: Descriptions) -> list[str]:
    """Say how to read the first table."""
    again = 1 - len(asked.without(bank.texts)) / len(asked)
    measured = ", ".join(f"{count:,} emoji with {size}" for size, count in found.targets.items())
    return [
        f"Asked with {len(asked):,} test keywords: one alone, or several of the same emoji together. None was learnt "
        f"from as a word for its emoji, but words come again: {again:.0%} had been asked before, for other emoji. "
        f"Measured on {measured}: those that have so many.",
        "R@k: in how many of 100 searches the right emoji is among the first k. MdR: the median place of the right "
        "emoji; lower is better. In brackets: 95% intervals; a change in green or red is beyond chance.",
    ]


def hubs_title(found: Hubs) -> str:
    """Say what the hubs are."""
    return f"The worst hubs, shown among the first {found.before.k} most often"


def on_hubs(found: Hubs, asked: Descriptions, space: Space) -> str:
    """Say what a fair share is, and what the keywords beside a hub are."""
    share = found.before.k * len(asked) / len(space.items)
    return (
        f"If all emoji were shown equally often, each would be shown for {share:,.0f} of the {len(asked):,} keywords. "
        "Below each hub stand keywords that showed it although they ask for another emoji, the one beside them."
    )


def hub_lines(number: int, one: Swallowed, asked: Descriptions, space: Space, width: int) -> Iterator[str]:
    """Yield a hub, how often it is shown, and keywords that asked for something else."""
    hub = one.hub
    yield from paragraph(f"{number}. {space.names[hub.position]} {hub.id}", width - WIDER, " " * 3, "")
    yield f"   shown for {hub.before:,} keywords, {hub.after:,} once corrected"
    for what, queries in (("no longer for: ", one.freed), ("still for: ", one.kept)):
        if queries:
            meant = (f"{asked.texts[query]} {space.items.ids[asked.items[query]]}" for query in queries)
            yield from listed(meant, width, " " * 6, f"   {what}")


def examples_title(examples: Examples) -> str:
    """Say what the examples are."""
    gains = sum(one.corrected_rank < one.raw_rank for one in examples.shown)
    return f"Side by side: the largest gains ({gains}) and losses ({len(examples.shown) - gains})"


def on_examples(examples: Examples) -> str:
    """Say how typical the examples are."""
    total = examples.nearer + examples.further + examples.same
    return (
        f"Of {total:,} validation keywords, the right emoji came nearer for {examples.nearer:,}, went further for "
        f"{examples.further:,} and stayed for {examples.same:,}. These moved most; the right one is in brackets."
    )


def example_lines(one: Example, width: int) -> Iterator[str]:
    """Yield a keyword, what it asks for, and what is found, raw and corrected."""
    yield from paragraph(f"{one.answer.text}: meant is {one.name} {one.emoji}", width - WIDER, " " * 4, "")
    ranks = {"raw": one.raw_rank, "corrected": one.corrected_rank}
    places = {ranking: f"place {rank:,g}" for ranking, rank in ranks.items()}
    room = max(map(len, places.values()))
    for ranking, hits in one.answer.rankings.items():
        yield f"  {ranking:<{NAME}}{places[ranking]:<{room}}  {_row(hits, one.emoji)}"


def answer_lines(answer: Answer, width: int) -> Iterator[str]:
    """Yield what a description found, raw and corrected, the emoji and then their names."""
    if answer.unknown:
        yield from paragraph(f"Left out, since the demo does not know it: {', '.join(answer.unknown)}.", width)
    for ranking, hits in answer.rankings.items():
        yield f"{ranking:<{NAME}}{_row(hits)}"
        yield from paragraph(", ".join(hit.name for hit in hits), width, " " * NAME)


def _row(hits: Iterable[Hit], right: str | None = None) -> str:
    return APART.join(f"[{hit.emoji}]" if hit.emoji == right else hit.emoji for hit in hits)
