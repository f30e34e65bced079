"""Runs of other systems: the answers' places by score, ties in expectation, and what was not returned."""

import itertools
import math
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unhub
from unhub.evaluation.evaluate import Evaluation
from unhub.files import read_run

pytestmark = pytest.mark.once

ITEMS, QUERIES = 5, 3
MEASURES = ["R@1", "R@2", "R@9", "MnR", "MdR", "MRR", "MRR@2", "mAP", "mAP@2", "nDCG", "nDCG@2", "P@2", "GM"]


def judge(run: unhub.Run, relevance: object, measures: list[str] = MEASURES) -> Evaluation:
    """Evaluate a run beside a raw ranking of any kind, over ITEMS items and QUERIES queries."""
    matrix = unhub.Dense(np.arange(QUERIES * ITEMS).reshape(QUERIES, ITEMS) % 4)
    return unhub.evaluate(matrix, None, relevance, measures=measures, runs={"theirs": run}, resamples=20)  # type: ignore[arg-type]


def values_of(evaluation: Evaluation, name: str = "theirs") -> dict[str, float]:
    return {measure: one.value for measure, one in evaluation[name].values.items()}


def test_answers_that_were_not_returned_are_not_found_and_rank_last() -> None:
    # Query 0 finds its answer second; query 1 one of its two answers first; query 2 returned nothing.
    run = unhub.Run([0, 0, 1, 1], [4, 2, 3, 0], [9.0, 8.0, 1.5, 0.5])
    evaluation = judge(run, {0: 2, 1: [3, 4], 2: 1})
    found = values_of(evaluation)
    assert evaluation.ranks[1].tolist() == [2, 1, 5]
    assert found["MnR"] == pytest.approx((2 + 1 + 5) / 3)
    assert found["MdR"] == 2
    assert found["R@1"] == pytest.approx(100 / 3)
    assert found["R@2"] == found["R@9"] == pytest.approx(200 / 3)
    assert found["MRR"] == pytest.approx(100 * (1 / 2 + 1 + 0) / 3)
    assert found["mAP"] == pytest.approx(100 * (1 / 2 + 1 / 2 + 0) / 3)
    assert evaluation.notes == (
        "The queries have only 3 different first answers; intervals and p are rough under 30.",
        "theirs did not return 2 of the 4 answers; these count as not found, and in MdR and MnR they have rank 5.",
    )


def test_the_score_ranks_and_ties_count_as_their_expectation() -> None:
    run = unhub.Run([0, 0, 0], [1, 2, 3], [0.5, 0.5, 0.9])
    found = values_of(judge(run, {0: 1}))
    assert found["R@2"] == 50
    assert found["MnR"] == 2.5
    assert found["MRR"] == pytest.approx(100 * (1 / 2 + 1 / 3) / 2)


def expected(returned: dict[int, int], grades: dict[int, int]) -> dict[str, float]:
    """Return the measures of one query: the mean over every order that its scores allow."""
    orders = [
        order
        for order in itertools.permutations(returned)
        if all(returned[one] >= returned[other] for one, other in itertools.pairwise(order))
    ]
    every = [of_one_order(order, grades) for order in orders]
    return {name: sum(one[name] for one in every) / len(every) for name in every[0]}


def of_one_order(order: tuple[int, ...], grades: dict[int, int]) -> dict[str, float]:
    ranks = [rank for rank, item in enumerate(order, start=1) if item in grades]
    best = sorted(grades.values(), reverse=True)
    found: dict[str, float] = {f"R@{k}": 100.0 * any(rank <= k for rank in ranks) for k in (1, 2, 9)}
    found["MnR"] = ranks[0] if ranks else ITEMS
    found["P@2"] = 100 * sum(rank <= 2 for rank in ranks) / 2
    for name, cut in {"": 99, "@2": 2}.items():
        found[f"MRR{name}"] = 100 / ranks[0] if ranks and ranks[0] <= cut else 0.0
        precisions = [number / rank for number, rank in enumerate(ranks, start=1) if rank <= cut]
        found[f"mAP{name}"] = 100 * sum(precisions) / len(grades)
        gain = sum(grades.get(item, 0) / math.log2(rank + 1) for rank, item in enumerate(order[:cut], start=1))
        ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best[:cut], start=1))
        found[f"nDCG{name}"] = 100 * gain / ideal
    return found


