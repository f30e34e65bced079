"""`unhub bank` prints what the library finds, for people, for programs, and as one word."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.command import BANK, ITEMS, QUERIES, fail, here, program, succeed, write_inputs

pytestmark = pytest.mark.once

COMMAND = ("bank", "--items", "items.npy", "--bank", "bank.npy")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_inputs(tmp_path)


def test_every_figure_is_printed_with_its_meaning_and_the_conclusion_last(folder: Path) -> None:
    report = unhub.judge_bank(ITEMS, BANK, QUERIES)
    printed = succeed(folder, *COMMAND, "--queries", "queries.npy")
    lines = [re.split(r"  +", line.strip()) for line in printed.splitlines()]
    for row in report.cells():
        assert list(row) in lines
    assert printed.splitlines()[-1] == f"tiny: {report.conclusion}"


def test_on_a_narrow_terminal_the_meanings_go_on_below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = unhub.judge_bank(ITEMS, BANK, QUERIES)
    for width in (60, 80):
        monkeypatch.setattr("unhub.cli.folding.terminal_width", lambda width=width: width)
        lines = succeed(folder, *COMMAND, "--queries", "queries.npy").splitlines()
        assert max(map(len, lines)) <= width
        meanings = " ".join(" ".join(line.split()) for line in lines)
        words = [word for row in report.cells() for word in row[2].split()]
        assert re.search(".*".join(map(re.escape, words)), meanings)


def test_json_is_the_report(folder: Path) -> None:
    printed = json.loads(succeed(folder, *COMMAND, "--queries", "queries.npy", "--json", "--seed", "3", run=program))
    report = unhub.judge_bank(ITEMS, BANK, QUERIES, seed=3)
    assert printed.keys() == report.to_dict().keys()
    assert (printed["verdict"], printed["problems"], printed["size"]) == ("tiny", ["tiny"], 90)
    assert printed["coverage"]["share"] == report.coverage.share
    assert report.transport is not None
    assert printed["transport"]["bank_items"] == pytest.approx(report.transport.bank_items)


def test_without_queries_what_needs_them_is_left_out(folder: Path) -> None:
    printed = json.loads(succeed(folder, *COMMAND, "--json"))
    assert printed["queries"] is printed["shift"] is printed["nearness"] is printed["leaked"] is None
    assert "shift" not in succeed(folder, *COMMAND)


def test_ids_of_the_items_are_taken_as_by_other_commands(folder: Path) -> None:
    assert succeed(folder, *COMMAND, "--item-ids", "names.txt") == succeed(folder, *COMMAND)
    (folder / "few.txt").write_text("a\nb\n")
    assert fail(folder, *COMMAND, "--item-ids", "few.txt").startswith("--item-ids: few.txt has 2 ids, 40 are needed")


def test_quiet_is_the_verdict_alone(folder: Path) -> None:
    assert succeed(folder, *COMMAND, "--quiet") == "tiny\n"


def test_similarity_is_passed_on(folder: Path) -> None:
    np.save(folder / "bank.npy", np.concatenate([BANK, np.zeros((1, 8))]))
    printed = json.loads(succeed(folder, *COMMAND, "--similarity", "dot", "--threads", "1", "--json"))
    assert printed["size"] == 91
    assert "bank has only zeros in row 90" in fail(folder, *COMMAND)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--items", "none.npy"), r"--items: .*none\.npy"),
        (("--bank", "none.npy"), r"--bank: .*none\.npy"),
        (("--queries", "none.npy"), r"--queries: .*none\.npy"),
        (("--queries", "narrow.npy"), "^--queries has 3 dimensions, the items 8; embed both with one model$"),
        (("--similarity", "euclid"), "'--similarity'"),
        (("--threads", "0"), "--threads must be a whole number of at least 1, got 0"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, change: tuple[str, ...], words: str) -> None:
    np.save(folder / "narrow.npy", QUERIES[:, :3])
    assert re.search(words, fail(folder, *COMMAND, *change))


def test_strict_says_no_to_a_bad_bank_by_its_exit_code(folder: Path) -> None:
    done = here(folder, *COMMAND, "--strict")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == succeed(folder, *COMMAND)


def test_strict_lets_a_bank_pass_that_nothing_is_wrong_with(folder: Path) -> None:
    captions = np.random.default_rng(0).normal(size=(1500, ITEMS.shape[1]))
    np.save(folder / "bank.npy", captions)
    assert succeed(folder, *COMMAND, "--strict", "--quiet") == "unproven\n"
