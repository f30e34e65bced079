"""Forgetting queries: gone from every file, the rest is as if they had never been asked, and all or nothing."""

import gzip
import json
import os
import shutil
import signal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.command import fail, here, succeed
from tests.files.test_kill import start
from tests.logs.test_bank_folder import ROWS, START, line, weights_by_row, write
from tests.tiny_encoders import Toy
from unhub.atomic import hold_folder
from unhub.data.fingerprint import inspect
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.files.joint_change import PLAN
from unhub.files.version_folders import AboutVersion, forget_version
from unhub.logs.text_rows import text_key
from unhub.service.kept.item_changes import ItemChange, KeptChanges
from unhub.service.kept.log_writer import LogWriter
from unhub.service.kept.marks import Marks
from unhub.service.kept.versions import KeptVersions

pytestmark = pytest.mark.once

ITEMS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


def contents(folder: Path) -> bytes:
    """Return all bytes below a folder, temporary files too."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def asked(row: int, name: str, day: float = 0) -> dict[str, object]:
    return {**line(row, day), "query_id": name}


def biases(path: Path) -> tuple[np.ndarray, float]:
    found = unhub.load(path, "correction")
    assert isinstance(found, unhub.Bias)
    return found.bias, found.offset


def test_queries_go_from_the_bank_and_the_log_and_the_correction_is_that_of_the_rest(tmp_path: Path) -> None:
    log, bank, saved = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "c.unhub"
    write(log, asked(0, "ann1"), asked(0, "bob1"), asked(1, "ann2"), asked(2, "bob2"), asked(3, "bob3"))
    unhub.add_log(log, bank, temper=1)
    unhub.save(unhub.fit(ITEMS, unhub.read_vectors(bank), method="nnn", k=2, mergeable=True), saved)
    done = unhub.forget_queries(["ann1", "ann2", "zoe"], bank=bank, logs=[log], corrections=[saved], items=ITEMS)
    assert done.removed == {str(bank): 2, str(log): 2}
    assert (done.queries, done.missing, done.refitted) == (3, ("zoe",), (str(saved),))
    assert weights_by_row(bank) == {0: 1.0, 2: 1.0, 3: 1.0}  # the row that bob asked too has bob's count
    assert ROWS[1].tobytes() not in contents(tmp_path) and b"ann" not in contents(tmp_path)
    again = unhub.fit(ITEMS, Vectors(np.arange(3), ROWS[[0, 2, 3]]), method="nnn", k=2, mergeable=True)
    assert isinstance(again, unhub.Bias)
    assert np.allclose(biases(saved)[0], again.bias, atol=1e-7) and biases(saved)[1] == pytest.approx(again.offset)
    assert "top_values" in unhub.load(saved).arrays
    # Once more there is nothing to do, and nothing is done.
    before = contents(tmp_path)
    once_more = unhub.forget_queries(["ann1", "ann2"], bank=bank, logs=[log], corrections=[saved], items=ITEMS)
    assert (once_more.removed, once_more.refitted, once_more.missing) == ({}, (), ("ann1", "ann2"))
    assert contents(tmp_path) == before


def test_a_log_that_was_forgotten_from_stays_known_and_so_does_the_copy_before_it(tmp_path: Path) -> None:
    log, bank, copy = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "copy.jsonl"
    write(log, asked(0, "ann"), asked(1, "bob"))
    unhub.add_log(log, bank)
    write(log, asked(2, "ann", 1), asked(3, "eve", 1), mode="a")  # not added yet
    shutil.copy(log, copy)
    unhub.forget_queries(["ann"], bank=bank, logs=[log])
    added = unhub.add_log(log, bank)
    assert (added.added, added.queries, set(weights_by_row(bank))) == (1, 2, {1, 3})
    late = unhub.add_log(copy, bank)  # with its lines of ann, of which one was never added
    assert (late.added, late.forgotten, late.repeated) == (0, 1, 1)  # and that of eve is there
    assert late.notes[0] == "1 logged queries were left out: they are to be forgotten."
    assert set(weights_by_row(bank)) == {1, 3}
    assert unhub.add_log(copy, bank).added == 0


def test_every_kind_of_file_loses_its_lines_and_keeps_the_others(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    days = tmp_path / "log" / "2026-01-01"
    days.mkdir(parents=True)
    (days / "a.csv").write_bytes(b'\xef\xbb\xbfqid,query,ts\r\nx1,"a\nb",1\r\n\r\nx2,"c, d",2\r\nx1,e,3\r\nx3,f,4')
    (days / "b.tsv").write_text("qid\tquery\nx2\ta\nx1\tb\n")
    table = pa.table({"qid": ["x1", "x2", "x1", "x4"], "query": ["a", "b", "c", "d"], "more": [1, 2, 3, 4]})
    pq.write_table(table, days / "c.parquet", row_group_size=3, compression="zstd")
    done = unhub.forget_queries(["x1"], logs=[tmp_path / "log"])
    assert sorted(done.removed.values()) == [1, 2, 2]
    assert (days / "a.csv").read_bytes() == b'\xef\xbb\xbfqid,query,ts\r\n\r\nx2,"c, d",2\r\nx3,f,4'
    assert (days / "b.tsv").read_text() == "qid\tquery\nx2\ta\n"
    left = pq.read_table(days / "c.parquet")
    assert left.to_pylist() == [{"qid": "x2", "query": "b", "more": 2}, {"qid": "x4", "query": "d", "more": 4}]
    assert left.schema == table.schema
    assert pq.ParquetFile(days / "c.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_tables_stay_known_too(tmp_path: Path, name: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    log, bank = tmp_path / name, tmp_path / "bank"
    if name.endswith("csv"):
        log.write_text("qid,vector\nx,1 2\ny,3 4\nz,5 6\n")
    else:
        pq.write_table(pa.table({"qid": ["x", "y", "z"], "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}), log)
    unhub.add_log(log, bank)
    unhub.forget_queries(["x"], bank=bank, logs=[log])
    assert unhub.add_log(log, bank).added == 0
    assert np.array_equal(unhub.read_vectors(bank).rows[:], [[3, 4], [5, 6]])


def test_queries_go_from_a_packed_log_which_stays_packed_and_known(tmp_path: Path) -> None:
    log, bank = write(tmp_path / "a.jsonl", *(asked(row, f"q{row}") for row in range(4))), tmp_path / "bank"
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    unhub.add_log(packed, bank)
    assert unhub.forget_queries(["q0", "q2"], bank=bank, logs=[packed]).removed == {str(bank): 2, str(packed): 2}
    assert [json.loads(one)["query_id"] for one in gzip.decompress(packed.read_bytes()).splitlines()] == ["q1", "q3"]
    assert (unhub.add_log(packed, bank).known, set(weights_by_row(bank))) == (1, {1, 3})


def test_texts_are_gone_with_their_keys(tmp_path: Path) -> None:
    log, bank = tmp_path / "a.jsonl", tmp_path / "bank"
    write(log, *({"id": name, "query": text, "ts": START} for name, text in (("x", "a dog"), ("y", "a cat"))))
    unhub.add_log(log, bank, encoder=Toy())
    unhub.forget_queries(["x"], bank=bank, logs=[log])
    left = contents(tmp_path)
    assert text_key("a dog") not in left and b"a dog" not in left
    assert text_key("a cat") in left and b"a cat" in left


def of_user(row: int, name: str, user: object, day: float = 0) -> dict[str, object]:
    return {**asked(row, name, day), "user": user}


def test_all_queries_of_a_user_go_and_those_of_others_stay(tmp_path: Path) -> None:
    log, bank, saved = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "c.unhub"
    lines = [of_user(0, "1", "ann"), of_user(1, "2", 17), of_user(2, "3", "ann"), of_user(3, "4", "")]
    unhub.add_log(write(log, *lines), bank, temper=1)
    clicks = write(tmp_path / "clicks.jsonl", *({"query_id": name, "query": "x"} for name in "123"))  # says no user
    next_day = write(tmp_path / "b.jsonl", of_user(4, "1", "bob", 1), of_user(5, "2", "ann", 1))  # numbered anew
    unhub.add_log(next_day, bank)
    unhub.save(unhub.fit(ITEMS, unhub.read_vectors(bank), method="is"), saved)
    places: dict[str, Any] = {"bank": bank, "logs": [log, clicks, next_day], "corrections": [saved], "items": ITEMS}
    done = unhub.forget_queries(users=["ann", "eve"], **places)
    assert done.removed == {str(bank): 3, str(log): 2, str(clicks): 3, str(next_day): 1}
    assert (done.users, done.missing_users, done.queries, done.missing) == (2, ("eve",), 0, ())
    assert (done.unsure, done.refitted) == ({}, (str(saved),))
    assert done.notes == (f"{clicks} does not say who asked: queries were looked for by their ids alone.",)
    assert done.left == ()  # they were looked for
    assert set(weights_by_row(bank)) == {1, 3, 4}  # "2" of 17 is not that of ann, nor "1" of bob
    left = [json.loads(one)["user"] for path in (log, next_day) for one in path.read_text().splitlines()]
    assert left == [17, "", "bob"]
    assert b"ann" not in contents(tmp_path)
    expected = unhub.fit(ITEMS, unhub.read_vectors(bank), method="is")
    assert isinstance(expected, unhub.Bias) and np.allclose(biases(saved)[0], expected.bias, atol=1e-7)
    by_service = served(tmp_path / "served", [0, 1, 2, 3])  # which gave the ids 0 to 3 to queries of anybody
    of_service = unhub.forget_queries(users=["bob"], logs=[next_day, by_service], dry_run=True)
    assert of_service.removed == {str(next_day): 1} and "nothing was looked for there by user" in of_service.left[0]
    # They are never taken again, whatever the log; those of 17 are.
    late = [of_user(0, "9", "ann", 2), of_user(1, "5", 17, 2), of_user(2, "1", 17, 2)]
    added = unhub.add_log(write(tmp_path / "c.jsonl", *late), bank)
    assert (added.added, added.forgotten) == (2, 1)
    silent = [asked(0, "1", 3), asked(1, "7", 3)]  # no user, and an id that was ann's
    assert unhub.add_log(write(tmp_path / "d.jsonl", *silent), bank).forgotten == 1
    assert unhub.forget_queries(users=[17], bank=bank, dry_run=True).removed == {str(bank): 3}


def test_users_that_are_floats_are_found_and_those_that_are_no_ids_are_doubted(tmp_path: Path) -> None:
    log, bank = tmp_path / "a.jsonl", tmp_path / "bank"
    lines = [of_user(0, "1", 7.0), of_user(1, "2", {"id": 7}), of_user(2, "3", None), asked(3, "1"), asked(4, "4")]
    added = unhub.add_log(write(log, *lines), bank)
    assert "lines whose user is no id, such as {'id': 7}: 1. Who asked" in added.notes[0]
    done = unhub.forget_queries(users=[7], bank=bank, logs=[log])
    assert done.removed == {str(bank): 2, str(log): 2}  # a line without the key goes by its id, in both
    assert done.unsure == {str(bank): (0, 0, 2), str(log): (0, 0, 2)}  # what is null is nobody's
    late = write(tmp_path / "b.jsonl", of_user(5, "1", "", 1), asked(5, "1", 2), of_user(5, "1", {}, 3))
    assert unhub.add_log(late, bank).forgotten == 2


@pytest.mark.parametrize("asked_for", ["7", "7.0"])
def test_users_that_pandas_wrote_to_csv_as_floats_are_integers(tmp_path: Path, asked_for: str) -> None:
    log, bank = tmp_path / "a.csv", tmp_path / "bank"
    log.write_text("query_id,vector,user\n1,1 2,7.0\n2,2 1,\n3,1 1,17.0\n4,3 1,7.5\n5,4 1,v7.0\n")
    assert unhub.read_log(log).users.tolist() == ["7", "", "17", "7.5", "v7.0"]  # type: ignore[union-attr]
    unhub.add_log(log, bank)
    done = unhub.forget_queries(users=[asked_for], bank=bank, logs=[log])
    assert (done.removed, done.missing_users) == ({str(bank): 1, str(log): 1}, ())


def test_a_line_without_the_key_of_users_is_doubted_in_the_log_as_in_the_bank(tmp_path: Path) -> None:
    log, bank = write(tmp_path / "a.jsonl", of_user(0, "1", "ann"), asked(1, "2")), tmp_path / "bank"
    unhub.add_log(log, bank)
    both = unhub.forget_queries(users=["ann"], bank=bank, logs=[log], dry_run=True)
    assert both.unsure == {str(bank): (0, 0, 1), str(log): (0, 0, 1)}
    command = ("log", "forget", "--log", "a.jsonl", "--users", "ann", "--quiet")
    assert here(tmp_path, *command).returncode == 3
    write(log, asked(1, "2"))  # a log that never says who asked is told as such
    assert unhub.forget_queries(users=["ann"], logs=[log]).unsure == {}


def test_where_nobody_says_who_asked_a_user_is_not_surely_forgotten(tmp_path: Path) -> None:
    log, bank, saved = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "c.unhub"
    unhub.add_log(write(log, asked(0, "x"), asked(1, "y")), bank)
    write(log, of_user(0, "x", "ann"), of_user(1, "y", "bob"))  # now it says so
    unhub.save(unhub.fit(ITEMS, unhub.read_vectors(bank), method="is"), saved)
    done = unhub.forget_queries(users=["ann"], bank=bank, logs=[log], corrections=[saved], items=ITEMS)
    assert done.removed == {str(bank): 1, str(log): 1}  # by the id that the log knows
    assert done.unsure == {str(bank): (0, 0, 1), str(saved): (0, 0, 1)}
    assert "of 1 of its queries nothing here tells who asked. Forget" in done.notes[0]
    for users, problem in (([], "query_ids is empty, and so is users"), ([""], "users holds an empty name")):
        with pytest.raises(ArgumentError, match=problem):
            unhub.forget_queries(users=users, bank=bank)
    np.save(tmp_path / "gallery.npy", ITEMS)
    command = ("log", "forget", "--log", "a.jsonl", "--users", "bob,zoe", "--query-ids", "x")
    assert here(tmp_path, *command, "--dry-run", "--quiet").returncode == 3  # not all of them were found
    words = " ".join(here(tmp_path, *command).stdout.split())
    assert "queries to forget 1, 0 of them found" in words and "users to forget 2, 1 of them found" in words
    assert "Found nowhere of users: zoe." in words and log.read_text() == ""
    assert "--query-ids is empty" in fail(tmp_path, "log", "forget", "--log", "a.jsonl")


def served(folder: Path, *parts: list[int]) -> Path:
    """Log these rows as services that were started one after the other."""
    for part in parts:
        writer = LogWriter(folder, 4)
        for row in part:
            writer.append(ROWS[row][None], [1], "v1")
        writer.close()
    return folder


def test_the_log_of_a_service_loses_rows_and_numbers_go_on(tmp_path: Path) -> None:
    log, bank = served(tmp_path / "log", [0, 1], [2], [3, 4]), tmp_path / "bank"
    unhub.add_log(log, bank, temper=1)
    assert unhub.forget_queries([0, 2, 4], bank=bank, logs=[log]).missing == ()
    left = unhub.read_log(log)
    assert left.query_ids is not None and left.query_ids.tolist() == [1, 3]
    assert left.vectors is not None and np.array_equal(np.asarray(left.vectors[:]), ROWS[[1, 3]])
    assert sorted(path.name for path in log.glob("0*")) == [
        "000001.jsonl",
        "000001.vectors",
        "000003.jsonl",
        "000003.vectors",
    ]
    served(log, [5])  # not 4 again, which was forgotten
    assert unhub.read_log(log).query_ids.tolist() == [1, 3, 5]  # type: ignore[union-attr]
    assert unhub.add_log(log, bank).added == 1
    assert set(weights_by_row(bank)) == {1, 3, 5}


def test_a_correction_of_a_log_is_fitted_on_what_is_left_of_the_rows_it_saw(tmp_path: Path) -> None:
    log, saved = served(tmp_path / "log", [0, 1, 2]), tmp_path / "c.unhub"
    unhub.save(unhub.fit(ITEMS, unhub.read_vectors(log), method="is"), saved)
    served(log, [3])
    assert unhub.forget_queries([3], logs=[log], corrections=[saved], dry_run=True).refitted == ()
    unhub.forget_queries([1], logs=[log], corrections=[saved], items=ITEMS)
    expected = unhub.fit(ITEMS, ROWS[[0, 2]], method="is")
    assert isinstance(expected, unhub.Bias) and np.allclose(biases(saved)[0], expected.bias, atol=1e-7)


def kept_state(folder: Path, refit_bank: list[int]) -> Path:
    """Make what a service keeps: a version of its start, one that was refitted, and two marks."""
    versions = KeptVersions(folder / "corrections")
    first = versions.add(unhub.fit(ITEMS, ROWS[:3], method="is"), AboutVersion.now("started"))
    bank = Vectors(np.arange(len(refit_bank)), ROWS[refit_bank])
    versions.add(unhub.fit(ITEMS[::-1].copy(), bank, method="dn"), AboutVersion.now("refitted"), bank)
    versions.activate(first.name)
    marks = Marks(folder / "marks", 4)
    for row, item in ((4, 5), (1, 6)):
        marks.add(ROWS[row][None], item, "v1")
    marks.close()
    return folder


def test_versions_their_banks_and_marks_of_a_service_lose_the_queries(tmp_path: Path) -> None:
    log, kept = served(tmp_path / "log", [4, 1, 4, 5]), kept_state(tmp_path / "state", [4, 1, 4, 5])
    (kept / "corrections" / "v9.bank.npy").write_bytes(ROWS[4].tobytes())  # a killed service left it
    done = unhub.forget_queries([0, 3], logs=[log], state=kept, items=ITEMS)
    second = kept / "corrections" / "v2.unhub"
    assert done.refitted == (str(second),)
    assert done.removed == {
        str(log / "000001.jsonl"): 2,
        f"the bank of {second}": 2,
        str(kept / "marks"): 1,
    }
    versions = KeptVersions(kept / "corrections")
    assert versions.history is not None and versions.history.active == "v1"
    bank = versions["v2"].bank
    assert bank is not None and np.array_equal(np.asarray(bank.rows[:]), ROWS[[4, 1]])  # another person asked row 4 too
    expected = unhub.fit(ITEMS[::-1].copy(), ROWS[[4, 1]], method="dn")
    assert isinstance(expected, unhub.Bias) and np.allclose(biases(second)[0], expected.bias, atol=1e-7)
    assert np.array_equal(unhub.read_vectors(kept / "marks" / "queries").rows[:], ROWS[[1]])
    assert (kept / "marks" / "relevance.csv").read_text() == "query_id,item_id\n0,6\n"
    assert not (kept / "corrections" / "v9.bank.npy").exists()
    marks = Marks(kept / "marks", 4)
    assert marks.add(ROWS[2][None], 3, "v1") == 2
    marks.close()
    assert (kept / "marks" / "relevance.csv").read_text() == "query_id,item_id\n0,6\n1,3\n"


def test_a_folder_of_versions_loses_them_in_every_version(tmp_path: Path) -> None:
    log, kept = served(tmp_path / "log", [0, 1, 2]), tmp_path / "kept"
    for method in ("is", "dn"):
        unhub.keep(unhub.fit(ITEMS, ROWS[:3], method=method), kept)
    lock = hold_folder(kept, "folder")
    with pytest.raises(ArgumentError, match="kept is in use by another writer"):
        unhub.forget_queries([1], logs=[log], corrections=[kept], items=ITEMS)
    os.close(lock)
    done = unhub.forget_queries([1], logs=[log], corrections=[kept], items=ITEMS)
    assert done.refitted == (str(kept / "v1.unhub"), str(kept / "v2.unhub"))
    expected = unhub.fit(ITEMS, ROWS[[0, 2]], method="dn")
    assert isinstance(expected, unhub.Bias) and np.allclose(biases(kept)[0], expected.bias, atol=1e-7)
    assert unhub.history(kept).back == "v1"


def versions_of_changed_items(folder: Path) -> tuple[np.ndarray, Path]:
    """Keep a version, one of it with two items replaced, and one of another model, of which the second is active."""
    before, after = ITEMS, np.concatenate([ITEMS[:5], ROWS[4:]])
    first = unhub.fit(before, ROWS[:3], method="is")
    unhub.keep(first, folder)
    unhub.keep(unhub.replace(first, Vectors(np.arange(7), after), ROWS[:3]), folder)
    wide = np.random.default_rng(7).normal(size=(9, 6)).astype(np.float32)
    unhub.keep(unhub.fit(wide, wide[:4], method="dn"), folder, active=False)
    return after, folder


def test_versions_from_before_and_after_a_change_of_items_are_fitted_again(tmp_path: Path) -> None:
    log = served(tmp_path / "log", [0, 1, 2])
    after, kept = versions_of_changed_items(tmp_path / "kept")
    places: dict[str, Any] = {"logs": [log], "corrections": [kept]}
    for items in (ITEMS, after, [after, np.zeros((2, 6), np.float32) + 1]):
        with pytest.raises(ArgumentError, match=r"items lacks 2 of the 7 items of .*; several sets may be given"):
            unhub.forget_queries([1], **places, items=items)
    other_width = np.ones((2, 6), np.float32)
    with pytest.raises(ArgumentError, match=r"items has 6 dimensions, and .*v1.unhub was fitted on 4"):
        unhub.forget_queries([1], **places, items=other_width)
    done = unhub.forget_queries([1], **places, items=[after, other_width, ITEMS])
    assert (done.refitted, done.dropped) == ((str(kept / "v1.unhub"), str(kept / "v2.unhub")), {})
    for name, items in (("v1", ITEMS), ("v2", after)):
        expected = unhub.fit(items, ROWS[[0, 2]], method="is")
        assert isinstance(expected, unhub.Bias)
        assert np.allclose(biases(kept / f"{name}.unhub")[0], expected.bias, atol=1e-7)


def test_versions_that_cannot_be_fitted_again_are_dropped_if_asked_but_never_the_active_one(tmp_path: Path) -> None:
    log = served(tmp_path / "log", [0, 1, 2])
    after, kept = versions_of_changed_items(tmp_path / "kept")
    (kept / "v1.notes.txt").write_text("mine")
    places: dict[str, Any] = {"logs": [log], "corrections": [kept]}
    before = contents(tmp_path)
    for options, problem in (
        ({"items": after}, r"v1.unhub.* or drop such versions, .*: drop_inactive=True"),
        ({"items": ITEMS, "drop_inactive": True}, r"items lacks 2 of the 7 items of .*v2.unhub; give"),  # active
        ({"drop_inactive": True}, "items is missing"),  # which would drop whatever is not active
    ):
        with pytest.raises(ArgumentError, match=problem):
            unhub.forget_queries([1], **places, **options)
        assert contents(tmp_path) == before
    tried = unhub.forget_queries([1], **places, items=after, drop_inactive=True, dry_run=True)
    assert contents(tmp_path) == before
    done = unhub.forget_queries([1], **places, items=after, drop_inactive=True)
    why = f"items lacks 2 of the 7 items of {kept / 'v1.unhub'}"
    assert done.dropped == tried.dropped == {str(kept / "v1.unhub"): why}
    assert done.refitted == (str(kept / "v2.unhub"),)
    found = unhub.history(kept)
    assert ([one.name for one in found.versions], found.active, found.back) == (["v2", "v3"], "v2", None)
    assert [path.name for path in kept.glob("v1*")] == ["v1.notes.txt"]


def test_a_version_that_is_dropped_takes_its_bank_along(tmp_path: Path) -> None:
    log, kept = served(tmp_path / "log", [4, 1]), kept_state(tmp_path / "state", [4, 1])
    versions = KeptVersions(kept / "corrections")
    fitted = unhub.fit(np.ones((3, 4), np.float32) + ITEMS[:3], ROWS[[4]], method="is")
    versions.add(fitted, AboutVersion.now("other items"), Vectors(np.arange(1), ROWS[[4]]))
    done = unhub.forget_queries([0], logs=[log], state=kept, items=ITEMS, drop_inactive=True)
    assert [*done.dropped] == [str(kept / "corrections" / "v3.unhub")]
    assert f"the bank of {kept / 'corrections' / 'v3.unhub'}" not in done.removed
    assert not [*(kept / "corrections").glob("*v3*")]
    assert ROWS[4].tobytes() not in contents(tmp_path)


def test_a_version_of_items_that_were_added_meanwhile_is_fitted_on_these_too(tmp_path: Path) -> None:
    log, kept = served(tmp_path / "log", [0, 1, 2]), kept_state(tmp_path / "state", [1])
    added = Vectors(np.array([20, 21]), ROWS[4:].copy())
    KeptChanges(kept / "items").keep(ItemChange(added.ids, ROWS[4:]), 1)
    KeptVersions(kept / "corrections").add(
        unhub.fit(Vectors(np.arange(7), ITEMS).stack(added), ROWS[:2], method="is"), AboutVersion.now("all items")
    )
    unhub.forget_queries([0], logs=[log], state=kept, items=ITEMS)
    expected = unhub.fit(np.concatenate([ITEMS, ROWS[4:]]), ROWS[1:2], method="is")
    assert isinstance(expected, unhub.Bias)
    assert np.allclose(biases(kept / "corrections" / "v3.unhub")[0], expected.bias, atol=1e-7)


@pytest.mark.parametrize("method", ["raw", "dis", "gc", "sn"])
def test_no_hash_of_a_forgotten_query_is_left_in_a_correction(tmp_path: Path, method: str) -> None:
    log, saved = served(tmp_path / "log", [0, 1, 2]), tmp_path / "c.unhub"
    unhub.save(unhub.fit(ITEMS, ROWS[:3], method=method), saved)
    key = inspect(Vectors(np.arange(1), ROWS[1:2]), "queries", "cosine").hashes.tobytes()
    assert key in saved.read_bytes()
    unhub.forget_queries([1], logs=[log], corrections=[saved], items=ITEMS)
    assert key not in saved.read_bytes() and ROWS[1].tobytes() not in saved.read_bytes()


def test_raw_loses_the_hashes_of_its_bank_without_the_items(tmp_path: Path) -> None:
    log, saved = served(tmp_path / "log", [0, 1, 2]), tmp_path / "c.unhub"
    unhub.save(unhub.fit(ITEMS, ROWS[:3], method="raw"), saved)
    assert unhub.forget_queries([1], logs=[log], corrections=[saved]).refitted == (str(saved),)
    left, expected = unhub.load(saved, "correction"), unhub.fit(ITEMS, ROWS[[0, 2]], method="raw")
    assert left.source == expected.source and np.array_equal(left.item_hashes, expected.item_hashes)
    assert left.source.bank_rows is not None and expected.source.bank_rows is not None
    assert left.source.bank_rows.hashes.tolist() == expected.source.bank_rows.hashes.tolist()


def test_a_layout_that_was_saved_along_is_made_anew(tmp_path: Path) -> None:
    log, saved = served(tmp_path / "log", [0, 1, 2]), tmp_path / "c.unhub"
    before = unhub.fit(ITEMS, ROWS[:3], method="is")
    unhub.save(before, saved, layout=unhub.layout(before, ITEMS, "ip", rotate=True))
    unhub.forget_queries([1], logs=[log], corrections=[saved], items=ITEMS)
    assert unhub.load_layout(saved) == unhub.layout(unhub.load(saved, "correction"), ITEMS, "ip", rotate=True)


def test_a_bank_kept_with_a_version_keeps_its_weights(tmp_path: Path) -> None:
    bank = Vectors(np.arange(3), ROWS[:3], np.array([1.0, 2.5, 1.0]))
    KeptVersions(tmp_path).add(unhub.fit(ITEMS, bank, method="is"), AboutVersion.now("weighed"), bank)
    held = KeptVersions(tmp_path)["v1"].bank
    assert held is not None and held.weights is not None and held.weights.tolist() == [1, 2.5, 1]


def test_a_correction_of_another_bank_is_an_error_or_is_fitted_on_the_folder(tmp_path: Path) -> None:
    log, bank, folder = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "made"
    folder.mkdir()
    unhub.add_log(write(log, asked(0, "x"), asked(1, "y"), asked(2, "z")), bank)
    unhub.save(unhub.fit(ITEMS, ROWS[:5], method="csls", k=5), folder / "old.unhub")
    unhub.save(unhub.fit(ITEMS, method="raw"), folder / "raw.unhub")
    before = contents(tmp_path)
    everything: dict[str, Any] = {"bank": bank, "logs": [log], "corrections": [folder]}
    for options, problem in (
        ({"items": ITEMS}, r"old.unhub holds queries to forget, and of the others 2 are not at hand; give that bank"),
        ({"refit": True}, r"items is missing, and .*old.unhub must be fitted again"),
        ({"refit": True, "items": ITEMS[:5]}, r"items lacks 2 of the 7 items of .*old.unhub"),
    ):
        with pytest.raises(ArgumentError, match=problem):
            unhub.forget_queries(["x"], **everything, **options)
        assert contents(tmp_path) == before
    done = unhub.forget_queries(["x"], **everything, items=ITEMS[::-1], refit=True)  # found by content, in any order
    assert done.refitted == (str(folder / "old.unhub"),)
    expected = unhub.fit(ITEMS, unhub.read_vectors(bank), method="csls", k=2)  # all that is left
    assert isinstance(expected, unhub.Bias) and np.allclose(biases(folder / "old.unhub")[0], expected.bias, atol=1e-7)


def test_a_correction_of_an_earlier_state_is_fitted_on_the_rest_of_its_own_queries(tmp_path: Path) -> None:
    first, bank, saved = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "c.unhub"
    unhub.add_log(write(first, asked(0, "x"), asked(1, "y"), asked(1, "z"), asked(2, "z")), bank, temper=1)
    correction = unhub.fit(ITEMS, unhub.read_vectors(bank), method="nnn", k=2)
    unhub.save(unhub.merge(unhub.fit(ITEMS, ROWS[4:], method="is"), ITEMS, ROWS[:2]), tmp_path / "merged.unhub")
    unhub.save(correction, saved)
    second = write(tmp_path / "b.jsonl", asked(3, "w"), asked(2, "v"))
    unhub.add_log(second, bank)
    both: dict[str, Any] = {"bank": bank, "corrections": [tmp_path], "items": ITEMS}
    before = saved.read_bytes()
    assert unhub.forget_queries(["w"], **both).refitted == ()  # it came later
    assert saved.read_bytes() == before
    done = unhub.forget_queries(["x", "y"], **both, other_banks={"old.npy": ROWS[3:]})
    assert len(done.refitted) == 2
    left = Vectors(np.arange(2), ROWS[[1, 2]], np.array([2.0, 1.0]))  # row 1 was asked by z too; its weight stays
    expected = unhub.fit(ITEMS, left, method="nnn", k=2)
    assert isinstance(expected, unhub.Bias) and np.allclose(biases(saved)[0], expected.bias, atol=1e-7)
    merged = unhub.fit(ITEMS, ROWS[4:], method="is")  # without weights a row stands for one query, and row 1 was y's
    assert isinstance(merged, unhub.Bias)
    assert np.allclose(biases(tmp_path / "merged.unhub")[0], merged.bias, atol=1e-7)
    unsure = unhub.forget_queries(["q"], **both)
    assert unsure.unsure == {str(tmp_path / "merged.unhub"): (1, 2, 0)}  # rows 4 and 5 are of no log
    assert "for 1 of the ids there is no vector to look for, and of 2 of its queries nothing" in unsure.notes[0]
    assert done.unsure == {}


def test_what_cannot_be_compared_with_a_correction_is_no_success(tmp_path: Path) -> None:
    log, bank, saved = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "c.unhub"
    unhub.add_log(write(log, asked(0, "x"), asked(1, "y"), asked(2, "z")), bank)
    write(log, *({"query_id": name, "query": name} for name in "xyz"))  # the log of a search box, without vectors
    unhub.save(unhub.fit(ITEMS, ROWS[:3], method="is"), saved)
    np.save(tmp_path / "gallery.npy", ITEMS)
    blind: dict[str, Any] = {"logs": [log], "corrections": [saved], "dry_run": True}
    found = unhub.forget_queries(["x"], **blind)
    assert (found.missing, found.unsure) == ((), {str(saved): (1, 3, 0)})
    assert unhub.forget_queries(["x"], **blind, bank=bank, items=ITEMS).unsure == {}  # it tells which row x asked
    assert unhub.forget_queries(["nobody"], **blind, bank=bank).unsure == {}  # all of its queries are of others
    wide = np.random.default_rng(7).normal(size=(9, 6)).astype(np.float32)
    unhub.save(unhub.fit(wide, wide[:4], method="dn"), tmp_path / "wide.unhub")  # the same queries by another model?
    other = unhub.forget_queries(["x"], bank=bank, corrections=[tmp_path / "wide.unhub"], dry_run=True)
    assert other.unsure == {str(tmp_path / "wide.unhub"): (1, 4, 0)}
    before = saved.read_bytes()
    command = ("log", "forget", "--query-ids", "y", "--log", "a.jsonl", "--correction", "c.unhub")
    for how in (("--dry-run",), ("--json", "--dry-run"), ("--quiet", "--dry-run"), ()):
        done = here(tmp_path, *command, *how)
        assert (done.returncode, done.stderr) == (3, "")
        assert ("c.unhub may still hold what is to be forgotten" in done.stdout) == ("--quiet" not in how)
    assert saved.read_bytes() == before
    succeed(tmp_path, *command, "--bank", "bank", "--items", "gallery.npy")
    assert saved.read_bytes() != before


def test_what_could_not_be_looked_in_is_no_success(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    write(logs / "a.jsonl", asked(0, "x"), asked(1, "y"))
    (logs / "b.csv").write_text("query_id,query\n")  # no line that could hold anybody
    command = ("log", "forget", "--query-ids", "x", "--log", "logs", "--dry-run")
    assert "not read" not in succeed(tmp_path, *command)
    (logs / "a.jsonl.1").write_text("{}")
    for how in ((), ("--quiet",), ("--json",)):
        done = here(tmp_path, *command, *how)
        assert (done.returncode, done.stderr) == (3, "")
        assert ("logs: not read are a.jsonl.1 (in all 1)" in " ".join(done.stdout.split())) == (how != ("--quiet",))
    whole = (logs / "a.jsonl").read_text()
    cases = {
        "no line\n" + whole: "1 lines cannot be read and are still there: ",
        whole + '{"query_id": "x': "The last line of {} is cut off and is still there",
        '{"query": "a"}\n': "{} has no ids of queries: nothing was looked for in it.",
        '{"query": "a", "user": "ann"}\n': "{} has no ids of queries: they were looked for by user alone.",
    }
    for number, (text, told) in enumerate(cases.items()):
        log = tmp_path / f"{number}.jsonl"
        log.write_text(text)
        found = unhub.forget_queries(["x"], users=["ann"], logs=[log, logs / "a.jsonl"], skip_bad=True, dry_run=True)
        assert found.left == found.notes[:1] and found.left[0].startswith(told.format(log)) and not found.all_gone
        assert found.missing == ()


def test_a_refit_on_the_folder_leaves_no_doubt(tmp_path: Path) -> None:
    log, bank, saved = tmp_path / "a.jsonl", tmp_path / "bank", tmp_path / "c.unhub"
    unhub.add_log(write(log, asked(0, "x"), asked(1, "y"), asked(2, "z")), bank)
    unhub.save(unhub.fit(ITEMS, ROWS[:5], method="is"), saved)
    places: dict[str, Any] = {"bank": bank, "corrections": [saved], "items": ITEMS, "dry_run": True}
    assert unhub.forget_queries(["x", "nobody"], **places, refit=True).unsure == {}
    assert unhub.forget_queries(["nobody"], **places).unsure == {str(saved): (1, 2, 0)}


def test_what_cannot_be_done_is_said_and_changes_nothing(tmp_path: Path) -> None:
    log, bank = tmp_path / "a.jsonl", tmp_path / "bank"
    unhub.add_log(write(log, asked(0, "x"), asked(1, "y")), bank)
    whole = log.read_text()
    log.write_text('not json {"id": "x"}\n' + whole)
    with pytest.raises(ValueError, match=r"a.jsonl:1: the line is not JSON .* leave such lines in it"):
        unhub.forget_queries(["x"], bank=bank, logs=[log])
    log.write_text(whole + '{"id": "x')
    done = unhub.forget_queries(["x"], logs=[log], dry_run=True)
    assert done.removed == {str(log): 1} and "is cut off and is still there" in done.notes[0]
    assert log.read_text() == whole + '{"id": "x'
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "bank is missing"),
        ({"bank": tmp_path}, "is not a bank folder"),
        ({"logs": [tmp_path / "none.jsonl"]}, "logs .*none.jsonl does not exist"),
        ({"state": tmp_path}, "is not a folder of `unhub serve --state`"),
    ]
    for options, problem in cases:
        with pytest.raises(ArgumentError, match=problem):
            unhub.forget_queries(["x"], **options)
    with pytest.raises(ArgumentError, match="query_ids is empty"):
        unhub.forget_queries([], bank=bank)
    (tmp_path / "bare.jsonl").write_text('{"query": "a"}\n')
    assert "has no ids of queries" in unhub.forget_queries(["x"], logs=[tmp_path / "bare.jsonl"]).notes[0]


def test_what_a_service_uses_is_refused_while_it_runs(tmp_path: Path) -> None:
    log, kept = served(tmp_path / "log", [0]), kept_state(tmp_path / "state", [1])
    writer = LogWriter(log, 4)
    with pytest.raises(ArgumentError, match=r"logs .*log is in use by a service; wait until it has ended"):
        unhub.forget_queries([0], logs=[log])
    writer.close()
    lock = hold_folder(kept, "state")
    with pytest.raises(ArgumentError, match=r"state .* is in use by a service; wait until it has ended"):
        unhub.forget_queries([0], state=kept)
    os.close(lock)


def test_lines_that_are_appended_meanwhile_are_kept_or_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unhub.files import joint_change

    log = write(tmp_path / "a.jsonl", asked(0, "x"), asked(1, "y"))
    planned = joint_change.JointChange.commit

    def append(change: joint_change.JointChange) -> None:
        write(log, asked(2, "z"), mode="a")
        planned(change)

    monkeypatch.setattr(joint_change.JointChange, "commit", append)
    with pytest.raises(ValueError, match=r"a.jsonl: changed while it was read; stop what writes to it"):
        unhub.forget_queries(["x"], logs=[log])
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    monkeypatch.undo()
    finish = joint_change.finish

    def late(folder: Path) -> None:
        if (folder / joint_change.PLAN).is_file():
            write(log, asked(3, "w"), mode="a")
        finish(folder)

    monkeypatch.setattr(joint_change, "finish", late)
    unhub.forget_queries(["x"], logs=[log])
    assert unhub.read_log(log).query_ids.tolist() == ["y", "z", "w"]  # type: ignore[union-attr]


# For each number that it reads, it starts a process that is killed before it replaces or deletes its so-manieth file;
# then it prints 0, or the signal that ended that process.
KILLED = """
import os, pathlib, signal, sys
from tests.logs.test_forgetting import forget_all
import unhub.logs.forgetting
folder = pathlib.Path(sys.argv[1])
left, replace, unlink = 0, os.replace, pathlib.Path.unlink
def step(call):
    def counted(*arguments, **options):
        global left
        left -= 1
        if left == 0: os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return counted
