"""Excluding: what is left out is neither ranked nor an answer, as `search` has it, for every kind of correction."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import unhub
from tests import cub, oracles
from tests.bank_cases import GATED, PLANS, RESCORES, Sets, drawn, fitted, oracle_ranking
from unhub.correction import Correction
from unhub.evaluation import placing
from unhub.evaluation.evaluate import Evaluation, evaluate
from unhub.evaluation.excluding import ExcludeLike

call: Callable[..., Evaluation] = evaluate  # for what the types would refuse

SPECS = ("raw", "is", "nnn:k=7,alpha=1.25", "sn:tau=0.05,iterations=3", *GATED, *RESCORES, *PLANS)
PLACES = 5


def among_themselves(seed: int = 0) -> Sets:
    """Draw items that ask for each other."""
    sets = drawn(seed)
    return replace(sets, queries=sets.items)


def order_of(spec: str, correction: Correction, sets: Sets) -> NDArray[np.int64]:
    """Return all items of each query, best first, as the method's oracle has them."""
    if spec in PLANS:
        return oracles.ranking(np.asarray(correction.apply(sets.query_scores.astype(np.float32)), np.float64))
    return oracle_ranking(spec, sets)


def by_hand(
    order: NDArray[np.int64], answers: Sequence[set[int]], excluded: Sequence[set[int]]
) -> tuple[list[list[int]], list[float], list[float]]:
    """Return the items left to each query, best first; where it has an answer, the rank and the average precision."""
    left = [[item for item in row if item not in out] for row, out in zip(order.tolist(), excluded, strict=True)]
    ranks, precisions = [], []
    for row, wanted, out in zip(left, answers, excluded, strict=True):
        places = [place for place, item in enumerate(row, start=1) if item in wanted - out]
        if places:
            ranks.append(float(places[0]))
            precisions.append(sum(number / place for number, place in enumerate(places, start=1)) / len(places))
    return left, ranks, precisions


def assert_as_by_hand(spec: str, sets: Sets, exclude: ExcludeLike, excluded: list[set[int]]) -> None:
    """Compare evaluate, hubness and search with lists made one by one."""
    rng = np.random.default_rng(1)
    correction = fitted(spec, sets)
    count, items = len(sets.queries), len(sets.items)
    answers = [{query, *rng.permutation(items)[: rng.integers(0, 4)].tolist()} for query in range(count)]
    left, ranks, precisions = by_hand(order_of(spec, correction, sets), answers, excluded)
    counts = np.bincount([item for row in left for item in row[:PLACES]], minlength=items)

    relevance = {query: sorted(some) for query, some in enumerate(answers)}
    found = evaluate(
        sets.queries,
        sets.items,
        relevance,
        {"it": correction} if spec != "raw" else (),
        "MnR,mAP,R@1",
        exclude=exclude,
        hubness_k=PLACES,
        resamples=10,
    )
    row = found["it" if spec != "raw" else "raw"]
    assert_allclose(found.ranks[-1], ranks)
    assert row.values["mAP"].value == pytest.approx(100 * np.mean(precisions))
    assert row.values["R@1"].value == pytest.approx(100 * np.mean(np.array(ranks) == 1))
    assert row.hubness is not None
    assert_array_equal(row.hubness.counts, counts)
    assert found.unanswered == count - len(ranks)
    assert_array_equal(unhub.hubness(sets.queries, sets.items, correction, k=PLACES, exclude=exclude).counts, counts)
    worst = unhub.worst_hubs(sets.queries, sets.items, correction, k=PLACES, exclude=exclude)
    assert (worst.after or worst.before).counts.tolist() == counts.tolist()

    entries = [sorted(some) or None for some in excluded]
    ids, _ = unhub.searcher(sets.items, correction).search(sets.queries, k=PLACES, exclude=entries)
    assert ids.tolist() == [[*row[:PLACES], *[-1] * (PLACES - len(row))] for row in left]


@pytest.mark.parametrize("spec", SPECS)
def test_a_query_is_left_out_of_its_own_ranking(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "MOST_QUERIES", 8)  # several tiles
    sets = among_themselves()
    assert_as_by_hand(spec, sets, "self", [{query} for query in range(len(sets.queries))])


