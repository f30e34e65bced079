"""When tune keeps raw without labels: popular items, few or repeated queries; notes say what it leaves out."""

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
import unhub.tuning.tune as tuning_module
from tests.tuning.test_tune import FEW, Rows, chosen, world
from unhub.arrays import Kind
from unhub.compute.progress import Clock, OutOfTime
from unhub.data.fingerprint import inspect
from unhub.data.vectors import as_vectors
from unhub.evaluation.confidence import Interval
from unhub.methods import parse
from unhub.tuning.candidates import FittingSets, fitted
from unhub.tuning.grid import DataScale, candidates, name_methods
from unhub.tuning.popularity import SAME_COSINE, Repeats, cosine_of_means, most_repeated, repeats
from unhub.tuning.recurring import halves
from unhub.tuning.semi_dual import in_the_midst
from unhub.tuning.trials import Round, TrialQueries, try_all
from unhub.tuning.unlabelled import Fall

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
    assert "may be popular rather than hubs" in tuning.reason and "Labels can tell" in tuning.reason
    assert len(tuning.table) > 100  # what labels could choose from


def test_a_choice_by_hubness_names_what_it_takes_for_granted() -> None:
    w = world()
    assert "all items are wanted about equally often" in unhub.tune(w.items, w.bank, w.queries, methods=FEW).reason


def test_repeats_are_queries_that_ask_for_the_same_as_an_earlier_one() -> None:
    random = np.random.default_rng(0)
    queries, firsts = random.normal(size=(300, 3)) + 1, random.integers(40, size=300).astype(np.int32)
    kinds: tuple[Kind, ...] = ("cosine", "dot")
    for kind in kinds:
        rows = queries / np.linalg.norm(queries, axis=1, keepdims=True) if kind == "cosine" else queries
        rows = rows - np.mean([rows[firsts == item].mean(axis=0) for item in np.unique(firsts)], axis=0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        again = [
            any(firsts[row] == firsts[old] and rows[row] @ rows[old] >= SAME_COSINE for old in range(row))
            for row in range(300)
        ]
        found = repeats(as_vectors(queries, "queries"), firsts, 300, kind)
        assert found.share == pytest.approx(np.mean(again)) and 0.1 < np.mean(again) < 0.9
    with pytest.raises(ValueError, match="300 queries are more than the 100 items"):
        repeats(as_vectors(queries, "queries"), firsts, 100, "cosine")


@pytest.mark.parametrize("count", [200, 1000, 4000])
def test_an_even_demand_repeats_no_more_than_the_limit(count: int) -> None:
    random = np.random.default_rng(0)
    items = random.normal(size=(4000, 24))
    wanted = random.integers(4000, size=count)
    rows = items[wanted] + 0.01 * random.normal(size=(count, 24))  # nobody words a wish in two ways
    found = repeats(as_vectors(rows, "queries"), wanted.astype(np.int32), 4000, "cosine")
    assert found.most == most_repeated(count, 4000) <= np.exp(-1)
    assert found.share <= found.most + 0.01 and found.share > found.most - 0.12
    wanted[: count * 2 // 5] = 7  # two in five ask for one item
    rows = items[wanted] + 0.01 * random.normal(size=(count, 24))
    assert repeats(as_vectors(rows, "queries"), wanted.astype(np.int32), 4000, "cosine").uneven


@pytest.mark.parametrize(("items", "queries"), [(40, 500), (2000, 300)])
def test_one_item_that_many_ask_for_is_not_pushed_down(items: int, queries: int) -> None:
    random = np.random.default_rng(0)
    gallery = random.normal(size=(items, 32))
    wanted = np.where(random.random(1000 + queries) < 0.4, 0, random.integers(items, size=1000 + queries))
    rows = gallery[wanted] + 0.35 * random.normal(size=(len(wanted), 32))
    tuning = unhub.tune(gallery, rows[:1000], rows[1000:], methods="nnn,is,sn")
    assert tuning.best.spec == "raw" and "Labels can tell" in tuning.reason


def test_the_means_of_two_sets_are_compared_by_their_cosine() -> None:
    random = np.random.default_rng(0)
    one, two = random.normal(size=(50, 6)) + 1, random.normal(size=(70, 6)) + np.arange(6)
    means = [np.mean(rows / np.linalg.norm(rows, axis=1, keepdims=True), axis=0) for rows in (one, two)]
    expected = means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1])
    vectors = [as_vectors(rows, "rows") for rows in (one, two)]
    assert cosine_of_means(vectors[0], vectors[1], "cosine") == pytest.approx(expected, abs=1e-6)
    nothing = as_vectors(np.array([[1.0, 0.0], [-1.0, 0.0]]), "rows")
    assert cosine_of_means(nothing, nothing, "cosine") == 0.0