os.replace, pathlib.Path.unlink, os.fsync = step(replace), step(unlink), lambda file: None
for line in sys.stdin:
    left = int(line)
    process = os.fork()  # which is spared the imports
    if process == 0:
        forget_all(folder)
        os._exit(0)
    print(os.waitpid(process, 0)[1], flush=True)
"""
STEP = 7  # files between two kills


def forget_all(folder: Path) -> unhub.Forgotten:
    return unhub.forget_queries(
        ["0", "x"],
        bank=folder / "bank",
        logs=[folder / "a.jsonl", folder / "log"],
        corrections=[folder / "made"],
        state=folder / "state",
        items=ITEMS,
    )


def everywhere(folder: Path) -> Path:
    """Make a bank of two logs, a correction of it, and what a service keeps."""
    (folder / "made").mkdir(parents=True)
    write(folder / "a.jsonl", asked(5, "x"), asked(1, "y"))
    served(folder / "log", [4, 2])
    unhub.add_log(folder / "a.jsonl", folder / "bank", temper=1)
    unhub.add_log(folder / "log", folder / "bank")
    unhub.save(unhub.fit(ITEMS, unhub.read_vectors(folder / "bank"), method="is"), folder / "made" / "c.unhub")
    kept_state(folder / "state", [4, 2])
    return folder


def what_is_there(folder: Path) -> list[object]:
    """Return everything that counts, by the readers that people use."""
    log = unhub.read_log(folder / "a.jsonl")
    assert log.query_ids is not None
    versions = KeptVersions(folder / "state" / "corrections")
    bank = versions["v2"].bank
    return [
        log.query_ids.tolist(),
        len(unhub.read_vectors(folder / "log")),
        sorted(weights_by_row(folder / "bank")),
        None if bank is None else len(bank),
        (folder / "state" / "marks" / "relevance.csv").read_text(),
        np.round(biases(folder / "made" / "c.unhub")[0], 5).tolist(),
    ]


def test_a_kill_leaves_the_old_state_or_one_that_the_same_call_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # slow, and a kill does not need it
    old = everywhere(tmp_path / "old")
    new = shutil.copytree(old, tmp_path / "new")
    forget_all(new)
    before, after = what_is_there(old), what_is_there(new)
    assert all(one != other for one, other in zip(before, after, strict=True))
    folder, seen = tmp_path / "killed", []
    with start(KILLED, str(folder)) as parent:
        assert parent.stdin is not None and parent.stdout is not None and parent.stderr is not None
        for moment in count(1, STEP):
            shutil.copytree(old, folder)
            print(moment, file=parent.stdin, flush=True)
            if (ended := parent.stdout.readline()) == "0\n":
                break  # there are not that many files
            assert int(ended or 0) == signal.SIGKILL, parent.stderr.read()
            planned = (folder / "bank" / PLAN).is_file()
            if planned:  # readers say so, and do not read one half of each
                for cut in ("bank", "log"):
                    with pytest.raises(ValueError, match="run the same command again"):
                        unhub.read_vectors(folder / cut)
                with pytest.raises(ValueError, match="run the same command again"):
                    KeptVersions(folder / "state" / "corrections")
            else:
                assert what_is_there(folder) in (before, after)
            seen.append(planned)
            forget_all(folder)
            assert what_is_there(folder) == after
            assert names_in(folder) == names_in(new)
            for gone in (ROWS[4], ROWS[5]):
                assert gone.tobytes() not in contents(folder)
            shutil.rmtree(folder)
    assert {*seen} == {True, False}, "no kill fell before the plan, or after it"


def names_in(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_the_command_prints_what_the_library_returns(tmp_path: Path) -> None:
    everywhere(tmp_path)
    np.save(tmp_path / "gallery.npy", ITEMS)
    (tmp_path / "gone.txt").write_text("x\n0\nnobody\n")
    places = ["--bank", "bank", "--log", "log", "--log", "a.jsonl", "--correction", "made", "--state", "state"]
    command = ["log", "forget", "--query-ids", "gone.txt", *places, "--items", "gallery.npy"]
    before = contents(tmp_path)
    tried = here(tmp_path, *command, "--dry-run")
    assert "would go from bank" in tried.stdout and "Found nowhere: nobody." in tried.stdout
    assert "state/corrections/v1.unhub may still hold" in tried.stdout and tried.returncode == 3  # of rows of no log
    assert contents(tmp_path) == before
    told = json.loads(here(tmp_path, *command, "--json").stdout)
    assert told["removed"]["bank"] == 2 and told["missing"] == ["nobody"] and not told["dry_run"]
    assert told["refitted"] == ["made/c.unhub", "state/corrections/v2.unhub"]
    again = ("log", "forget", "--query-ids", "x, 0", "--bank", "bank", "--log", "log")
    done = here(tmp_path, *again)
    assert "0 of them found" in done.stdout and done.returncode == 3  # as where they were mistyped
    for option, name in (("--query-ids", "gnoe.txt"), ("--users", "lists/gone")):
        problem = f"{option} is {name}, and there is no such file; name a file that is there"
        assert problem in fail(tmp_path, "log", "forget", option, name, "--log", "log")
    (tmp_path / "ids.txt").write_text("".join(f"i{row}\n" for row in range(len(ITEMS))))
    two = (*again, "--items", "gallery.npy", "--items", "gallery.npy", "--item-ids", "ids.txt")
    assert "--item-ids is given 1 time, and --items 2 times" in fail(tmp_path, *two)
    assert here(tmp_path, *two, "--item-ids", "ids.txt").returncode == 3


def test_the_command_says_which_versions_it_deletes(tmp_path: Path) -> None:
    served(tmp_path / "log", [0, 1, 2])
    after, _ = versions_of_changed_items(tmp_path / "kept")
    np.save(tmp_path / "after.npy", after)
    command = ("log", "forget", "--query-ids", "1", "--log", "log", "--correction", "kept", "--items", "after.npy")
    assert "or drop such versions, of which none is active" in fail(tmp_path, *command)
    tried = here(tmp_path, *command, "--drop-inactive", "--dry-run")
    assert "would be deleted, not active" in tried.stdout
    assert "v3.unhub may still hold" in tried.stdout and tried.returncode == 3  # of another model than the log
    forget_version(tmp_path / "kept", "v3")
    words = " ".join(succeed(tmp_path, *command, "--drop-inactive").split())
    assert "deleted, not active kept/v1.unhub: items lacks 2 of the 7 items" in words
    assert "fitted again kept/v2.unhub" in words
    assert "--log none does not exist" in fail(tmp_path, "log", "forget", "--query-ids", "x", "--log", "none")
