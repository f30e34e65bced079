"""Hashes of files: a file is read once, and again when it changed."""

import hashlib
import os
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest

from unhub.embed.file_hashes import MEMORY, content_hashes

pytestmark = pytest.mark.once

LONG_AGO = 1_700_000_000_000_000_000


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the files whose content was read."""
    sizes: list[int] = []
    digest = hashlib.file_digest

    def noted(file: BufferedReader, make: Callable[[], Any]) -> Any:
        sizes.append(os.fstat(file.fileno()).st_size)
        return digest(file, make)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    return sizes


def write(path: Path, content: bytes, changed: int = LONG_AGO) -> Path:
    path.write_bytes(content)
    os.utime(path, ns=(changed, changed))
    return path


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, opened: list[int]) -> None:
    paths = [write(tmp_path / name, content) for name, content in (("a", b"one"), ("b", b"two"), ("c", b"one"))]
    first = content_hashes(paths, tmp_path)
    assert first[0] == first[2] != first[1]
    assert content_hashes(paths, tmp_path) == first and len(opened) == 3
    write(paths[1], b"owt", LONG_AGO + 1)  # the same size, a nanosecond later
    changed = content_hashes(paths, tmp_path)
    assert (changed[0], changed[2]) == (first[0], first[2]) and changed[1] != first[1]
    assert len(opened) == 4 and content_hashes(paths, tmp_path) == changed and len(opened) == 4


def test_another_file_under_the_same_name_and_time_is_read(tmp_path: Path, opened: list[int]) -> None:
    path = write(tmp_path / "a", b"one")
    first = content_hashes([path], tmp_path)
    write(tmp_path / "b", b"two").replace(path)
    assert content_hashes([path], tmp_path) != first and len(opened) == 2


def test_what_was_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    assert content_hashes([tmp_path / "a"], tmp_path)[0]
    assert not (tmp_path / MEMORY).exists()


def test_a_damaged_memory_costs_only_time(tmp_path: Path, opened: list[int]) -> None:
    path = write(tmp_path / "a", b"one")
    first = content_hashes([path], tmp_path)
    memory = tmp_path / MEMORY
    memory.write_bytes(memory.read_bytes()[:-9] + b"\n3\n[]\n\xff" + b" [")
    assert content_hashes([path], tmp_path) == first and len(opened) == 2
    assert content_hashes([path], tmp_path) == first and len(opened) == 2


def test_a_file_that_cannot_be_read_has_no_hash(tmp_path: Path) -> None:
    assert content_hashes([tmp_path / "none", tmp_path], tmp_path) == [None, None]
