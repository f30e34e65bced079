"""Evaluate: the published figures, what an evaluation says, and the mistakes it refuses."""

import json
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests import flickr8k, oracles
from tests.bank_cases import drawn, fitted, whole
from tests.children import assert_ctrl_c_stops
from tests.compute.test_workers import Recorder
from tests.test_real_data import COLUMNS, TABLE
from unhub.correction import Correction
from unhub.data.relevance import RelevanceLike
from unhub.data.vectors import Vectors
from unhub.evaluation.evaluate import Evaluation, evaluate

call: Callable[..., Evaluation] = evaluate  # for what the types would refuse

# On real data.


@cache
def on_flickr8k(space: str) -> Evaluation:
    data = flickr8k.load(space)
    specs = ["is:tau=0.05", "nnn:k=128,alpha=0.75"]
    corrections = unhub.fit(data.test_images, data.bank_texts, method=specs)
    relevance = dict(enumerate(data.truth.tolist()))
    return evaluate(data.test_texts, data.test_images, relevance, corrections, resamples=300)


@pytest.mark.parametrize("space", TABLE)
def test_the_figures_of_real_embeddings_are_reproduced(space: str) -> None:
    found = on_flickr8k(space)
    assert [row.name for row in found.rows] == ["raw", "is:tau=0.05", "nnn:k=128,alpha=0.75"]
    for row in found.rows:
        recall_1, recall_10, skewness = TABLE[space][COLUMNS.index(row.name)]
        assert row.values["R@1"].value == pytest.approx(recall_1, abs=0.1)
        assert row.values["R@10"].value == pytest.approx(recall_10, abs=0.1)
        assert row.hubness is not None
        assert row.hubness.skewness == pytest.approx(skewness, abs=0.1)


def test_a_gain_on_real_embeddings_is_sure() -> None:
    found = on_flickr8k("ridge")
    for row in found.rows[1:]:
        gain = row.gains["R@1"]
        assert gain.value == pytest.approx(row.values["R@1"].value - found["raw"].values["R@1"].value)
        assert 4 < gain.low < gain.value < gain.high < 9
        assert row.p_values["R@1"] < 0.001
        assert row.gains["MnR"].high < 0  # the rank falls
        # the same queries on both sides: much narrower than two intervals side by side
        assert gain.high - gain.low < row.values["R@1"].high - row.values["R@1"].low


def test_one_table_serves_both_directions_of_real_embeddings() -> None:
    data = flickr8k.load("ridge")
    relevance = unhub.Relevance(np.arange(5000), data.truth).reversed()
    found = evaluate(data.test_images, data.test_texts, relevance, measures="R@1,mAP", resamples=10)
    scores = oracles.cosine(data.test_images, data.test_texts)
    true_items = [set(np.flatnonzero(data.truth == image).tolist()) for image in range(1000)]
    assert len(found.query_ids) == 1000
    assert found["raw"].values["R@1"].value == pytest.approx(oracles.recall_at(scores, true_items, 1), abs=0.11)


# What an evaluation says.


@pytest.mark.once
def test_a_dual_bank_that_had_one_bank_is_told() -> None:
    sets = drawn()
    alone, both = unhub.fit(sets.items, sets.bank, method="dbsn"), fitted("dbsn", sets)
    found = evaluate(sets.queries, sets.items, {0: 1}, {"alone": alone, "both": both}, resamples=5)
    assert found.notes[-1] == "Fitted without bank items, and so the same as 'sn': alone."
    (note,) = unhub.hubness(sets.queries, sets.items, alone).notes
    assert note == "Fitted without bank items, and so the same as 'sn': dbsn:tau=0.01,iterations=10."
    assert not unhub.hubness(sets.queries, sets.items, both).notes


# By hand: item 0 is a hub. Raw ranks of the answers: 2, 2, 1, 3; less 0.5 for the hub: 1, 1, 2 and 2.
HUB = np.array([[0.9, 0.8, 0.1], [0.9, 0.1, 0.8], [0.9, 0.5, 0.1], [0.5, 0.4, 0.3]])
RELEVANCE: RelevanceLike = {0: 1, 1: 2, 2: 0, 3: 2}


