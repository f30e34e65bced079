"""`unhub extend`, `merge`, `remove` and `replace` write what the library returns."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests.command import BANK, ITEMS, NAMES, QUERIES, fail, here, program, succeed, write_inputs
from unhub.files import read_manifest

pytestmark = pytest.mark.once

FITTED, MORE = BANK[:60], BANK[60:]
EXTEND = ("extend", "--correction", "part.unhub", "--new-items", "new.npy", "--bank", "fitted.npy", "-o", "out.unhub")
MERGE = ("merge", "--correction", "part.unhub", "--items", "part.npy", "--more-bank", "more.npy", "-o", "out.unhub")
REMOVE = ("remove", "--correction", "part.unhub", "--ids", "gone.txt", "-o", "out.unhub")


REPLACE = ("replace", "--correction", "part.unhub", "--items", "now.npy", "--bank", "fitted.npy", "-o", "out.unhub")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A correction of the first 30 items on the first 60 bank queries, and the rest of both."""
    write_inputs(tmp_path)
    for name, rows in {"part": ITEMS[:30], "new": ITEMS[30:], "fitted": FITTED, "more": MORE}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    (tmp_path / "gone.txt").write_text("3\n5\n")
    (tmp_path / "unknown.txt").write_text("99\n")
    np.save(tmp_path / "now.npy", now())
    save_fit(tmp_path, "nnn:k=5")
    return tmp_path


def now() -> NDArray[np.float32]:
    """Return the items with other vectors for 3 and 5."""
    rows = ITEMS[:30].copy()
    rows[[3, 5]] *= np.array([-1, 1] * 4, np.float32)
    return rows


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


def test_info_says_what_is_estimated_after_a_change_too(folder: Path) -> None:
    fitted = save_fit(folder, "is")
    estimated = replace(fitted.cost, pairs=9, error=0.0021, how="a random part")
    unhub.save(replace(fitted, cost=estimated), folder / "part.unhub")
    assert "h has a standard error of 0.0021; 9 pairs: a random part" in succeed(folder, "info", "part.unhub")
    for change in (EXTEND, MERGE, REPLACE):
        succeed(folder, *change, "--overwrite")
        printed = " ".join(succeed(folder, "info", "out.unhub").split())
        assert "h of the fit had a standard error of 0.0021: a random part; what was added since is exact" in printed


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


def test_replace_follows_vectors_that_changed(folder: Path) -> None:
    succeed(folder, *REPLACE, run=program)
    changed = unhub.Vectors(np.array([3, 5]), now()[[3, 5]])
    assert_saved(folder, unhub.replace(unhub.load(folder / "part.unhub"), changed, FITTED))
    notes = unhub.load(folder / "out.unhub").cost.notes
    assert notes[-1] == "28 of 30 items have the contents of the fit and stay as they are"
    before = save_fit(folder, "dis")
    succeed(folder, *REPLACE, "--ids", "gone.txt")
    assert_saved(folder, unhub.replace(before, changed, FITTED, items=now()))


def test_what_changes_nothing_writes_the_file_that_was_asked_for(folder: Path) -> None:
    fitted = unhub.load(folder / "part.unhub")
    command = ("replace", "--correction", "part.unhub", "--items", "part.npy", "--bank", "fitted.npy", "-o")
    for name in ("out.unhub", "part.unhub"):
        assert "wrote" in succeed(folder, *command, name)
        made = unhub.load(folder / name)
        assert isinstance(made, unhub.Bias) and isinstance(fitted, unhub.Bias)
        assert np.array_equal(made.bias, fitted.bias)


def test_what_changes_nothing_makes_no_new_version(folder: Path) -> None:
    unhub.keep(unhub.load(folder / "part.unhub"), folder / "kept")
    command = ("replace", "--correction", "kept", "--items", "part.npy", "--bank", "fitted.npy", "-o", "kept")
    told = "Replaced 0 items. Nothing was written to kept, and its active version stays.\n"
    assert succeed(folder, *command) == told
    assert json.loads(succeed(folder, *command, "--json")) == {
        "path": None,
        **read_manifest(folder / "kept" / "v1.unhub"),
    }
    assert unhub.history(folder / "kept").active == "v1"
    succeed(folder, *command, "--items", "now.npy")
    assert unhub.history(folder / "kept").active == "v2"


