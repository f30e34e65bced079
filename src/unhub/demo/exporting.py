"""Exporting: the data of a demo as files that the other commands read, in a folder that appears whole."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from unhub.atomic import beside, check_target
from unhub.data.relevance import Relevance
from unhub.demo.searched import AskedTexts, Searched
from unhub.files.writers import write_npz


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which becomes `folder` once it is complete, or is removed after an error.

    An existing folder must be empty.
    """
    target = _checked(folder)
    part = beside(target)
    try:
        part.mkdir()
        yield part
        if target.is_dir():
            target.rmdir()
        os.replace(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def write_names(space: Searched, folder: Path) -> None:
    """Write names.csv: the name of each item (id, text)."""
    write_csv(folder / "names.csv", ("id", "text"), zip(space.items.ids.tolist(), space.names, strict=True))


def write_asked(asked: AskedTexts, relevance: Relevance, folder: Path, name: str) -> None:
    """Write queries: NAME.npz has their vectors, NAME.csv the items that each asks for, NAME_texts.csv the texts."""
    pairs = zip(relevance.query_ids.tolist(), relevance.item_ids.tolist(), strict=True)
    write_npz(asked.vectors, folder / f"{name}.npz")
    write_csv(folder / f"{name}.csv", ("query_id", "item_id"), pairs)
    write_csv(folder / f"{name}_texts.csv", ("id", "text"), enumerate(asked.texts))


def _checked(folder: Path) -> Path:
    """Return the folder to write, links followed; raise if it cannot be written or is not empty."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty; name a new folder")
        return check_target(folder / "items.npz").parent
    if folder.exists():
        raise NotADirectoryError(f"{folder} is a file; name a new folder")
    return check_target(folder)


def write_csv(path: Path, heads: tuple[str, str], rows: Iterable[tuple[object, object]]) -> None:
    """Write rows under heads to a new file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)
