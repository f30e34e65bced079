"""Files that hold several arrays by name: which one is meant, and pickles, which are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from unhub.data.vectors import Rows
from unhub.errors import nearest_name
from unhub.frames.frame_columns import PARTS

NAME_MARK = "#"  # between a file and the name of an array in it: features.mat#sim
PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
MOST_LISTED = 12  # arrays that an error lists
MOST_DEFLATE_RATIO = 1100  # bytes of an array for each byte in its file: deflate reaches 1032
CONVERT = (
    "if you trust its author, load it in a container without network, save the array by numpy.save, and give the .npy "
    "file"
)


class Pickled(ValueError):
    """A file that can only be read by running what is in it."""


def pickled(path: object, what: str = "pickled objects") -> Pickled:
    """Return the error for a file that holds pickled objects."""
    return Pickled(f"{path}: holds {what}, and reading them would run any code in the file; {CONVERT}")


class HeldArray(NamedTuple):
    """An array in a file: its shape, and whether it holds plain real numbers."""

    shape: tuple[int, ...]
    is_numeric: bool

    @property
    def is_matrix(self) -> bool:
        return self.is_numeric and len(self.shape) == 2


class NamedArrays(NamedTuple):
    """The arrays of a file, and what maps or reads one of them."""

    held: Mapping[str, HeldArray]
    read: Callable[[str], Rows]


def split_name(place: str) -> tuple[str, str | None]:
    """Split `file.mat#sim` into the file and the name of an array in it; a file may have the mark in its own name.

    Behind a folder, a pattern or a remote address, only columns that are named, as in `vector=clip`, are split off.
    """
    if not Path(place).exists():
        for at, letter in enumerate(place):
            if letter == NAME_MARK and Path(place[:at]).is_file():
                return place[:at], place[at + 1 :]
    several, mark, name = place.rpartition(NAME_MARK)
    if mark and several and name.startswith(tuple(f"{part}=" for part in PARTS)) and not Path(place).exists():
        return several, name
    return place, None


def choose(path: Path, held: Mapping[str, HeldArray], name: str | None, preferred: Iterable[str] = ()) -> str:
    """Return the array that is meant: the one named, else a preferred one, else the only matrix.

    A matrix of one row or column does not count beside others, because MATLAB keeps every number as a matrix.
    """
    if name is not None and name in held:
        return name
    listed = _listed(held)
    if name is not None:
        near = nearest_name(name, held)
        raise ValueError(
            f"{path}: holds no array {name!r}{f', did you mean {near!r}?' if near else ''}; it holds {listed}"
        )
    matrices = [one for one, array in held.items() if array.is_matrix]
    wide = [one for one in matrices if min(held[one].shape) > 1] or matrices
    alone = list(held) if len(held) == 1 else []  # whatever it is: its reader says what is wrong with it
    found = [one for one in preferred if one in held][:1] or wide or alone
    if len(found) == 1:
        return found[0]
    several = f"name one, as in {path.name}{NAME_MARK}{found[0]}" if found else "none is a matrix of real numbers"
    raise ValueError(f"{path}: holds {listed}; {several}")


def _listed(held: Mapping[str, HeldArray]) -> str:
    """Return names and shapes for an error; arrays that are not of numbers are said to be so."""
    if not held:
        return "no arrays"
    shown = [
        f"{name or 'one array without a name'} {array.shape}{'' if array.is_numeric else ' not of numbers'}"
        for name, array in list(held.items())[:MOST_LISTED]
    ]
    more = len(held) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def check_size(path: Path, name: str, shape: tuple[int, ...], itemsize: int, stored: int) -> None:
    """Raise if an array claims more than its bytes in the file can unfold to, before memory is taken for it."""
    claimed = math.prod(shape) * itemsize
    if claimed > MOST_DEFLATE_RATIO * (stored + 1):
        raise ValueError(f"{path}: {name} should have {claimed:,} bytes, and the file has {stored:,} of them")


def refuse_pickle(path: Path) -> None:
    """Raise if a file is a pickle by its name."""
    if path.suffix.lower() in PICKLES:
        path.stat()
        raise pickled(path)


def no_reader(path: Path, known: Iterable[str]) -> ValueError:
    """Return the error for a file that is there and cannot be read; a missing one is a FileNotFoundError."""
    path.stat()
    named = f"files named *{path.suffix}" if path.suffix else kind_of(path)
    return ValueError(f"{path}: no reader for {named}; there are {', '.join(known)}")


def if_a_log(path: object) -> str:
    """Say what to do with a query log where vectors are wanted."""
    return f"if it is a query log, give the folder that `unhub log add {path} --bank DIR` makes of it"


def kind_of(path: Path) -> str:
    """Return what a path is, for an error that says that it cannot be read."""
    return "a folder" if path.is_dir() else f"*{path.suffix}" if path.suffix else "a file whose name has no suffix"
