"""Corrections kept as versions in a folder: what is active, going back, and what a service holds."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.command import BANK, ITEMS, NAMES, fail, here, succeed, write_fitted, write_inputs
from unhub.atomic import hold_folder
from unhub.files.version_folders import MOST_VERSIONS, AboutVersion, forget_version, write_about
from unhub.service.kept.versions import KeptVersions

pytestmark = pytest.mark.once

METHODS = ("is", "nnn:k=5,alpha=0.75", "csls:k=3", "dn:lambda=0.5")


def fitted(number: int) -> unhub.Bias:
    made = unhub.fit(ITEMS, BANK, method=METHODS[number])
    assert isinstance(made, unhub.Bias)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three versions; the last is active."""
    for number in range(3):
        unhub.keep(fitted(number), tmp_path / "versions", why=f"Number {number}.")
    return tmp_path / "versions"


def active(folder: Path) -> str:
    """Return the method of the active version, as a reader of the folder finds it."""
    return str(unhub.load(folder).spec)


def test_versions_are_listed_and_the_active_one_is_loaded(folder: Path) -> None:
    found = unhub.history(folder)
    assert [(one.name, one.why, one.items, one.bank) for one in found.versions] == [
        (f"v{number + 1}", f"Number {number}.", 40, 90) for number in range(3)
    ]
    assert (found.active, found.back) == ("v3", "v2")
    assert active(folder) == "csls:k=3"
    lines = str(found).splitlines()
    assert lines[4].startswith("v3 *") and lines[-1] == "v3 is active. v2 was active before it."
    assert len({one.digest for one in found.versions}) == 3


def test_going_back_goes_the_way_that_was_come(folder: Path) -> None:
    unhub.activate(folder, "v1")
    assert active(folder).startswith("is")
    ways = []
    for _ in range(2):
        back = unhub.activate(folder)
        ways.append((back.active, back.back))
    assert ways == [("v3", "v2"), ("v2", "v1")]
    unhub.activate(folder)
    with pytest.raises(ValueError, match=r"^version has nothing before it; activate another one by its name"):
        unhub.activate(folder)
    assert active(folder).startswith("is")


def test_a_version_may_wait(folder: Path) -> None:
    found = unhub.keep(fitted(3), folder, active=False)
    assert (len(found.versions), found.active) == (4, "v3")
    assert unhub.activate(folder, "v4").back == "v3"
    with pytest.raises(ValueError, match=r"^version 'v9' is unknown; the newest versions are v1, v2, v3, v4"):
        unhub.activate(folder, "v9")


def test_a_damaged_version_is_told_of_and_does_not_become_active(folder: Path) -> None:
    (folder / "v2.unhub").write_bytes((folder / "v2.unhub").read_bytes()[:-9])
    told = unhub.history(folder).versions[1]
    assert "truncated" in told.problem and told.method == ""
    for way in ("v2", None):
        with pytest.raises(ValueError, match=r"v2\.unhub: truncated"):
            unhub.activate(folder, way)
    assert active(folder) == "csls:k=3"


def test_what_was_cut_short_is_no_version_and_its_number_is_not_given_again(folder: Path) -> None:
    unhub.save(fitted(3), folder / "v4.unhub")  # a writer was killed before it wrote v4.json
    assert len(unhub.history(folder).versions) == 3
    assert unhub.keep(fitted(3), folder).active == "v5"


def test_a_first_version_that_was_cut_short_is_not_in_the_way(tmp_path: Path) -> None:
    place = tmp_path / "versions"
    place.mkdir()
    unhub.save(fitted(3), place / "v1.unhub")
    with pytest.raises(ValueError, match="is a folder of other things"):
        unhub.keep(fitted(3), place)  # nobody held it: somebody's own file
    os.close(hold_folder(place, "folder"))  # a writer was killed before it wrote v1.json
    (place / "notes.txt").touch()
    with pytest.raises(ValueError, match="is a folder of other things"):
        unhub.keep(fitted(3), place)
    (place / "notes.txt").unlink()
    assert unhub.keep(fitted(3), place).active == "v2"
    assert [one.name for one in unhub.history(place).versions] == ["v2"]


def test_the_oldest_are_dropped_but_never_the_active_one_or_the_way_back(tmp_path: Path) -> None:
    place, one = tmp_path / "versions", fitted(0)
    unhub.keep(one, place)
    for number in range(2, MOST_VERSIONS + 1):
        (place / f"v{number}.unhub").write_bytes((place / "v1.unhub").read_bytes())
        write_about(place, f"v{number}", AboutVersion(0.0, "x"))
    unhub.activate(place, "v5")
    for _ in range(3):
        found = unhub.keep(one, place, active=False)
    names = [each.name for each in found.versions]
    assert names == ["v1", *(f"v{number}" for number in range(5, MOST_VERSIONS + 4))]
    assert not list(place.glob("v2.*"))


