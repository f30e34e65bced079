"""Exporting: the data of the demo as files that the other commands read."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from unhub.atomic import beside, check_target
from unhub.demo.space import FOLDER, Space, Split
from unhub.files.writers import write_npz

SPLITS: tuple[Split, ...] = ("bank", "val", "test")


def write_files(space: Space, folder: Path, source: Path | None = None) -> list[str]:
    """Copy the shipped files to a new folder, add the queries as vectors, and return the names of the files.

    For each split, NAME.npz has its texts as vectors, each once, NAME.csv the emoji that each asks for (query_id,
    item_id), and NAME_texts.csv the texts (id, text). names.csv has the names of the emoji. The folder appears complete
    or not at all; an existing folder must be empty.
    """
    target = _new_folder(folder)
    part = beside(target)
    try:
        shutil.copytree(source or FOLDER, part)
        _write(part / "names.csv", ("id", "text"), zip(space.items.ids.tolist(), space.names, strict=True))
        for split in SPLITS:
            asked, relevance = space.descriptions(split).joined()
            pairs = zip(relevance.query_ids.tolist(), relevance.item_ids.tolist(), strict=True)
            write_npz(asked.vectors, part / f"{split}.npz")
            _write(part / f"{split}.csv", ("query_id", "item_id"), pairs)
            _write(part / f"{split}_texts.csv", ("id", "text"), enumerate(asked.texts))
        if target.is_dir():
            target.rmdir()
        os.replace(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return sorted(path.name for path in target.iterdir())


def _new_folder(folder: Path) -> Path:
    """Return the folder to write, links followed; raise if it cannot be written or is not empty."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty; name a new folder")
        return check_target(folder / "items.npz").parent
    if folder.exists():
        raise NotADirectoryError(f"{folder} is a file; name a new folder")
    return check_target(folder)


def _write(path: Path, heads: tuple[str, str], rows: Iterable[tuple[object, object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)
