"""A bank folder that loses queries: which, what is known of the log files after that, and the folder without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
from unhub.files.log_removal import ToForget
from unhub.files.readers import read_vectors
from unhub.logs.bank_plan import BankPlan, kept_in, read_segments, weighed
from unhub.logs.forgotten_banks import LosingBank
from unhub.logs.forgotten_keys import ForgottenKeys, key_rows, name_key


@dataclass(frozen=True, eq=False)
class LosingFolder:
    """A bank folder as it is, and which of its queries are to go: a mask for each segment."""

    path: Path
    manifest: BankManifest
    segments: tuple[BankSegment, ...]
    gone: tuple[NDArray[np.bool_], ...]
    wanted: ToForget

    @staticmethod
    def read(path: Path, wanted: ToForget) -> LosingFolder:
        """Read a folder, and find its queries that are to be forgotten."""
        if not is_bank_folder(path):
            raise ArgumentError("bank", f"{path} is not a bank folder", "name one that `unhub log add` made")
        manifest = read_bank_manifest(path)
        segments = read_segments(path, manifest)
        gone = [_taken(one, wanted) for one in segments]
        return LosingFolder(path, manifest, tuple(segments), tuple(gone), wanted)

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

    @property
    def gone_users(self) -> set[str]:
        """Which of the users to forget asked any of the queries."""
        if not self.wanted.users:
            return set()
        keys = {key.tobytes().hex() for one in self.segments for key in np.unique(one.user_keys, axis=0)}
        return {one for one in self.wanted.users if name_key(one) in keys}

    @property
    def of_nobody(self) -> int:
        """Of how many queries that stay nothing says who asked."""
        return sum(int((~mask & ~one.user_keys.any(axis=1)).sum()) for one, mask in self._parts)

    def named(self) -> list[LosingBank]:
        """Return the logged queries that have an id, as one bank or none."""
        return self._only([np.asarray(one.query_ids != "") for one in self.segments])

    def of_known_users(self) -> list[LosingBank]:
        """Return the logged queries whose user is known, as one bank or none."""
        return self._only([np.asarray(one.user_keys.any(axis=1)) for one in self.segments])

    def _only(self, masks: Sequence[NDArray[np.bool_]]) -> list[LosingBank]:
        rows = [part.rows[mask] for part, mask in zip(self.segments, masks, strict=True) if mask.any()]
        if not rows:
            return []
        bank = Vectors(np.arange(sum(map(len, rows))), Stacked(rows))
        return [LosingBank.of_rows(str(self.path), bank, np.ones(len(bank), bool))]

    def write(self, change: JointChange, sources: Sequence[LogSource], progress: Progress | None) -> None:
        """Write the folder without those queries, and delete what killed writers left in it.

        sources: what is to be known of log files that change too.
        """
        told = self.manifest
        remove_unnamed(self.path, told)
        before = ForgottenKeys.read(told)
        forgotten = before.more(self.wanted)
        known = [*told["sources"], *(one for one in sources if one not in told["sources"])]
        if not len(self) and known == told["sources"] and forgotten == before:
            return
        plan = BankPlan(self.path, told, told["settings"], known, told["encoder"], forgotten)
        manifest: BankManifest = {**told, "sources": known, **forgotten.in_manifest}
        if len(self):
            manifest, _ = plan.write(self.segments, self.left, progress)
        with change.replacing(self.path / ABOUT_BANK) as new:
            write_bank_manifest(new, manifest)
        for name in files_of(told) - files_of(manifest):
            change.delete(self.path / name)


def _taken(queries: BankSegment, wanted: ToForget) -> NDArray[np.bool_]:
    """Return which queries are to be forgotten; "" is no id."""
    has_id, has_user = queries.query_ids != "", queries.user_keys.any(axis=1)
    named = np.isin(queries.query_ids, [*wanted.query_ids]) & has_id
    theirs = np.isin(queries.query_ids, [*wanted.of_users]) & has_id
    if not wanted.users:
        return np.asarray(named)
    users = {key.tobytes() for key in key_rows([*wanted.users])}
    asked = np.fromiter((key.tobytes() in users for key in queries.user_keys), bool, len(queries))
    return np.asarray(named | np.where(has_user, asked, theirs))
