"""What numba compiled is kept where only this user can write, and nothing depends on such a place."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unhub

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no user ids"),
]

FIT = """
import numpy as np
import unhub
from unhub import kernels
rows = np.random.default_rng(0).standard_normal((60, 8), np.float32)
print(kernels.choose().NAME, unhub.fit(rows[:20], rows[20:], method="is").bias.tobytes().hex())
"""


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """Return a folder with the package, in which not even root can write a cache beside the kernels."""
    package = tmp_path / "unhub"
    package.mkdir()
    for entry in Path(unhub.__file__).parent.iterdir():
        if entry.name not in ("kernels", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    source = Path(unhub.__file__).parent / "kernels"
    shutil.copytree(source, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "kernels" / "__pycache__").touch()
    return tmp_path


def fit(sealed: Path, temporary: Path) -> str:
    """Fit in a process that has no home; nothing may come on stderr."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    homeless = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", FIT],
        cwd=sealed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**surroundings, **homeless, "PYTHONPATH": str(sealed), "TMPDIR": str(temporary)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def fit_at_home() -> str:
    return subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, timeout=120, check=True).stdout


def make(folder: Path, mode: int) -> Path:
    folder.mkdir()
    folder.chmod(mode)
    return folder


def test_where_neither_the_package_nor_home_can_be_written_temporary_files_have_the_cache(sealed: Path) -> None:
    temporary = make(sealed / "tmp", 0o1777)
    assert fit(sealed, temporary) == fit_at_home()
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}
    assert kept and not list((sealed / "unhub").rglob("*.nbc"))
    fit(sealed, temporary)
    assert kept == {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


def test_a_cache_that_others_could_write_is_not_used_and_none_is_needed(sealed: Path) -> None:
    temporary = make(sealed / "tmp", 0o1777)
    others = make(temporary / f"unhub-numba-{os.getuid()}", 0o777)
    assert fit(sealed, temporary) == fit_at_home()
    assert not list(others.iterdir())


@pytest.mark.parametrize(
    ("above", "own", "private"),
    [
        (0o1777, None, True),
        (0o755, None, True),
        (0o1777, 0o700, True),
        (0o777, None, False),  # others could exchange it
        (0o1777, 0o770, False),
        (0o1777, 0o702, False),
    ],
)
def test_the_folder_is_of_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: int, own: int | None, private: bool
) -> None:
    from unhub.kernels import caching

    temporary = make(tmp_path / "tmp", above)
    folder = temporary / f"unhub-numba-{os.getuid()}"
    if own is not None:
        make(folder, own)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert caching.private_folder.__wrapped__() == (folder if private else None)


def test_the_folder_is_not_a_link_nor_a_file_nor_another_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unhub.kernels import caching

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"unhub-numba-{os.getuid()}"
    folder.symlink_to(make(tmp_path / "elsewhere", 0o700))
    assert caching.private_folder.__wrapped__() is None
    folder.unlink()
    folder.touch()
    assert caching.private_folder.__wrapped__() is None
    folder.unlink()
    (tmp_path / f"unhub-numba-{os.getuid() + 1}").mkdir(0o700)  # made by us, so not that user's
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert caching.private_folder.__wrapped__() is None
