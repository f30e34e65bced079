"""What a log says was returned: counted by hand on five queries."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unhub
from unhub.data.query_log import as_objects, join_logs
from unhub.data.runs import Answers
from unhub.files import read_hits, read_run

pytestmark = pytest.mark.once

LOG = unhub.QueryLog.of(
    texts=["dog", "cat", "dog", "owl", "dog"],
    returned=[["a", "b"], ["a", "c"], ["a", "b"], ["d", "d", "a"], ["a", "b"]],
)
GALLERY = np.array(["c", "b", "a", "z", "d", "e"])


def test_each_different_query_counts_once_and_traffic_counts_every_one() -> None:
    answers = Answers.of(LOG, GALLERY, k=2)
    assert (len(answers), answers.traffic, answers.k, answers.items) == (3, 5, 2, 6)
    assert answers.asked.tolist() == [3, 1, 1]
    assert answers.rows.tolist() == [0, 1, 3]
    assert dict(zip(answers.item_ids.tolist(), answers.times.tolist(), strict=True)) == {"a": 3, "b": 1, "c": 1, "d": 1}
    assert dict(zip(answers.item_ids.tolist(), answers.traffic_times.tolist(), strict=True)) == {
        "a": 5,
        "b": 3,
        "c": 1,
        "d": 1,
    }
    assert answers.item_ids[answers.best].tolist() == [["a", "b"], ["a", "c"], ["d", "a"]]
    assert answers.notes == ("1 times an item stands in one answer again; it counts once for each query.",)


def test_the_hubness_of_a_log_is_over_all_items() -> None:
    found = unhub.hubness(LOG, GALLERY, k=2)
    assert sorted(found.counts.tolist()) == [0, 0, 1, 1, 1, 3]
    assert found.figures.anti_hubs == pytest.approx(2 / 6)
    assert found.chance.anti_hubs == pytest.approx((1 - 2 / 6) ** 3)  # six places, three queries, six items
    assert found.worst(1) == [("a", 3)]
    assert unhub.hubness(LOG, 6, k=2).figures == found.figures
    assert len(unhub.hubness(LOG, 6, k=2).worst(6)) == 4  # the ids of the others are not known
    assert "5 queries were logged, 3 of them different by their text" in found.notes[0]


def test_without_the_number_of_items_those_returned_are_all_and_a_note_says_so() -> None:
    found = unhub.hubness(LOG, k=2)
    assert found.figures.anti_hubs == 0
    assert "How many items there are is not known" in found.notes[1]


def test_unknown_ids_are_left_out_and_noted() -> None:
    answers = Answers.of(LOG, np.array(["a", "q"]), k=2)
    assert (answers.item_ids.tolist(), answers.times.tolist(), answers.items) == (["a"], [3], 2)
    assert answers.notes[1] == "3 answers name 3 ids that are not among the 2 items, such as 'b'; they are left out."
    with pytest.raises(ValueError, match="hits returns none of the 2 items; it has 'a', the items have 'x'"):
        Answers.of(LOG, np.array(["x", "y"]))
    with pytest.raises(ValueError, match="items_count is 3, but 4 different items were returned"):
        Answers.of(LOG, 3)


def test_ids_in_one_text_are_noted() -> None:
    log = unhub.QueryLog.of(returned=[["a.jpg,b.jpg"], ["c.jpg,d.jpg"], ["a.jpg"], []])
    note = Answers.of(log, 9).notes[0]
    assert note == (
        "Every query returned one item, and most ids hold a comma, such as 'a.jpg,b.jpg'. If these are several ids, "
        "log them as a list, in .csv separated by spaces."
    )
    with pytest.raises(ValueError, match=r"hits returns none of the 2 items; .*; log them as a list"):
        Answers.of(log, np.array(["b.jpg", "d.jpg"]))
    known = Answers.of(log, np.array(["a.jpg,b.jpg", "c.jpg,d.jpg", "a.jpg"]))
    assert not any("comma" in one for one in known.notes)
    assert not any("comma" in one for one in Answers.of(unhub.QueryLog.of(returned=[["a,b", "c,d"]]), 9).notes)


def test_ids_of_numbers_and_of_texts_meet() -> None:
    log = unhub.QueryLog.of(query_ids=[0, 1], returned=[[7, 8], [8, 9]])
    assert Answers.of(log, np.array(["7", "8", "9", "10"])).times.tolist() == [1, 2, 1]
    assert Answers.of(unhub.QueryLog.of(query_ids=[0], returned=[["7"]]), np.arange(9)).times.tolist() == [1]


def test_queries_are_told_apart_by_text_then_vector_then_id_then_row() -> None:
    returned, rows = [[1], [1]], np.ones((2, 3), np.float32)
    for columns, different, told_by in (
        ({"texts": ["a", "b"], "vectors": rows}, 2, "text"),
        ({"vectors": rows, "query_ids": [1, 2]}, 1, "vector"),
        ({"query_ids": [5, 5]}, 1, "id"),
        ({}, 2, "row"),
    ):
        answers = Answers.of(unhub.QueryLog.of(returned=returned, **columns))
        assert (len(answers), answers.told_by) == (different, told_by)


def test_nothing_returned_is_an_error_and_an_empty_answer_is_a_query() -> None:
    with pytest.raises(ValueError, match="hits do not say which items were returned"):
        unhub.hubness(unhub.QueryLog.of(texts=["a"]), 5)
    found = unhub.hubness(unhub.QueryLog.of(returned=[[], [3]]), 5)
    assert (found.queries, found.counts.sum()) == (2, 1)
    assert found.notes == ("1 of 2 different queries were answered with nothing.",)


def test_a_log_is_a_run_by_its_last_answers() -> None:
    log = unhub.QueryLog.of(
        query_ids=["p", "q", "p"],
        times=["2026-01-03", "2026-01-01", "2026-01-02"],  # not in order: the first line is the last answer
        returned=[["x", "y"], ["z"], ["w"]],
    )
    run = unhub.Run.of_log(log)
    assert list(zip(run.query_ids.tolist(), run.item_ids.tolist(), run.scores.tolist(), strict=True)) == [
        ("p", "x", -1.0),
        ("p", "y", -2.0),
        ("q", "z", -1.0),
    ]


def test_hits_of_a_search_runs_and_logs_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "hits.jsonl").write_text(
        '{"query": "p", "hits": [{"id": 4, "score": 0.5}, {"id": 2, "score": 0.1}]}\n{"query": "q", "hits": []}\n'
    )
    (tmp_path / "theirs.run").write_text("p Q0 2 1 0.1 t\np Q0 4 2 0.5 t\n")
    (tmp_path / "theirs.tsv").write_text("p\tQ0\t2\t1\t0.1\tt\np\tQ0\t4\t2\t0.5\tt\n")
    (tmp_path / "log.jsonl").write_text('{"query": "red shoes", "query_id": "p", "results": [4, 2]}\n')
    for name in ("hits.jsonl", "theirs.run", "theirs.tsv", "log.jsonl"):
        log = read_hits(tmp_path / name)
        assert log.query_ids is not None
        assert log.returned is not None
        assert (log.query_ids[0], log.returned.ids[:2].tolist()) == ("p", [4, 2])
        run = read_run(tmp_path / name)
        assert run.item_ids[np.argsort(-run.scores)].tolist() == [4, 2]


def test_a_user_of_a_log_is_read_and_what_is_no_id_is_nobody(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        '{"query": "a", "user": 7}\n{"query": "b", "user": {"name": "x"}}\n{"query": "c"}\n'
    )
    log = unhub.read_log(tmp_path / "log.jsonl")
    assert log.users is not None
    assert log.users.tolist() == ["7", "", ""]
    assert log.gather(np.array([0])).users == ["7"]
    assert log.says_who.tolist() == [True, False, False]
    assert "log.jsonl: lines whose user is no id, such as {'name': 'x'}: 1. Who asked there is unk" in log.notes[0]
    with pytest.raises(ValueError, match=r"log.jsonl:2: the line has the id \{'name': 'x'\}"):
        unhub.read_log(tmp_path / "log.jsonl", user="user")


def test_whole_floats_are_users_as_pandas_writes_integers_beside_missing_ones(tmp_path: Path) -> None:
    frame = pd.DataFrame({"query": list("abc"), "user": [7, None, 8]})
    frame.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.jsonl").write_text(
        '{"query": "a", "user": 7.0}\n{"query": "b", "user": NaN}\n{"query": "c", "user": 8.0}\n'
    )
    for log in (frame, tmp_path / "log.parquet", tmp_path / "log.jsonl"):
        read = unhub.read_log(log)
        assert read.users is not None
        assert (read.users.tolist(), read.told_users, read.notes) == (["7", "", "8"], None, ())
    odd = unhub.read_log(pd.DataFrame({"query": ["a", "b"], "user": [7.5, 2.0**53]}))
    assert "lines whose user is no id, such as 7.5: 2." in odd.notes[0]


def test_of_logs_joined_it_is_known_which_say_who_asked() -> None:
    said = unhub.QueryLog(texts=as_objects(["a", "b"]), users=np.array(["ann", ""]))
    joined = join_logs([said, unhub.QueryLog(texts=as_objects(["c"])), said])
    assert joined.says_who.tolist() == [True, True, False, True, True]
    assert join_logs([said, said]).told_users is None


def test_hits_of_a_search_have_the_hubness_of_the_search() -> None:
    random = np.random.default_rng(0)
    gallery = unhub.Vectors(np.array([f"i{row}" for row in range(40)]), random.normal(size=(40, 6)).astype(np.float32))
    queries = random.normal(size=(70, 6)).astype(np.float32)
    correction = unhub.fit(gallery, random.normal(size=(90, 6)).astype(np.float32), method="nnn", k=5)
    ids, _ = unhub.searcher(gallery, correction).search(queries, k=4)
    logged = unhub.hubness(unhub.QueryLog.of(vectors=queries, returned=ids), correction=correction, k=4)
    assert logged.figures == unhub.hubness(queries, gallery, correction, k=4).figures
    assert logged.chance == unhub.hubness(queries, gallery, correction, k=4).chance
