"""Lines of emoji: the text of the demo, for a terminal of a given width; emoji come last, since their widths differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unhub.demo.emoji.space import Descriptions, Space
from unhub.demo.examples import Example
from unhub.demo.finding import Answer, Hit
from unhub.demo.hubs import HubQueries
from unhub.demo.lines import NAME_COLUMNS, listed, paragraph, ranked_places, unknown_lines
from unhub.evaluation.hubness import Hubs
from unhub.multi.results import SetEvaluation

EXTRA_COLUMNS = 1  # of an emoji, which takes two
GAP = "  "  # between two emoji, since some terminals draw them over one another


def what_is_shown(space: Space) -> list[str]:
    """Say what hubs are and what the correction does, in a paragraph each."""
    bank = space.correction.source.bank
    past = "" if bank is None else f" {bank.count:,}"
    return [
        f"This demo searches {len(space.items):,} emoji. A model turns descriptions and pictures into vectors, and a "
        "search shows the emoji nearest to what you wrote. Some emoji are close to almost any text. These hubs appear "
        "in search after search and push out the emoji that people meant. The tables show how much.",
        f"The correction comes from{past} past descriptions: one number for each emoji that says how much the model "
        f"favours it. Ranking subtracts it ({space.correction.spec!r}). Nobody said which emoji the past descriptions "
        "meant, and the model is unchanged.",
    ]


def on_measures(found: SetEvaluation, asked: Descriptions, bank: Descriptions) -> list[str]:
    """Say how to read the first table."""
    again = 1 - len(asked.without(bank.texts)) / len(asked)
    measured = ", ".join(f"{count:,} emoji with {size}" for size, count in found.targets.items())
    return [
        f"The queries are {len(asked):,} test keywords, alone or combined with others of the same emoji. The model was "
        f"not trained on them for these emoji; {again:.0%} also occur in the past descriptions, for other emoji. There "
        f"are {measured} keywords or more.",
        "R@k: the percentage of searches with the right emoji among the first k. MdR: the median rank of the right "
        "emoji; lower is better. Brackets hold 95% intervals. A change in green or red is larger than chance.",
    ]


def on_hubs(found: Hubs, asked: Descriptions, space: Space) -> str:
    """Say what an equal share is, and what the keywords of a hub are."""
    share = found.before.k * len(asked) / len(space.items)
    return (
        f"If all emoji were shown equally often, each would appear for {share:,.0f} of the {len(asked):,} keywords. "
        "Below each hub are keywords that show it but mean another emoji, the one next to them."
    )


def hub_lines(number: int, one: HubQueries, asked: Descriptions, space: Space, width: int) -> Iterator[str]:
    """Yield a hub, how often it is shown, and keywords that mean another emoji."""
    hub = one.hub
    yield from paragraph(f"{number}. {space.names[hub.position]} {hub.id}", width - EXTRA_COLUMNS, " " * 3, "")
    yield f"   shown for {hub.before:,} keywords, {hub.after:,} after the correction"
    for what, queries in (("no longer for: ", one.freed), ("still for: ", one.kept)):
        if queries:
            meant = (f"{asked.texts[query]} {space.items.ids[asked.items[query]]}" for query in queries)
            yield from listed(meant, width, " " * 6, f"   {what}")


def example_lines(one: Example, width: int) -> Iterator[str]:
    """Yield a keyword, the emoji that it means, and the results, raw and corrected."""
    yield from paragraph(f"{one.answer.text}, meaning {one.name} {one.id}", width - EXTRA_COLUMNS, " " * 4, "")
    places = ranked_places(one)
    for ranking, hits in one.answer.rankings.items():
        yield f"  {ranking:<{NAME_COLUMNS}}{places[ranking]}  {_row(hits, one.id)}"


def answer_lines(answer: Answer, width: int) -> Iterator[str]:
    """Yield the results of a description, raw and corrected: the emoji, then their names."""
    yield from unknown_lines(answer, width)
    for ranking, hits in answer.rankings.items():
        yield f"{ranking:<{NAME_COLUMNS}}{_row(hits)}"
        yield from paragraph(", ".join(hit.name for hit in hits), width, " " * NAME_COLUMNS)


def _row(hits: Iterable[Hit], right: str | None = None) -> str:
    return GAP.join(f"[{hit.id}]" if hit.id == right else hit.id for hit in hits)
