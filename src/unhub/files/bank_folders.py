"""Bank folders: past queries from logs, in segments that are only added, and the bank that was made of them.

`bank.json` names the files that count; it is replaced last, so that the folder holds the old state or the new one. A
segment NNNNNN.npz has the rows of some queries, their times and ids, and the keys of their texts and users.
NNNNNN.rows.npy and NNNNNN.weights.npy are the bank: each query once, with its weight.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Float64
from unhub.atomic import LOCK, replacing, strays
from unhub.data.vectors import Stacked, Vectors
from unhub.files.declared import Count, Natural, as_declared, parse_json
from unhub.files.embedded import Encoded
from unhub.files.joint_change import check_finished
from unhub.files.numpy_files import FoundRows, map_npy, no_ids

BANK_FORMAT = 1
ABOUT_BANK = "bank.json"
FIRST_FILES = ("000001.npz", "000002.rows.npy", "000002.weights.npy")  # before bank.json makes them count
OWN_FILE = re.compile(r"[0-9]{6,}\.(npz|rows\.npy|weights\.npy)")
NO_TIME = np.iinfo(np.int64).min  # as numpy's NaT
KEY_BYTES = 16


class BankSettings(TypedDict):
    """How the bank is made of the queries: window and half-life in seconds, and how repeats are joined."""

    window: float | None
    half_life: float | None
    near: float
    temper: float


class LogSource(TypedDict):
    """What was added of a file, by its content: so many bytes and lines, and a hash of the bytes."""

    bytes: Natural
    lines: Natural
    digest: str


class BankManifest(TypedDict):
    """What a bank folder says about itself. `next` is the number of the next file; `joined` is that of the bank.

    forgotten: keys of the ids of queries that are never added again. forgotten_users: keys of users whose queries are
    not; forgotten_of_users: keys of the ids of queries that are known to be theirs, where a log does not name the user.
    """

    bank_folder: Count
    dimensions: Count
    next: Count
    segments: list[str]
    joined: str | None
    encoder: Encoded | None
    settings: BankSettings
    sources: list[LogSource]
    forgotten: NotRequired[list[str]]
    forgotten_users: NotRequired[list[str]]
    forgotten_of_users: NotRequired[list[str]]


@dataclass(frozen=True, eq=False)
class BankSegment:
    """Some queries: rows (n, d), times in microseconds, ids as texts ("" for none), and keys of texts (0 for none).

    user_keys: of those who asked, 0 where the log did not say.
    """

    rows: Float32
    times: NDArray[np.int64]
    query_ids: NDArray[np.str_]
    text_keys: NDArray[np.uint8]
    user_keys: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.rows)

    def keep(self, kept: NDArray[np.bool_]) -> BankSegment:
        """Return the queries that this mask selects."""
        return BankSegment(
            self.rows[kept], self.times[kept], self.query_ids[kept], self.text_keys[kept], self.user_keys[kept]
        )


def is_bank_folder(path: Path) -> bool:
    """Return whether a folder is a bank folder."""
    return (path / ABOUT_BANK).is_file()


def begun_files(folder: Path) -> list[Path]:
    """Return what a first `log add` that was cut off left in a folder: none in a bank folder, or beside other files.

    The lock tells them from files of somebody else that are called the same: a folder of those is never held.
    """
    if is_bank_folder(folder) or not (folder / LOCK).is_file():
        return []
    seen = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if not seen <= {*FIRST_FILES}:
        return []
    left = (stray for name in (ABOUT_BANK, *FIRST_FILES) for stray in strays(folder / name))
    return [*(folder / name for name in sorted(seen)), *left]


def read_bank_folder(path: Path) -> FoundRows:
    """Map the bank of a folder, with its weights."""
    for again in (True, False):
        manifest = read_bank_manifest(path)
        if manifest["joined"] is None:
            raise ValueError(f"{path}: is a bank folder without a query; add a log with `unhub log add`")
        rows, weights = (path / f"{manifest['joined']}.{part}.npy" for part in ("rows", "weights"))
        try:
            return FoundRows(map_npy(rows), no_ids, np.array(map_npy(weights), np.float64))
        except FileNotFoundError:
            if not again:  # else a writer has just replaced them
                raise ValueError(
                    f"{path}: {rows.name} or {weights.name} is missing; make the bank folder again"
                ) from None
    raise AssertionError


def read_bank_manifest(path: Path) -> BankManifest:
    """Return what a bank folder says about itself."""
    check_finished(path)
    about = path / ABOUT_BANK
    try:
        told: BankManifest = as_declared(parse_json(about.read_bytes()), BankManifest, "it")
    except ValueError as error:
        raise ValueError(f"{about}: is not what `unhub log add` wrote ({error})") from None
    if told["bank_folder"] > BANK_FORMAT:
        raise ValueError(
            f"{about}: written by a newer unhub (format {told['bank_folder']}, this one reads up to {BANK_FORMAT}): "
            "upgrade unhub"
        )
    return told


def read_bank_segment(path: Path, dimensions: int) -> BankSegment:
    """Read one segment of a bank folder."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            unknown = np.zeros((len(held["rows"]), KEY_BYTES), np.uint8)  # of before users were kept
            users = held.get("user_keys", unknown)
            segment = BankSegment(held["rows"], held["times"], held["query_ids"], held["text_keys"], users)
    except FileNotFoundError:
        raise ValueError(f"{path}: is missing; make the bank folder again") from None
    except Exception as error:  # numpy and zipfile raise many kinds for damaged bytes
        raise ValueError(f"{path}: damaged, or not a segment of a bank folder ({error})") from None
    count = len(segment.rows)
    sound = segment.rows.shape == (count, dimensions) and segment.rows.dtype == np.float32
    keyed = segment.text_keys.shape == segment.user_keys.shape == (count, KEY_BYTES)
    if not sound or segment.times.shape != (count,) or not keyed:
        raise ValueError(f"{path}: damaged, its arrays do not fit together")
    return segment