def test_a_service_and_a_person_keep_the_same_folder(folder: Path) -> None:
    state = folder.parent / "state"
    state.mkdir()
    folder.rename(state / "corrections")
    kept = KeptVersions(state / "corrections")
    assert [one.name for one in kept] == ["v1", "v2", "v3"]
    assert kept.history is not None and (kept.history.active, kept.before()) == ("v3", "v2")
    kept.roll_back()
    assert unhub.history(state).active == "v2" and active(state).startswith("nnn")
    lock = hold_folder(state, "state")
    try:
        for place in (state, state / "corrections"):
            assert unhub.history(place).active == "v2"  # reading waits for nobody
            with pytest.raises(ValueError, match=r"^folder .* is in use by a service or another writer; wait"):
                unhub.activate(place, "v1")
            with pytest.raises(ValueError, match="is in use by a service"):
                unhub.keep(fitted(0), place)
    finally:
        os.close(lock)
    assert unhub.activate(state, "v1").active == "v1"
    assert KeptVersions(state / "corrections")["v1"].correction.spec == fitted(0).spec


def test_what_is_no_folder_of_versions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"^folder .*other is a folder of other things; name a new folder"):
        unhub.keep(fitted(0), tmp_path / "other")
    for place, words in (("other", "holds no versions"), ("none", "is not there"), ("other/notes.txt", "is a file")):
        with pytest.raises(ValueError, match=rf"^folder .* {words}"):
            unhub.history(tmp_path / place)
    assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match=r"^correction must be a fitted correction to keep"):
        unhub.keep("c.unhub", tmp_path / "new")  # type: ignore[arg-type]
    unhub.keep(fitted(0), tmp_path / "new")
    (tmp_path / "new" / "active.json").unlink()
    with pytest.raises(ValueError, match="has no active version; activate one"):
        unhub.load(tmp_path / "new")


def test_a_folder_of_other_things_loses_nothing(tmp_path: Path) -> None:
    others = tmp_path / "configs"
    others.mkdir()
    for number in range(1, MOST_VERSIONS + 6):
        (others / f"v{number}.json").write_text('{"lr": 1}')
    (others / "v1.ckpt").write_text("weights")
    np.save(tmp_path / "items.npy", ITEMS)
    np.save(tmp_path / "bank.npy", BANK)
    fit = ("fit", "--items", "items.npy", "--bank", "bank.npy", "-o", "configs")
    names = sorted(path.name for path in others.iterdir())
    with pytest.raises(ValueError, match=r"^folder .*configs is a folder of other things"):
        unhub.keep(fitted(0), others)
    assert "configs is a folder; name a file to write" in fail(tmp_path, *fit)
    for number in range(1, MOST_VERSIONS + 6):  # corrections with notes of somebody beside them
        unhub.save(fitted(0), others / f"v{number}.unhub")
        names.append(f"v{number}.unhub")
    with pytest.raises(ValueError, match=r"v1\.json: is not what a folder of versions holds"):
        unhub.keep(fitted(0), others)
    assert "v1.json: is not what a folder of versions holds" in fail(tmp_path, *fit)
    assert sorted(path.name for path in others.iterdir()) == sorted(names)


def test_only_the_own_files_of_a_version_are_dropped(folder: Path) -> None:
    for name in ("v1.ckpt", "v1.unhub.md"):
        (folder / name).write_text("mine")
    forget_version(folder, "v1")
    assert {path.name for path in folder.glob("v1*")} == {"v1.ckpt", "v1.unhub.md"}


def test_a_long_reason_is_cut_where_it_is_shown(tmp_path: Path) -> None:
    why = f"Tuned: {'is was chosen. ' * 30}"
    kept = unhub.keep(fitted(0), tmp_path / "kept", why=why)
    assert kept.versions[0].why == why
    cell = kept.cells()[0][-1]
    assert cell.startswith("Tuned: is was chosen.") and cell.endswith(" …") and len(cell) <= 80
    assert unhub.keep(fitted(0), tmp_path / "kept", why="Replaced 2 items.").cells()[1][-1] == "Replaced 2 items."


# On the command line.


