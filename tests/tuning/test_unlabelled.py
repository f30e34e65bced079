"""When tune keeps raw without labels: popular items, few or repeated queries; notes say what it leaves out."""

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
import unhub.tuning.tune as tuning_module
from tests.tuning.test_tune import FEW, Rows, chosen, world
from unhub.arrays import Kind
from unhub.compute.progress import Clock, OutOfTime
from unhub.data.vectors import as_vectors
from unhub.evaluation.confidence import Interval
from unhub.methods import parse
from unhub.tuning.candidates import FittingSets, fitted
from unhub.tuning.grid import DataScale, candidates, name_methods
from unhub.tuning.popularity import FEWEST_PAIRS, MOST_ALIKE, TOP_SHARE, alikeness
from unhub.tuning.trials import TrialQueries, try_all
from unhub.tuning.unlabelled import LEAST_DROP, HubnessChange, change, least_drop

pytestmark = pytest.mark.once  # what is chosen, not how it is computed


def demanded(exponent: float) -> tuple[Rows, Rows, Rows]:
    """Return items without hubs, and a bank and queries in which the demand falls with the rank of an item."""
    random = np.random.default_rng(0)
    items = random.normal(size=(200, 24))
    wanted = random.choice(200, size=4000, p=(weights := np.arange(1, 201.0) ** -exponent) / weights.sum())
    rows = items[wanted] + 0.4 * random.normal(size=(4000, 24))
    return items, rows[:2500], rows[2500:]


@pytest.mark.parametrize("given", ["queries", "nothing"])
def test_popular_items_are_not_taken_for_hubs(given: str) -> None:
    items, bank, queries = demanded(0.8)
    tuning = unhub.tune(items, bank, queries if given == "queries" else None, methods="nnn,is")
    assert tuning.best.spec == "raw" and not chosen(tuning).bias.any()
    assert "they may be popular" in tuning.reason and "Labels can tell" in tuning.reason
    assert len(tuning.table) > 100  # what labels could choose from


def test_a_choice_by_hubness_names_what_it_takes_for_granted() -> None:
    w = world()
    assert "all items are wanted about equally often" in unhub.tune(w.items, w.bank, w.queries, methods=FEW).reason


