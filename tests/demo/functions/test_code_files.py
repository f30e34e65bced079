"""Which files are read: by the rules, in one order, whatever the folders hold."""

import os
import sysconfig
from pathlib import Path

import pytest

from unhub.demo.functions import code_files
from unhub.demo.functions.code_files import find_code

pytestmark = pytest.mark.once


def write(folder: Path, *names: str, size: int = 10) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("#" * size)
    return folder


def labels(*named: str) -> list[str]:
    return [one.label for one in find_code(named).files]


def test_files_come_in_order_without_tests_and_hidden_folders(tmp_path: Path) -> None:
    project = write(
        tmp_path / "mine",
        *("b.py", "a.py", "a/z.py", "a/y.txt", "a/b/c.py", "conftest.py", "test_a.py", "a_test.py"),
        *("tests/x.py", "a/test/x.py", ".git/x.py", "__pycache__/x.py", "env/pyvenv.cfg", "env/lib/x.py"),
        *("testing/x.py", "contest.py"),
    )
    assert labels(str(project)) == [
        f"mine/{one}" for one in ("a.py", "b.py", "contest.py", "a/z.py", "a/b/c.py", "testing/x.py")
    ]
    assert labels(str(project)) == labels(str(project), str(project))


def test_links_in_circles_and_to_nowhere_are_passed_over(tmp_path: Path) -> None:
    project = write(tmp_path / "mine", "a.py", "b/c.py")
    (project / "b" / "again").symlink_to(project)
    (project / "gone.py").symlink_to(project / "nowhere.py")
    (project / "link.py").symlink_to(project / "a.py")
    assert labels(str(project)) == ["mine/a.py", "mine/link.py", "mine/b/c.py"]


def test_a_pipe_is_passed_over(tmp_path: Path) -> None:
    project = write(tmp_path / "mine", "a.py")
    os.mkfifo(project / "b.py")
    assert labels(str(project)) == ["mine/a.py"]


def test_an_empty_name_is_not_the_folder_one_is_in() -> None:
    with pytest.raises(ValueError, match="code"):
        find_code([""])


def test_large_files_and_closed_folders_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = write(tmp_path / "mine", "a.py", "closed/b.py")
    write(project, "large.py", size=code_files.MOST_FILE_BYTES + 1)
    listing = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = find_code([str(project)])
    assert ([one.label for one in found.files], found.too_large, found.closed) == (["mine/a.py"], 1, 1)


def test_labels_are_different(tmp_path: Path) -> None:
    one, other = (write(tmp_path / side / "mine", "a.py") for side in ("left", "right"))
    assert labels(str(one), str(other)) == ["mine/a.py", str(other / "a.py")]


def test_a_name_that_is_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="code 'nothing' is neither a folder nor an installed package; name a folder"):
        find_code(["nothing"])


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of packages that stands for what is installed, beside a small standard library."""
    library = write(tmp_path / "lib", "os.py", "json/decoder.py", "test/x.py", "site-packages/not/here.py")
    packages = write(tmp_path / "site", "small/a.py", "single.py", "small-1.0.dist-info/x.py", "small/tests/b.py")
    write(packages, "numpy/a.py", size=50)
    write(packages, "large/a.py", "large/b.py", size=100)
    paths = {"stdlib": str(library), "purelib": str(packages), "platlib": str(packages)}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: paths)
    return packages


@pytest.mark.usefixtures("installed")
def test_by_default_everything_installed_is_read() -> None:
    found = find_code()
    assert [(one.label, one.package) for one in found.files] == [
        ("os.py", "the standard library"),
        ("json/decoder.py", "the standard library"),
        ("numpy/a.py", "numpy"),
        ("single.py", "single"),
        ("small/a.py", "small"),
        ("large/a.py", "large"),
        ("large/b.py", "large"),
    ]
    assert found.left_out == ()


@pytest.mark.usefixtures("installed")
def test_packages_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "MOST_BYTES", 100)
    found = find_code()
    assert ({one.package for one in found.files}, found.left_out) == (
        {"the standard library", "numpy", "single", "small"},
        ("large",),
    )
    assert found.size == 90


@pytest.mark.usefixtures("installed")
def test_packages_and_the_standard_library_can_be_named() -> None:
    assert labels("stdlib") == ["os.py", "json/decoder.py"]
    assert labels("large", "single") == ["large/a.py", "large/b.py", "single.py"]
