"""Forgetting takes nothing else: files of others stay, services are not disturbed, other people keep their queries."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.command import here, succeed
from tests.logs.test_bank_folder import ROWS, write
from tests.logs.test_forgetting import ITEMS, asked, contents, kept_state, served
from tests.small_disk import run_on_small_disk
from unhub.atomic import hold_folder
from unhub.errors import ArgumentError
from unhub.files.joint_change import PLAN, POINTER
from unhub.files.log_removal import ToForget
from unhub.logs.losing_folder import LosingFolder

pytestmark = pytest.mark.once


def test_files_that_look_like_parts_of_versions_stay(tmp_path: Path) -> None:
    log, made = served(tmp_path / "log", [0, 1]), tmp_path / "made"
    made.mkdir()
    for number in (1, 2, 3):
        unhub.save(unhub.fit(ITEMS, ROWS[2:], method="is"), made / f"v{number}.unhub")
    (made / "v7.checkpoints").mkdir()
    for name in ("v1.json", "v2.notes.txt", "v4.csv", "v5.bank.npy", "v6.json"):
        (made / name).write_text("mine")
    names = {path.name for path in made.iterdir()}
    (made / ".v2.unhub.0123abcd.tmp").write_bytes(ROWS[1].tobytes())  # a killed writer left it
    for options in ({"dry_run": True}, {}):
        done = unhub.forget_queries([1], logs=[log], corrections=[made], **options)  # type: ignore[arg-type]
        assert done.refitted == ()
    assert {path.name for path in made.iterdir()} - {".lock"} == names


def test_what_a_killed_service_left_goes_only_if_the_rest_can(tmp_path: Path) -> None:
    log, kept = served(tmp_path / "log", [4, 1]), kept_state(tmp_path / "state", [4, 1])
    versions = kept / "corrections"
    for name in ("v9.unhub", "v9.bank.npy", ".v9.weights.npy.0123abcd.tmp"):
        (versions / name).write_bytes(ROWS[4].tobytes())
    for name in ("v9.notes.txt", "v2.ckpt"):
        (versions / name).write_text("mine")
    before = contents(versions)
    with pytest.raises(ValueError, match="items is missing"):
        unhub.forget_queries([0], logs=[log], state=kept)
    assert contents(versions) == before
    unhub.forget_queries([0], logs=[log], state=kept, items=ITEMS)
    assert ROWS[4].tobytes() not in contents(tmp_path)
    assert {path.name for path in versions.glob("v*") if path.suffix in (".txt", ".ckpt")} == {
        "v9.notes.txt",
        "v2.ckpt",
    }
    assert not [*versions.glob("*v9.[uw]*")]


def test_an_empty_id_is_nobody(tmp_path: Path) -> None:
    log, bank = tmp_path / "a.jsonl", tmp_path / "bank"
    unhub.add_log(write(log, {"vector": [1, 2, 3, 4]}, {"vector": [4, 3, 2, 1]}), bank)
    unhub.add_log(write(tmp_path / "b.jsonl", asked(2, "x")), bank)
    before = contents(tmp_path)
    for ids in ([""], ["x", ""]):
        with pytest.raises(ArgumentError, match="query_ids holds an empty id"):
            unhub.forget_queries(ids, bank=bank, logs=[log])
    assert contents(tmp_path) == before
    assert len(LosingFolder.read(bank, ToForget(frozenset(["", "x"])))) == 1


def test_a_service_that_runs_is_not_passed_by(tmp_path: Path) -> None:
    log, kept = served(tmp_path / "log", [4, 1]), kept_state(tmp_path / "state", [4, 1])
    lock = hold_folder(kept, "state")  # as a service does, which holds its versions no further
    before = contents(kept)
    (tmp_path / "link").symlink_to(kept / "corrections")
    for place in (kept, kept / "corrections", kept / "corrections" / "v2.unhub", tmp_path / "link"):
        for dry_run in (True, False):
            with pytest.raises(
                ArgumentError, match=r"corrections .*state is in use by a service; wait until it has ended"
            ):
                unhub.forget_queries([0], logs=[log], corrections=[place], items=ITEMS, dry_run=dry_run)
    assert contents(kept) == before
    os.close(lock)
    both: dict[str, Any] = {"state": kept, "corrections": [kept, kept / "corrections"], "items": ITEMS}
    assert len(unhub.forget_queries([0], logs=[log], **both).refitted) == 1  # named thrice, held once


class Cut(BaseException):
    """A kill, as far as files can tell."""


def cut_off(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object], replaced: str) -> None:
    """Cut a call off in the middle of its change, before this file is replaced."""
    replace = os.replace

    def stops(source: str | Path, target: str | Path) -> None:
        if Path(target).name == replaced and Path(source).suffix == ".next":
            raise Cut
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stops)
        with pytest.raises(Cut):
            call()


def two_places(folder: Path) -> Callable[..., unhub.Forgotten]:
    """Make a log below a folder and a bank of it; return what forgets in both."""
    log, bank = folder / "logs" / "day" / "a.jsonl", folder / "bank"
    log.parent.mkdir(parents=True)
    unhub.add_log(write(log, asked(0, "ann"), asked(1, "bob"), asked(2, "eve")), bank)
    return lambda *ids: unhub.forget_queries(ids, bank=bank, logs=[log])


def ids_in(log: Path) -> list[str]:
    held = unhub.read_log(log).query_ids
    assert held is not None
    return [str(one) for one in held]


@pytest.mark.parametrize("other", ["logs", "logs/day", "logs/day/a.jsonl", "link.jsonl"])
def test_a_cut_off_change_is_finished_from_every_place_that_has_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    forget, log = two_places(tmp_path), tmp_path / "logs" / "day" / "a.jsonl"
    (tmp_path / "link.jsonl").symlink_to(log)
    cut_off(monkeypatch, lambda: forget("ann"), "a.jsonl")
    with pytest.raises(ValueError, match="was cut off"):
        unhub.forget_queries(["bob"], logs=[tmp_path / other], dry_run=True)
    lock = hold_folder(tmp_path / "bank", "bank")  # whoever has the plan is still at it
    with pytest.raises(ArgumentError, match="bank is in use by another writer"):
        unhub.forget_queries(["bob"], logs=[tmp_path / other])
    os.close(lock)
    unhub.forget_queries(["bob"], logs=[tmp_path / other])
    assert ids_in(log) == ["eve"]
    assert forget("bob").removed == {str(tmp_path / "bank"): 1}
    assert np.array_equal(unhub.read_vectors(tmp_path / "bank").rows[:], ROWS[[2]])
    assert not [*tmp_path.rglob(PLAN), *tmp_path.rglob(POINTER), *tmp_path.rglob("*.next")]


def test_a_new_file_that_is_gone_is_not_taken_for_one_that_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget, log = two_places(tmp_path), tmp_path / "logs" / "day" / "a.jsonl"
    cut_off(monkeypatch, lambda: forget("ann"), "a.jsonl")
    for waiting in log.parent.glob("*.next"):
        waiting.unlink()
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"a.jsonl: .* was to take its place is gone; delete .*, and run"):
        forget("ann")
    assert contents(tmp_path) == before
    (tmp_path / "bank" / PLAN).unlink()
    forget("ann")
    assert ids_in(log) == ["bob", "eve"]


def test_a_full_disk_is_an_error_that_names_the_file_and_nothing_changes(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet")
    script = """
