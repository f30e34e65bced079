"""Banks and tuning under a strong model, which leads nearly every query to the item it is after."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from unhub.correction import Correction
from unhub.evaluation.confidence import Interval

pytestmark = pytest.mark.once  # what is said and chosen, not how it is computed

Rows = NDArray[np.float64]
ITEMS, DIMENSIONS = 1000, 64
SAME = ("same items, 2,000", "same items, 5,000")
TRIED = "nnn,is"


class Strong(NamedTuple):
    """Items, one query for each of them, and past queries drawn with replacement: for these items, or for others."""

    items: Rows
    queries: Rows
    banks: dict[str, Rows]


@cache
def strong() -> Strong:
    random = np.random.default_rng(7)
    mean = 0.7 * random.normal(size=DIMENSIONS)

    def things(count: int) -> Rows:
        return random.normal(size=(count, DIMENSIONS)) + mean

    def ask(wanted: Rows) -> Rows:
        return wanted + 1.3 * random.normal(size=wanted.shape) + 1.5 * mean

    items = things(ITEMS)
    queries = ask(items)
    banks = {name: ask(items[random.integers(ITEMS, size=size)]) for name, size in zip(SAME, (2000, 5000), strict=True)}
    banks["other items"] = ask(things(5000))
    banks["a few items, mostly"] = np.concatenate([banks[SAME[1]], ask(items[random.integers(50, size=45_000)])])
    for source, name in (("other items", "adversarial, others"), (SAME[1], "adversarial, same")):
        banks[name] = banks[source][unhub.sample_bank(banks[source], 1000, "adversarial", items=items, threads=1)]
    return Strong(items, queries, banks)


def gain(correction: Correction) -> Interval:
    """Return the gain in R@1 over raw."""
    one = strong()
    truth = {row: row for row in range(ITEMS)}
    rows = unhub.evaluate(one.queries, one.items, truth, [correction], "R@1", hubness_k=None).rows
    assert rows[0].values["R@1"].value >= 88
    return rows[-1].gains["R@1"]


HONEST = [*SAME, "other items"]


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_bank_is_good_though_queries_for_every_item_reach_more(name: str) -> None:
    one = strong()
    report = unhub.judge_bank(one.items, one.banks[name], one.queries, distances=False)
    assert (report.verdict, report.problems) == ("good", ())
    firsts = np.argmax(one.queries @ (one.items / np.linalg.norm(one.items, axis=1, keepdims=True)).T, axis=1)
    assert report.coverage.here < 0.7 * len(np.unique(firsts)) and report.coverage.place > 1


@pytest.mark.parametrize("name", HONEST)
def test_tuning_without_labels_finds_the_gain_on_an_honest_bank(name: str) -> None:
    one = strong()
    bank, truth = one.banks[name], {row: row for row in range(ITEMS)}
    chosen = unhub.tune(one.items, bank, one.queries, methods=TRIED)
    labelled = unhub.tune(one.items, bank, one.queries, truth, methods=TRIED)
    assert chosen.best.spec != "raw" and labelled.best.spec != "raw"
    found = gain(chosen.best)
    assert found.low > 0 and found.value >= 0.7 * gain(labelled.best).value


@pytest.mark.parametrize("name", ["adversarial, others", "adversarial, same"])
def test_a_bank_that_asks_for_a_few_items_is_refused_unless_queries_vouch_for_it(name: str) -> None:
    one = strong()
    report = unhub.judge_bank(one.items, one.banks[name], distances=False)
    assert "thin" in report.problems
    tuning = unhub.tune(one.items, one.banks[name], methods=TRIED)
    assert tuning.best.spec == "raw" and tuning.reason.startswith(report.conclusion)
    assert gain(unhub.tune(one.items, one.banks[name], one.queries, methods=TRIED).best).low > 0


def test_what_is_said_of_an_uneven_bank_agrees_with_the_share_of_items_that_it_reaches() -> None:
    one = strong()
    report = unhub.judge_bank(one.items, one.banks["a few items, mostly"], one.queries, distances=False)
    covered = report.coverage
    assert covered.share > 0.95 and covered.narrow and covered.expected is not None and covered.ratio is not None
    share, ratio = [row[1:] for row in report.cells() if row[0].startswith("coverage")]
    assert share == (
        f"{covered.share:.1%}",
        f"of the items come first for some bank query ({covered.reached:,} of 1,000)",
    )
    assert ratio == (
        f"{covered.ratio:.2f}",
        f"narrow (limit {covered.limit:.2f}): 1,000 bank queries reach {covered.here:,.0f} items, "
        f"1,000 queries reach {covered.expected:,.0f} in place {covered.place}",
    )
