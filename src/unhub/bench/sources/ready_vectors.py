"""Ready vectors: files that were made elsewhere, one for each side of each part or one for all, matched by id."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unhub.bench.sources.vector_source import SideVectors, Which
from unhub.compute.workers import Progress
from unhub.data.relevance import places_of
from unhub.data.vectors import Vectors, as_vectors
from unhub.datasets.dataset import Side
from unhub.errors import ArgumentError
from unhub.files.named_arrays import PICKLES, pickled
from unhub.files.readers import READERS, name_rows, read_as_held, read_ids, read_rows

IDS_ENDING = "-ids.txt"  # of the file with one id per line, beside a file of vectors that holds none


@dataclass(frozen=True, eq=False)
class ReadyVectors:
    """Vectors that were made elsewhere: `test-items.npy`, `test-queries.npy`, `train-queries.npy` and so on.

    Instead of a file for each part there may be one for all, `items.npy` or `queries.npy`, whose rows have ids. Ids are
    those of the file or of `test-items-ids.txt`; without any, the rows are in the order of the data set.
    """

    folder: Path
    name: str

    @staticmethod
    def of(folder: str | os.PathLike[str], name: str | None) -> ReadyVectors:
        """Check that there is a folder; its name is that of the model, if no other is given."""
        path = Path(folder)
        if not path.is_dir():
            raise ArgumentError("embeddings", f"must be a folder, and {path} is none", "name the folder of the files")
        return ReadyVectors(path, name or path.resolve().name)

    def has(self, part: str, which: Which, side: Side) -> bool:
        if self._found(f"{part}-{which}") is not None:
            return True
        shared = self._found(which)
        return shared is not None and bool((places_of(side.ids, _read(shared).ids) >= 0).any())

    def unusable(self, part: str, which: Which, side: Side) -> str:
        return ""  # a file that is there and cannot be read is an error

    def vectors(self, part: str, which: Which, side: Side, progress: Progress | None) -> SideVectors:
        stem = f"{part}-{which}"
        own = self._found(stem)
        path = own or self._found(which)
        if path is None:
            raise ArgumentError(
                "embeddings",
                f"{self.folder} has no {stem} (one of {', '.join(READERS)}, or a folder of `unhub embed`)",
                f"write the vectors of the {len(side):,} {which} of {part} there",
            )
        held = _read(path)
        if own is not None and held.ids.dtype.kind != "U":  # numbered rows
            if len(held) != len(side):
                raise ArgumentError(
                    "embeddings",
                    f"{path.name} has {len(held):,} rows without ids, {part} has {len(side):,} {which}",
                    f"give a row for each in the order of the data set, or the ids of the rows in {_ids_of(path).name}",
                )
            return Vectors(side.ids, held.rows), ()
        return _chosen(held, side, f"{part} {which}", path.name)

    def _found(self, stem: str) -> Path | None:
        known = [self.folder / f"{stem}{suffix}" for suffix in READERS]
        found = [path for path in (self.folder / stem, *known) if path.exists()]
        if len(found) > 1:
            both = " and ".join(path.name for path in found)
            raise ArgumentError("embeddings", f"{self.folder} has {both}", "keep one of them")
        if not found:
            for suffix in PICKLES:
                if (given := self.folder / f"{stem}{suffix}").exists():
                    raise pickled(given)
        return found[0] if found else None


def _ids_of(path: Path) -> Path:
    """Return the file that may hold the ids of a file of vectors."""
    stem = path.stem if path.suffix.lower() in READERS else path.name
    return path.with_name(f"{stem}{IDS_ENDING}")


def _read(path: Path) -> Vectors:
    """Read a file with its ids as texts; rows without ids are numbered."""
    ids = _ids_of(path)
    if ids.is_file():
        return name_rows(read_rows(path), read_ids(ids, text=True), str(ids))
    held = read_as_held(path)
    if not isinstance(held, Vectors):
        return as_vectors(held, str(path))
    return Vectors(held.ids.astype(np.str_), held.rows)


def _chosen(held: Vectors, side: Side, what: str, file: str) -> SideVectors:
    """Return the vectors of a side, in its order, out of those of a file."""
    places = places_of(side.ids, held.ids)
    there = places >= 0
    if not there.any():
        raise ArgumentError(
            "embeddings",
            f"{file} has none of the {len(side):,} {what}: it has the id {held.ids[0].item()!r}, they have "
            f"{side.ids[0].item()!r}",
            "name the rows by the ids of the data set",
        )
    missing = int((~there).sum())
    notes = (f"{missing:,} of {len(side):,} {what} have no vector in {file} and are left out.",) if missing else ()
    return held.gather(places[there]), notes