def test_a_bank_of_the_items_own_kind_is_tried_on_the_items() -> None:
    """Pictures like a picture: a bank of other classes sees other hubs than the items do, and costs answers."""
    random = np.random.default_rng(0)
    centre = 3 * np.eye(16)[0]
    items, bank = random.normal(size=(400, 16)) + centre, random.normal(size=(1500, 16)) + centre
    bank[:, 1:4] *= 3  # elsewhere
    tuning = unhub.tune(items, bank, methods="nnn,is,sn")
    assert tuning.best.spec == "raw" and "the bank is of the items' own kind" in tuning.reason
    judged = unhub.tune(items, bank, items, methods="nnn,is,sn")
    assert "of the items' own kind" not in judged.reason


def test_a_query_that_is_an_item_is_not_found_through_copies_either() -> None:
    items = np.array([5, 3, 5, 9], np.uint64)
    own = tuning_module._own_items(np.array([9, 4, 5], np.uint64), items)
    assert own is not None and [own.of(query).tolist() for query in range(3)] == [[3], [], [0, 2]]
    assert tuning_module._own_items(np.array([4], np.uint64), items) is None


def test_a_gate_costs_as_much_as_its_correction_without_it() -> None:
    w = world()
    items, bank, judging = (as_vectors(rows, "rows") for rows in (w.items, w.bank[:40], w.bank[40:]))
    rounds = [Round(FittingSets(items, bank, None, "cosine"), TrialQueries.without_labels(judging))]
    taus, gates = (0.02, 0.05, 0.2), (1, 3)
    methods = [*(parse(f"is:tau={tau}") for tau in taus), *(parse(f"dis:tau={t},k={k}") for t in taus for k in gates)]
    trials = try_all(methods, rounds, Clock(), refits=1.0)
    cost = {one.method.spec: one.transport for one in trials.tried}
    uneven = {one.method.spec: one.figures.robin_hood for one in trials.tried}
    for tau in taus:
        assert [cost[f"dis:tau={tau},k={k}"] for k in gates] == [cost[f"is:tau={tau}"]] * 2
    # A gate mixes two rankings whose hubs differ, which looks even and helps nobody.
    assert any(uneven[f"dis:tau={tau},k={k}"] < uneven[f"is:tau={tau}"] for tau in taus for k in gates)


def test_the_cost_is_the_mean_of_the_best_corrected_scores_of_both_halves() -> None:
    w = world(bank=300)
    tuning = unhub.tune(w.items, w.bank, methods="nnn:k=8,alpha=0.5,is:tau=0.1,sn:tau=0.1,strength=0.5", seed=2)
    assert tuning.judges == 300

    def unit(rows: Rows) -> Rows:
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    parts = halves(inspect(as_vectors(w.bank, "bank"), "bank", "cosine").hashes, 2)
    for row in tuning.table:
        total = []
        for fitting, judging in (parts, parts[::-1]):
            fitted_half = unhub.fit(w.items, w.bank[fitting], row.spec)
            assert isinstance(fitted_half, unhub.Bias)
            total.append((unit(w.bank[judging]) @ unit(w.items).T - fitted_half.bias).max(axis=1))
        assert row.transport == pytest.approx(np.concatenate(total).mean(), abs=1e-5)


def test_copies_of_a_bank_query_stay_in_one_half_and_judge_once() -> None:
    hashes = np.repeat(np.arange(11, dtype=np.uint64), 3)
    one, two = halves(hashes, 0)
    assert set(hashes[one]).isdisjoint(hashes[two]) and len(one) + len(two) == 33 and len(one) == 18
    w = world(bank=400)
    assert unhub.tune(w.items, np.repeat(w.bank, 2, axis=0), methods=FEW).judges == 400


