"""Bank folders: what a log adds, what is known, what is too old, and what a killed writer leaves."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unhub
from tests.command import fail, succeed
from tests.small_disk import run_on_small_disk
from tests.tiny_encoders import Toy
from unhub.atomic import hold_folder
from unhub.errors import ArgumentError
from unhub.service.kept.log_writer import LogWriter

pytestmark = pytest.mark.once

DAY = 86_400
START = 1_700_000_000
ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def line(row: int, day: float, **more: object) -> dict[str, object]:
    return {"query_id": f"q{row}-{day}", "vector": ROWS[row].tolist(), "ts": START + day * DAY, **more}


def write(path: Path, *lines: Mapping[str, object], mode: str = "w") -> Path:
    with path.open(mode, encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in lines)
    return path


def weights_by_row(bank: Path) -> dict[int, float]:
    held = unhub.read_vectors(bank)
    assert held.weights is not None
    rows = np.asarray(held.rows[:])
    place = [int(np.flatnonzero((row == ROWS).all(axis=1))[0]) for row in rows]
    return dict(zip(place, held.weights.tolist(), strict=True))


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock"}


def test_weights_are_aged_counts_to_a_power(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", line(0, 0), line(0, 30), line(1, 60), line(0, 60))
    added = unhub.add_log(log, tmp_path / "bank", half_life="30d", temper=0.5)
    assert (added.added, added.queries, added.distinct, added.known) == (4, 4, 2, 0)
    # Ages run from the newest query, day 60: 1/4 + 1/2 + 1 for row 0, and 1 for row 1.
    assert weights_by_row(tmp_path / "bank") == pytest.approx({0: 1.75**0.5, 1: 1.0})


def test_without_a_half_life_every_query_counts_the_same(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", line(0, 0), line(0, 300), line(1, 60))
    unhub.add_log(log, tmp_path / "bank", temper=1)
    assert weights_by_row(tmp_path / "bank") == {0: 2.0, 1: 1.0}


def test_the_same_content_twice_changes_no_byte(tmp_path: Path) -> None:
    log, bank = write(tmp_path / "a.jsonl", line(0, 0), line(1, 1)), tmp_path / "bank"
    unhub.add_log(log, bank)
    before = state(bank)
    again = unhub.add_log(log, bank)
    assert (again.added, again.known, again.queries, again.distinct) == (0, 1, 2, 2)
    log.rename(tmp_path / "renamed.jsonl")
    assert unhub.add_log(tmp_path / "renamed.jsonl", bank).added == 0
    assert state(bank) == before


def test_a_file_that_grew_adds_its_new_lines(tmp_path: Path) -> None:
    log, bank = write(tmp_path / "a.jsonl", line(0, 0)), tmp_path / "bank"
    unhub.add_log(log, bank, temper=1)
    write(log, line(0, 1), line(2, 1), mode="a")
    with log.open("a") as file:
        file.write('{"query_id": "torn')
    grown = unhub.add_log(log, bank)
    assert (grown.added, grown.queries) == (2, 3)
    assert grown.notes == (f"The last line of {log} is cut off; it was left out.",)
    assert weights_by_row(bank) == {0: 2.0, 2: 1.0}
    log.write_text(log.read_text().removesuffix('{"query_id": "torn'))
    assert unhub.add_log(log, bank).added == 0
    write(tmp_path / "other.jsonl", line(1, 9))
    assert unhub.add_log(tmp_path / "other.jsonl", bank).added == 1


def test_a_file_that_begins_as_another_one_of_the_log_counts_whole(tmp_path: Path) -> None:
    logs, bank = tmp_path / "logs", tmp_path / "bank"
    logs.mkdir()
    same: list[dict[str, object]] = [{"vector": ROWS[row].tolist()} for row in (0, 1)]
    write(logs / "a.jsonl", same[0])
    write(logs / "b.jsonl", *same)  # of another server, where the first to ask wanted the same
    shutil.copy(logs / "b.jsonl", logs / "c.jsonl")
    added = unhub.add_log(logs, bank, temper=1)
    assert (added.added, added.files, added.known) == (3, 3, 1)
    assert weights_by_row(bank) == {0: 2.0, 1: 1.0}
    write(logs / "a.jsonl", same[1], mode="a")  # now it is a copy of the other
    write(logs / "b.jsonl", same[0], mode="a")
    assert unhub.add_log(logs, bank).added == 1
    assert unhub.add_log(logs, bank).known == 3


@pytest.mark.parametrize("cut", ["a\n", "a\nc", "a"])  # at a line end, within a line, and within the first line
def test_a_record_of_several_lines_waits_for_its_end(tmp_path: Path, cut: str) -> None:
    log, bank = tmp_path / "a.csv", tmp_path / "bank"
    log.write_text(f'vector,ts,query_id\n1 2,5,"o\nne"\n3 4,6,"{cut}')
    for added in (1, 0):
        told = unhub.add_log(log, bank)
        assert told.added == added and told.notes[0].startswith(f"The last line of {log}")
    with log.open("a") as file:
        file.write('t"\n5 6,7,x\n')
    assert unhub.add_log(log, bank).added == 2
    again = unhub.add_log(log, bank)
    assert (again.added, again.known, again.notes) == (0, 1, ())
    assert unhub.forget_queries([f"{cut}t"], bank=bank).missing == ()


def test_a_table_of_texts_that_grew_waits_for_the_end_of_its_line(tmp_path: Path) -> None:
    log, bank = tmp_path / "a.csv", tmp_path / "bank"
    log.write_text("vector,ts\n1 2,5\n3 4,6")
    assert unhub.add_log(log, bank).added == 1
    log.write_text("vector,ts\n1 2,5\n3 4,67\n")
    assert unhub.add_log(log, bank).added == 1


def test_a_quiet_night_adds_nothing_to_a_bank_and_makes_none(tmp_path: Path) -> None:
    bank, day = tmp_path / "bank", tmp_path / "2026-01-02"
    day.mkdir()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "head.csv").write_text("vector,ts\n")
    for log in (day, tmp_path / "empty.jsonl", tmp_path / "head.csv"):
        with pytest.raises(ValueError, match=r"holds no log|is a log without a query yet"):
            unhub.add_log(log, tmp_path / "first")
    unhub.add_log(write(tmp_path / "a.jsonl", line(0, 0), line(1, 40)), bank)
    before = state(bank)
    for log in (day, tmp_path / "empty.jsonl"):
        added = unhub.add_log(log, bank)
        assert (added.added, added.queries, added.notes) == (0, 2, (f"{log} holds no query yet.",))
        assert state(bank) == before
    assert unhub.add_log(tmp_path / "head.csv", bank).notes == (f"{tmp_path / 'head.csv'} holds no query yet.",)
    assert unhub.add_log(tmp_path / "a.jsonl", bank).notes == ()
    assert unhub.add_log(day, bank, window="30d").expired == 1  # what else is asked for is done
    with pytest.raises(FileNotFoundError):
        unhub.add_log(tmp_path / "none", bank)
    assert "holds no query yet" in succeed(tmp_path, "log", "add", "empty.jsonl", "--bank", "bank")


def test_two_files_with_one_content_count_once(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        write(tmp_path / "log" / name, line(0, 0))
    added = unhub.add_log(tmp_path / "log", tmp_path / "bank")
    assert (added.files, added.known, added.added) == (2, 1, 1)


def test_a_log_that_was_packed_since_is_known_and_one_that_grew_adds_its_new_lines(tmp_path: Path) -> None:
    log, bank = write(tmp_path / "a.jsonl", line(0, 0), line(1, 1)), tmp_path / "bank"
    unhub.add_log(log, bank)
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert (unhub.add_log(packed, bank).added, unhub.add_log(tmp_path, bank).known) == (0, 2)
    write(log, line(2, 2), mode="a")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert unhub.add_log(packed, bank).added == 1
    assert set(weights_by_row(bank)) == {0, 1, 2}


def as_table(path: Path, *lines: Mapping[str, object]) -> Path:
    pq.write_table(pa.Table.from_pylist([dict(one) for one in lines]), path)
    return path


def without(name: str, *lines: Mapping[str, object]) -> list[dict[str, object]]:
    return [{key: value for key, value in one.items() if key != name} for one in lines]


def test_the_same_queries_in_another_form_of_the_file_count_once(tmp_path: Path) -> None:
    bank, asked = tmp_path / "bank", [line(0, 0), line(0, 1), line(1, 1), line(1, 1)]  # the last one was logged twice
    unhub.add_log(write(tmp_path / "a.jsonl", *asked), bank, temper=1)
    before = weights_by_row(bank)
    assert before == {0: 2.0, 1: 2.0}
    again = unhub.add_log(as_table(tmp_path / "a.parquet", *asked), bank)
    assert (again.added, again.repeated, again.queries) == (0, 4, 4)
    assert again.notes == ("4 logged queries were left out: they are there already, by id, time and content.",)
    assert weights_by_row(bank) == before
    assert unhub.add_log(tmp_path / "a.parquet", bank).known == 1  # it is known now
    more = [*asked, line(1, 1), line(2, 3), {**line(0, 0), "query_id": "another"}]
    grown = unhub.add_log(as_table(tmp_path / "more.parquet", *more), bank)
    assert (grown.added, grown.repeated) == (3, 4)
    assert weights_by_row(bank) == {0: 3.0, 1: 3.0, 2: 1.0}
    # What differs in the id, the time or the content is another query.
    others = [line(0, 0, ts=START + 1), {**line(0, 0), "vector": ROWS[3].tolist()}]
    assert unhub.add_log(write(tmp_path / "b.jsonl", *others), bank).added == 2
    both = tmp_path / "both"
    both.mkdir()
    write(both / "a.jsonl", *asked)
    as_table(both / "a.parquet", *asked)
    assert (unhub.add_log(both, tmp_path / "first", temper=1).added, weights_by_row(tmp_path / "first")) == (4, before)


def test_queries_without_ids_are_there_already_if_nearly_the_whole_file_is(tmp_path: Path) -> None:
    bank, asked = tmp_path / "bank", without("query_id", *(line(row % 5, row) for row in range(20)))
    unhub.add_log(write(tmp_path / "a.jsonl", *asked), bank, temper=1)
    more = [*asked, *without("query_id", line(5, 40))]
    assert unhub.add_log(as_table(tmp_path / "more.parquet", *more), bank).added == 1
    # Two servers were asked the same at the same moment: nobody can tell, and most of this file is new.
    coincidence = [asked[0], *without("query_id", line(1, 50))]
    added = unhub.add_log(write(tmp_path / "b.jsonl", *coincidence), bank)
    assert (added.added, added.repeated) == (2, 0)
    # A file that goes on has new lines, even of the same moment, as where times are days.
    write(tmp_path / "b.jsonl", coincidence[1], mode="a")
    assert unhub.add_log(tmp_path / "b.jsonl", bank).added == 1
    assert weights_by_row(bank) == {0: 5.0, 1: 6.0, 2: 4.0, 3: 4.0, 4: 4.0, 5: 1.0}
    # Without times a copy looks as if the same was asked again.
    timeless = without("ts", *asked)
    unhub.add_log(write(tmp_path / "c.jsonl", *timeless), tmp_path / "other")
    assert unhub.add_log(as_table(tmp_path / "c.parquet", *timeless), tmp_path / "other").added == 20
    named = without("ts", *(line(row, 0) for row in range(3)))
    unhub.add_log(write(tmp_path / "d.jsonl", *named), tmp_path / "third")
    assert unhub.add_log(as_table(tmp_path / "d.parquet", *named), tmp_path / "third").repeated == 3


def test_what_was_added_says_whether_the_bank_was_written(tmp_path: Path) -> None:
    log, bank = write(tmp_path / "a.jsonl", line(0, 0), line(1, 30)), tmp_path / "bank"
    for aged, changed in ((None, True), (None, False), ("30d", True), ("30d", False)):
        before = state(bank) if bank.is_dir() else {}
        assert unhub.add_log(log, bank, half_life=aged).changed == changed == (state(bank) != before)
    assert weights_by_row(bank) == pytest.approx({0: 0.5**0.25, 1: 1.0})


def test_a_copy_is_known_by_what_the_window_left_of_it(tmp_path: Path) -> None:
    bank, asked = tmp_path / "bank", without("query_id", *(line(row % 5, row) for row in range(20)))
    unhub.add_log(write(tmp_path / "a.jsonl", *asked), bank, window="15d", temper=1)  # days 4 to 19 stay
    again = unhub.add_log(as_table(tmp_path / "a.parquet", *asked), bank)
    assert (again.repeated, again.expired, again.queries) == (16, 4, 16)
    assert weights_by_row(bank) == {0: 3.0, 1: 3.0, 2: 3.0, 3: 3.0, 4: 4.0}


def test_a_query_of_somebody_else_is_no_repeat(tmp_path: Path) -> None:
    bank, query = tmp_path / "bank", without("query_id", line(0, 0))[0]
    for name in ("ann", "bob", "cyd"):
        added = unhub.add_log(write(tmp_path / f"{name}.jsonl", {**query, "user": name}), bank)
        assert (added.added, added.repeated) == (1, 0)
    assert unhub.add_log(as_table(tmp_path / "bob.parquet", {**query, "user": "bob"}), bank).repeated == 1
    # A file that does not say who asked may be a copy of those; each query stands for one.
    assert unhub.add_log(write(tmp_path / "x.jsonl", query, query, query), bank).repeated == 3
    assert unhub.add_log(as_table(tmp_path / "x.parquet", *[query] * 4), bank).added == 4
    # One query of nobody knows who stands for that of ann or of bob, but not for both; ann's own goes first.
    other, twice = tmp_path / "other", [{**query, "query_id": "1"}, {**query, "query_id": "1", "user": "ann"}]
    unhub.add_log(write(tmp_path / "both.jsonl", *twice), other)
    late = [{**query, "query_id": "1", "user": name} for name in ("bob", "ann", "cyd")]
    assert unhub.add_log(write(tmp_path / "late.jsonl", *late), other).repeated == 2
    forgotten = unhub.forget_queries(users=["ann"], bank=bank)
    assert forgotten.removed == {str(bank): 1}


def test_a_query_with_an_id_is_a_repeat_however_its_user_is_spelled(tmp_path: Path) -> None:
    bank, asked = tmp_path / "bank", [line(0, 0, user="ann"), line(1, 0, user="bob")]
    unhub.add_log(write(tmp_path / "a.jsonl", *asked), bank)
    again = [line(0, 0, user="ANN@x"), line(1, 0, user="BOB@x"), line(1, 0, user="bob")]
    added = unhub.add_log(as_table(tmp_path / "a.parquet", *again), bank)
    assert (added.added, added.repeated) == (1, 2)
    assert unhub.forget_queries(users=["bob"], bank=bank, dry_run=True).removed == {str(bank): 1}  # his own went first


def test_texts_that_were_logged_again_count_once(tmp_path: Path) -> None:
    bank, toy = tmp_path / "bank", Toy()
    asked = [{"id": text, "query": text, "ts": START} for text in ("a dog", "a cat")]
    unhub.add_log(write(tmp_path / "a.jsonl", *asked), bank, encoder=toy)
    again = unhub.add_log(as_table(tmp_path / "a.parquet", *asked), bank, encoder=toy)
    assert (again.repeated, again.embedded, again.queries) == (2, 0, 2)


def test_queries_outside_of_the_window_go(tmp_path: Path) -> None:
    bank = tmp_path / "bank"
    unhub.add_log(write(tmp_path / "a.jsonl", line(0, 0), line(1, 50)), bank, window="90d")
    added = unhub.add_log(write(tmp_path / "b.jsonl", line(2, 100)), bank)
    assert (added.expired, added.queries) == (1, 2)
    assert set(weights_by_row(bank)) == {1, 2}
    gone = ROWS[0].tobytes()
    assert all(gone not in content for content in state(bank).values())
    late = unhub.add_log(write(tmp_path / "c.jsonl", line(3, 1)), bank)
    assert (late.expired, late.queries) == (1, 2)
    assert unhub.add_log(tmp_path / "c.jsonl", bank).known == 1


def test_a_duration_may_be_a_timedelta(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", line(0, 0), line(1, 60), line(2, 90))
    unhub.add_log(log, tmp_path / "bank", window=timedelta(days=40), half_life=timedelta(days=30), temper=1)
    assert weights_by_row(tmp_path / "bank") == pytest.approx({1: 0.5, 2: 1.0})


def test_near_queries_are_joined_as_asked(tmp_path: Path) -> None:
    close = (ROWS[0] * 1.0001 + 1e-5).tolist()
    log = write(tmp_path / "a.jsonl", line(0, 0), line(0, 0), {**line(1, 0), "vector": close})
    assert unhub.add_log(log, tmp_path / "joined").distinct == 1
    assert unhub.add_log(log, tmp_path / "apart", near=1).distinct == 2
    assert unhub.add_log(log, tmp_path / "apart", near=0.99).distinct == 1  # joined anew, nothing added


def test_the_log_of_a_service_is_added_as_it_grows(tmp_path: Path) -> None:
    for part in (ROWS[:2], ROWS[2:5]):
        writer = LogWriter(tmp_path / "log", 4)
        for row in part:
            writer.append(row[None], [1, 2], "v1")
        writer.close()
        assert unhub.add_log(tmp_path / "log", tmp_path / "bank").added == len(part)
    assert set(weights_by_row(tmp_path / "bank")) == {0, 1, 2, 3, 4}


def test_the_log_of_a_service_is_added_while_it_writes(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", 4)
    for count, row in enumerate((0, 1, 2), 1):
        writer.append(ROWS[row][None], [1], "v1")
        writer.flush()
        with rows_written_in(tmp_path / "log").open("ab") as file:  # the row of a query whose line is not there yet
            file.write(ROWS[5].tobytes())
            file.flush()
            added = unhub.add_log(tmp_path / "log", tmp_path / "bank")
            file.truncate(count * ROWS[row].nbytes)
        assert (added.added, added.queries) == (1, count)
    writer.close()
    assert unhub.add_log(tmp_path / "log", tmp_path / "bank").added == 0
    assert set(weights_by_row(tmp_path / "bank")) == {0, 1, 2}


def rows_written_in(log: Path) -> Path:
    """Return the file of rows that is being written."""
    return max(log.glob("*.vectors"))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "service"])
def test_a_vector_of_zeros_is_a_bad_line_of_a_bank(tmp_path: Path, kind: str) -> None:
    rows = [ROWS[0], np.zeros(4, np.float32), ROWS[1]]
    log, named = tmp_path / f"a.{kind}", {"jsonl": 2, "csv": 3, "parquet": 1, "service": 2}[kind]
    if kind == "jsonl":
        write(log, *({"vector": row.tolist()} for row in rows))
    elif kind == "csv":
        log.write_text("\n".join(["vector", *(" ".join(map(str, row.tolist())) for row in rows), ""]))
    elif kind == "parquet":
        pq.write_table(pa.table({"vector": [row.tolist() for row in rows]}), log)
    else:
        writer = LogWriter(log, 4)
        for row in rows:
            writer.append(row[None], [1], "v1")
        writer.close()
    with pytest.raises(ValueError, match=rf":{named}: the (line|row) has a vector of zeros.*--skip-bad"):
        unhub.add_log(log, tmp_path / "bank")
    added = unhub.add_log(log, tmp_path / "bank", skip_bad=True)
    assert added.added == 2 and added.notes[0].startswith("1 bad line left out")
    assert set(weights_by_row(tmp_path / "bank")) == {0, 1}
    assert len(unhub.read_log(log)) == 3  # a search under dot product may have logged it


@pytest.mark.parametrize("kind", ["jsonl", "csv", "service"])
def test_a_line_of_days_to_come_or_of_another_length_is_a_bad_line_of_a_bank(tmp_path: Path, kind: str) -> None:
    log, bank = tmp_path / f"b.{kind}", tmp_path / "bank"
    unhub.add_log(write(tmp_path / "a.jsonl", line(0, 0)), bank)
    odd = {**line(1, 1), "vector": [1, 2, 3]}
    lines = [odd, line(2, 1), line(3, 40_000), line(4, 1)]
    if kind == "jsonl":
        write(log, *lines)
    elif kind == "csv":
        rows = (f"{one['query_id']},{one['ts']},{json.dumps(one['vector']).replace(',', '')}" for one in lines)
        log.write_text("\n".join(["query_id,ts,vector", *(row.replace("[", "").replace("]", "") for row in rows), ""]))
    else:
        writer = LogWriter(log, 4)
        for row in (2, 3, 4):
            writer.append(ROWS[row][None], [1], "v1")
        writer.close()
        file = next(log.glob("*.jsonl"))
        told = [json.loads(text) for text in file.read_text().splitlines()]
        write(file, *({**one, "time": START + 9e9 * (place == 1)} for place, one in enumerate(told)))
    with pytest.raises(ValueError, match=r":\d: the line has a time of [\d-]+, which is to come"):
        unhub.add_log(log, bank)
    added = unhub.add_log(log, bank, skip_bad=True)
    assert added.added == 2 and f"{1 if kind == 'service' else 2} bad line" in added.notes[0]
    assert set(weights_by_row(bank)) == {0, 2, 4}


def test_texts_are_embedded_once(tmp_path: Path) -> None:
    toy, bank = Toy(), tmp_path / "bank"
    texts = ["a dog", "a cat", "a dog"]
    log = write(tmp_path / "a.jsonl", *({"query": text, "ts": START} for text in texts))
    assert unhub.add_log(log, bank, encoder=toy).embedded == 2
    more = write(tmp_path / "b.jsonl", {"query": "a cat", "ts": START}, {"query": "a cow", "ts": START})
    added = unhub.add_log(more, bank, encoder=toy)
    assert (added.embedded, added.distinct, toy.calls) == (1, 3, 3)
    assert np.array_equal(np.asarray(unhub.read_vectors(bank).rows[:])[:2], Toy().texts(texts[:2]))
    content = b"".join(state(bank).values())
    assert b"a dog" not in content  # only a key of it
    with pytest.raises(ArgumentError, match="encoder is other, the folder holds texts embedded by toy"):
        unhub.add_log(write(tmp_path / "c.jsonl", {"query": "new", "ts": 1}), bank, encoder=Toy("other"))
    with pytest.raises(ArgumentError, match="bank holds texts embedded by toy, and the log has vectors"):
        unhub.add_log(write(tmp_path / "d.jsonl", line(0, 0)), bank)
    with pytest.raises(ArgumentError, match="encoder is missing"):
        unhub.add_log(log, tmp_path / "another")


def test_what_does_not_fit_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    bank = tmp_path / "bank"
    unhub.add_log(write(tmp_path / "a.jsonl", line(0, 0)), bank)
    before = state(bank)
    cases: list[tuple[str, list[dict[str, object]], str, dict[str, Any]]] = [
        (
            "short",
            [{"vector": [1, 2], "ts": 5}],
            "short.jsonl: has vectors of 2 numbers, the bank those of 4; keep a folder",
            {},
        ),
        ("short", [{"vector": [1, 2], "ts": 5}], "keep a folder for each model", {"skip_bad": True}),
        ("odd", [{**line(1, 0), "vector": [1, 2]}, line(1, 0)], "odd.jsonl:1: the line has a vector of 2 numbers", {}),
        ("text", [{"query": "a", "ts": 5}], "holds vectors of a log", {}),
        ("bare", [{"ids": [1]}], "neither vectors nor texts", {}),
        (
            "timeless",
            [{"vector": [1, 2, 3, 4]}],
            "half_life is 30d, and",
            {"half_life": "30d"},
        ),
        (
            "to come",
            [line(1, 0), line(2, 40_000)],
            "to come.jsonl:2: the line has a time of 2133-05-21, which is to come; mend",
            {},
        ),
        ("bad", [{"vector": "x"}], "bad.jsonl:1", {}),
        ("fine", [line(1, 0)], "window must be a duration above 0, got 'soon'", {"window": "soon"}),
        ("fine", [line(1, 0)], "window must be a duration above 0, got 90; write it as 90d, 12h", {"window": 90}),
        ("fine", [line(1, 0)], "half_life must be a duration above 0, got 1.5; write", {"half_life": 1.5}),
        ("fine", [line(1, 0)], "columns 'tex' is unknown; did you mean 'text'", {"columns": {"tex": "q"}}),
        ("fine", [line(1, 0)], "temper must be", {"temper": -1}),
    ]
    for name, lines, problem, options in cases:
        with pytest.raises(ValueError, match=problem):
            unhub.add_log(write(tmp_path / f"{name}.jsonl", *lines), bank, **options)
        assert state(bank) == before
    with pytest.raises(ArgumentError, match="holds files that are not of a bank folder"):
        unhub.add_log(tmp_path / "a.jsonl", tmp_path)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_odd_first_vector_does_not_set_the_length_of_a_new_folder(tmp_path: Path, skip_bad: bool) -> None:
    bank, odd = tmp_path / "bank", {**line(0, 0), "vector": [1, 2, 3]}
    log = write(tmp_path / "a.jsonl", odd, line(1, 0), line(2, 0))
    with pytest.raises(ValueError, match=r"a\.jsonl: has 2 vectors of 4 numbers, but the first one, .* has 3; remove"):
        unhub.add_log(log, bank, skip_bad=skip_bad)
    assert not (bank / "bank.json").exists()
    later = write(tmp_path / "b.jsonl", line(1, 0), odd, line(2, 0))
    assert unhub.add_log(later, bank, skip_bad=True).added == 2
    assert (
        unhub.add_log(
            write(log, {**odd, "query_id": "x"}, {**odd, "query_id": "y"}, line(3, 0)), bank, skip_bad=True
        ).added
        == 1
    )


def test_two_writers_are_an_error(tmp_path: Path) -> None:
    bank = tmp_path / "bank"
    log = write(tmp_path / "a.jsonl", line(0, 0))
    lock = hold_folder(bank, "bank")
    with pytest.raises(ArgumentError, match=r"bank .* is in use by another writer; wait"):
        unhub.add_log(log, bank)
    os.close(lock)
    assert unhub.add_log(log, bank).added == 1


KILLED = """
import os, signal, sys
import unhub, unhub.atomic
left, replace = int(sys.argv[3]), os.replace
def kill(*paths):
    global left
    left -= 1
    if left == 0: os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)
    if left == -1: os.kill(os.getpid(), signal.SIGKILL)
