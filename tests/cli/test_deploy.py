"""Deploying on the command line, over a LanceDB folder: every command, its JSON, and its mistakes in one line."""

import csv
import json
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.command import fail, here, program, succeed
from tests.deploying.cases import asking, gallery
from unhub.stores.store import Store, StoredItems

pytest.importorskip("lancedb", reason="lancedb is not installed")
pytestmark = pytest.mark.once

STORE = "lancedb:db#photos"
LIVE = "lancedb:db#photos_live"
WITH = ("--correction", "c.unhub")
MEASURED = (*WITH, "--queries", "q.npy")


def opened(folder: Path, name: str = "photos") -> Store:
    return unhub.store(f"lancedb:{folder}/db#{name}")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a filled table, a bank and queries, and a correction fitted on the table."""
    folder = tmp_path_factory.mktemp("made")
    store = opened(folder)
    rows = gallery(120)
    store.create(rows.shape[1], "cosine")
    store.write(StoredItems(np.arange(120), rows, [{"colour": "red" if row % 2 else "blue"} for row in range(120)]))
    store.finish()
    np.save(folder / "bank.npy", asking(200, 1))
    np.save(folder / "q.npy", asking(20, 2))
    np.save(folder / "items.npy", rows)
    succeed(folder, "fit", "--items", STORE, "--bank", "bank.npy", "--method", "nnn:k=16", "-o", "c.unhub")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to work in."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def data(folder: Path, *arguments: str) -> Any:
    return json.loads(succeed(folder, *arguments, "--json"))


def hits(folder: Path, items: str, *more: str) -> list[list[int]]:
    found = data(folder, "search", "--items", items, *MEASURED, "-k", "5", *more)
    return [[one["id"] for one in row["hits"]] for row in found]


def test_a_table_gets_a_correction_goes_live_and_comes_back(folder: Path) -> None:
    said = succeed(folder, "deploy", *MEASURED, "--from", STORE, run=program)
    assert "photos_unhub_1" in said and "12 to 14 dimensions" in said and "recall 1.000 corrected" in said
    assert said.endswith("Nothing was switched. To go live: unhub switch 'lancedb:db#photos'\n")
    assert "live:photos_live" not in opened(folder).records()
    said = fail(folder, "search", "--items", LIVE, *MEASURED)
    assert said.endswith("to go live with what was deployed: unhub switch 'lancedb:db#photos'")
    right = hits(folder, "items.npy")
    raw = hits(folder, "items.npy", "--strength", "0")
    assert right != raw

    said = succeed(folder, "switch", STORE, run=program)
    assert said.startswith("Live as photos_live: photos_unhub_1 (nnn:k=16,alpha=0.75).\n")
    assert said.endswith("To go back to the plain vectors: unhub rollback 'lancedb:db#photos'\n")
    assert hits(folder, STORE) == hits(folder, LIVE) == right
    assert hits(folder, LIVE, "--strength", "0") == raw
    assert all(one % 2 for row in hits(folder, LIVE, "--where", "colour = 'red'") for one in row)
    for address in (STORE, LIVE):
        seen = here(folder, "doctor", address, *MEASURED)
        assert (seen.returncode, seen.stdout.splitlines()[-1]) == (
            0,
            "Verdict on photos_unhub_1, which is live: it works.",
        )

    assert succeed(folder, "rollback", LIVE) == "Live as photos_live: photos, its plain vectors.\n"
    assert opened(folder).sibling("photos_unhub_1").exists()


def test_json_says_what_the_library_returns(folder: Path) -> None:
    done = data(folder, "deploy", *MEASURED, "--from", STORE, "--mode", "payload", "--switch")
    assert (done["mode"], done["field"], done["switched"], done["dropped"]) == ("payload", "unhub_h_1", True, [])
    assert done["measured"]["corrected_recall"] >= 0.99 and done["layout"] is None
    again = data(folder, "deploy", *MEASURED, "--from", STORE, "--switch", "--drop-old")
    assert again["replaces"] == "photos, field unhub_h_1" and again["dropped"] == ["photos, field unhub_h_1"]
    live = data(folder, "switch", STORE)
    assert live["live"] == "photos_live" and live["now"]["collection"] == "photos_unhub_2" and live["before"] == []
    seen = data(folder, "doctor", STORE, *MEASURED)
    assert seen["good"] and seen["measured"]["queries"] == 20
    synced = data(folder, "sync", STORE, *WITH)
    assert (synced["added"], synced["changed"], synced["removed"]) == (0, 0, 0)
    assert data(folder, "rollback", STORE)["now"]["mode"] == "plain"


def test_history_lists_what_was_deployed_and_what_is_live(folder: Path) -> None:
    empty = data(folder, "history", STORE)
    assert empty == {"live": None, "deployments": []}
    for method, more in (("is", ["--switch"]), ("cent", ["--switch"]), ("dn", [])):
        succeed(folder, "fit", "--items", STORE, "--bank", "bank.npy", "--method", method, "-o", "c.unhub")
        succeed(folder, "deploy", *WITH, "--from", STORE, *more)
    told = data(folder, "history", STORE)
    assert told["live"] == "photos_live"
    assert [one["state"] for one in told["deployments"]] == ["what a rollback brings back", "live", ""]
    printed = succeed(folder, "history", LIVE)
    assert [one["collection"] in printed for one in told["deployments"]] == [True] * 3
    assert printed.splitlines()[-1] == f"Live as photos_live: {told['deployments'][1]['collection']}."
    assert fail(folder, "history", STORE, "--rollback") == (
        "DIR must be a folder to keep, activate or roll back a version; for a store, run unhub deploy, "
        "unhub switch --to NAME, or unhub rollback"
    )


def test_what_was_dropped_is_not_offered_as_a_way_back(folder: Path) -> None:
    succeed(folder, "deploy", *WITH, "--from", STORE, "--switch", "--quiet")
    said = succeed(folder, "deploy", *WITH, "--from", STORE, "--mode", "payload", "--switch", "--drop-old")
    assert "Dropped photos_unhub_1." in said and "To go back to the plain vectors" in said


def test_switch_takes_a_name_of_what_was_deployed_and_a_live_name(folder: Path) -> None:
    succeed(folder, "deploy", *WITH, "--from", STORE, "--quiet")
    succeed(folder, "deploy", *WITH, "--from", STORE, "--mode", "payload", "--quiet")
    said = fail(folder, "switch", STORE, "--to", "photos_unhub_3")
    assert said.startswith("--to 'photos_unhub_3' is unknown; did you mean 'photos_unhub_1'? ")
    assert said.endswith("the deployments are photos_unhub_1, unhub_h_2")
    assert "--alias 'photos' is the name of a collection" in fail(folder, "switch", STORE, "--alias", "photos")
    said = succeed(folder, "switch", STORE, "--to", "photos_unhub_1", "--alias", "shown")
    assert said.startswith("Live as shown: photos_unhub_1 (")
    assert data(folder, "switch", "lancedb:db#shown", "--to", "unhub_h_2")["now"]["field"] == "unhub_h_2"
    said = fail(folder, "switch", STORE, "--to", "photos_unhub_1", "--alias", "other")
    assert said == "--alias is 'other', and this store is live as 'shown'; leave it out"
    assert data(folder, "switch", STORE)["now"]["field"] == "unhub_h_2"  # the newest


def test_items_of_a_file_are_deployed_into_an_empty_place(folder: Path) -> None:
    succeed(folder, "fit", "--items", "items.npy", "--bank", "bank.npy", "--method", "nnn:k=16", "-o", "f.unhub")
    to = "lancedb:db#files"
    given = ("--correction", "f.unhub", "--queries", "q.npy")
    succeed(folder, "deploy", *given, "--from", "items.npy", "--to", to, "--switch")
    for address in (to, "lancedb:db#files_live"):
        seen = here(folder, "doctor", address, *given)
        assert (seen.returncode, seen.stderr) == (0, ""), seen.stdout
    found = data(folder, "search", "--items", to, *given, "-k", "5")
    assert [[one["id"] for one in row["hits"]] for row in found] == hits(folder, "items.npy")


def test_a_live_name_gives_back_the_items(folder: Path) -> None:
    succeed(folder, "deploy", *WITH, "--from", STORE, "--switch")
    succeed(folder, "fit", "--items", LIVE, "--bank", "bank.npy", "--method", "nnn:k=16", "-o", "again.unhub")
    again, first = unhub.load(folder / "again.unhub"), unhub.load(folder / "c.unhub")
    assert isinstance(again, unhub.Bias) and isinstance(first, unhub.Bias)
    np.testing.assert_allclose(again.bias[np.argsort(again.ids)], first.bias[np.argsort(first.ids)], atol=1e-5)


def test_sync_brings_in_what_came_since(folder: Path) -> None:
    succeed(folder, "deploy", *WITH, "--from", STORE, "--switch")
    store = opened(folder)
    store.write(StoredItems(np.arange(120, 125), gallery(5, seed=9), [{"colour": "red"}] * 5))
    broken = here(folder, "doctor", STORE, *WITH)
    assert broken.returncode == 3 and "its source 125: at least 5 added since, not found" in broken.stdout
    searched = here(folder, "search", "--items", LIVE, *MEASURED, "--json")
    assert searched.returncode == 0 and len(json.loads(searched.stdout)) == 20
    assert searched.stderr.startswith(
        "unhub: note: photos_unhub_1 has 120 items, and its source 125: at least 5 added "
    )
    assert "unhub sync 'lancedb:db#photos' --correction FILE" in searched.stderr
    assert succeed(folder, "search", "--items", LIVE, *MEASURED, "--quiet")
    np.savez(folder / "new.npz", vectors=gallery(5, seed=9), ids=np.arange(119, 124))
    bank = ("--bank", "bank.npy", "-o", "c.unhub")
    assert "--new-items has 1 of 5 items that the correction has already, for example 119" in fail(
        folder, "extend", *WITH, "--new-items", "new.npz", *bank
    )  # a file
    said = succeed(folder, "extend", *WITH, "--new-items", STORE, *bank)
    assert "120 of 125 items in the store were skipped: the correction has them" in said
    said = succeed(folder, "extend", *WITH, "--new-items", LIVE, "--bank", "bank.npy", "-o", "same.unhub")
    assert "125 of 125 items in the store were skipped" in said  # of the source, not of what is live
    assert len(unhub.load(folder / "same.unhub")) == 125
    assert succeed(folder, "sync", STORE, *WITH) == "photos_unhub_1: 5 added, 0 changed, 0 removed\n"
    assert here(folder, "doctor", STORE, *MEASURED).returncode == 0


def test_going_back_to_what_is_behind_its_source_is_one_more_line(folder: Path) -> None:
    succeed(folder, "deploy", *WITH, "--from", STORE, "--switch", "--quiet")
    succeed(folder, "deploy", *WITH, "--from", STORE, "--mode", "payload", "--switch", "--quiet")
    opened(folder).write(StoredItems(np.arange(120, 125), gallery(5, seed=9), [{"colour": "red"}] * 5))
    last = succeed(folder, "rollback", STORE).splitlines()[-1]
    assert last.startswith(
        "photos_unhub_1 has 120 items, and its source 125: at least 5 added since, not found. To bring it up "
    )
    assert last.endswith("then run: unhub sync 'lancedb:db#photos' --correction FILE")
    assert data(folder, "switch", STORE)["notes"] and data(folder, "rollback", STORE)["notes"] == [last]


def test_a_switch_says_what_it_dropped(folder: Path) -> None:
    succeed(folder, "deploy", *WITH, "--from", STORE, "--switch", "--quiet")
    succeed(folder, "deploy", *WITH, "--from", STORE, "--mode", "payload", "--quiet")
    assert "Dropped photos_unhub_1." in succeed(folder, "switch", STORE, "--drop-old")


def test_the_doctor_says_no_by_its_exit_code(folder: Path) -> None:
    succeed(folder, "deploy", *WITH, "--from", STORE, "--switch")
    opened(folder).sibling("photos_unhub_1").remove(np.array([3, 4]))
    for run in (here, program):
        seen = run(folder, "doctor", STORE, *MEASURED)
        assert (seen.returncode, seen.stderr) == (3, "")
        assert "WRONG  it holds 118 items, the correction 120" in seen.stdout
        assert seen.stdout.endswith("Verdict on photos_unhub_1, which is live: it does not work as it should.\n")
    quiet = here(folder, "doctor", STORE, *MEASURED, "--quiet")
    assert (quiet.returncode, quiet.stdout) == (3, "")
    assert not json.loads(here(folder, "doctor", STORE, *MEASURED, "--json").stdout)["good"]


def test_export_writes_the_biases_in_four_forms(folder: Path) -> None:
    fitted = unhub.load(folder / "c.unhub")
    assert isinstance(fitted, unhub.Bias)
    right = dict(zip(fitted.ids.tolist(), fitted.bias.tolist(), strict=True))
    for suffix in ("csv", "jsonl", "parquet", "sql"):
        said = succeed(folder, "export", "c.unhub", "-o", f"h.{suffix}")
        assert said == f"wrote 120 items to h.{suffix}\n"
    with (folder / "h.csv").open(newline="") as file:
        assert {int(row["id"]): float(row["h"]) for row in csv.DictReader(file)} == right
    lines = map(json.loads, (folder / "h.jsonl").read_text().splitlines())
    assert {row["id"]: row["h"] for row in lines} == right
    import pyarrow.parquet as parquet

    assert {row["id"]: row["h"] for row in parquet.read_table(folder / "h.parquet").to_pylist()} == right
    with sqlite3.connect(":memory:") as database:
        database.executescript((folder / "h.sql").read_text())
        assert dict(database.execute("SELECT id, h FROM unhub_h").fetchall()) == right


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("doctor", "lanced:db#photos", *WITH), "STORE 'lanced' is unknown; did you mean 'lancedb'? the engines are "),
        (("doctor", "db#photos", *WITH), "STORE must begin with an engine and a colon, got 'db#photos'"),
        (("doctor", "lancedb:db", *WITH), "STORE lancedb:db names no collection"),
        (("switch", STORE), f"store {STORE}: nothing was deployed here that could go live; deploy a correction first"),
        (("rollback", STORE), f"store {STORE}: is not live with a correction"),
        (("sync", STORE, *WITH), f"store {STORE}: nothing was deployed here that could be brought up to date"),
        (
            ("doctor", "lancedb:db#none", *WITH),
            "store lancedb:db#none: there is no table 'none'; the tables are 'photos'",
        ),
        (("deploy", *WITH, "--from", "lancedb:db#none"), "lancedb:db#none: there is no table 'none'"),
        (("deploy", *WITH, "--from", "none.npy"), "--from: No such file or directory: none.npy"),
        (("deploy", *WITH, "--from", "items.npy"), "--to is missing, and vectors at hand must be put into a store"),
        (("deploy", *WITH, "--from", STORE, "--mode", "fields"), "'fields' is not one of 'vectors', 'payload'."),
        (("deploy", *WITH, "--from", STORE, "--drop-old"), "--drop-old goes with --switch"),
        (("deploy", *WITH, "--from", STORE, "--alias", "photos"), "'photos' is the name of a collection"),
        (("deploy", *WITH, "--from", STORE, "--queries", "wide.npy"), "--queries has 13 dimensions"),
        (("search", "--items", STORE, *MEASURED, "--where", "colour ="), STORE),
        (
            ("search", "--items", "items.npy", *MEASURED, "--where", "a"),
            "--where needs a table of attributes, since the items are in a file",
        ),
        (("export", "c.unhub", "-o", "h.xlsx"), "--output must end in .csv, .jsonl, .parquet, .sql, got 'h.xlsx'"),
        (("export", "c.unhub", "-o", "c.unhub"), "--output: c.unhub is an input of this command"),
        (("export", "items.npy", "-o", "h.csv"), "FILE: items.npy"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    np.save(folder / "wide.npy", np.ones((3, 13), np.float32))
    assert words in fail(folder, *arguments)


def test_a_password_is_never_shown(folder: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    said = fail(folder, "doctor", "postgresql://me:hidden@127.0.0.1:1/x#t.v", *WITH)
    assert "hidden" not in said and "me:***@127.0.0.1:1/x" in said


def test_a_missing_library_names_its_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    assert "unhub[milvus]" in fail(folder, "doctor", "milvus:photos.db#photos", *WITH)
