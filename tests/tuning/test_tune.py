"""Tune: hubs are corrected with labels and without, what is not sure stays raw, and time and seed are kept to."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from unhub.compute.progress import Clock, OutOfTime, seconds_of
from unhub.evaluation.confidence import summaries
from unhub.evaluation.measures import parse_measure
from unhub.methods import parse
from unhub.tuning.grid import ALPHAS, NEIGHBOURS, DataScale, candidates, name_methods
from unhub.tuning.labelled import choose, fold_of

pytestmark = pytest.mark.once  # what is chosen, not how it is computed

Rows = NDArray[np.float64]
FEW = "nnn:k=16,alpha=0.5,is:tau=0.2,dn"


class World(NamedTuple):
    """Items, some of which lean towards what all queries share; bank and queries; the item each query is after."""

    items: Rows
    bank: Rows
    queries: Rows
    truth: dict[int, int]


def world(seed: int = 0, lean: float = 0.3, shared: float = 0.8, bank: int = 1200, queries: int = 400) -> World:
    random = np.random.default_rng(seed)
    items = random.normal(size=(200, 24)) / np.sqrt(24)
    asked = random.integers(200, size=bank + queries)
    rows = items[asked] + 0.9 * random.normal(size=(len(asked), 24)) / np.sqrt(24)
    rows[:, 0] += shared
    items[:, 0] += lean * random.exponential(size=200)
    return World(items, rows[:bank], rows[bank:], dict(enumerate(asked[bank:].tolist())))


def recall(w: World, correction: unhub.Bias) -> float:
    evaluation = unhub.evaluate(w.queries, w.items, w.truth, [correction], "R@1", hubness_k=None, resamples=2)
    return evaluation.rows[-1].values["R@1"].value


def chosen(tuning: unhub.Tuning) -> unhub.Bias:
    assert isinstance(tuning.best, unhub.Bias)
    return tuning.best


@pytest.mark.parametrize("given", ["nothing", "queries", "labels"])
def test_planted_hubs_are_corrected(given: str) -> None:
    w = world()
    queries = None if given == "nothing" else w.queries
    tuning = unhub.tune(w.items, w.bank, queries, w.truth if given == "labels" else None)
    assert tuning.best.spec != "raw" and tuning.best.spec in tuning.reason
    assert recall(w, chosen(tuning)) > recall(w, chosen(unhub.tune(w.items, w.bank[:50]))) + 10
    assert {row.spec.partition(":")[0] for row in tuning.table} == {
        "raw",
        "nnn",
        "csls",
        "is",
        "dis",
        "dn",
        "cent",
        "sn",
    }
    assert not tuning.left_out


def test_the_best_is_fitted_on_the_whole_bank_and_can_be_saved(tmp_path: Path) -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank, methods=FEW)
    again = unhub.fit(w.items, w.bank, tuning.best.spec)
    assert isinstance(again, unhub.Bias)
    np.testing.assert_array_equal(chosen(tuning).bias, again.bias)
    unhub.save(tuning.best, tmp_path / "best.unhub")
    assert unhub.load(tmp_path / "best.unhub").spec == tuning.best.spec


def test_a_far_bank_gives_raw_and_says_what_to_do() -> None:
    w = world()
    far = w.bank - 1.6 * np.eye(24)[0]
    tuning = unhub.tune(w.items, far, w.queries)
    assert tuning.best.spec == "raw" and not chosen(tuning).bias.any()
    assert "No sure gain over raw" in tuning.reason and "collect a bank" in tuning.reason


@pytest.mark.parametrize("size", [10, 100])
def test_a_tiny_bank_gives_raw_unless_queries_vouch_for_it(size: int) -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank[:size])
    assert tuning.best.spec == "raw" and "too few" in tuning.reason
    raw = recall(w, chosen(tuning))
    assert recall(w, chosen(unhub.tune(w.items, w.bank[:size], w.queries))) >= raw


@pytest.mark.parametrize("copies", [1, 3])
def test_a_bank_of_one_query_is_tiny_or_judged_by_queries(copies: int) -> None:
    w = world()
    bank = np.repeat(w.bank[:1], copies, axis=0)
    assert len(unhub.tune(w.items, bank, w.queries, methods="nnn,is,sn").table) > 10
    alone = unhub.tune(w.items, bank)
    assert alone.best.spec == "raw" and "too few" in alone.reason and not alone.notes


def test_labels_may_overrule_the_look_of_a_bank() -> None:
    w = world()
    assert unhub.tune(w.items, w.bank[:150], w.queries, w.truth, methods=FEW).best.spec != "raw"


def test_without_hubs_everything_stays_raw() -> None:
    w = world(lean=0.0, shared=0.0)
    for relevance in (None, w.truth):
        tuning = unhub.tune(w.items, w.bank, w.queries, relevance, methods="nnn,is")
        assert tuning.best.spec == "raw", tuning.reason
        assert "No sure gain over raw" in tuning.reason


def test_a_few_labels_are_not_enough() -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries[:12], {i: w.truth[i] for i in range(12)}, methods=FEW)
    assert tuning.best.spec == "raw" and "12 queries are too few to be sure" in tuning.reason
    # With more queries, labels of a few do not take the choice away.
    some = unhub.tune(w.items, w.bank, w.queries, {i: w.truth[i] for i in range(12)}, methods=FEW)
    assert some.best.spec == unhub.tune(w.items, w.bank, w.queries, methods=FEW).best.spec != "raw"
    assert "20 labelled items are needed to choose by labels; the choice was made without." in some.notes


def test_queries_that_stand_in_the_bank_do_not_judge() -> None:
    w = world()
    both = np.concatenate([w.bank[:100], w.queries])
    truth = {row + 100: item for row, item in w.truth.items()} | {0: 0}
    alone = unhub.tune(w.items, w.bank, w.queries, w.truth, methods=FEW)
    assert unhub.tune(w.items, w.bank, both, truth, methods=FEW).to_dict()["gain"] == alone.to_dict()["gain"]
    with pytest.raises(ValueError, match="queries are all in the bank"):
        unhub.tune(w.items, w.bank, w.bank[:50])


def test_the_same_seed_gives_the_same_choice() -> None:
    w = world()
    first, second = (unhub.tune(w.items, w.bank, w.queries, methods="nnn,sn", seed=3) for _ in range(2))
    assert [dataclasses.replace(row, seconds=0) for row in first.table] == [
        dataclasses.replace(row, seconds=0) for row in second.table
    ]
    np.testing.assert_array_equal(chosen(first).bias, chosen(second).bias)


def test_the_gain_is_told_on_queries_that_did_not_choose() -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    measure = parse_measure("R@1")
    of_chance = random.integers(2, size=(1, 200, 200))  # two hundred rankings, none better than another
    values = 100 * of_chance.astype(np.float64)
    choice = choose(values, measure, groups)
    best = float(summaries(measure, values)[choice.winner] - summaries(measure, values)[0])
    assert best >= 5 and choice.gain.value < best / 2 and not choice.sure


def test_a_fold_is_not_looked_at_when_it_is_chosen_for() -> None:
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 4)
    measure = parse_measure("R@1")
    fold = fold_of(groups)
    assert all(len(set(fold[groups == group])) == 1 for group in range(30))
    values = 100 * random.integers(2, size=(1, 6, 120)).astype(np.float64)
    for number in range(5):
        lured = values.copy()
        lured[0, 5, fold == number] = 100.0  # a ranking that answers this fold alone
        lured[0, 5, fold != number] = 0.0
        without = lured[:, :5]
        assert choose(lured, measure, groups).gain == choose(without, measure, groups).gain


def test_a_measure_that_falls_is_lowered() -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries, w.truth, methods=FEW, measure="MnR")
    values = [row.value for row in tuning.table if row.value is not None]
    assert values == sorted(values) and tuning.gain is not None and tuning.gain.high < 0
    assert tuning.best.spec == tuning.table[0].spec != "raw"


def test_too_little_time_gives_raw_and_says_so() -> None:
    w = world()
    for queries, relevance in ((None, None), (w.queries, w.truth)):
        tuning = unhub.tune(w.items, w.bank, queries, relevance, time=1e-6)
        assert tuning.best.spec == "raw" and "give more time" in tuning.reason
        assert tuning.out_of_time


def test_raw_by_comparison_or_for_want_of_a_bank_is_not_for_want_of_time() -> None:
    w = world()
    assert not unhub.tune(w.items, w.bank[:20], time=60).out_of_time  # the bank is unfit
    assert not unhub.tune(w.items, w.bank, w.queries, w.truth, methods="nnn:k=32,alpha=0.5").out_of_time


def test_what_the_time_does_not_suffice_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    # A clock that goes by looks, not by seconds: the time is up in the midst of the settings.
    looks = iter(range(10**9))
    monkeypatch.setattr(Clock, "seconds", property(lambda clock: float(next(looks))))
    tuning = unhub.tune(w.items, w.bank, w.queries, w.truth, methods="nnn,sn", time=30)
    specs = {row.spec for row in tuning.table} | set(tuning.left_out)
    assert tuning.left_out and len(tuning.table) > 1 and "There was no time for" in tuning.reason
    assert len(specs) == len(tuning.table) + len(tuning.left_out) == 1 + len(NEIGHBOURS) * len(ALPHAS) + 27
    assert any(row.spec.startswith("nnn:k=32,alpha=0.5") for row in tuning.table)
    assert not tuning.out_of_time


def test_a_clock_stops_work_that_takes_too_long() -> None:
    clock = Clock(1e-9)
    with pytest.raises(OutOfTime):
        clock.watch()(1, 2)
    clock.watch(limited=False)(1, 2)


@pytest.mark.parametrize("labelled", [True, False])
def test_progress_goes_forward_over_the_whole_work(labelled: bool) -> None:
    seen: list[float] = []
    w = world()
    relevance = w.truth if labelled else None
    unhub.tune(w.items, w.bank, w.queries, relevance, progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen) and seen[-1] == 1 and len(set(seen)) > 10


def test_bank_items_bring_the_methods_with_two_banks() -> None:
    w = world()
    tuning = unhub.tune(
        w.items, w.bank, w.queries, w.truth, bank_items=w.items[:50] + 0.1, methods="dualis,dbsn:tau=0.2"
    )
    names = {row.spec.partition(":")[0] for row in tuning.table}
    assert names == {"raw", "dualis", "dbsn"}


def test_methods_may_be_names_specs_or_all() -> None:
    assert name_methods("nnn:k=32,alpha=0.5, is", dual=False) == ["nnn:k=32,alpha=0.5", "is"]
    assert "dualis" in name_methods("all", dual=True) and "dualis" not in name_methods("all", dual=False)
    ground = DataScale(0.05, 20, 30, False, (0.0751, 0.0123))
    assert candidates(["nnn:k=3,alpha=0.1"], ground) == [parse("nnn:k=3,alpha=0.1")]
    assert {method.k for method in candidates(["nnn"], ground)} == {1, 2, 4, 8, 16}  # type: ignore[attr-defined]
    assert [method.spec for method in candidates(["is"], ground)] == [
        f"is:tau={tau}" for tau in (0.0751, 0.0123, 0.05, 0.02, 0.01)
    ]
    assert parse("sn:tau=0.0123,strength=0.75") in candidates(["sn"], ground)
    assert parse("dis:tau=0.1,k=3") in candidates(["dis"], ground)  # twice the spread


def test_times_are_read() -> None:
    assert [seconds_of(one) for one in (None, 5, 2.5, 1e20, "90", "90s", "10m")] == [None, 5, 2.5, 1e20, 90, 90, 600]
    assert seconds_of("1.5h") == 5400


def test_labels_do_not_do_worse_than_none() -> None:
    random = np.random.default_rng(0)
    groups, measure = np.arange(60), parse_measure("R@1")
    values = 100 * (random.random((1, 200, 60)) < 0.5).astype(np.float64)  # chance chooses among two hundred
    values[0, 0], values[0, 7] = 100 * (random.random(60) < 0.4), 100 * (random.random(60) < 0.7)
    assert not choose(values, measure, groups).sure
    free = choose(values, measure, groups, without_labels=7)
    assert free.sure and free.winner == 7 and not free.by_labels and free.gain.value > 0
    worse = values.copy()
    worse[0, 7] = 0.0  # the labels see that this one harms
    assert choose(worse, measure, groups, without_labels=7) == choose(worse, measure, groups)
    assert not choose(values, measure, groups % 19, without_labels=7).sure  # too few groups to tell anything


def test_with_many_labels_the_labels_choose() -> None:
    random = np.random.default_rng(0)
    values = 100 * (random.random((1, 3, 4000)) < np.array([0.4, 0.6, 0.5])[:, None]).astype(np.float64)
    choice = choose(values, parse_measure("R@1"), np.arange(4000), without_labels=2)
    assert choice.winner == 1 and choice.sure and choice.by_labels


@pytest.mark.parametrize("labelled", [True, False])
def test_a_query_that_is_an_item_is_left_out_of_its_own_ranking(labelled: bool) -> None:
    random = np.random.default_rng(0)
    items = random.normal(size=(300, 16))
    items[:, 0] += 0.5 * random.exponential(size=300)
    bank = random.normal(size=(900, 16)) + np.eye(16)[0]
    near = {row: int(np.argsort(-(items @ items[row]))[1]) for row in range(300)}
    told = unhub.tune(items, bank, items, near if labelled else None, methods=FEW, exclude="self")
    others = [row.transport for row in told.table if row.transport is not None]
    assert max(others) < 0.99  # by themselves, all would have a cosine of 1
    if not labelled:
        alone = unhub.tune(items, bank, items, methods=FEW)
        assert alone.notes == ("300 of 300 queries are items, which were left out of their own rankings.",)
        assert [row.transport for row in alone.table] == pytest.approx(others)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"methods": "nnm"}, "did you mean 'nnn'"),
        ({"methods": ""}, "methods is empty"),
        ({"methods": "otn"}, "'otn', which is solved over a whole batch"),
        ({"methods": "dualis"}, "methods has 'dualis', which needs bank items; give bank items too"),
        ({"measure": "R@"}, "measure must be"),
        ({"time": "soon"}, "time must be a number of seconds"),
        ({"time": 0}, "time must be a number of seconds"),
        ({"relevance": {0: 1}}, "queries must be given with relevance, which says what answers each of them$"),
        ({"queries": np.ones((3, 5))}, "queries has 5"),
        ({"bank_items": np.ones((3, 5))}, "bank_items has 5 dimensions"),
        ({"items": unhub.Dense(np.eye(4))}, "items must be vectors, got a matrix of similarities"),
        ({"similarity": "euclid"}, "similarity must be"),
        ({"exclude": "self"}, "exclude leaves items out for queries, but there are none; give queries too"),
        ({"methods": "gc"}, "methods has only 'gc', which can only be compared with labels; give relevance"),
    ],
)
def test_mistakes_are_named_at_the_door(wrong: dict[str, object], message: str) -> None:
    w = world(bank=300, queries=20)
    with pytest.raises(ValueError, match=message):
        unhub.tune(**({"items": w.items, "bank": w.bank} | wrong))  # type: ignore[arg-type]
