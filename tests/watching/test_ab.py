"""A/B tests by clicks: figures by hand, intervals against formulas, splits, and what cannot be said."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

import unhub
from unhub.watching.samples import WATCHED

pytestmark = pytest.mark.once

SHOWN = ["a", "b", "c", "d"]


def clicked_log(counts: dict[str, tuple[int, int]], places: int = 4) -> unhub.QueryLog:
    """Return a log with (queries, queries with a click on the first item) for each variant."""
    rows = [(name, click < clicked) for name, (queries, clicked) in counts.items() for click in range(queries)]
    return unhub.QueryLog.of(
        variants=[name for name, _ in rows],
        returned=[SHOWN[:places]] * len(rows),
        clicked=[["a"] if click else [] for _, click in rows],
    )


def test_figures_by_hand() -> None:
    log = unhub.QueryLog.of(
        variants=["raw", "raw", "raw", "new", "new", ""],
        returned=[SHOWN, SHOWN[:2], SHOWN, SHOWN, SHOWN, SHOWN],
        clicked=[["b", "c", "b"], [], ["z"], ["a"], [], ["a"]],
    )
    found = unhub.ab_test(log, items=8)
    raw, new = found.arms
    assert (found.baseline.name, raw.queries, raw.clicked, new.queries, new.clicked) == ("raw", 3, 2, 2, 1)
    assert raw.figures["clicked"].value == pytest.approx(2 / 3)
    assert raw.figures["click_through"].value == pytest.approx(2 / 10)  # b and c, of 4 + 2 + 4 items shown
    assert raw.figures["first_click"].value == pytest.approx((1 / 2 + 0) / 2)  # where z stood is not known
    assert [new.figures[one].value for one in ("clicked", "click_through", "first_click")] == pytest.approx(
        [0.5, 1 / 8, 0.5]
    )
    assert new.differences["clicked"].value == pytest.approx(0.5 - 2 / 3)
    assert "1 queries name no variant; they are left out." in found.notes
    assert found.verdict(new) == "unsure"
    assert "there are too few to be certain" in found.sentences[0]


def test_the_interval_is_that_of_the_formula_for_two_shares() -> None:
    found = unhub.ab_test(clicked_log({"raw": (800, 240), "new": (500, 200)}), items=4)
    apart = found.arms[1].differences["clicked"]
    deviation = sqrt(0.3 * 0.7 / 800 + 0.4 * 0.6 / 500)
    assert apart.value == pytest.approx(0.1)
    assert [apart.low, apart.high] == pytest.approx([0.1 - 1.96 * deviation, 0.1 + 1.96 * deviation], abs=0.006)
    assert found.verdict(found.arms[1]) == "better"
    assert found.sentences == (
        f"40.0% of the queries of new have a click, 30.0% of those of raw (+10.0 [{100 * apart.low:+.1f}, "
        f"{100 * apart.high:+.1f}] points): new is better, and that is certain at 95%.",
    )


def test_users_who_ask_often_are_drawn_as_one() -> None:
    """Ten queries of each user that all end alike say no more than one of them."""
    log = clicked_log({"raw": (1000, 300), "new": (1000, 400)})
    by_query = unhub.ab_test(log, items=4)
    by_user = unhub.ab_test(replace(log, users=np.array([f"u{row // 10}" for row in range(2000)])), items=4)
    widths = [
        one.arms[1].differences["clicked"].high - one.arms[1].differences["clicked"].low for one in (by_query, by_user)
    ]
    assert widths[1] / widths[0] == pytest.approx(sqrt(10), rel=0.1)
    assert (by_query.by, by_user.by, by_user.arms[0].units) == ("queries", "users", 100)
    assert [one.verdict(one.arms[1]) for one in (by_query, by_user)] == ["better", "unsure"]


def test_two_variants_that_are_alike_are_rarely_told_apart() -> None:
    random = np.random.default_rng(0)
    wrong = 0
    for seed in range(100):
        clicks = random.binomial(300, 0.3, size=2).tolist()
        log = clicked_log({"raw": (300, clicks[0]), "same": (300, clicks[1])}, places=1)
        found = unhub.ab_test(replace(log, returned=None), resamples=200, seed=seed)
        wrong += found.verdict(found.arms[1]) != "unsure"
    assert wrong <= 11  # 5 are expected; 12 or more have a chance of 0.4%


def test_an_unequal_split_is_a_warning() -> None:
    even = unhub.ab_test(clicked_log({"raw": (1000, 300), "new": (1050, 310)}), items=4)
    assert not any("WARNING" in note for note in even.notes)
    # 1000 against 1200 of 2200: (1200 - 1100) / sqrt(2200 / 4) = 4.26 deviations, p = 2e-05
    odd = unhub.ab_test(clicked_log({"raw": (1000, 300), "new": (1200, 310)}), items=4)
    assert (
        "new has 1,200 queries, raw 1,000, and 50.0% of both were meant for new (p = 2e-05 by chance)" in odd.notes[0]
    )
    meant = unhub.ab_test(clicked_log({"raw": (1000, 300), "new": (1200, 310)}), items=4, split={"raw": 5, "new": 6})
    assert not any("WARNING" in note for note in meant.notes)


def test_it_is_noted_if_only_some_queries_name_a_user() -> None:
    log = clicked_log({"raw": (60, 20), "new": (60, 20)})
    users = np.array(["", *(f"u{row}" for row in range(119))])
    assert "1 of 120 queries name no user, so all count as indep" in unhub.ab_test(replace(log, users=users)).notes[0]


def test_users_in_several_variants_are_noted_and_the_split_is_of_queries() -> None:
    log = clicked_log({"raw": (60, 30), "new": (60, 30)})
    found = unhub.ab_test(replace(log, users=np.array([f"u{row % 60}" for row in range(120)])), items=4)
    assert found.notes == ("Some users met several variants; all their queries are drawn together.",)
    assert found.arms[1].differences["clicked"].value == 0
    assert found.arms[1].differences["clicked"].low == 0  # the same users click in both


def test_hubness_is_compared_in_samples_of_one_size() -> None:
    random = np.random.default_rng(0)
    uneven = (random.zipf(1.5, size=(200, 3)) % 100).tolist()
    even = random.integers(100, size=(600, 3)).tolist()
    log = unhub.QueryLog.of(variants=["raw"] * 200 + ["new"] * 600, returned=uneven + even, clicked=[[]] * 800)
    found = unhub.ab_test(log, items=100, split={"raw": 1, "new": 3})
    assert found.size == 100
    assert {one: found.verdict(found.arms[1], one) for one in ("skewness", "coverage", "robin_hood")} == {
        "skewness": "better",
        "coverage": "better",
        "robin_hood": "better",
    }


def test_longer_lists_are_cut_for_hubness_and_noted() -> None:
    """Both return random items, and ten of 300 would find more of them than five."""
    random = np.random.default_rng(0)
    lists = [random.choice(300, 10, replace=False).tolist() for _ in range(240)]
    log = unhub.QueryLog.of(
        variants=["raw", "new"] * 120,
        returned=[one[: 5 if row % 2 else 10] for row, one in enumerate(lists)],
        clicked=[[]] * 240,
    )
    found = unhub.ab_test(log, items=300)
    short = unhub.QueryLog.of(returned=[one[:5] for one in lists]).returned
    cut = unhub.ab_test(replace(log, returned=short), items=300)
    for arm, same in zip(found.arms, cut.arms, strict=True):
        assert [arm.figures[one] for one in WATCHED] == [same.figures[one] for one in WATCHED]
    assert [found.verdict(found.arms[1], one) for one in WATCHED] == ["unsure"] * 3
    assert (
        "The longest lists have different lengths: 10 in raw, 5 in new. Skewness, coverage and Robin Hood index are of "
        "the first 5. The figures of clicks are of whole lists: a longer one has more to click."
    ) in found.notes
    assert not any("lengths" in note for note in cut.notes)


def test_what_was_returned_and_does_not_count_is_noted_for_each_variant() -> None:
    log = clicked_log({"raw": (60, 20), "new": (60, 20)})
    joined = replace(log, returned=unhub.QueryLog.of(returned=[["1,2,3"]] * 120).returned)
    told = "Every query returned one item, and most ids hold a comma, such as '1,2,3'. If these are several ids, "
    notes = unhub.ab_test(joined).notes
    assert [note.startswith(f"{name}: {told}") for name, note in zip(("raw", "new"), notes, strict=False)] == [True] * 2
    assert not any(told in note for note in unhub.ab_test(joined, items=np.array(["1,2,3", "4"])).notes)
    strange = [[*SHOWN, "z"] if row >= 60 else SHOWN for row in range(120)]
    found = unhub.ab_test(replace(log, returned=unhub.QueryLog.of(returned=strange).returned), items=np.array(SHOWN))
    assert "new: 60 answers name an id that is not among the 4 items, such as 'z'; they are left out." in found.notes
    assert not any(note.startswith("raw: ") for note in found.notes)


def test_ids_that_are_texts_on_one_side_and_numbers_on_the_other_are_compared() -> None:
    lists = [[row % 7, 7] for row in range(120)]
    log = unhub.QueryLog.of(variants=["raw", "new"] * 60, returned=lists, clicked=[[]] * 120)
    texts, numbers = (unhub.ab_test(log, items=ids) for ids in (np.arange(9).astype(str), np.arange(9)))
    for arm, same in zip(texts.arms, numbers.arms, strict=True):
        assert [arm.figures[one] for one in WATCHED] == [same.figures[one] for one in WATCHED]
    with pytest.raises(ValueError, match=r"hits returns none of the 9 items; it has 0, the items have 'i0'"):
        unhub.ab_test(log, items=np.array([f"i{name}" for name in range(9)]))


def test_the_baseline_is_raw_or_given() -> None:
    log = clicked_log({"a": (40, 20), "raw": (40, 20), "z": (40, 20)})
    assert [arm.name for arm in unhub.ab_test(log, items=4).arms] == ["raw", "a", "z"]
    assert [arm.name for arm in unhub.ab_test(log, items=4, baseline="z").arms] == ["z", "a", "raw"]
    with pytest.raises(ValueError, match="baseline 'rw' is unknown; did you mean 'raw'"):
        unhub.ab_test(log, baseline="rw")


def test_what_is_no_test_is_an_error() -> None:
    whole = clicked_log({"raw": (4, 2), "new": (4, 2)})
    with pytest.raises(ValueError, match="hits do not say which variant answered"):
        unhub.ab_test(replace(whole, variants=None))
    with pytest.raises(ValueError, match="hits hold no clicks"):
        unhub.ab_test(replace(whole, clicked=None))
    with pytest.raises(ValueError, match="hits have only the variant 'raw'; an A/B test needs two"):
        unhub.ab_test(clicked_log({"raw": (4, 2)}))
    with pytest.raises(ValueError, match="split has None for 'new'"):
        unhub.ab_test(whole, split={"raw": 1})
