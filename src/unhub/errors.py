"""What goes wrong before any work begins: a library that is not installed, a number that is not whole."""

from __future__ import annotations

import importlib
import shlex
import sys
from importlib import metadata
from numbers import Integral
from pathlib import Path
from types import ModuleType

PACKAGES = {"ot": "POT", "PIL": "Pillow"}  # modules that are not named as what a user installs


def optional(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module of an extra, or raise an ImportError with the line that installs it; `purpose` needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:  # one that is there but broken has its own words
        name = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {PACKAGES.get(name, name)}: {install_line(extra)}") from error


def install_line(extra: str) -> str:
    """Return the command that adds an extra to the very Python that runs, wherever unhub was installed from."""
    try:
        metadata.distribution("unhub")
        source = "unhub"
    except metadata.PackageNotFoundError:
        source = str(Path(__file__).parents[2])  # a checkout on the path
    return shlex.join([sys.executable, "-m", "pip", "install", f"{source}[{extra}]"])


def check_whole(value: int, name: str, least: int, why: str = "") -> int:
    """Return a number as an int; raise unless it is whole and large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{why}, got {value!r}")
    return int(value)


def check_seed(seed: int) -> int:
    """Return a seed as an int; raise unless numpy takes it."""
    return check_whole(seed, "seed", 0)
