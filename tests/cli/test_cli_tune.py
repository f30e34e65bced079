"""`unhub tune` prints what the library returns, writes the chosen correction, and names what is wrong."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests import command
from tests.tuning.test_tune import World, world

pytestmark = pytest.mark.once

SETS = ("--items", "items.npy", "--bank", "bank.npy")
TUNE = ("tune", *SETS, "-o", "best.unhub", "--methods", "nnn,dn")
LABELS = ("--queries", "queries.npy", "--relevance", "truth.csv")


@pytest.fixture
def hubby(tmp_path: Path) -> World:
    w = world()
    for name, rows in {"items": w.items, "bank": w.bank, "queries": w.queries}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    pairs = "".join(f"{query},{item}\n" for query, item in w.truth.items())
    (tmp_path / "truth.csv").write_text(f"query_id,item_id\n{pairs}")
    return w


@pytest.mark.parametrize("given", [(), LABELS[:2], LABELS])
def test_the_best_ten_raw_and_the_reason_are_shown(tmp_path: Path, hubby: World, given: tuple[str, ...]) -> None:
    printed = command.succeed(tmp_path, *TUNE, *given)
    labelled = given == LABELS
    tuning = unhub.tune(
        hubby.items, hubby.bank, hubby.queries if given else None, hubby.truth if labelled else None, methods="nnn,dn"
    )
    lines = printed.splitlines()
    assert lines[0].split()[:2] == (["setting", "R@1"] if labelled else ["setting", "transport"])
    assert [line.split()[0] for line in lines[2:12]] == [row.spec for row in tuning.table[:10]]
    assert lines[12].startswith("raw ")
    assert [line.split()[0] for line in lines[2:13] if line.split()[1] == "*"] == [tuning.best.spec]
    assert tuning.reason in printed
    assert lines[-1] == f"Wrote {tuning.best.spec} to best.unhub."
    assert unhub.load(tmp_path / "best.unhub").spec == tuning.best.spec


def test_json_holds_everything_that_was_tried(tmp_path: Path, hubby: World) -> None:
    shown = json.loads(command.succeed(tmp_path, *TUNE, *LABELS, "--json", "--measure", "MRR"))
    assert shown["best"] == shown["tried"][0]["spec"] and shown["measure"] == "MRR"
    assert len(shown["tried"]) == 1 + 110 + 3 and shown["left_out"] == []
    assert shown["gain"]["low"] > 0
    assert {"spec", "value", "skewness", "robin_hood", "seconds"} <= shown["tried"][0].keys()


def test_queries_that_are_left_out_are_told(tmp_path: Path, hubby: World) -> None:
    np.save(tmp_path / "queries.npy", np.concatenate([hubby.queries, hubby.bank[:9]]))
    note = "9 of 409 queries are in the bank and were left out."
    assert note in command.succeed(tmp_path, *TUNE, *LABELS).splitlines()
    assert json.loads(command.succeed(tmp_path, *TUNE, *LABELS, "--json"))["notes"] == [note]


def test_quiet_prints_nothing(tmp_path: Path, hubby: World) -> None:
    assert command.succeed(tmp_path, *TUNE, "--quiet", run=command.program) == ""
    assert (tmp_path / "best.unhub").exists()


def test_a_bank_that_will_not_do_is_written_as_raw_only_where_that_is_allowed(tmp_path: Path, hubby: World) -> None:
    np.save(tmp_path / "bank.npy", hubby.bank[:20])
    done = command.here(tmp_path, *TUNE)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("The bank has too few different queries")
    end = "Nothing was written to best.unhub. To write 'raw' all the same, add --allow-raw.\n"
    assert done.stdout.endswith(end) and not (tmp_path / "best.unhub").exists()
    assert command.succeed(tmp_path, *TUNE, "--allow-raw").endswith("Wrote raw to best.unhub.\n")
    assert unhub.load(tmp_path / "best.unhub").spec == "raw"


@pytest.mark.parametrize("how", [(), ("--json",), ("--quiet",)])
def test_a_correction_that_works_is_not_replaced_by_raw(tmp_path: Path, hubby: World, how: tuple[str, ...]) -> None:
    command.succeed(tmp_path, "fit", *SETS, "--method", "nnn", "-o", "best.unhub")
    before = (tmp_path / "best.unhub").read_bytes()
    np.save(tmp_path / "bank.npy", hubby.bank[:20])
    done = command.here(tmp_path, *TUNE, *how, "--overwrite")
    assert (done.returncode, done.stderr) == (3, "")
    assert (tmp_path / "best.unhub").read_bytes() == before
    if how == ("--json",):
        assert json.loads(done.stdout)["path"] is None
    else:
        words = "Nothing was written to best.unhub, and the file there is as it was."
        assert (words in done.stdout) == (not how)
    assert command.succeed(tmp_path, *TUNE, *how, "--overwrite", "--allow-raw") or how == ("--quiet",)
    assert unhub.load(tmp_path / "best.unhub").spec == "raw"


def test_a_folder_of_versions_keeps_its_active_one(tmp_path: Path, hubby: World) -> None:
    command.succeed(tmp_path, "fit", *SETS, "--method", "nnn", "-o", "c.unhub")
    command.succeed(tmp_path, "history", "best.unhub", "--keep", "c.unhub")
    np.save(tmp_path / "bank.npy", hubby.bank[:20])
    done = command.here(tmp_path, *TUNE)
    assert done.returncode == 3
    assert "Nothing was written to best.unhub, and its active version stays." in done.stdout


@pytest.mark.parametrize("given", [(), LABELS])
@pytest.mark.parametrize("how", [(), ("--json",), ("--quiet",)])
def test_too_little_time_leaves_the_correction_that_stands_there(
    tmp_path: Path, hubby: World, given: tuple[str, ...], how: tuple[str, ...]
) -> None:
    command.succeed(tmp_path, "fit", *SETS, "--method", "nnn", "-o", "best.unhub")
    before = (tmp_path / "best.unhub").read_bytes()
    done = command.here(tmp_path, *TUNE, *given, *how, "--time", "1e-6")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("unhub: --time: No setting could be tried in 1e-06 seconds: give more time")
    assert done.stderr.endswith("Nothing was written to best.unhub.\n") and done.stderr.count("\n") == 1
    assert (tmp_path / "best.unhub").read_bytes() == before
    (tmp_path / "best.unhub").unlink()
    command.here(tmp_path, *TUNE, *given, *how, "--time", "1e-6")
    assert not (tmp_path / "best.unhub").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--relevance", "truth.csv"), "--queries must be given with relevance, which says what answers each of them$"),
        (("--query-ids", "truth.csv"), "--query-ids has no queries to name; give --queries too$"),
        (
            ("--time", "soon"),
            "--time must be a number of seconds above 0, or a text with s, m or h such as .*, got 'soon'$",
        ),
        (("--methods", "nnm"), r"--methods 'nnm' is unknown; did you mean 'nnn'\? the methods are raw, is, "),
        (("--methods", "is:tau=0"), "--methods 'is' needs tau to be a finite number above 0, got 0$"),
        (("--methods", ""), "--methods is empty; name some, for example 'is,nnn', or 'all'$"),
        (("--methods", "raw"), "--methods has 'raw', which all others are compared with anyway; name another method$"),
        ((*LABELS, "--measure", "recall"), "--measure 'recall' is unknown; the measures are R@k, GM, MdR, "),
        (("--queries", "none.npy"), r"--queries: No such file or directory: none\.npy$"),
        (("-o", "bank.npy"), r"--output: bank\.npy is an input of this command; name another file$"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(
    tmp_path: Path, hubby: World, more: tuple[str, ...], message: str
) -> None:
    assert re.match(message, command.fail(tmp_path, *TUNE, *more))