def test_the_bank_is_given_in_parts_or_as_the_folder_it_came_from(folder: Path) -> None:
    merged = unhub.merge(unhub.load(folder / "part.unhub"), ITEMS[:30], MORE)
    unhub.save(merged, folder / "part.unhub")
    succeed(folder, *EXTEND, "--bank", "more.npy")
    assert_saved(folder, unhub.extend(merged, ITEMS[30:], BANK))
    assert fail(folder, *EXTEND, "--bank", "more.npy", "--bank-weights", "gone.txt") == (
        "--bank-weights goes with one --bank; the correction knows the weights, so leave it out"
    )
    np.save(folder / "log.npy", BANK)
    for day, rows in enumerate((FITTED, MORE)):
        lines = [json.dumps({"vector": row.tolist()}) + "\n" for row in np.repeat(rows, 1 + day, axis=0)]
        (folder / f"{day}.jsonl").write_text("".join(lines))
        unhub.add_log(folder / f"{day}.jsonl", folder / "bank")
        if not day:
            first = unhub.fit(ITEMS[:30], unhub.read_vectors(folder / "bank"), method="sn:tau=0.05")
            unhub.save(first, folder / "part.unhub")
    command = tuple("bank" if one == "fitted.npy" else one for one in EXTEND)
    succeed(folder, *command)
    assert_saved(folder, unhub.extend(first, ITEMS[30:], FITTED))
    note = "queries of the bank are not of the fit and were left out"
    assert unhub.load(folder / "out.unhub").cost.notes[-1].endswith(note)


def test_a_correction_without_hashes_of_its_bank_is_extended_from_the_folder_as_it_is(folder: Path) -> None:
    (folder / "0.jsonl").write_text("".join(json.dumps({"vector": row.tolist()}) + "\n" for row in FITTED))
    unhub.add_log(folder / "0.jsonl", folder / "bank")
    first = unhub.fit(ITEMS[:30], unhub.read_vectors(folder / "bank"), method="nnn:k=5")
    old = replace(first, source=replace(first.source, bank_rows=None))  # as it was saved before these were kept
    unhub.save(old, folder / "part.unhub")
    succeed(folder, *("bank" if one == "fitted.npy" else one for one in EXTEND))
    assert_saved(folder, unhub.extend(old, ITEMS[30:], unhub.read_vectors(folder / "bank")))


def test_lists_of_ids_are_enough_beside_one_large_file(folder: Path) -> None:
    every = unhub.Vectors(np.array(NAMES), ITEMS)
    some, fitted = every.among(NAMES[:30]), ("--items", "items.npy", "--item-ids", "names.txt")
    before = unhub.fit(some, FITTED, method="dis:k=3")
    unhub.save(before, folder / "part.unhub")
    (folder / "new.txt").write_text("\n".join(NAMES[35:29:-1]) + "\n")
    (folder / "gone.txt").write_text(NAMES[3] + "\n")
    command = ("--correction", "part.unhub", "-o", "part.unhub", "--bank", "fitted.npy", *fitted)
    succeed(folder, "remove", *command, "--ids", "gone.txt")
    succeed(folder, "extend", *command, "--new-ids", "new.txt")
    told = fail(folder, "extend", *command, "--new-ids", "new.txt")
    assert "--new-ids has 6 of 6 items that the correction has already, for example" in told
    smaller = unhub.remove(before, NAMES[3], items=every, bank=FITTED)
    assert_saved(folder, unhub.extend(smaller, every.among(NAMES[35:29:-1]), FITTED), "part.unhub")
    search = ("search", *fitted, "--correction", "part.unhub", "--queries", "queries.npy", "--format", "json")
    asked = here(folder, *search)
    words = "are not in the correction and are not searched; if they are new, extend it by them"
    assert asked.stderr == f"unhub: note: 5 of 40 items {words}\n"
    known = unhub.load(folder / "part.unhub")
    hits = unhub.searcher(every.among(known.ids), known).search(QUERIES)
    assert [[one["id"] for one in row["hits"]] for row in json.loads(asked.stdout)] == hits.ids.tolist()


def test_remove_looks_again_for_dis(folder: Path) -> None:
    before = save_fit(folder, "dis:k=3")
    assert fail(folder, *REMOVE) == (
        "--ids names items that were among the best of 9 bank queries, and 'dis' must find others for those; "
        "give the items as they were before the removal, and the bank"
    )
    succeed(folder, *REMOVE, "--items", "part.npy", "--bank", "fitted.npy")
    assert_saved(folder, unhub.remove(before, [3, 5], items=ITEMS[:30], bank=FITTED))


@pytest.mark.parametrize("command", [EXTEND, MERGE, REMOVE, REPLACE])
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
            tuple("more.npy" if one == "fitted.npy" else one for one in EXTEND),
            (),
            "--bank lacks 60 of the 60 queries that the correction was fitted on; give all that was fitted on and "
            "merged, in any order, or refit",
        ),
        (EXTEND, ("--new-ids", "gone.txt"), "--new-items or --new-ids must say which items to add; give one of them"),
        (
            tuple(one for one in EXTEND if one not in ("--new-items", "new.npy")),
            ("--new-ids", "gone.txt"),
            "--new-ids names rows of --items; give --items too",
        ),
        (REPLACE, ("--ids", "none.txt"), "--ids: No such file or directory: none.txt"),
        (REPLACE, ("--ids", "unknown.txt"), "--ids has 1 unknown id, for example 99"),
        (
            REPLACE,
            ("--items", "more.npy"),
            "--items has other contents for all 30 items; fit again",
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
    assert fail(folder, *MERGE).startswith(
        "--correction of 'nnn' does not keep what merging needs; fit again on the whole bank"
    )
