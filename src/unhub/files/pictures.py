"""Where the pictures of items are: a folder of files named by id, or a list of paths."""

from __future__ import annotations

import os
from pathlib import Path

from unhub.arrays import Ids
from unhub.files.texts import read_texts


def find_pictures(path: str | os.PathLike[str], ids: Ids) -> dict[int | str, Path]:
    """Return the path of each item's picture by id, where it has one.

    A folder holds files named by id, with or without a suffix. Anything else is read as texts are (see `read_texts`),
    each a path, relative to the file that names it.
    """
    path = Path(path)
    if path.is_dir():
        # Suffixes are looked at last: an id may hold a dot, as `3.jpg` does.
        stems = {file.stem: file for file in sorted(path.iterdir(), reverse=True)}
        named = stems | {file.name: file for file in path.iterdir()}
        found = {name: named[str(name)] for name in ids.tolist() if str(name) in named}
        if not found:
            raise ValueError(f"{path}: no file in it is named by the id of an item, such as {ids[0].item()!r}")
        return found
    texts = read_texts(path).where_known(ids)
    return {name: path.parent / text for name, text in zip(ids.tolist(), texts, strict=True) if text}