@pytest.mark.parametrize("spec", SPECS)
def test_an_entry_for_each_query_is_left_out_as_search_does(spec: str) -> None:
    sets = drawn(3)
    items = len(sets.items)
    rng = np.random.default_rng(2)
    # None, one, several twice over, and all items but two, so that places stay empty.
    excluded = [set(rng.permutation(items)[: rng.integers(0, 12)].tolist()) for _ in sets.queries]
    excluded[0], excluded[4], excluded[5] = set(), set(range(items)) - {6, 7}, {8}
    entries = [None if not some else some.copy().pop() if len(some) == 1 else [*some, *some] for some in excluded]
    assert_as_by_hand(spec, sets, entries, excluded)


# By hand: item 0 asks for itself first; what is left of query 1 is item 2, which answers it, and then item 0.
SCORES = np.array([[0.9, 0.3, 0.2], [0.5, 0.9, 0.6], [0.4, 0.1, 0.9]])


def test_the_diagonal_of_a_matrix_is_itself() -> None:
    relevance = {0: [0, 1], 1: [1, 2], 2: [1, 2]}
    found = evaluate(unhub.Dense(SCORES), None, relevance, exclude="self", hubness_k=1, resamples=5)
    assert found.ranks.tolist() == [[1, 1, 2]]
    assert found["raw"].hubness is not None
    assert found["raw"].hubness.counts.tolist() == [1, 1, 1]
    assert found.notes[-2:] == (
        "The item with the query's own id is left out for every query.",
        "3 answers are left out with the excluded items.",
    )
    assert evaluate(unhub.Dense(SCORES), None, relevance, hubness_k=1, resamples=5).ranks.tolist() == [[1, 1, 1]]


def test_a_query_whose_every_answer_is_left_out_has_none() -> None:
    found = evaluate(unhub.Dense(SCORES), None, {0: 0, 1: [1, 2], 2: 0}, exclude="self", resamples=5)
    assert (found.query_ids.tolist(), found.unanswered, found.absent) == ([1, 2], 1, 0)
    with pytest.raises(ValueError, match="exclude leaves out every answer to every query"):
        evaluate(unhub.Dense(SCORES), None, {0: 0, 1: 1}, exclude="self", resamples=5)


def test_the_copy_of_what_is_left_out_is_ranked() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]], np.float32)
    found = unhub.hubness(rows, rows, k=1, exclude="self")
    assert found.counts.tolist() == [2, 1, 0]  # 1 for 0, 0 for 1, and of the two copies that 2 has next, the first
    relevance = {0: 1, 1: 0, 2: [0, 1]}
    assert evaluate(rows, rows, relevance, exclude="self", resamples=5).ranks.tolist() == [[1, 1, 1]]


def test_the_gate_looks_at_the_raw_best_of_all_items() -> None:
    bank = unhub.Dense(np.array([[1.0, 0.0, 0.0]]))
    gated = unhub.fit(bank, method="dis:tau=1.0,k=1")  # item 0 alone opens the gate, and is lowered
    scores = unhub.Dense([[0.9, 0.8, 0.85], [0.8, 0.9, 0.0]])
    best = [unhub.hubness(scores, None, gated, k=1, exclude=[out, None]).counts.tolist() for out in (None, 2, 0)]
    # Raw, item 0 is first for query 0: its h is 2/3, that of the others -1/3. Left out, it opens the gate yet.
    assert best == [[0, 1, 1], [0, 2, 0], [0, 1, 1]]


def test_runs_are_judged_without_what_is_left_out() -> None:
    run = unhub.Run([0, 0, 1, 1, 2], [0, 1, 1, 0, 2], [0.9, 0.5, 0.9, 0.5, 0.1])
    relevance = {0: [0, 1], 1: [1, 2], 2: [2, 0]}
    found = evaluate(unhub.Dense(SCORES), None, relevance, runs={"theirs": run}, exclude="self", hubness_k=1)
    assert found.ranks[1].tolist() == [1, 3, 3]  # the answers of the others were not returned
    theirs = found["theirs"].hubness
    assert theirs is not None
    assert theirs.counts.tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="theirs returns only items that are excluded"):
        evaluate(unhub.Dense(SCORES), None, relevance, runs={"theirs": unhub.Run([0], [0], [1.0])}, exclude="self")