scored = st.dictionaries(st.integers(0, ITEMS - 1), st.integers(0, 2))
graded = st.dictionaries(st.integers(0, ITEMS - 1), st.integers(1, 3), min_size=1)


@settings(max_examples=60)
@given(st.tuples(*[scored] * QUERIES).filter(any), st.tuples(*[graded] * QUERIES))
def test_a_run_is_measured_as_the_mean_over_the_orders_of_its_ties(
    returned: tuple[dict[int, int], ...], grades: tuple[dict[int, int], ...]
) -> None:
    rows = [(query, item, score) for query, one in enumerate(returned) for item, score in one.items()]
    evaluation = judge(unhub.Run(*zip(*rows, strict=True)), dict(enumerate(grades)))
    found = values_of(evaluation)
    each = [expected(*both) for both in zip(returned, grades, strict=True)]
    for name in each[0]:
        assert found[name] == pytest.approx(sum(one[name] for one in each) / QUERIES), name
    assert found["MdR"] == pytest.approx(np.median(evaluation.ranks[1]))


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_a_run_of_the_whole_raw_ranking_is_measured_as_the_raw_ranking(seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(0, 4, (QUERIES, ITEMS)).astype(np.float32)
    queries, items = np.indices(matrix.shape)
    run = unhub.Run(queries.ravel(), items.ravel(), matrix.ravel())
    evaluation = unhub.evaluate(
        unhub.Dense(matrix),
        None,
        {0: {1: 2, 4: 1}, 2: 3},
        measures=MEASURES,
        runs={"theirs": run},
        hubness_k=ITEMS,
        resamples=20,
    )
    assert values_of(evaluation) == pytest.approx(values_of(evaluation, "raw"))
    assert evaluation["theirs"].gains["R@1"].value == pytest.approx(0)
    assert evaluation.ranks[1] == pytest.approx(evaluation.ranks[0])
    assert not any("theirs" in note for note in evaluation.notes)
    hubness = evaluation["theirs"].hubness
    assert hubness is not None
    assert hubness.counts.tolist() == [QUERIES] * ITEMS


def test_ir_measures_agrees_on_the_files_of_a_run_that_stops_short(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    queries, items = 40, 60
    judged = {
        f"q{query}": {f"d{item}": int(random.integers(1, 4)) for item in random.choice(items, 5, replace=False)}
        for query in range(queries)
    }
    returned = {
        f"q{query}": {f"d{item}": float(random.random()) for item in random.choice(items, 12, replace=False)}
        for query in range(queries - 5)
    }
    (tmp_path / "judged.qrels").write_text(
        "".join(f"{query} 0 {item} {grade}\n" for query, one in judged.items() for item, grade in one.items())
    )
    (tmp_path / "theirs.run").write_text(  # every rank is 1: the score must rank
        "".join(f"{query} Q0 {item} 1 {score} tag\n" for query, one in returned.items() for item, score in one.items())
    )
    asked, gallery = (
        unhub.Vectors(np.array([f"{letter}{row}" for row in range(rows)]), random.normal(size=(rows, 4)))
        for letter, rows in (("q", queries), ("d", items))
    )
    names = {"R@3": "Success@3", "MRR": "RR", "mAP": "AP", "mAP@5": "AP@5", "nDCG": "nDCG", "nDCG@5": "nDCG@5"}
    evaluation = unhub.evaluate(
        asked,
        gallery,
        unhub.read_relevance(tmp_path / "judged.qrels"),
        measures=list(names),
        runs={"theirs": read_run(tmp_path / "theirs.run")},
        hubness_k=None,
        resamples=20,
    )
    wanted = {name: ir_measures.parse_measure(other) for name, other in names.items()}
    theirs = ir_measures.calc_aggregate(list(wanted.values()), judged, returned)
    assert values_of(evaluation) == pytest.approx({name: 100 * theirs[one] for name, one in wanted.items()})


def test_hubness_of_a_run_counts_the_first_items_it_returned() -> None:
    run = unhub.Run([0, 0, 1, 1, 2], [0, 1, 1, 2, 1], [2, 1, 5, 6, 0])
    matrix = unhub.Dense(np.eye(QUERIES, ITEMS))
    evaluation = unhub.evaluate(matrix, None, {0: 0}, runs={"theirs": run}, hubness_k=1)
    hubness = evaluation["theirs"].hubness
    assert hubness is not None
    assert hubness.counts.tolist() == [1, 1, 1, 0, 0]


def test_queries_that_only_the_run_has_are_left_out() -> None:
    both = judge(unhub.Run([0, 7, 1], [2, 99, 0], [1, 1, 1]), {0: 2, 1: 0})
    assert values_of(both)["R@1"] == 100


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (unhub.Run([7], [1], [1.0]), "theirs answers none of the 3 queries: it has 7, the queries have 0"),
        (unhub.Run([0, 0], [1, 9], [1.0, 2.0]), "theirs returns 1 items that are not among the 5 items, .*9"),
        (unhub.Run([0, 0], [1, 1], [1.0, 2.0]), "theirs returns item 1 twice for query 0"),
        (unhub.Run(["q"], [1], [1.0]), "theirs has the query id 'q', but query ids are integers"),
    ],
)
def test_a_run_of_other_queries_or_items_is_an_error(run: unhub.Run, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        judge(run, {0: 1})


def test_a_run_must_be_whole_and_well_named() -> None:
    with pytest.raises(ValueError, match="2 query ids, 1 item ids and 2 scores"):
        unhub.Run([0, 1], [1], [1.0, 2.0])
    with pytest.raises(ValueError, match="has the score nan; scores must be finite"):
        unhub.Run([0], [1], [np.nan])
    with pytest.raises(ValueError, match="run is empty"):
        unhub.Run([], [], [])
    for scores in (3.0, ["high"], None):
        with pytest.raises(ValueError, match=r"run has scores .*; scores must be a list of numbers"):
            unhub.Run([0], [1], scores)  # type: ignore[arg-type]
    run = unhub.Run([0], [1], [1.0])
    with pytest.raises(ValueError, match="runs has 'raw', the name of another ranking"):
        unhub.evaluate(unhub.Dense(np.eye(2)), None, {0: 1}, runs={"raw": run})
    with pytest.raises(ValueError, match=r"runs has 'theirs', a str and not a run; read it as a run"):
        unhub.evaluate(unhub.Dense(np.eye(2)), None, {0: 1}, runs={"theirs": "run.txt"})  # type: ignore[dict-item]


def test_what_a_run_is_made_of_stays_the_callers() -> None:
    ids, scores = np.array(["a", "b"]), np.array([1.0, 2.0])
    run = unhub.Run(ids, ids, scores)
    ids[0], scores[0] = "z", 9.0
    assert (run.query_ids.tolist(), run.item_ids.tolist(), run.scores.tolist()) == (["a", "b"], ["a", "b"], [1, 2])


def test_runs_that_are_not_named_are_refused() -> None:
    run = unhub.Run([0], [1], [1.0])
    for runs, words in ((run, "runs must be runs by name, got Run; give them as a mapping"), ({1: run}, "the name 1")):
        with pytest.raises(ValueError, match=words):
            unhub.evaluate(unhub.Dense(np.eye(2)), None, {0: 1}, runs=runs)  # type: ignore[arg-type]


def test_a_run_is_read_by_its_scores_and_a_bad_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1 Q0 7 1 0.25 tag\n\nq1\tQ0\t8\t2\t-1e3\ttag\n")
    run = read_run(tmp_path / "a.run")
    assert run.query_ids.tolist() == ["q1", "q1"]
    assert run.item_ids.tolist() == [7, 8]
    assert run.scores.tolist() == [0.25, -1000.0]
    bad = {
        "1 Q0 2 1 0.5\n": "line 1 has 5 fields; `qid Q0 docid rank score tag` is required",
        "1 Q0 2 1 high tag": "score is 'high'",
        "": "holds no rows",
    }
    for text, words in bad.items():
        (tmp_path / "b.run").write_text(text)
        with pytest.raises(ValueError, match=rf"b\.run: .*{words}"):
            read_run(tmp_path / "b.run")