def lowered(matrix: unhub.Dense) -> Correction:
    """Return a correction that lowers the hub: two bank queries are as near as can be to item 0."""
    bank = unhub.Dense(np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), matrix.item_ids)
    return unhub.fit(bank, method="nnn:k=1,alpha=0.5")


def by_hand(**options: object) -> Evaluation:
    matrix = unhub.Dense(HUB)
    return call(matrix, None, RELEVANCE, {"low": lowered(matrix)}, **options)


def test_an_evaluation_by_hand() -> None:
    found = by_hand(measures=["R@1", "MdR", "MRR"], hubness_k=1)
    assert_array_equal(found.ranks, [[2, 2, 1, 3], [1, 1, 2, 2]])
    raw, low = found.rows
    assert raw.values["R@1"].value == 25 and low.values["R@1"].value == 50
    assert raw.values["MdR"].value == 2 and low.values["MdR"].value == 1.5
    assert low.gains["R@1"].value == 25 and low.gains["MdR"].value == -0.5
    assert low.gains["MRR"].value == pytest.approx(100 * ((1 + 1 + 0.5 + 0.5) - (0.5 + 0.5 + 1 + 1 / 3)) / 4)
    assert set(low.p_values) == {"R@1", "MRR"} and not raw.gains and not raw.p_values
    assert raw.hubness is not None and raw.hubness.counts.tolist() == [4, 0, 0]
    assert low.hubness is not None and low.hubness.counts.tolist() == [0, 3, 1]


def test_the_best_is_marked_also_where_lower_is_better() -> None:
    assert by_hand(measures="MdR").best.name == by_hand(measures="R@1").best.name == "low"
    assert by_hand(measures="R@3").best.name == "raw"  # equal, and raw comes first
    lines = str(by_hand(measures="R@1")).splitlines()
    assert [line.split("  ")[0] for line in lines[2:4]] == ["raw", "low *"]
    assert lines[0].split() == ["ranking", "R@1", "gain", "in", "R@1", "p", "skewness@3"]
    assert by_hand(measures="MdR").cells()[0][2] == "change in MdR"  # a fall is what is wanted


def test_an_evaluation_is_json() -> None:
    told = json.loads(json.dumps(by_hand().to_dict(), allow_nan=False))
    assert (told["queries"], told["items"], told["unanswered"], told["best"]) == (4, 3, 0, "low")
    raw, low = told["rankings"]
    assert raw["values"]["R@1"]["value"] == 25 and raw["gains"] == {}
    assert low["gains"]["R@1"].keys() == {"value", "low", "high"} and 0 < low["p_values"]["R@1"] <= 1
    assert low["hubness"]["k"] == 3  # no more than there are items
    assert json.loads(json.dumps(by_hand(hubness_k=None).to_dict()))["rankings"][0]["hubness"] is None


def test_a_ranking_is_found_by_its_name() -> None:
    assert by_hand()["low"].name == "low"
    with pytest.raises(KeyError, match="no ranking is named 'high'; the names are raw, low"):
        by_hand()["high"]


def test_queries_without_an_answer_are_left_out_and_told() -> None:
    sets = drawn(queries=6)
    queries = Vectors(np.array(list("abcdef")), sets.queries)
    found = evaluate(queries, sets.items, {"e": 3, "b": [1, 99, 98], "c": 97, "elsewhere": 2}, resamples=10)
    assert found.query_ids.tolist() == ["b", "e"]
    assert found.ranks.shape == (1, 2)
    assert (found.unanswered, found.absent) == (4, 3)
    assert found.notes[0].startswith("4 queries have no answer among the items")
    assert found.notes[1] == "3 answers are not among the items; they name 3 unknown items."
    assert found.notes[2] == "Relevance also names 1 query that is not given."
    assert (found.to_dict()["unknown_items"], found.to_dict()["unknown_queries"]) == (3, 1)
    assert str(found).endswith("\n".join(found.notes))
    hubness = found["raw"].hubness
    assert hubness is not None and hubness.queries == 6  # which hubs they fall into is known all the same
    alone = evaluate(Vectors(queries.ids[[1, 4]], sets.queries[[1, 4]]), sets.items, {"e": 3, "b": 1}, resamples=10)
    assert_array_equal(found.ranks, alone.ranks)
    assert alone.notes == (few_groups(2),)
    one = evaluate(queries, sets.items, {"a": [2, 77], "b": 1, "c": 1, "d": 1, "e": 1}, resamples=10)
    assert one.notes[0].startswith("1 query has no answer") and one.notes[1].startswith("1 answer is")