def test_the_command_lists_keeps_and_goes_back(tmp_path: Path) -> None:
    write_fitted(write_inputs(tmp_path))
    told: dict[str, Any] = json.loads(
        succeed(tmp_path, "history", "kept", "--keep", "fitted.unhub", "--why", "First.", "--json")
    )
    assert (told["active"], told["versions"][0]["why"]) == ("v1", "First.")
    fit = ("fit", "--items", "items.npy", "--item-ids", "names.txt", "--bank", "bank.npy", "-o", "kept")
    assert json.loads(succeed(tmp_path, *fit, "--json"))["path"] == "kept/v2.unhub"
    (tmp_path / "gone.txt").write_text(f"{NAMES[3]}\n")
    succeed(tmp_path, "remove", "--correction", "kept", "--ids", "gone.txt", "-o", "kept")
    assert [len(unhub.load(tmp_path / "kept" / f"v{number}.unhub")) for number in (1, 2, 3)] == [40, 40, 39]
    fitted_why, removed_why = (one.why for one in unhub.history(tmp_path / "kept").versions[1:])
    assert fitted_why.startswith("Fitted: is") and removed_why == "Removed 1 item."
    moved = np.load(tmp_path / "items.npy")
    moved[[5, 7]] *= -1
    np.save(tmp_path / "moved.npy", moved)
    replaced = (
        "replace",
        "--correction",
        "kept",
        "--items",
        "moved.npy",
        "--item-ids",
        "names.txt",
        "--ids",
        "two.txt",
    )
    (tmp_path / "two.txt").write_text(f"{NAMES[5]}\n{NAMES[7]}\n")
    succeed(tmp_path, *replaced, "--bank", "bank.npy", "-o", "kept")
    assert unhub.history(tmp_path / "kept").versions[-1].why == "Replaced 2 items."
    tuned = ("tune", *fit[1:7], "--methods", "is", "--allow-raw", "-o", "kept", "--json")
    done = here(tmp_path, *tuned)
    assert done.stderr.endswith("39 items; 0 are gone, 1 is new\n")
    reason = json.loads(done.stdout)["reason"]
    assert unhub.history(tmp_path / "kept").versions[-1].why == f"Tuned: {reason}"
    for _ in range(2):
        succeed(tmp_path, "history", "kept", "--rollback", "--quiet")
    printed = succeed(tmp_path, "history", "kept")
    assert [line.rstrip() for line in printed.splitlines()] == str(unhub.history(tmp_path / "kept")).splitlines()
    succeed(tmp_path, "history", "kept", "--rollback", "--quiet")
    assert json.loads(succeed(tmp_path, "info", "kept", "--json"))["items"]["count"] == 40
    search = ("search", "--items", "items.npy", "--item-ids", "names.txt", "--correction", "kept", "--queries")
    assert len(json.loads(succeed(tmp_path, *search, "queries.npy", "--json"))) == 3
    succeed(tmp_path, "history", "kept", "--activate", "v1")
    assert unhub.load(tmp_path / "kept").spec.startswith("nnn")


@pytest.mark.parametrize("command", [("fit",), ("tune", "--methods", "is", "--allow-raw")])
def test_a_version_of_other_items_is_noted(tmp_path: Path, command: tuple[str, ...]) -> None:
    unhub.keep(unhub.fit(write_items(tmp_path), BANK), tmp_path / "kept")
    options = ("--item-ids", "now.txt", "--items", "items.npy", "--bank", "bank.npy", "-o", "kept")
    (tmp_path / "now.txt").write_text("\n".join([*NAMES[:-1], "a new one"]))
    done = here(tmp_path, *command, *options)
    note = "unhub: note: the version that was active in kept has 40 items; 1 is gone, 1 is new\n"
    assert (done.returncode, done.stderr) == (0, note)
    assert succeed(tmp_path, *command, *options)  # of the same items there is nothing to say
    (tmp_path / "now.txt").write_text("\n".join(map(str, range(40))))
    assert here(tmp_path, *command, *options, "--quiet").stderr == ""
    (tmp_path / "now.txt").write_text("\n".join(NAMES))
    assert here(tmp_path, *command, *options).stderr.endswith("40 items; 40 are gone, 40 are new\n")


def write_items(folder: Path) -> unhub.Vectors:
    """Write the inputs of a fit, and return the items under their names."""
    write_inputs(folder)
    return unhub.Vectors(np.array(NAMES), ITEMS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none",), "DIR none is not there; name a folder"),
        ((".",), "DIR . holds no versions; keep a correction there first"),
        (("kept", "--rollback"), "version has nothing before it; activate another one by its name"),
        (
            ("kept", "--rollback", "--activate", "v1"),
            "--keep --activate and --rollback are different changes",
        ),
        (("kept", "--why", "x"), "--why is about a version that is added; give --keep too"),
        (("kept", "--keep", "items.npy"), "--keep: items.npy: truncated, or not a file that unhub saved"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    np.save(tmp_path / "items.npy", ITEMS)
    unhub.keep(fitted(0), tmp_path / "kept")
    assert words in fail(tmp_path, "history", *arguments)
