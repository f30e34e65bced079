"""Code files: which Python files are read, by written rules, and which are left out.

Without a choice: the standard library, then the packages beside it, up to 32 MB of source, so that a search is ready
in seconds wherever the demo runs. Well-known packages come first, then the others from the smallest; a package that no
longer fits is left out and named. Folders and packages that are named with `--code` are read whole.

Not read: folders of tests, hidden folders, virtual environments, folders behind links, and files over 1 MB.
"""

from __future__ import annotations

import os
import stat
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unhub.errors import ArgumentError

STANDARD_LIBRARY = "stdlib"
MOST_BYTES = 32_000_000  # of source, if nothing is named
MOST_FILE_BYTES = 1_000_000  # a larger file is generated or holds data
PASSED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "__pycache__", "site-packages", "dist-packages", "node_modules"}
)
WELL_KNOWN = ("numpy", "requests", "rich", "click", "jinja2", "flask", "httpx", "matplotlib")


@dataclass(frozen=True)
class CodeFile:
    """A file of code: what it is called, where it is, its size and time of change, and its package."""

    label: str
    path: str
    size: int
    changed: int
    package: str


@dataclass(frozen=True)
class CodeFiles:
    """The files to read, in order, and what is not read.

    too_large: files over 1 MB. closed: folders that cannot be listed. left_out: packages that no longer fit.
    """

    files: tuple[CodeFile, ...]
    too_large: int = 0
    closed: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(one.size for one in self.files)


@dataclass
class _Listing:
    """Collects the files of folders; the labels of files are different."""

    files: list[CodeFile] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    too_large: int = 0
    closed: int = 0

    def add(self, found: Iterable[tuple[str, str]], package: str) -> None:
        """Add files, each a label and a path."""
        for label, path in found:
            try:
                status = os.stat(path)
            except OSError:  # a link that leads nowhere; opened, it would be a file that cannot be read
                continue
            if not stat.S_ISREG(status.st_mode):  # a pipe would never end
                continue
            if status.st_size > MOST_FILE_BYTES:
                self.too_large += 1
                continue
            label = path if label in self.labels else label
            self.labels.add(label)
            self.files.append(CodeFile(label, path, status.st_size, status.st_mtime_ns, package))

    def under(self, folder: str, prefix: str = "") -> Iterator[tuple[str, str]]:
        """Yield the Python files under a folder by name, with the label of each."""
        for here, folders, names in os.walk(folder, onerror=self._count_closed):
            folders[:] = sorted(one for one in folders if _is_code_folder(here, one))
            below = os.path.relpath(here, folder)
            for name in sorted(names):
                if name.endswith(".py") and not _is_test(name):
                    label = os.path.join(prefix, name if below == "." else os.path.join(below, name))
                    yield label.replace(os.sep, "/"), os.path.join(here, name)

    def _count_closed(self, error: OSError) -> None:
        self.closed += 1


def find_code(named: Sequence[str] = ()) -> CodeFiles:
    """Return the files of what is named: `stdlib`, folders, or installed packages; by default, of what is installed."""
    listing = _Listing()
    left_out: list[str] = []
    if named:
        for one in dict.fromkeys(named):
            _add_named(listing, one)
    else:
        _add_named(listing, STANDARD_LIBRARY)
        left_out = _add_packages(listing)
    return CodeFiles(tuple(listing.files), listing.too_large, listing.closed, tuple(left_out))


def _add_named(listing: _Listing, name: str) -> None:
    if name == STANDARD_LIBRARY:
        listing.add(listing.under(sysconfig.get_paths()["stdlib"]), "the standard library")
        return
    folder = Path(name)
    if name and folder.is_dir():
        title = folder.resolve().name
        listing.add(listing.under(str(folder.resolve()), title), title)
        return
    packages = _packages()
    if name not in packages:
        raise ArgumentError(
            "code",
            f"{name!r} is neither a folder nor an installed package",
            f"name a folder with Python files, a package, or {STANDARD_LIBRARY!r}",
        )
    listing.add(_files_of(listing, packages[name]), name)


def _add_packages(listing: _Listing) -> list[str]:
    """Add the installed packages that fit, and return the names of the others."""
    sized = []
    for name, path in _packages().items():
        inside = _Listing()
        inside.add(_files_of(inside, path), name)
        if inside.files:
            sized.append((inside, sum(one.size for one in inside.files), name))
    known = {name: place for place, name in enumerate(WELL_KNOWN)}
    left = MOST_BYTES - sum(one.size for one in listing.files)
    left_out = []
    for inside, size, name in sorted(sized, key=lambda one: (known.get(one[2], len(known)), one[1], one[2])):
        if size > left:
            left_out.append(name)
            continue
        left -= size
        listing.add(((one.label, one.path) for one in inside.files), name)
        listing.too_large += inside.too_large
        listing.closed += inside.closed
    return left_out


def _packages() -> dict[str, str]:
    """Return the packages and modules in the folders of installed packages, by name, with the path of each."""
    paths = sysconfig.get_paths()
    found: dict[str, str] = {}
    for folder in dict.fromkeys((paths["purelib"], paths["platlib"])):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and not _is_test(name):
                found.setdefault(name.removesuffix(".py"), path)
            elif name.isidentifier() and _is_code_folder(folder, name) and os.path.isdir(path):
                found.setdefault(name, path)
    return found


def _files_of(listing: _Listing, path: str) -> Iterator[tuple[str, str]]:
    name = os.path.basename(path)
    return listing.under(path, name) if os.path.isdir(path) else iter([(name, path)])


def _is_code_folder(parent: str, name: str) -> bool:
    if name in PASSED_FOLDERS or name.startswith("."):
        return False
    return not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))  # a virtual environment


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