def test_queries_and_items_of_the_table_that_nobody_knows_are_counted_once() -> None:
    table = [(query, item) for query in (0, 1, 7, 8) for item in (2, 98, 99)]
    found = evaluate(unhub.Dense(np.eye(3)), None, table, resamples=5)
    assert (found.absent, found.unknown_items, found.unknown_queries) == (4, 2, 2)
    assert "4 answers are not among the items; they name 2 unknown items." in found.notes
    assert "Relevance also names 2 queries that are not given." in found.notes


def few_groups(count: int) -> str:
    return f"The queries have only {count} different first answers; intervals and p are rough under 30."


@pytest.mark.parametrize("groups", [1, 2, 29, 30])
def test_few_groups_of_queries_are_told(groups: int) -> None:
    rng = np.random.default_rng(0)
    queries, items = rng.standard_normal((60, 4)), rng.standard_normal((40, 4))
    correction = unhub.fit(items, rng.standard_normal((50, 4)), method="nnn:k=3")
    found = evaluate(queries, items, {query: query % groups for query in range(60)}, correction, "R@10", resamples=20)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (found.groups, told["groups"]) == (groups, groups)
    alone = "All queries have the same first answer and are drawn together, so there are no intervals."
    assert found.notes == {1: (alone,), 30: ()}.get(groups, (few_groups(groups),))
    gain = told["rankings"][1]["gains"]["R@10"]
    assert (gain["low"] is None) == (gain["high"] is None) == (groups == 1)
    assert ("[?, ?]" in str(found)) == (groups == 1)
    assert groups > 1 or found.rows[1].p_values == {"R@10": 1}


def test_the_order_of_the_items_changes_no_interval() -> None:
    rng = np.random.default_rng(0)
    queries, items = rng.standard_normal((80, 8)), rng.standard_normal((40, 8))
    relevance = [(query, item) for query in range(80) for item in rng.choice(40, 3, replace=False).tolist()]
    orders = (np.arange(40), np.arange(40)[::-1], rng.permutation(40))
    found = [evaluate(queries, Vectors(order, items[order]), relevance, measures="R@5,mAP") for order in orders]
    assert found[0].groups > 1
    for other in found[1:]:
        for measure, one in found[0]["raw"].values.items():
            same = other["raw"].values[measure]
            assert_allclose([same.value, same.low, same.high], [one.value, one.low, one.high], rtol=1e-12)


