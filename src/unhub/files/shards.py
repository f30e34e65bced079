"""Shards: one set of vectors in several files, of a folder or of a pattern, here or remote.

Only sizes are read at first, and rows when they are asked for. The rows can be sent to another process, as names and
sizes, and are opened anew there.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.data.ids import as_ids
from unhub.data.vectors import Rows, Stacked
from unhub.errors import ArgumentError, naming_file, unknown
from unhub.files.bank_folders import ABOUT_BANK
from unhub.files.clip_retrieval import EMBEDDINGS
from unhub.files.embedded import MANIFEST, UNFINISHED
from unhub.files.local_file import LocalFile
from unhub.files.named_arrays import if_a_log, split_name
from unhub.files.npy_shards import MappedNpy, Maps, NpyPieces
from unhub.files.numpy_files import FoundRows
from unhub.files.pieces import PieceCache, PieceRows
from unhub.files.query_logs import ABOUT
from unhub.files.remote import (
    ASKED_AT_ONCE,
    PROTOCOLS,
    RemoteFile,
    find_remote,
    found_folder,
    in_order,
    is_remote,
    shown,
)
from unhub.frames.frame_columns import NamedColumns

File: TypeAlias = LocalFile | RemoteFile
Opener: TypeAlias = Callable[[File], Rows]
T = TypeVar("T")

SUFFIXES = (".npy", ".parquet")
NAMED = "*.npy or *.parquet"
# What tells the folder of a program, whose rows have another order or other ids than its files alone would give them.
PROGRAMS: Mapping[str, str] = {
    MANIFEST: "`unhub embed`",
    ABOUT_BANK: "`unhub log add`",
    ABOUT: "`unhub serve --log`",
    **dict.fromkeys(EMBEDDINGS, "clip-retrieval"),
}


def read_folder_of_shards(path: Path, name: str | None = None) -> FoundRows:
    """Read the .npy or .parquet files of a folder in the order of their names, but not hidden ones."""
    shards = (file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and not file.name.startswith("."))
    files = sorted(
        (file for file in shards if file.is_file() or _is_dangling(file)), key=lambda one: in_order(str(one))
    )
    if not files:
        raise ValueError(
            f"{path}: a folder is read if it holds .npy or .parquet files, or img_emb or text_emb, as clip-retrieval "
            f"writes them, or if `unhub embed` finished it; {if_a_log(path)}"
        )
    return _read(_local(files), str(path), name)


def read_pattern(pattern: str, name: str | None = None) -> FoundRows:
    """Read the files that a pattern such as `items/*.parquet` finds, in the order of their names."""
    files = found_by(Path(pattern))
    if not files:
        raise ValueError(f"{pattern}: finds no files")
    for file in files:
        if file.is_dir():
            raise found_folder(file)
    return _read(_local(files), pattern, name)


def read_listed(paths: Sequence[str]) -> FoundRows:
    """Read these files on a disk, in this order."""
    for path in paths:
        if Path(path).suffix.lower() not in SUFFIXES or not Path(path).is_file():
            problem = f"is a list with {shown(path)!r}, and a list is of files named {NAMED} on a disk"
            raise ArgumentError("path", problem, "name a folder, a pattern or a remote address alone, not in a list")
    if not paths:
        raise ArgumentError("path", "is an empty list", "name at least one file")
    if len({Path(path).suffix.lower() for path in paths}) > 1:
        raise ArgumentError("path", "is a list of both .npy and .parquet files", "name one kind")
    with naming_file():
        return _read(_local([Path(path) for path in paths]), "the list", None)


def _local(files: Sequence[Path]) -> list[LocalFile]:
    for file in files:
        if _is_dangling(file):
            raise ValueError(f"{file}: is a link to a file that is not there; restore the file, or remove the link")
    return [LocalFile(file) for file in files]


def _is_dangling(file: Path) -> bool:
    return file.is_symlink() and not file.exists()


def found_by(path: Path) -> list[Path]:
    """Return the paths that a path names: itself if it is there, else what it finds as a pattern, sorted by name.

    Of `features.mat#name`, it is the file.
    """
    file = Path(split_name(str(path))[0])
    if file.exists():
        return [file]
    return [Path(name) for name in sorted(glob.glob(str(file), recursive=True), key=in_order)]


def read_remote(url: str, name: str | None = None) -> FoundRows:
    """Read a remote file, or those of a folder or of a pattern."""
    protocol, _, rest = url.partition("://")
    if not is_remote(url):
        raise unknown("path", protocol, PROTOCOLS, "protocols")
    if not rest.strip("/"):
        remedy = "write it behind it, as in s3://bucket/items or https://host/items.npy"
        raise ArgumentError("path", f"is {url!r}, a protocol without a place", remedy)
    url = f"{protocol.lower()}://{rest}"
    files = find_remote(url, SUFFIXES, _check_shards if name is None else lambda folder, names: None)
    if not files:
        raise ValueError(f"{shown(url)}: finds no files named {NAMED}")
    return _read(files, shown(url), name)


def _check_shards(folder: str, names: Collection[str]) -> None:
    """Raise if a remote folder is that of a program, which would be read in another way here."""
    own = folder.rstrip("/").rpartition("/")[2]
    if own.endswith(UNFINISHED):
        raise ValueError(f"{folder}: `unhub embed` has not finished this folder; run it again")
    for mark, program in PROGRAMS.items():
        if mark in names or (mark in EMBEDDINGS and own == mark):
            raise ValueError(f"{folder}: is a folder of {program}, which is read on a disk only; copy all of it there")


def _read(files: Sequence[File], source: str, name: str | None) -> FoundRows:
    """Read these files; `name` is what stands behind their mark, as in `items/*.parquet#vector=clip,id=key`."""
    suffixes = {file.suffix.lower() for file in files}
    for file in files:
        if file.suffix.lower() not in SUFFIXES:
            raise ValueError(f"{file}: is not {NAMED}, of which several files can be read as one set")
    if len(suffixes) > 1:
        raise ValueError(f"{source}: finds both .npy and .parquet files; name one kind, such as {source}/*.npy")
    if name is not None and suffixes == {".npy"}:
        raise ValueError(f"{source}: finds .npy files, whose arrays have no names; leave out {name!r}")
    named = NamedColumns.written(name, source)
    opener = OPENERS[suffixes.pop()](named)
    shards = [shard for shard in zip(files, _each(opener, files), strict=True) if shard[1].shape[0]]
    if not shards:
        raise ValueError(f"{source}: holds no rows")
    _check_alike(shards)
    used = [file for file, _ in shards]
    return FoundRows(Stacked([rows for _, rows in shards]), lambda: _ids(used, named), _weights(used, named))


def _each(function: Callable[[File], T], files: Sequence[File]) -> list[T]:
    """Apply a function to every file; to several at a time where each is a wait."""
    if isinstance(files[0], LocalFile):
        return [function(file) for file in files]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return list(pool.map(function, files))


def _npy_opener(_: NamedColumns) -> Opener:
    cache, maps = PieceCache(), Maps()

    def open_npy(file: File) -> Rows:
        return MappedNpy(file, maps) if isinstance(file, LocalFile) else PieceRows(NpyPieces(file), file.url, cache)

    return open_npy


def _parquet_opener(named: NamedColumns) -> Opener:
    from unhub.files.parquet_pieces import OpenFiles, ParquetPieces  # here: most files do not need it

    cache, open_files = PieceCache(), OpenFiles()

    def open_parquet(file: File) -> Rows:
        name = str(file.path) if isinstance(file, LocalFile) else file.url
        return PieceRows(ParquetPieces(file, open_files, named), name, cache)

    return open_parquet


OPENERS: Mapping[str, Callable[[NamedColumns], Opener]] = {".npy": _npy_opener, ".parquet": _parquet_opener}


def _check_alike(shards: Sequence[tuple[File, Rows]]) -> None:
    """Raise unless all shards have as many dimensions, and numbers of the same type, as the first."""
    first, rows = shards[0]
    for file, other in shards:
        if other.shape[1] != rows.shape[1]:
            problem = f"has {other.shape[1]} dimensions, {first} {rows.shape[1]}"
            raise ValueError(f"{file}: {problem}; embed all with one model")
        if other.dtype != rows.dtype:
            raise ValueError(f"{file}: holds {other.dtype}, {first} {rows.dtype}; save all in one type")


def _weights(files: Sequence[File], named: NamedColumns) -> Float64 | None:
    """Return the weights of all shards, or None where none are named."""
    if named.weight is None:  # of .npy files nothing is
        return None
    from unhub.files.parquet import read_parquet_weights

    parts = _each(lambda file: read_parquet_weights(file, named), files)
    return np.concatenate([one for one in parts if one is not None])


def _ids(files: Sequence[File], named: NamedColumns) -> NDArray[np.generic] | None:
    """Return the ids of all shards, or None if they have none."""
    if files[0].suffix.lower() != ".parquet":
        return None
    from unhub.files.parquet import read_parquet_ids

    found = list(zip(files, _each(lambda file: read_parquet_ids(file, named), files), strict=True))
    parts = []
    for file, ids in found:
        if (ids is None) != (found[0][1] is None):
            which = ("no column of ids", "one") if ids is None else ("a column of ids", "none")
            raise ValueError(f"{file}: has {which[0]}, and {files[0]} has {which[1]}; give all of them ids, or none")
        if ids is not None and ids.dtype.kind == "u":  # beside int64, numpy would make floats of them
            ids = as_ids(ids, len(ids), str(file))
        if ids is not None:
            parts.append(ids)
        if parts and ids is not None and ids.dtype.kind != parts[0].dtype.kind:
            raise ValueError(f"{file}: has ids of another type than {files[0]}; give all of them numbers, or texts")
    return np.concatenate(parts) if parts else None