def test_alikeness_is_the_mean_cosine_of_queries_that_share_a_first_item() -> None:
    random = np.random.default_rng(0)
    queries, firsts = random.normal(size=(300, 5)) + 1, (50 * random.random(300) ** 4).astype(np.int32)
    kinds: tuple[Kind, ...] = ("cosine", "dot")
    for kind in kinds:
        rows = queries / np.linalg.norm(queries, axis=1, keepdims=True) if kind == "cosine" else queries
        rows = rows - np.mean([rows[firsts == item].mean(axis=0) for item in np.unique(firsts)], axis=0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        top = np.argsort(-np.bincount(firsts, minlength=100), kind="stable")[: int(TOP_SHARE * 100)]
        pairs = [
            float(rows[one] @ rows[two])
            for item in top
            for one in np.flatnonzero(firsts == item)
            for two in np.flatnonzero(firsts == item)
            if one < two
        ]
        assert len(pairs) >= FEWEST_PAIRS
        found = alikeness(as_vectors(queries, "queries"), firsts, 100, kind)
        assert found == pytest.approx(np.mean(pairs), abs=1e-5)
    assert alikeness(as_vectors(queries[:100], "queries"), np.arange(100, dtype=np.int32), 100, "cosine") is None


def test_a_gate_counts_as_no_more_even_than_its_correction_without_it() -> None:
    w = world()
    items, bank, judging = (as_vectors(rows, "rows") for rows in (w.items, w.bank[:40], w.bank[40:]))
    sets = FittingSets(items, bank, None, "cosine")
    taus, gates = (0.02, 0.05, 0.2), (1, 3)
    methods = [*(parse(f"is:tau={tau}") for tau in taus), *(parse(f"dis:tau={t},k={k}") for t in taus for k in gates)]
    trials = try_all(methods, sets, TrialQueries.without_labels(judging), Clock(), refits=1.0)
    own = {method.spec: one.robin_hood for method, one in zip(trials.methods, trials.figures, strict=True)}
    judged = dict(zip(own, trials.unevenness, strict=True))
    for tau in taus:
        ungated = own[f"is:tau={tau}"]
        assert judged[f"is:tau={tau}"] == ungated
        for k in gates:
            assert judged[f"dis:tau={tau},k={k}"] == max(own[f"dis:tau={tau},k={k}"], ungated)
    assert any(own[spec] < judged[spec] for spec in own)  # some gates do look more even than they are


@pytest.mark.parametrize("times", [2, 3])
def test_repeated_queries_do_not_make_a_good_bank_look_far(times: int) -> None:
    w = world()
    once = unhub.tune(w.items, w.bank, w.queries, methods=FEW)
    again = unhub.tune(w.items, w.bank, np.tile(w.queries, (times, 1)), methods=FEW)
    assert again.best.spec == once.best.spec != "raw" and again.reason == once.reason
    assert again.notes == (f"{400 * (times - 1)} queries repeat another one and were left out.",)


@pytest.mark.parametrize(("places", "items"), [(50_000, 1000), (10_000, 5000), (15_000, 50_000), (10, 7)])
def test_the_least_fall_is_a_share_of_what_chance_leaves(places: int, items: int) -> None:
    mean = places / items
    counts = np.random.default_rng(0).poisson(mean, size=400_000)
    by_chance = np.abs(counts - mean).mean() / (2 * mean)
    assert least_drop(places, items) == pytest.approx(LEAST_DROP * (1 - by_chance), rel=0.02)


def few_places() -> tuple[Rows, Rows, Rows]:
    """Return hubs among so many items that few queries leave most of them out, however they are ranked."""
    random = np.random.default_rng(0)
    items = random.normal(size=(20_000, 16)) / 4
    rows = items[random.integers(20_000, size=1900)] + 0.5 * random.normal(size=(1900, 16)) / 4
    rows[:, 0] += 0.8
    items[:, 0] += 0.3 * random.exponential(size=20_000)
    return items, rows[:1200], rows[1200:]


def test_a_few_queries_may_choose_among_many_items() -> None:
    items, bank, queries = few_places()
    tuning = unhub.tune(items, bank, queries[:100], methods=FEW)
    assert tuning.best.spec != "raw"


def test_too_few_queries_are_told_from_too_few_hubs() -> None:
    unsure, small = Interval(-0.02, -0.05, 0.01), Interval(-0.001, -0.002, -0.0005)
    assert HubnessChange(unsure, 400, 0.02, None).too_few and not HubnessChange(unsure, 400, 0.02, None).worthwhile
    assert not HubnessChange(small, 400, 0.02, None).too_few and not HubnessChange(small, 400, 0.02, None).worthwhile
    sure = Interval(-0.05, -0.06, -0.04)
    assert HubnessChange(sure, 400, 0.02, MOST_ALIKE).worthwhile
    assert not HubnessChange(sure, 400, 0.02, MOST_ALIKE + 0.01).worthwhile


def test_two_queries_are_sure_of_nothing() -> None:
    raw = np.tile(np.arange(10, dtype=np.int32), (2, 1))
    seen = change(raw, np.arange(20, dtype=np.int32).reshape(2, 10), 100, 0)
    assert seen.high < 0 and not HubnessChange(seen, 2, least_drop(20, 100), None).worthwhile
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries[:30], methods=FEW)
    assert tuning.best.spec == "raw"
    assert "30 queries are too few to be sure with this many items (at least 50 are needed)" in tuning.reason