def read_every_query(path: Path) -> Vectors:
    """Return the bank of a folder, followed by all logged queries, those that another one stands for among them."""
    manifest, bank = read_bank_manifest(path), read_bank_folder(path).rows
    logged = [read_bank_segment(path / name, manifest["dimensions"]).rows for name in manifest["segments"]]
    rows = Stacked([bank, *logged])
    return Vectors(np.arange(rows.shape[0]), rows)


def write_bank_segment(path: Path, segment: BankSegment) -> None:
    """Write one segment, whole or not at all."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            rows=segment.rows,
            times=segment.times,
            query_ids=segment.query_ids,
            text_keys=segment.text_keys,
            user_keys=segment.user_keys,
        )


def write_joined(folder: Path, name: str, bank: Vectors) -> None:
    """Write the rows and weights of the bank."""
    weights: Float64 = np.ones(len(bank)) if bank.weights is None else bank.weights
    for part, array in (("rows", bank.block(0, len(bank))), ("weights", weights)):
        with replacing(folder / f"{name}.{part}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, array)


def write_bank_manifest(path: Path, manifest: BankManifest) -> None:
    """Replace what a bank folder says about itself; from then on the new files count."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def remove_unnamed(folder: Path, manifest: BankManifest) -> None:
    """Delete files of the folder that do not count: of states before, and of writers that were killed."""
    named = files_of(manifest)
    for path in folder.iterdir():
        if OWN_FILE.fullmatch(path.name) and path.name not in named:
            path.unlink(missing_ok=True)
    for name in (ABOUT_BANK, *_numbered(range(1, manifest["next"] + 8))):
        for stray in strays(folder / name):
            stray.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Delete what a writer left that did not come to its end, in a bank folder or in one that became none."""
    if is_bank_folder(folder):
        remove_unnamed(folder, read_bank_manifest(folder))
    for path in begun_files(folder):
        path.unlink()


def files_of(manifest: BankManifest) -> set[str]:
    """Return the names of the files that count."""
    return {*manifest["segments"], *(f"{manifest['joined']}.{part}.npy" for part in ("rows", "weights"))}


def _numbered(numbers: Iterable[int]) -> Sequence[str]:
    endings = (".npz", ".rows.npy", ".weights.npy")
    return [f"{number:06}{ending}" for number in numbers for ending in endings]