def test_groups_are_shares_of_what_is_left() -> None:
    found = unhub.group_bias(unhub.Dense(SCORES), None, [0], [2], n=1, exclude="self")
    assert (found.share_a, found.share_b) == (1 / 3, 1 / 3)
    short = unhub.group_bias(unhub.Dense(SCORES), None, [0], [2], n=3, exclude=[[1, 2], None, None])
    assert (short.share_a, short.share_b) == pytest.approx((3 / 9, 2 / 9))


@pytest.mark.once
def test_itself_is_known_by_id_whatever_the_order_and_the_type() -> None:
    sets = among_themselves()
    count = len(sets.items)
    turned = np.arange(count)[::-1]
    items = unhub.Vectors(np.array([str(row) for row in range(count)]), sets.items)
    queries = unhub.Vectors(turned, sets.items[turned])
    found = unhub.hubness(queries, items, k=3, exclude="self")
    assert_array_equal(found.counts, unhub.hubness(sets.items, sets.items, k=3, exclude="self").counts)
    assert found.notes == ("The item with the query's own id is left out for every query.",)


@pytest.mark.once
def test_an_id_called_self_is_an_id_like_any_other() -> None:
    scores = unhub.Dense(SCORES, ["self", "b", "c"])
    found = unhub.hubness(scores, k=1, exclude=["self", None, None])
    assert found.counts.tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="no item has the id of a query: the queries have 0, the items have 'self'"):
        unhub.hubness(scores, k=1, exclude="self")


@pytest.mark.once
def test_row_numbers_that_are_not_the_same_rows_are_told() -> None:
    sets = among_themselves()
    notes = unhub.hubness(sets.items[10:], sets.items, exclude="self").notes  # whose row 0 is item 10
    assert notes[1].startswith("31 of these items differ from the query with the same id")
    notes = unhub.hubness(sets.items, sets.items[:30], exclude="self").notes
    assert notes == (
        "The item with the query's own id is left out for 30 of 41 queries; no item has the id of the others.",
    )


@pytest.mark.once
@pytest.mark.parametrize(
    ("exclude", "words"),
    [
        ("sel", "exclude must be 'self', or have one entry .* for each of 3 queries, got 'sel'"),
        ([0, 1], "for each of 3 queries, got 2 entries"),
        ([0, 1, 9], r"exclude has 1 unknown id, for example 9"),
        (["a", None, None], "exclude has ids that are strings, the ids here are integers"),
        ([1.5, None, None], "for query 0"),
    ],
)
def test_what_cannot_be_excluded_is_refused(exclude: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(unhub.Dense(SCORES), None, {0: 1}, exclude=exclude)


# On real data.


def test_images_of_birds_find_their_class_without_themselves() -> None:
    data = cub.load()
    corrections = unhub.fit(data.images, data.bank, method=["nnn:k=32,alpha=0.5"])
    relevance = unhub.Relevance(*np.nonzero(data.labels[:, None] == data.labels))
    found = evaluate(data.images, data.images, relevance, corrections, "R@1,R@2,R@4,R@8", exclude="self", resamples=50)
    # Published before a projection: raw 56.7, 69.7, 80.3, 88.4, skewness 2.67; nnn 58.2, 70.4, 81.0, 88.6, and 1.29.
    expected = {"raw": (56.62, 69.83, 80.01, 88.07, 2.17), "nnn:k=32,alpha=0.5": (57.33, 69.94, 80.28, 88.44, 1.23)}
    scores = oracles.cosine(data.images, data.images)
    h = {
        "raw": np.zeros(len(scores)),
        "nnn:k=32,alpha=0.5": oracles.nnn(oracles.cosine(data.bank, data.images), 32, 0.5),
    }
    for row in found.rows:
        *recalls, skewness = expected[row.name]
        values = [one.value for one in row.values.values()]
        assert row.hubness is not None
        assert [*values, row.hubness.skewness] == pytest.approx([*recalls, skewness], abs=0.1)
        slow = scores - h[row.name]
        np.fill_diagonal(slow, -np.inf)
        order = np.argsort(-slow, axis=1)[:, :8]
        right = data.labels[order] == data.labels[:, None]
        assert values == pytest.approx([100 * right[:, :k].any(axis=1).mean() for k in (1, 2, 4, 8)], abs=0.05)