import gzip, json, os, sys
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.parquet, unhub
from unhub.service.kept.log_writer import LogWriter
disk, rows = Path(sys.argv[1]), np.random.default_rng(0).standard_normal((600, 16))
ids = [f"q{row}" for row in range(len(rows))]
lines = "".join(json.dumps({"query_id": one, "vector": [*row]}) + "\\n" for one, row in zip(ids, rows))
(disk / "a.jsonl").write_text(lines)
(disk / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
pa.parquet.write_table(pa.table({"query_id": ids, "vector": [*rows]}), disk / "c.parquet")
writer = LogWriter(disk / "served", 16)
writer.append(rows.astype(np.float32), [1] * len(rows), "v1")
writer.close()
unhub.add_log(disk / "c.parquet", disk / "bank")
items = rows[:50] + 1
unhub.save(unhub.fit(items, rows, method="is"), disk / "c.unhub")
def seen():
    return {path: path.is_file() and path.read_bytes() for path in disk.rglob("*")}
with open(disk / "fill", "wb", 0) as file:
    try:
        while file.write(bytes(1 << 12)): pass
    except OSError: pass
before = seen()
for asked, places in (
    ("q1", {"logs": disk / "a.jsonl"}),
    ("q1", {"logs": disk / "b.jsonl.gz"}),
    ("q1", {"logs": disk / "c.parquet"}),
    ("1", {"logs": disk / "served"}),
    ("q1", {"bank": disk / "bank"}),
    ("q1", {"bank": disk / "bank", "corrections": disk / "c.unhub", "items": items}),
):
    try:
        unhub.forget_queries([asked], **places)
    except OSError as error:
        print(error.strerror, os.path.relpath(error.filename, disk), seen() == before)
"""
    process = run_on_small_disk(tmp_path, script)
    assert process.stderr == ""
    full = "No space left on device"
    said = [f"{full} {name} True" for name in ("a.jsonl", "b.jsonl.gz", "c.parquet", "served/000001.vectors")]
    assert process.stdout.splitlines()[:6] == [*said, f"{full} bank/000003.npz True", f"{full} c.unhub True"]


def test_lines_that_came_meanwhile_and_do_not_fit_are_kept_for_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget, log = two_places(tmp_path), tmp_path / "logs" / "day" / "a.jsonl"
    cut_off(monkeypatch, lambda: forget("ann"), "a.jsonl")
    write(log, asked(3, "zoe"), mode="a")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("unhub.files.joint_change._copy", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*a\.jsonl'$"):
            forget("ann")
    forget("ann")
    assert ids_in(log) == ["bob", "eve", "zoe"]


def test_lines_that_came_after_a_file_took_its_place_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget, log = two_places(tmp_path), tmp_path / "logs" / "day" / "a.jsonl"
    cut_off(monkeypatch, lambda: forget("ann"), "bank.json")
    write(log, asked(3, "zoe"), mode="a")
    forget("ann")
    assert ids_in(log) == ["bob", "eve", "zoe"]


def test_what_an_earlier_call_removed_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget = two_places(tmp_path)
    cut_off(monkeypatch, lambda: forget("ann"), "a.jsonl")
    shutil.copytree(tmp_path, tmp_path / "again", symlinks=True)
    done = forget("ann")
    assert done.completed and done.missing == () and "is completed now" in done.notes[0]
    command = ("log", "forget", "--query-ids", "ann", "--bank", "bank", "--log", "logs/day/a.jsonl")
    told = succeed(tmp_path / "again", *command)
    assert "is completed now" in told and "Found nowhere" not in told and "0 of them" not in told
    assert "Found nowhere: ann." in here(tmp_path / "again", *command).stdout


def test_a_place_that_is_spelt_in_two_ways_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log, saved, bank = tmp_path / "a.jsonl", tmp_path / "c.unhub", np.concatenate([ROWS, ROWS[:1]])
    write(log, asked(0, "ann"), asked(0, "bob"), asked(1, "eve"))
    unhub.save(unhub.fit(ITEMS, bank, method="is"), saved)
    for name, target in (("link.jsonl", log), ("link.unhub", saved)):
        (tmp_path / name).symlink_to(target)
    np.save("bank.npy", bank)
    np.save("items.npy", ITEMS)
    twice = ("--log", "a.jsonl", "--log", str(log), "--log", "link.jsonl", "--correction", "c.unhub")
    more = ("--correction", str(saved), "--correction", "link.unhub", "--other-bank", "bank.npy")
    same = ("--other-bank", str(tmp_path / "bank.npy"), "--items", "items.npy")
    done = here(tmp_path, "log", "forget", "--query-ids", "ann", *twice, *more, *same)
    assert done.returncode == 3 and done.stdout.count("bank.npy holds forgotten queries") == 1
    assert ids_in(log) == ["bob", "eve"]
    found = unhub.load(saved, "correction")
    assert found.source.bank is not None and found.source.bank.count == len(ROWS)  # bob's row stays
    assert (tmp_path / "link.unhub").is_symlink()
