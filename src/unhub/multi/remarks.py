"""Notes on an evaluation of sets: what was left out, what was drawn, and which items an area is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhub.data.captions import Captions
from unhub.data.draws import Draws
from unhub.data.relevance import Truth
from unhub.evaluation.confidence import FEW_GROUPS
from unhub.evaluation.measures import Measure
from unhub.multi.scoring import RECALL, Area


def notes_on_sets(
    draws: Draws, captions: Captions, truth: Truth, areas: Sequence[Area], measures: Sequence[Measure]
) -> tuple[str, ...]:
    """Return notes for the reader."""
    return (*_left_out(draws, captions, truth), *_drawn(draws), *_areas(draws, areas, measures))


def _left_out(draws: Draws, captions: Captions, truth: Truth) -> Iterator[str]:
    silent = len(draws.item_ids) - len(captions.items)
    if silent:
        has = ("item has no text: it is", "items have no text: they are")
        yield f"{_count(silent, *has)} ranked, but no query asks for {'it' if silent == 1 else 'them'}."
    idle = len(truth.counts) - len(truth.answered)
    if idle:
        yield f"{_count(idle, 'text describes no item and is', 'texts describe no item and are')} left out."
    if truth.absent:
        yield f"{_count(truth.absent, 'pair names', 'pairs name')} an item that is not among the items."
    for size, one in draws.sizes.items():
        if not len(one.items):
            yield f"No item has {_count(size, 'text', 'texts')}: size {size} is left out."
        elif one.short:
            short = _count(one.short, "item with fewer texts is", "items with fewer texts are")
            yield f"Size {size} is measured on {_count(len(one.items), 'item', 'items')}; {short} left out."
    fewest = min(len(one.items) for one in draws.sizes.values() if len(one.items))
    if fewest == 1:
        yield "A single item has no interval."
    elif fewest < FEW_GROUPS:
        yield f"One size has only {fewest} items; intervals are rough with fewer than {FEW_GROUPS}."


def _drawn(draws: Draws) -> Iterator[str]:
    there = {size: one for size, one in draws.sizes.items() if len(one.items)}
    whole = [size for size, one in there.items() if one.whole.all()]
    if whole:
        yield f"Size{'s' * (len(whole) > 1)} {_listed(whole)}: every possible set of an item's texts, each once."
    for size, one in there.items():
        if not one.whole.all():
            some = int((~one.whole).sum())
            whom = "each item" if some == len(one.items) else f"each of {some:,} items, every set for the others"
            yield f"Size {size}: {_count(draws.count, 'random set', 'random sets')} for {whom} (seed {draws.seed})."


def _areas(draws: Draws, areas: Sequence[Area], measures: Sequence[Measure]) -> Iterator[str]:
    sizes = [size for size, one in draws.sizes.items() if len(one.items)]
    if not areas:
        if len(sizes) > 1 and any(measure.name == RECALL for measure in measures):
            yield "There is no area under the curve: it starts at size 1, which was not measured."
        return
    for size in [size for size in sizes if size > 1]:
        between = [one for one in range(1, size) if one not in sizes]
        if between:
            yield f"AUC_{size}: no sets of {_listed(between)} were measured; the curve is straight there."
    first = len(draws.sizes[1].items)
    for size, items in {area.size: area.items for area in areas}.items():
        if items != first:
            yield f"AUC_{size} is over the {items:,} items with at least {size} texts, the same at every size."


def _listed(numbers: Sequence[int]) -> str:
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def _count(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many}"