os.replace = kill
unhub.add_log(sys.argv[1], sys.argv[2])
"""


def test_a_killed_writer_leaves_the_old_state_or_the_new(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.jsonl", line(0, 0)), write(tmp_path / "b.jsonl", line(1, 1))
    seen = set()
    for moment in (1, 2, 3, 4, 5):  # at each of the four files of a change, and not at all
        bank = tmp_path / f"bank{moment}"
        unhub.add_log(first, bank, temper=1)
        child = [sys.executable, "-c", KILLED, str(second), str(bank), str(moment)]
        killed = subprocess.run(child, env={**os.environ, "UNHUB_NO_NUMBA": "1"})  # which takes long to import
        assert killed.returncode == (0 if moment == 5 else -signal.SIGKILL)
        found = frozenset(weights_by_row(bank))
        assert found in ({0}, {0, 1})
        seen.add(found)
        assert unhub.add_log(second, bank).queries == 2
        assert set(weights_by_row(bank)) == {0, 1}
        assert len(state(bank)) == 5  # nothing is left of what was not finished
    assert len(seen) == 2


@pytest.mark.parametrize("moment", [1, 2, 3, 4])  # at each of the four files of the first change
def test_a_killed_first_writer_leaves_nothing_that_is_in_the_way_or_that_is_not_forgotten(
    tmp_path: Path, moment: int
) -> None:
    log, bank = write(tmp_path / "a.jsonl", line(0, 0)), tmp_path / "bank"
    child = [sys.executable, "-c", KILLED, str(log), str(bank), str(moment)]
    killed = subprocess.run(child, env={**os.environ, "UNHUB_NO_NUMBA": "1"})
    assert killed.returncode == -signal.SIGKILL
    left = state(bank)
    assert left and "bank.json" not in left
    copy = shutil.copytree(bank, tmp_path / "copy")
    dry = unhub.forget_queries(["q0-0"], bank=copy, dry_run=True)
    assert "no bank yet: all of that goes" in dry.notes[0] and state(copy) == left
    unhub.forget_queries(["q0-0"], bank=copy)
    assert not state(copy)
    assert unhub.add_log(log, bank).queries == 1
    assert len(state(bank)) == 4


def test_a_full_disk_is_an_error_and_leaves_no_query(tmp_path: Path) -> None:
    script = """
