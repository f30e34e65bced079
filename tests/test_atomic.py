"""Files that appear whole or not at all."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from unhub.atomic import beside, check_target, remove_strays, replacing, strays

pytestmark = pytest.mark.once


def write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text)


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    for text in ("first", "second"):
        write(path, text)
        assert path.read_text() == text
        assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_what_stood_there_stays_after_any_error(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("failing", ["touch", "chmod", "replace"])
def test_an_error_names_the_file_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def refuse(path: str | Path, *other: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path if failing == "touch" else os, failing, refuse)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PermissionError, match=r"^\[Errno 13\] Permission denied: 'out\.txt'$"):
        write(Path("out.txt"), "new")
    assert os.listdir(tmp_path) == []


def test_an_error_that_names_nothing_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        (OSError("2 requested and 1 written"), 10**9, "^cannot write .*out.txt: 2 requested and 1 written$"),
        (OSError("2 requested and 1 written"), 10, r"^\[Errno 28\] No space left on device: '.*out.txt'$"),
        (OSError(28, "No space left on device"), 10, r"^\[Errno 28\] No space left on device: '.*out.txt'$"),
        (OSError(5, "Input/output error"), 10, r"^\[Errno 5\] Input/output error$"),
        (ConnectionError("no answer"), 10, "^no answer$"),
    ]
    for error, free, words in cases:
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        with pytest.raises(type(error), match=words), replacing(tmp_path / "out.txt"):
            raise error
    assert os.listdir(tmp_path) == []


def test_until_it_is_whole_the_old_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_the_mode_of_the_old_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o640)
    write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("name", "error"), [(".", IsADirectoryError), ("nowhere/out.txt", FileNotFoundError), ("pipe", ValueError)]
)
def test_a_place_where_no_file_can_be_is_refused_before_any_work(
    tmp_path: Path, name: str, error: type[Exception]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(error):
        check_target(tmp_path / name)


def test_only_temporaries_of_the_same_file_are_strays(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    left = beside(path)
    others = [tmp_path / ".out.txt.mine.tmp", tmp_path / "out.txt.tmp", beside(tmp_path / "other.txt")]
    for one in (left, *others):
        one.touch()
    assert strays(path) == [left]
    remove_strays(path)
    assert sorted(tmp_path.iterdir()) == sorted(others)
