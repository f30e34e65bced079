"""Errors as values: an argument that is wrong, a library that is missing."""

from __future__ import annotations

import difflib
import importlib
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from numbers import Integral
from pathlib import Path
from types import ModuleType

PACKAGES = {  # modules whose package has another name
    "PIL": "Pillow",
    "grpc": "grpcio",
    "langchain_core": "langchain-core",
    "open_clip": "open_clip_torch",
    "ot": "POT",
    "sentence_transformers": "sentence-transformers",
    "sklearn": "scikit-learn",
}


class ArgumentError(ValueError):
    """An argument that is wrong.

    name: the argument, as a caller of the library writes it. problem: what is wrong, with the value seen, as the rest
    of a sentence that begins with the name: "must be at least 1, got 0". remedy: what to do about it; may be empty.

    A shell renders the fields in its own words, such as `--bank-items` for bank_items. No code parses the text.
    """

    def __init__(self, name: str, problem: str, remedy: str = "") -> None:
        super().__init__(name, problem, remedy)  # all of them, so that the error can be pickled
        self.name, self.problem, self.remedy = name, problem, remedy

    def __str__(self) -> str:
        """Return one sentence: the name, the problem and the remedy."""
        return f"{self.name} {self.problem}" + (f"; {self.remedy}" if self.remedy else "")

    def of(self, name: str) -> ArgumentError:
        """Return the same error with the name that a function or a shell uses for the argument."""
        return ArgumentError(name, self.problem, self.remedy)


class MissingLibrary(ImportError):
    """An argument whose value needs a library that is not installed; the fields are like those of an ArgumentError."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.argument, self.problem = name, problem

    def __str__(self) -> str:
        """Return one sentence: the name, and the problem, which ends with the command that installs the library."""
        return f"{self.argument} {self.problem}"

    def of(self, name: str) -> MissingLibrary:
        """Return the same error with the name that a function or a shell uses for the argument."""
        return MissingLibrary(name, self.problem)


class LogFileError(ValueError):
    """A query log that cannot be read, among other files; the text names the file."""


class EmptyLogError(LogFileError):
    """A log that holds no query yet, as after a quiet night; whoever only adds to what is there goes on."""


@contextmanager
def naming_file() -> Iterator[None]:
    """Raise an ArgumentError named after a file as a plain ValueError, which no shell renames."""
    try:
        yield
    except ArgumentError as error:
        raise ValueError(str(error)) from None


@contextmanager
def reading_log() -> Iterator[None]:
    """Raise what is wrong with a file of a log as a LogFileError."""
    try:
        yield
    except (ArgumentError, LogFileError):
        raise
    except ValueError as error:
        raise LogFileError(str(error)) from None


def unknown(argument: str, value: object, names: Iterable[str], plural: str) -> ArgumentError:
    """Return the error for a value that is not a known name; it lists the names, the nearest first.

    plural: what the names are, for example "methods".
    """
    known = list(names)
    remedy = f"the {plural} are {', '.join(known)}"
    near = nearest_name(value, known)
    return ArgumentError(argument, f"{value!r} is unknown", f"did you mean {near!r}? {remedy}" if near else remedy)


def nearest_name(value: object, names: Iterable[str]) -> str | None:
    """Return the name that a value was probably meant to be, or None."""
    close = difflib.get_close_matches(str(value).lower(), list(names), n=1, cutoff=0.5)
    return close[0] if close else None


def optional(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module that `purpose` needs, or raise an ImportError with the command that installs its extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:  # a broken installation keeps its own error
        raise ImportError(f"{purpose} {_needs(module, extra)}") from error


def optional_for(name: str, value: object, module: str, extra: str) -> ModuleType:
    """Do `optional` for a value of an argument, which the error names."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingLibrary(name, f"is {value!r}, which {_needs(module, extra)}") from error


def _needs(module: str, extra: str) -> str:
    name = module.partition(".")[0]
    return f"needs {PACKAGES.get(name, name)}: {install_line(extra)}"


def install_line(extra: str) -> str:
    """Return the command that installs an extra into the Python that is running."""
    try:
        metadata.distribution("unhub")
        source = "unhub"
    except metadata.PackageNotFoundError:
        source = str(Path(__file__).parents[2])  # a checkout on the path
    return shlex.join([sys.executable, "-m", "pip", "install", f"{source}[{extra}]"])


def seen(value: object) -> str:
    """Return a value as an error shows it: an array by its type and shape, anything else as Python writes it."""
    shape = getattr(value, "shape", ())
    return f"{type(value).__name__} of shape {tuple(shape)}" if shape else repr(value)


def check_whole(value: int, name: str, least: int, why: str = "") -> int:
    """Return a number as an int; raise unless it is whole and at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ArgumentError(name, f"must be a whole number of at least {least}{why}, got {seen(value)}")
    return int(value)


def check_seed(seed: int) -> int:
    """Return a seed as an int; raise unless numpy accepts it."""
    return check_whole(seed, "seed", 0)