import os, sys, numpy as np, pyarrow as pa, unhub
disk, rng = sys.argv[1], np.random.default_rng(0)
def log(count):
    return pa.table({"vector": [*rng.standard_normal((count, 64), dtype=np.float32)]})
def add(count):
    try:
        unhub.add_log(log(count), disk + "/bank", temper=1)
    except OSError as error:
        print(error.strerror, os.path.basename(error.filename), end=" ")
    print(*sorted(os.listdir(disk + "/bank")))
for count in (9_000, 5_000, 10, 4_900):
    add(count)
with open(disk + "/fill", "wb", 0) as file:
    try:
        while file.write(bytes(1 << 12)): pass
    except OSError: pass
fitted = unhub.fit(np.eye(64, dtype=np.float32), np.eye(64, dtype=np.float32))
try:
    unhub.save(fitted, disk + "/one.unhub")
except OSError as error:
    print(error.strerror, os.path.basename(error.filename))
"""
    process = run_on_small_disk(tmp_path, script)
    full, held = "No space left on device", ".lock 000001.npz 000002.rows.npy 000002.weights.npy bank.json"
    assert process.stderr == ""
    assert process.stdout.splitlines() == [
        f"{full} 000001.npz .lock",
        f"{full} 000002.rows.npy .lock",
        held,
        f"{full} 000004.rows.npy {held}",
        f"{full} one.unhub",
        "bank",
        "fill",
    ]


def test_files_of_others_that_are_called_as_those_of_a_bank_stay(tmp_path: Path) -> None:
    log, bank = write(tmp_path / "a.jsonl", line(0, 0)), tmp_path / "bank"
    bank.mkdir()
    (bank / "000001.npz").write_bytes(b"mine")
    for _ in range(2):
        with pytest.raises(ArgumentError, match="holds files that are not of a bank folder"):
            unhub.add_log(log, bank)
        with pytest.raises(ArgumentError, match="is not a bank folder"):
            unhub.forget_queries(["q0-0"], bank=bank)
        assert state(bank) == {"000001.npz": b"mine"}
    (bank / ".lock").touch()
    (bank / "notes.txt").touch()
    with pytest.raises(ArgumentError, match="holds files that are not of a bank folder"):
        unhub.add_log(log, bank)
    assert len(state(bank)) == 2


def test_a_bank_folder_is_a_bank_wherever_one_is_taken(tmp_path: Path) -> None:
    items = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    np.save(tmp_path / "items.npy", items)
    log, bank = write(tmp_path / "a.jsonl", *(line(row % 5, row) for row in range(12))), tmp_path / "bank"
    told = succeed(tmp_path, "log", "add", str(log), "--bank", str(bank), "--half-life", "10d", "--temper", "1")
    assert "12 queries, 5 different" in " ".join(told.split())
    held = unhub.read_vectors(bank)
    succeed(
        tmp_path,
        "fit",
        "--items",
        str(tmp_path / "items.npy"),
        "--bank",
        str(bank),
        "--method",
        "is",
        "-o",
        str(tmp_path / "c"),
    )
    expected = unhub.fit(items, held, method="is")
    found = unhub.load(tmp_path / "c")
    assert isinstance(found, unhub.Bias) and isinstance(expected, unhub.Bias)
    assert np.allclose(found.bias, expected.bias)
    assert "tiny" in succeed(tmp_path, "bank", "--items", str(tmp_path / "items.npy"), "--bank", str(bank), "--quiet")
    told = json.loads(succeed(tmp_path, "log", "add", str(log), "--bank", str(bank), "--json"))
    assert told["added"] == 0 and told["known"] == 1
    assert "--window must be a duration" in fail(tmp_path, "log", "add", str(log), "--bank", str(bank), "--window", "x")


@pytest.mark.parametrize("name", ["bank.json", "000001.npz", "000002.rows.npy"])
def test_a_damaged_bank_folder_is_an_error_that_names_the_file(tmp_path: Path, name: str) -> None:
    bank = tmp_path / "bank"
    unhub.add_log(write(tmp_path / "a.jsonl", line(0, 0), line(1, 1)), bank)
    (bank / name).write_bytes((bank / name).read_bytes()[:20])
    more = write(tmp_path / "b.jsonl", line(2, 0))
    with pytest.raises(ValueError, match=name):
        unhub.add_log(more, bank) if name.endswith("npz") else unhub.read_vectors(bank)
