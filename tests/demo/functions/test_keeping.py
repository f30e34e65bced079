"""What is kept between two demos: whole, or not at all, and never of other code."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.function_code import write_project
from tests.silence import in_silence
from unhub import kernels
from unhub.demo.functions import keeping
from unhub.demo.functions.code_files import find_code
from unhub.demo.functions.keeping import CacheEntry, cache_folder
from unhub.demo.functions.opening import Opened, open_library

pytestmark = pytest.mark.once


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "unhub"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "mine")


def opened(project: Path) -> Opened:
    with kernels.prefer("numpy"):
        return open_library([str(project)], in_silence, threads=1)


def same(one: Opened, other: Opened) -> None:
    for field in ("ids", "names", "questions", "answers", "packages", "copies", "unread"):
        assert getattr(one.library.read, field) == getattr(other.library.read, field)
    for field in ("rows", "question_rows", "weights"):
        np.testing.assert_array_equal(getattr(one.library.read, field), getattr(other.library.read, field))
    first, second = one.library.correction, other.library.correction
    assert isinstance(first, unhub.Bias) and isinstance(second, unhub.Bias)
    np.testing.assert_array_equal(first.bias, second.bias)


def endings(cache: Path) -> list[str]:
    return sorted(path.suffix for path in cache.iterdir())


def test_what_was_read_and_fitted_is_kept(project: Path, cache: Path) -> None:
    first, second = opened(project), opened(project)
    assert (first.kept, second.kept) == (False, True)
    same(first, second)
    assert endings(cache) == [".safetensors", ".unhub"]


def test_a_change_is_read_anew(project: Path, cache: Path) -> None:
    opened(project)
    with (project / "files.py").open("a") as file:
        file.write('\ndef more(a):\n    """Do more with the file."""\n    return one(two, three, four, five, six, a)\n')
    again = opened(project)
    assert not again.kept and len(again.library.items) == 97
    (project / "songs.py").unlink()
    assert len(opened(project).library.items) == 85


@pytest.mark.parametrize("ending", [".safetensors", ".unhub"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "nonsense"])
def test_a_damaged_file_is_made_again(ending: str, damage: str, project: Path, cache: Path) -> None:
    first = opened(project)
    (path,) = cache.glob(f"*{ending}")
    whole = path.read_bytes()
    path.write_bytes(
        {"cut": whole[:-100], "changed": whole[:-9] + b"\x17" + whole[-8:], "empty": b"", "nonsense": b"nonsense"}[
            damage
        ]
    )
    second = opened(project)
    assert second.kept is (ending == ".unhub")
    same(first, second)
    mended = path.read_bytes()
    assert mended[-100:] == whole[-100:]  # the arrays; the head also has the seconds of the fit
    assert opened(project).kept
    assert path.read_bytes() == mended


def test_a_correction_of_other_items_is_not_used(project: Path, cache: Path, tmp_path: Path) -> None:
    opened(project)
    other = write_project(tmp_path / "other")
    (other / "songs.py").unlink()
    opened(other)
    corrections = sorted(cache.glob("*.unhub"))
    before, after = (path.read_bytes() for path in corrections)
    corrections[0].write_bytes(after)
    corrections[1].write_bytes(before)
    kept = opened(project).library
    assert len(kept.correction) == len(kept.items) == 96
    unhub.searcher(kept.items, kept.correction)


def test_a_cache_that_cannot_be_written_is_no_error(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not opened(project).kept
    assert not opened(project).kept
    monkeypatch.setattr(keeping, "cache_folder", lambda: None)
    assert not opened(project).kept


def test_at_most_two_entries_stay_and_strays_go(project: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    stray, fresh = (cache / f".functions-ab.safetensors.0000000{number}.tmp" for number in (1, 2))
    stray.touch()
    fresh.touch()
    os.utime(stray, (1, 1))
    (cache / "other.txt").touch()
    for number in range(4):
        (project / "files.py").write_text((project / "files.py").read_text() + f"# {number}\n")
        opened(project)
        time.sleep(0.01)
    assert len(list(cache.glob("functions-*.safetensors"))) == 2
    assert len(list(cache.glob("functions-*.unhub"))) == 2
    assert not stray.exists() and fresh.exists() and (cache / "other.txt").exists()
    assert opened(project).kept


PROGRAM = """
import sys
from tests.silence import in_silence
from unhub import kernels
from unhub.demo.functions.opening import open_library
with kernels.prefer("numpy"):
    print(len(open_library([sys.argv[1]], in_silence, threads=1).library.items))
"""


def test_two_processes_at_once_do_not_disturb_each_other(project: Path, cache: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(project)]
    root = Path(__file__).parents[3]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)]
    assert [one.communicate(timeout=100)[0] for one in both] == ["96\n", "96\n"]
    assert endings(cache) == [".safetensors", ".unhub"]


def test_a_process_killed_while_it_writes_leaves_the_next_one_unharmed(
    project: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = CacheEntry.of(find_code([str(project)]))
    with monkeypatch.context() as patch:

        def killed(*given: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(project)
    assert kept.collection() is None and list(cache.iterdir()) == []
    assert not opened(project).kept
    assert opened(project).kept


@pytest.mark.parametrize(
    ("platform", "given", "wanted"),
    [
        ("linux", {}, ".cache/unhub"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, ".cache/unhub"),
        ("darwin", {}, "Library/Caches/unhub"),
        ("win32", {}, "AppData/Local/unhub/Cache"),
    ],
)
def test_the_folder_is_the_platforms(
    platform: str, given: dict[str, str], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == tmp_path / wanted
