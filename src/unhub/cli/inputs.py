"""Files as options name them, each mistake blamed on its own option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unhub.cli.errors import argument

if TYPE_CHECKING:
    from unhub.atomic import FileKind
    from unhub.correction import Correction
    from unhub.data.vectors import Rows, Vectors


def check_outputs(outputs: Mapping[str, tuple[Path | None, FileKind | None]], *inputs: Path | None) -> None:
    """Check the files that options name to be written: each can be, none is an input, no two are one.

    With each goes the kind of file that it may replace.
    """
    from unhub import files

    taken: dict[Path, str] = {}
    for option, (path, kind) in outputs.items():
        if path is None:
            continue
        with argument(option):
            first = taken.setdefault(files.check_target(path, *inputs, kind=kind), option)
            if first != option:
                raise ValueError(f"{path} is what {first} names too; name another file")


def check_methods(specs: Iterable[str], option: str) -> None:
    """Check methods and their parameters before anything is read."""
    from unhub.methods import parse

    with argument(option):
        for spec in specs:
            parse(spec)


def read_given(path: Path, option: str) -> Vectors:
    """Read the vectors of an option; whatever the command calls with them, each row is checked and hashed once."""
    from unhub import files
    from unhub.matching import checked_once

    with argument(option):
        return checked_once(files.read_vectors(path), option)


def read_optional(path: Path | None, option: str) -> Vectors | None:
    """Read the vectors of an option that may be left out."""
    return None if path is None else read_given(path, option)


def read_named(
    path: Path, ids: Path | None, option: str = "--items", ids_option: str = "--item-ids", text: bool = False
) -> Vectors:
    """Read vectors whose ids may stand in a file of their own, with `text` as strings whatever they look like."""
    from unhub import files
    from unhub.matching import checked_once

    if ids is None:
        return read_given(path, option)
    with argument(ids_option):
        names = files.read_ids(ids, text=text)
    with argument(option):
        rows = files.read_rows(path)
    with argument(ids_option):
        return checked_once(files.name_rows(rows, names, str(ids)), option)


def read_followed(
    path: Path, ids: Path | None, fitted: Correction, option: str = "--items", ids_option: str = "--item-ids"
) -> Vectors | Rows:
    """Read items for upkeep, which numbers rows without ids itself."""
    from unhub import files

    if ids is not None:
        return read_named(path, ids, option, ids_option, text=fitted.ids.dtype.kind == "U")
    with argument(option):
        return files.read_as_held(path)
