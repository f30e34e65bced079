"""A bank folder that loses queries: which, what is known of the log files after that, and the folder without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32
from unhub.compute.workers import Progress
from unhub.data.vectors import Stacked, Vectors
from unhub.errors import ArgumentError
from unhub.files.bank_folders import (
    ABOUT_BANK,
    BankManifest,
    BankSegment,
    LogSource,
    files_of,
    is_bank_folder,
    read_bank_manifest,
    remove_unnamed,
    write_bank_manifest,
)
from unhub.files.joint_change import JointChange
from unhub.files.readers import read_vectors
from unhub.logs.bank_folder import query_key
from unhub.logs.bank_plan import BankPlan, kept_in, read_segments, weighed
from unhub.logs.forgotten_banks import LosingBank


@dataclass(frozen=True, eq=False)
class LosingFolder:
    """A bank folder as it is, and which of its queries are to go: a mask for each segment."""

    path: Path
    manifest: BankManifest
    segments: tuple[BankSegment, ...]
    gone: tuple[NDArray[np.bool_], ...]
    query_ids: frozenset[str]

    @staticmethod
    def read(path: Path, query_ids: Collection[str]) -> LosingFolder:
        """Read a folder, and find its queries with these ids."""
        if not is_bank_folder(path):
            raise ArgumentError("bank", f"{path} is not a bank folder", "name one that `unhub log add` made")
        manifest = read_bank_manifest(path)
        segments = read_segments(path, manifest)
        wanted = np.array([*query_ids], np.str_)
        gone = [np.isin(one.query_ids, wanted) & (one.query_ids != "") for one in segments]  # "" is no id
        return LosingFolder(path, manifest, tuple(segments), tuple(gone), frozenset(query_ids))

    def __len__(self) -> int:
        """How many queries go."""
        return sum(int(mask.sum()) for mask in self.gone)

    @property
    def gone_ids(self) -> Counter[str]:
        """How often each id of those that go occurs."""
        return Counter(str(one) for part, mask in self._parts for one in part.query_ids[mask])

    @property
    def gone_rows(self) -> Iterator[Float32]:
        """The rows of those that go."""
        return (row for part, mask in self._parts for row in part.rows[mask])

    @property
    def _parts(self) -> Iterator[tuple[BankSegment, NDArray[np.bool_]]]:
        return zip(self.segments, self.gone, strict=True)

    @property
    def left(self) -> list[BankSegment]:
        """The segments without those that go; one that loses nothing is the same."""
        return kept_in(self.segments, [~mask for mask in self.gone])

    def as_bank(self, progress: Progress | None) -> LosingBank | None:
        """Return the bank of the folder, before and after; None if there was no query."""
        if self.manifest["joined"] is None:
            return None
        before = read_vectors(self.path)

        def left(_: int) -> Vectors | None:
            if not len(self):
                return before
            kept = [one for one in self.left if len(one)]
            return weighed(kept, self.manifest["settings"], progress) if kept else None

        return LosingBank(str(self.path), before, left, lambda _: bool(len(self)))

    def logged(self) -> LosingBank | None:
        """Return all logged queries, those that another one stands for among them; None if there was none."""
        if not sum(map(len, self.segments)):
            return None
        rows = Stacked([one.rows for one in self.segments if len(one)])
        stays = ~np.concatenate(self.gone)
        return LosingBank.of_rows(str(self.path), Vectors(np.arange(rows.shape[0]), rows), stays)

    def named(self) -> LosingBank | None:
        """Return the logged queries that have an id; None if there is none."""
        masks = [one.query_ids != "" for one in self.segments]
        rows = [part.rows[mask] for part, mask in zip(self.segments, masks, strict=True) if mask.any()]
        if not rows:
            return None
        stacked = Stacked(rows)
        return LosingBank.of_rows(
            str(self.path), Vectors(np.arange(stacked.shape[0]), stacked), np.ones(stacked.shape[0], bool)
        )

    def write(self, change: JointChange, sources: Sequence[LogSource], progress: Progress | None) -> None:
        """Write the folder without those queries, and delete what killed writers left in it.

        sources: what is to be known of log files that change too.
        """
        told = self.manifest
        remove_unnamed(self.path, told)
        forgotten = sorted({*told.get("forgotten", []), *map(query_key, self.query_ids)})
        known = [*told["sources"], *(one for one in sources if one not in told["sources"])]
        if not len(self) and known == told["sources"] and forgotten == told.get("forgotten", []):
            return
        plan = BankPlan(self.path, told, told["settings"], known, told["encoder"], forgotten)
        manifest: BankManifest = {**told, "sources": known, "forgotten": forgotten}
        if len(self):
            manifest, _ = plan.write(self.segments, self.left, progress)
        with change.replacing(self.path / ABOUT_BANK) as new:
            write_bank_manifest(new, manifest)
        for name in files_of(told) - files_of(manifest):
            change.delete(self.path / name)
