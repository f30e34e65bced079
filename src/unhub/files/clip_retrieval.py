"""Reader of clip-retrieval folders: embeddings in numbered .npy parts, with metadata in Parquet files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unhub.data.vectors import Stacked
from unhub.files.local_file import LocalFile
from unhub.files.npy_shards import MappedNpy, Maps
from unhub.files.numpy_files import FoundRows
from unhub.files.parquet import as_array, columns_of, read_column

if TYPE_CHECKING:
    import pyarrow

EMBEDDINGS = ("img_emb", "text_emb")
ID_COLUMNS = ("image_path", "key")


def read_clip_folder(path: Path) -> FoundRows:
    """Map the parts of `img_emb` or `text_emb` in the order of their numbers, with ids from the metadata.

    The ids are the column `image_path`, else `key`, whichever exists and has no repeats.
    """
    folder = _embedding_folder(path)
    files = _parts(folder, f"{folder.name}_*.npy")
    if not files:
        raise ValueError(f"{folder}: holds no {folder.name}_0.npy, {folder.name}_1.npy, ...")
    _check_gaps(folder, files)
    maps = Maps()
    parts = {number: MappedNpy(LocalFile(file), maps) for number, file in files.items()}
    lengths = {number: part.shape[0] for number, part in parts.items()}
    return FoundRows(_stacked(folder, parts), lambda: _metadata_ids(folder.parent / "metadata", lengths))


def is_clip_folder(path: Path) -> bool:
    """Return whether a folder is named, or holds folders named, as those of clip-retrieval."""
    return path.resolve().name in EMBEDDINGS or any((path / name).is_dir() for name in EMBEDDINGS)


def _embedding_folder(path: Path) -> Path:
    held = [name for name in EMBEDDINGS if (path / name).is_dir()]
    if len(held) == 2:
        raise ValueError(f"{path}: holds both img_emb and text_emb; name one of them: {path / 'img_emb'}")
    return path / held[0] if held else path.resolve()


def _parts(folder: Path, pattern: str) -> dict[int, Path]:
    """Return the files that a pattern with one star finds, by the number in the star's place.

    clip-retrieval numbers from 0, either padded to one width or not padded: a mix means two runs.
    """
    number = re.compile(pattern.replace(".", r"\.").replace("*", "([0-9]+)"))
    matches = ((number.fullmatch(file.name), file) for file in folder.glob(pattern))
    found = sorted((int(match[1]), match[1], file) for match, file in matches if match)
    padded = next((file for place, digits, file in found if digits != str(place)), None)
    for _, _, file in found:
        if padded and len(file.name) != len(padded.name):
            raise ValueError(
                f"{folder}: {padded.name} and {file.name} are numbered in two ways; remove the files of another run"
            )
    return {place: file for place, _, file in found}


def _check_gaps(folder: Path, files: Mapping[int, Path]) -> None:
    """Raise a ValueError if a part is missing and a later one is not."""
    for place, (number, file) in enumerate(files.items()):
        if number != place:
            digits = file.stem.rpartition("_")[2]
            width = len(digits) if digits.startswith("0") else 0
            raise ValueError(
                f"{folder}: holds no {folder.name}_{place:0{width}}.npy but {file.name}; add the missing part, "
                "or renumber the later ones if there never was one"
            )


def _stacked(folder: Path, parts: Mapping[int, MappedNpy]) -> Stacked:
    try:
        return Stacked(list(parts.values()))
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _metadata_ids(folder: Path, lengths: Mapping[int, int]) -> NDArray[np.generic] | None:
    """Return the first column that can serve as ids, or None."""
    files = _parts(folder, "metadata_*.parquet") if folder.is_dir() else {}
    if not files:
        return None
    absent = sorted(set(lengths) - set(files))
    if absent:
        raise ValueError(f"{folder}: holds no metadata for the part {absent[0]}")
    for number in sorted(set(files) - set(lengths)):
        raise ValueError(f"{files[number]}: there are no embeddings of that part")
    for name in ID_COLUMNS:
        if all(name in columns_of(files[number]) for number in lengths):
            parts = [_part_ids(files[number], name, length) for number, length in lengths.items()]
            if any(part.null_count for part in parts):
                continue
            ids = np.concatenate([as_array(files[at], part, name) for at, part in zip(lengths, parts, strict=True)])
            if len(np.unique(ids)) == len(ids):
                return ids
    return None


def _part_ids(file: Path, name: str, length: int) -> pyarrow.ChunkedArray:
    column = read_column(file, name)
    if len(column) != length:
        raise ValueError(f"{file}: has {len(column)} rows, the embeddings of that part {length}")
    return column