def test_the_ranking_in_the_midst_of_the_lowest_is_taken() -> None:
    h = [np.array([value, 0.0], np.float32) for value in (0.0, 1.0, 2.0, 6.0, 3.0)]
    assert in_the_midst([0.50, 0.10, 0.13, 0.12, 0.15], h) == 2  # of 1, 2, 6, the nearest to 3
    assert in_the_midst([0.50, 0.10, 0.145, 0.20, 0.15], h) == 1
    assert in_the_midst([0.50, 0.50, 0.60, 0.60, 0.60], h) == 0


@pytest.mark.parametrize("times", [2, 3])
def test_repeated_queries_do_not_make_a_good_bank_look_far(times: int) -> None:
    w = world()
    once = unhub.tune(w.items, w.bank, w.queries, methods=FEW)
    again = unhub.tune(w.items, w.bank, np.tile(w.queries, (times, 1)), methods=FEW)
    assert again.best.spec == once.best.spec != "raw" and again.reason == once.reason
    assert again.notes == (f"{400 * (times - 1)} queries repeat another one and were left out.",)


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


def test_a_fall_must_be_certain_and_must_not_come_from_popular_items() -> None:
    unsure, sure = Interval(-0.02, -0.05, 0.01), Interval(-0.05, -0.06, -0.04)
    few = Repeats(0.1, 0.2)
    assert Fall(sure, 400, few).worthwhile and not Fall(sure, 49, few).worthwhile
    assert not Fall(unsure, 400, few).worthwhile
    assert not Fall(sure, 400, Repeats(0.3, 0.2)).worthwhile
    assert not Fall(sure, 400).worthwhile  # nobody can tell
    # Queries that cannot be certain agree with a bank that is; queries that see a rise do not.
    assert Fall(unsure, 400, few, bank=Fall(sure, 400)).worthwhile
    assert not Fall(unsure, 400, few, bank=Fall(unsure, 400)).worthwhile
    assert not Fall(Interval(0.02, -0.01, 0.05), 400, few, bank=Fall(sure, 400)).worthwhile
    rising = Fall(Interval(0.02, 0.01, 0.03), 400)
    assert not Fall(sure, 400, few, stand_ins=rising).worthwhile
    assert Fall(sure, 400, few, stand_ins=Fall(unsure, 400)).worthwhile


def test_a_fall_is_that_of_the_mean_over_the_same_queries() -> None:
    random = np.random.default_rng(0)
    raw = random.normal(size=900)
    fall = Fall.between(raw, raw - 0.1 + 0.3 * random.normal(size=900))
    assert fall.queries == 900 and fall.change.value == pytest.approx(-0.1, abs=0.03)
    assert fall.change.high - fall.change.low == pytest.approx(2 * 1.96 * 0.3 / 30, rel=0.1)
    assert not Fall.between(raw[:1], raw[:1] - 1).sure


def test_two_queries_are_sure_of_nothing() -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries[:30], methods=FEW)
    assert tuning.best.spec == "raw"
    assert "30 queries are too few to be sure (at least 50 are needed)" in tuning.reason


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
    tuning = unhub.tune(w.items, w.bank, methods="nnn:k=16,alpha=0.5,dn", time=60)
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
    tuning = unhub.tune(w.items, w.bank, methods="nnn:k=500,alpha=0.5")
    assert {row.spec for row in tuning.table} == {"raw", "nnn:k=350,alpha=0.5"}
    assert "nnn:k=500,alpha=0.5 was tried as nnn:k=350,alpha=0.5" in tuning.notes[0]
    labelled = unhub.tune(w.items, w.bank, w.queries, w.truth, methods="nnn:k=500,alpha=0.5")
    assert "nnn:k=500,alpha=0.5" in {row.spec for row in labelled.table}
    with pytest.raises(ValueError, match="k=701, which is over the 700"):
        unhub.tune(w.items, w.bank, methods="nnn:k=701,alpha=0.5")


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
