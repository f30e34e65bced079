"""`unhub extend`, `merge` and `remove` write what the library returns."""

import json
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.command import BANK, ITEMS, NAMES, fail, program, succeed, write_inputs
from unhub.files import read_manifest

pytestmark = pytest.mark.once

FITTED, MORE = BANK[:60], BANK[60:]
EXTEND = ("extend", "--correction", "part.unhub", "--new-items", "new.npy", "--bank", "fitted.npy", "-o", "out.unhub")
MERGE = ("merge", "--correction", "part.unhub", "--items", "part.npy", "--more-bank", "more.npy", "-o", "out.unhub")
REMOVE = ("remove", "--correction", "part.unhub", "--ids", "gone.txt", "-o", "out.unhub")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A correction of the first 30 items on the first 60 bank queries, and the rest of both."""
    write_inputs(tmp_path)
    for name, rows in {"part": ITEMS[:30], "new": ITEMS[30:], "fitted": FITTED, "more": MORE}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    (tmp_path / "gone.txt").write_text("3\n5\n")
    save_fit(tmp_path, "nnn:k=5")
    return tmp_path


def save_fit(folder: Path, method: str) -> unhub.Bias:
    fitted = unhub.fit(ITEMS[:30], FITTED, method=method, mergeable=True)
    assert isinstance(fitted, unhub.Bias)
    unhub.save(fitted, folder / "part.unhub")
    return fitted


def assert_saved(folder: Path, expected: unhub.Bias | unhub.Rescore | unhub.Plan, name: str = "out.unhub") -> None:
    saved = unhub.load(folder / name)
    assert isinstance(saved, unhub.Bias)
    assert isinstance(expected, unhub.Bias)
    assert saved.ids.tolist() == expected.ids.tolist()
    assert saved.source == expected.source
    np.testing.assert_allclose(saved.bias, expected.bias, atol=1e-6)


def test_extend_adds_items(folder: Path) -> None:
    printed = succeed(folder, *EXTEND, run=program)
    before = unhub.load(folder / "part.unhub")
    assert_saved(folder, unhub.extend(before, ITEMS[30:], FITTED))
    assert printed.split()[:2] == ["wrote", "out.unhub"]
    assert len(unhub.load(folder / "out.unhub")) == 40


def test_extend_names_new_items_after_the_fitted_ones(folder: Path) -> None:
    named = unhub.fit(unhub.Vectors(np.array(NAMES[:30]), ITEMS[:30]), FITTED, method="nnn:k=5")
    unhub.save(named, folder / "part.unhub")
    (folder / "numbers.txt").write_text("".join(f"{row}\n" for row in range(10)))
    succeed(folder, *EXTEND, "--new-item-ids", "numbers.txt")
    assert unhub.load(folder / "out.unhub").ids.tolist() == [*NAMES[:30], *map(str, range(10))]
    (folder / "few.txt").write_text("a\n")
    assert fail(folder, *EXTEND, "--new-item-ids", "few.txt").startswith(
        "--new-item-ids: few.txt has 1 id, 10 are needed; give one id for each"
    )
    assert fail(folder, *EXTEND) == (
        "--new-items has no ids, but the ids of the fitted items are strings; give ids with the new items"
    )


def test_extend_warms_up_a_balance(folder: Path) -> None:
    before = save_fit(folder, "sn:tau=0.05")
    succeed(folder, *EXTEND, "--items", "part.npy", "--warm", "2")
    assert_saved(folder, unhub.extend(before, ITEMS[30:], FITTED, items=ITEMS[:30], warm=2))
    assert fail(folder, *EXTEND, "--warm", "2") == (
        "--warm is 2, and iterations of 'sn' go over the whole bank and all items; give the items too"
    )


def test_merge_adds_past_queries(folder: Path) -> None:
    succeed(folder, *MERGE, run=program)
    assert_saved(folder, unhub.merge(unhub.load(folder / "part.unhub"), ITEMS[:30], MORE))


def test_merge_takes_rows_without_ids_in_the_order_of_the_correction(folder: Path) -> None:
    smaller = unhub.remove(unhub.load(folder / "part.unhub"), [0, 7])
    unhub.save(smaller, folder / "part.unhub")
    left = np.delete(ITEMS[:30], [0, 7], axis=0)
    np.save(folder / "part.npy", left)
    succeed(folder, *MERGE)
    assert_saved(folder, unhub.merge(smaller, left, MORE))


def test_remove_drops_items_and_may_replace_its_own_file(folder: Path) -> None:
    before = unhub.load(folder / "part.unhub")
    succeed(folder, *REMOVE, "-o", "part.unhub", run=program)
    assert_saved(folder, unhub.remove(before, [3, 5]), "part.unhub")


def test_remove_looks_again_for_dis(folder: Path) -> None:
    before = save_fit(folder, "dis:k=3")
    assert fail(folder, *REMOVE) == (
        "--ids names items that were among the best of 9 bank queries, and 'dis' must find others for those; "
        "give the items as they were before the removal, and the bank"
    )
    succeed(folder, *REMOVE, "--items", "part.npy", "--bank", "fitted.npy")
    assert_saved(folder, unhub.remove(before, [3, 5], items=ITEMS[:30], bank=FITTED))


@pytest.mark.parametrize("command", [EXTEND, MERGE, REMOVE])
def test_what_was_written_is_said_as_asked(folder: Path, command: tuple[str, ...]) -> None:
    assert succeed(folder, *command, "--quiet") == ""
    printed = json.loads(succeed(folder, *command, "--json"))
    assert printed == {"path": "out.unhub", **read_manifest(folder / "out.unhub")}


@pytest.mark.parametrize(
    ("command", "change", "words"),
    [
        (
            EXTEND,
            ("--new-items", "part.npy"),
            "--new-items begins with the 30 items that the correction already has; "
            "give only the new ones, from row 30 on",
        ),
        (
            EXTEND,
            ("--bank", "more.npy"),
            "--bank has 30 rows, the correction was fitted on 60; give what the correction was fitted on",
        ),
        (EXTEND, ("-o", "new.npy"), "--output: new.npy is an input of this command; name another file"),
        (EXTEND, ("--correction", "new.npy"), "--correction: new.npy: truncated, or not a file that unhub saved"),
        (
            MERGE,
            ("--more-bank", "fitted.npy"),
            "--more-bank is the bank of 60 queries that the correction was fitted on; give only the new queries",
        ),
        (
            MERGE,
            ("--items", "new.npy"),
            "--items has 10 rows, the correction was fitted on 30; give what the correction was fitted on",
        ),
        (MERGE, ("--item-ids", "gone.txt"), "--item-ids: gone.txt has 2 ids, 30 are needed; give one id for each"),
        (REMOVE, ("--ids", "none.txt"), "--ids: No such file or directory: none.txt"),
        (
            REMOVE,
            ("--ids", "names.txt"),
            "--ids has ids that are strings, the ids here are integers; name the items as in the fit",
        ),
    ],
)
def test_a_mistake_is_one_line(folder: Path, command: tuple[str, ...], change: tuple[str, ...], words: str) -> None:
    assert fail(folder, *command, *change) == words


def test_merging_without_what_it_needs_says_how_to_fit(folder: Path) -> None:
    unhub.save(unhub.fit(ITEMS[:30], FITTED, method="nnn:k=5"), folder / "part.unhub")
    assert fail(folder, *MERGE) == "--correction of 'nnn' does not keep what merging needs; refit it as mergeable"