def test_captions_of_one_item_are_drawn_together() -> None:
    rng = np.random.default_rng(0)
    items = rng.standard_normal((60, 8))
    queries = np.repeat(items + 1.5 * rng.standard_normal((60, 8)), 5, axis=0)  # five equal captions each
    together = evaluate(queries, items, {query: query // 5 for query in range(300)}, measures="R@1")["raw"].values
    once = evaluate(queries[::5], items, dict(enumerate(range(60))), measures="R@1")["raw"].values
    one, other = together["R@1"], once["R@1"]
    assert_allclose([one.value, one.low, one.high], [other.value, other.low, other.high], atol=1e-9)


def test_the_seed_draws_the_resamples() -> None:
    first, same, other = (by_hand(seed=seed, resamples=50).to_dict() for seed in (1, 1, 2))
    assert first == same != other


def test_corrections_are_named_by_their_specs_or_by_the_user() -> None:
    sets = drawn()
    one, two, raw = (fitted(spec, sets) for spec in ("is", "is", "raw"))

    def names(corrections: dict[str, Correction] | list[Correction] | Correction) -> list[str]:
        found = evaluate(sets.queries, sets.items, {0: 0}, corrections, resamples=2)
        return [row.name for row in found.rows]

    assert names([]) == names(raw) == names([raw]) == ["raw"]
    assert names(one) == ["raw", "is:tau=0.05"]
    assert names([one, raw, two]) == ["raw", "is:tau=0.05", "is:tau=0.05 (2)"]
    assert names({"mine": one, "other": two}) == ["raw", "mine", "other"]


def test_raw_alone_keeps_the_similarity_it_was_fitted_under() -> None:
    sets = drawn().under("dot")
    by_raw = evaluate(sets.queries, sets.items, {0: 0, 1: 5}, fitted("raw", sets), resamples=2)
    by_name = evaluate(sets.queries, sets.items, {0: 0, 1: 5}, similarity="dot", resamples=2)
    assert_array_equal(by_raw.ranks, by_name.ranks)
    assert np.any(by_raw.ranks != evaluate(sets.queries, sets.items, {0: 0, 1: 5}, resamples=2).ranks)


# Mistakes.


class World:
    """What mistakes are made with."""

    def __init__(self) -> None:
        sets = drawn()
        self.q, self.g, self.one = sets.queries, sets.items, {0: 0}
        self.other = drawn(seed=1).items
        self.matrix = unhub.Dense(HUB)
        self.bias, self.gc, self.otn = (fitted(spec, sets) for spec in ("is", "gc", "otn"))
        self.dot, self.given = fitted("dn", sets.under("dot")), lowered(self.matrix)


world = cache(World)
MISTAKES: dict[str, tuple[Callable[[World], object], str]] = {
    "dimensions": (
        lambda w: call(w.q[:, :3], w.g, w.one),
        "queries has 3 dimensions, the items 16; embed both with one model",
    ),
    "empty queries": (lambda w: call(w.q[:0], w.g, w.one), "queries is empty"),
    "empty items": (lambda w: call(w.q, w.g[:0], w.one), "items is empty"),
    "no items": (lambda w: call(w.q, None, w.one), "^items is missing; give the vectors"),
    "items beside a matrix": (lambda w: call(w.matrix, w.g, w.one), "^items is given, and queries is a Dense matrix"),
    "NaN": (lambda w: call(np.where(w.q > 2, np.nan, w.q), w.g, w.one), "queries holds nan in row 0"),
    "other items": (lambda w: call(w.q, w.other, w.one, w.bias), "^items differs from the items of the fit in row"),
    "fewer items": (
        lambda w: call(w.q, w.g[:9], w.one, w.bias),
        "^items has 9 rows, .* was fitted on 41; .* remove the",
    ),
    "more items": (
        lambda w: call(w.q, np.vstack([w.g, w.g[:2] + 1]), w.one, w.bias),
        "^items has 2 of 43 rows that are not in the correc",
    ),
    "a matrix of other items": (lambda w: call(unhub.Dense(np.eye(4)), None, w.one, w.given), "not fitted on a matrix"),
    "vectors for a matrix": (
        lambda w: call(w.q, w.g, w.one, w.given),
        "fitted on a given similarity matrix; evaluate it on a matrix",
    ),
    "a matrix for vectors": (
        lambda w: call(w.matrix, None, w.one, w.bias),
        "was not fitted on a matrix of these 3 items",
    ),
    "another similarity": (
        lambda w: call(w.q, w.g, w.one, w.bias, similarity="dot"),
        "fitted under cosine similarity, not under dot",
    ),
    "two similarities": (lambda w: call(w.q, w.g, w.one, [w.bias, w.dot]), "under dot similarity, not under cosine"),
    "unknown similarity": (lambda w: call(w.q, w.g, w.one, similarity="l2"), "similarity must be .*l2"),
    "unknown measure": (lambda w: call(w.q, w.g, w.one, measures="nDGC@10"), "did you mean 'nDCG'"),
    "no measures": (lambda w: call(w.q, w.g, w.one, measures=[]), "measures is empty"),
    "no relevance": (lambda w: call(w.q, w.g, {}), "relevance holds no pair"),
    "other ids": (lambda w: call(w.q, w.g, {"cat": 1}), "query ids are integers here"),
    "not a correction": (
        lambda w: call(w.q, w.g, w.one, ["is"]),
        "must be fitted .* got 'is'; fit one, or load",
    ),
    "a named text": (
        lambda w: call(w.q, w.g, w.one, {"a": "is"}),
        "must be fitted .* got 'is'; fit one, or load",
    ),
    "named raw": (lambda w: call(w.q, w.g, w.one, {"raw": w.bias}), "corrections has one named 'raw'"),
    "strength of a rescore": (lambda w: call(w.q, w.g, w.one, w.gc, strength=0.5), "strength must be 1 for 'gc'"),
    "strength of a plan": (
        lambda w: call(w.q, w.g, w.one, w.otn, strength=0.5),
        "strength must be 1 for 'otn:zeros=raw', since only a bias can be scaled",
    ),
    "strength of nothing": (
        lambda w: call(w.q, w.g, w.one, w.bias, strength=np.nan),
        "strength must be finite, got nan",
    ),
    "shuffled for a rescore": (
        lambda w: call(w.q, Vectors(np.arange(41)[::-1], w.g[::-1]), w.one, w.gc),
        "must be in the order of the fit for gc",
    ),
    "hubness of no places": (lambda w: call(w.q, w.g, w.one, hubness_k=0), "hubness_k must be .* at least 1, got 0"),
    "hubness of half a place": (lambda w: call(w.q, w.g, w.one, hubness_k=1.5), "hubness_k must be a whole number"),
    "no resamples": (lambda w: call(w.q, w.g, w.one, resamples=0), "resamples must be .* at least 1, got 0"),
    "half a resample": (lambda w: call(w.q, w.g, w.one, resamples=1.5), "resamples must be a whole number .* got 1.5"),
    "no list of measures": (lambda w: call(w.q, w.g, w.one, measures=None), "measures must be .* got None"),
    "a number of corrections": (lambda w: call(w.q, w.g, w.one, 5), "must be one fitted correction .* got 5; fit one"),
    "a path of a correction": (
        lambda w: call(w.q, w.g, w.one, "a.unhub"),
        "corrections must be .* got 'a.unhub'; fit one, or load one",
    ),
    "a correction named 1": (lambda w: call(w.q, w.g, w.one, {1: w.bias}), "corrections must be named by texts, .* 1"),
    "strength of None": (lambda w: call(w.q, w.g, w.one, strength=None), "strength must be one number, got None"),
    "strength of a text": (
        lambda w: call(w.q, w.g, w.one, w.bias, strength="a"),
        "strength must be one number, got 'a'",
    ),
    "strength of many": (
        lambda w: call(w.q, w.g, w.one, strength=np.ones(3)),
        "strength must be one number, got ndarray of shape",
    ),
    "strength without corrections": (
        lambda w: call(w.q, w.g, w.one, strength=np.inf),
        "strength must be finite, got inf",
    ),
    "no threads": (lambda w: call(w.q, w.g, w.one, threads=0), "threads must be a whole number of at least 1"),
}


@pytest.mark.once
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_remedy(mistake: str) -> None:
    run, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        run(world())


# Long work.


@pytest.mark.parametrize("threads", [1, 3])
def test_progress_rises_and_ends_at_the_total(threads: int) -> None:
    sets, progress = whole(queries=4000), Recorder()
    corrections = [fitted(spec, sets) for spec in ("is", "dis", "dualdis")]
    evaluate(sets.queries, sets.items, {0: 0}, corrections, resamples=2, threads=threads, progress=progress)
    progress.assert_rises_to_the_end()


BIG = """
import numpy as np
from unhub.evaluation.evaluate import evaluate
from unhub.data.vectors import Gathered
rows = np.random.default_rng(0).standard_normal((2000, 64), np.float32)
endless = Gathered(rows, np.arange(1_000_000) % 2000)
def progress(done, total):
    print("started", flush=True) if done else None
evaluate(endless, rows, {0: 0}, threads=2, progress=progress)
"""


@pytest.mark.once
def test_ctrl_c_stops_a_big_evaluation_within_seconds() -> None:
    assert_ctrl_c_stops(BIG)


def test_every_public_name_is_there() -> None:
    assert unhub.evaluate is evaluate and unhub.Evaluation is Evaluation


def test_queries_that_are_items_are_told_unless_they_are_left_out() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 8))
    truth = {row: [row, (row + 1) % 60] for row in range(60)}
    told = "60 of 60 queries are items and find themselves: exclude each query's own item from its ranking."
    assert any(note.startswith(told) for note in unhub.evaluate(rows, rows, truth, resamples=5).notes)
    for queries, exclude in ((rows, "self"), (np.concatenate([rows[:20], rows[:40] + 1]), None)):
        found = unhub.evaluate(queries, rows, truth, exclude=exclude, resamples=5)
        assert not any("find themselves" in note for note in found.notes)
