"""Texts and pictures of queries and items, found by id or by row, to show to people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.data.ids import as_ids, positions_of, read_lines
from unhub.errors import naming_file
from unhub.files import columns
from unhub.files.columns import TABLES, read_columns
from unhub.files.named_arrays import kind_of
from unhub.files.picture_addresses import PLACE, addresses_of, is_web, paths_of

LINES = ".txt"


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts, and the id each belongs to; without ids, text i is that of row i. `source` names them in errors."""

    texts: NDArray[np.object_]
    ids: Ids | None
    source: str

    def __len__(self) -> int:
        return len(self.texts)

    def of(self, ids: Ids) -> list[str]:
        """Return the texts of vectors with these ids, in their order; each must have one."""
        if self.ids is None:
            if len(self) != len(ids):
                raise ValueError(f"{self.source}: holds {len(self)} texts, {len(ids)} are needed, one per row")
            return [str(text) for text in self.texts]
        known = self.ids
        if known.dtype.kind != ids.dtype.kind:  # the ids of one side look like integers: both are compared as texts
            known, ids = known.astype(np.str_), ids.astype(np.str_)
        missing = ids[~np.isin(ids, known)]
        if len(missing):
            raise ValueError(
                f"{self.source} has no text for {len(missing)} of the ids, for example {missing[0].item()!r}"
            )
        return [str(text) for text in self.texts[positions_of(ids, known, self.source)]]

    def where_known(self, ids: Ids) -> list[str]:
        """Return the texts of vectors with these ids, in their order; an empty one where an id has none."""
        if self.ids is None:
            return self.of(ids)
        has = np.isin(ids.astype(np.str_), self.ids.astype(np.str_))
        if not has.any():
            raise ValueError(f"{self.source}: has no text for any of the ids, for example {ids[0].item()!r}")
        found = iter(self.of(ids[has]))
        return [next(found) if one else "" for one in has.tolist()]


@naming_file()
def read_texts(path: str | os.PathLike[str], *, column: str = "text", id_column: str | None = "id") -> Texts:
    """Read texts: .txt, one per line in the order of the rows, or .csv, .tsv, .jsonl, .parquet with `id` and `text`.

    `column` and `id_column` are the names of the columns of a table; with None for the ids, text i is that of row i.
    """
    path = Path(path)
    if path.suffix.lower() == LINES:
        try:
            return Texts(np.array(read_lines(path), object), None, str(path))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: must be UTF-8 text ({error})") from None
    if path.suffix.lower() not in TABLES:
        path.stat()  # a missing path is a FileNotFoundError, whatever its suffix
        raise ValueError(f"{path}: texts are read from {LINES}, {', '.join(TABLES)} files, not from {kind_of(path)}")
    if id_column is None:
        (texts,) = read_columns(path, [columns.text_column(column)])
        return Texts(texts.astype(object), None, str(path))
    ids, texts = read_columns(path, (columns.id_column(id_column), columns.text_column(column)))
    return Texts(texts.astype(object), as_ids(ids, len(ids), str(path)), str(path))


def find_pictures(path: str | os.PathLike[str], ids: Ids) -> Mapping[int | str, str | Path]:
    """Return the path or the address of each item's picture by id, where it has one.

    A folder holds files named by id, with or without a suffix. A template has {id} in it, such as `photos/{id}.jpg` or
    `https://cdn.example/{id}.jpg`. Anything else is read as texts are (see `read_texts`), each an address, or a path,
    relative to the file that names it.
    """
    template = os.fspath(path)
    if is_web(template):
        return addresses_of(template, ids)
    path = Path(path)
    if PLACE in template and not path.exists():
        return paths_of(template, ids)
    if path.is_dir():
        # Whole names take precedence over stems: an id may hold a dot, such as `3.jpg`.
        stems = {file.stem: file for file in sorted(path.iterdir(), reverse=True)}
        named = stems | {file.name: file for file in path.iterdir()}
        found = {name: named[str(name)] for name in ids.tolist() if str(name) in named}
        if not found:
            raise ValueError(f"{path}: no file in this folder is named by the id of an item, such as {ids[0].item()!r}")
        return found
    texts = read_texts(path).where_known(ids)
    return {
        name: text if is_web(text) else path.parent / text
        for name, text in zip(ids.tolist(), texts, strict=True)
        if text
    }