def test_no_more_queries_are_looked_at_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    looked: list[int] = []
    place = TrialQueries.place

    def noted(judges: TrialQueries, *rest: object, **named: object) -> object:
        looked.append(len(judges.queries))
        return place(judges, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(TrialQueries, "place", noted)
    monkeypatch.setattr(tuning_module, "MOST_TRIAL_QUERIES", 300)
    tuning = unhub.tune(w.items, w.bank, w.queries, methods="dn")
    assert max(looked) == 300 and tuning.notes == ("300 of 400 queries, drawn at random, were used.",)


def test_what_was_not_tried_is_named_where_the_bank_takes_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise OutOfTime

    w = world()
    monkeypatch.setattr(tuning_module, "judge_bank", late)
    tuning = unhub.tune(w.items, w.bank, w.queries, methods="nnn:k=16,alpha=0.5,dn", time=60)
    assert tuning.left_out[0] == "nnn:k=16,alpha=0.5" and len(tuning.left_out) == 4


def test_time_is_kept_for_one_fit_and_not_for_all_that_share_a_pass() -> None:
    w = world()
    sets = FittingSets(as_vectors(w.items, "items"), as_vectors(w.bank, "bank"), None, "cosine")
    methods = candidates(["nnn", "csls", "is", "dis"], DataScale(0.2, len(w.bank), len(w.items), False))
    found = [one for group in fitted(methods, sets, Clock()) for one in group]
    assert max(one.again for one in found) < sum(one.seconds for one in found)
    alone = [one for group in fitted(methods[:5], sets, Clock()) for one in group]
    assert min(one.again for one in alone) > sum(one.seconds for one in alone)


def test_queries_that_are_left_out_are_told() -> None:
    w = world()
    both = np.concatenate([w.bank[:7], w.queries])
    in_bank = "7 of 407 queries are in the bank and were left out."
    assert unhub.tune(w.items, w.bank, both, methods=FEW).notes == (in_bank,)
    truth = {row + 7: item for row, item in w.truth.items() if row < 390} | {0: 0}
    tuning = unhub.tune(w.items, w.bank, both, truth, methods=FEW)
    assert tuning.judges == 390 and tuning.to_dict()["notes"] == list(tuning.notes)
    assert tuning.notes == (in_bank, "10 queries have no answer among the items and were left out.")
    assert str(tuning).endswith("\n".join(tuning.notes))
    assert unhub.tune(w.items, w.bank, w.queries, w.truth, methods=FEW).notes == ()
    with pytest.raises(ValueError, match="queries with labels are all in the bank"):
        unhub.tune(w.items, w.bank, both, {0: 3, 1: 4})


def test_k_over_half_the_bank_is_cut_for_the_half_that_is_tried() -> None:
    w = world(bank=700)
    tuning = unhub.tune(w.items, w.bank, w.queries, methods="nnn:k=500,alpha=0.5")
    assert {row.spec for row in tuning.table} == {"raw", "nnn:k=350,alpha=0.5"}
    assert "nnn:k=500,alpha=0.5 was tried as nnn:k=350,alpha=0.5" in tuning.notes[0]
    labelled = unhub.tune(w.items, w.bank, w.queries, w.truth, methods="nnn:k=500,alpha=0.5")
    assert "nnn:k=500,alpha=0.5" in {row.spec for row in labelled.table}
    with pytest.raises(ValueError, match="k=701, which is over the 700"):
        unhub.tune(w.items, w.bank, w.queries, methods="nnn:k=701,alpha=0.5")


def test_all_may_stand_beside_others() -> None:
    assert name_methods(" all ", dual=False) == name_methods("all", dual=False)
    assert name_methods("all, gc", dual=False) == [*name_methods("all", dual=False), "gc"]
    assert name_methods(["sn:tau=0.1", "all"], dual=False) == ["sn:tau=0.1", *name_methods("all", dual=False)]


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("methods", ["raw", "nnn,raw"])
def test_raw_is_not_a_method_to_try(methods: str, labelled: bool) -> None:
    w = world(bank=400, queries=60)
    with pytest.raises(
        ValueError, match="methods has 'raw', which all others are compared with anyway; name another method"
    ):
        unhub.tune(w.items, w.bank, w.queries, w.truth if labelled else None, methods=methods)


def test_the_values_told_are_those_of_the_settings() -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries, w.truth, methods="sn")
    fits = [unhub.fit(w.items, w.bank, row.spec) for row in tuning.table if row.spec != "raw"]
    evaluation = unhub.evaluate(w.queries, w.items, w.truth, fits, "R@1", hubness_k=None, resamples=2)
    told: NDArray[np.float64] = np.array([row.value for row in tuning.table if row.spec != "raw"])
    np.testing.assert_allclose(told, [row.values["R@1"].value for row in evaluation.rows[1:]], atol=1e-9)
