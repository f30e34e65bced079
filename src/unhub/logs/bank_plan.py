"""The next state of a bank folder: which queries stay, what they weigh, and the files that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float64
from unhub.banks.repeats import join_repeats
from unhub.compute.workers import Progress
from unhub.data.vectors import Vectors
from unhub.files.bank_folders import (
    ABOUT_BANK,
    BANK_FORMAT,
    BankManifest,
    BankSegment,
    BankSettings,
    LogSource,
    read_bank_segment,
    remove_unfinished,
    remove_unnamed,
    write_bank_manifest,
    write_bank_segment,
    write_joined,
)
from unhub.files.embedded import Encoded
from unhub.logs.forgotten_keys import ForgottenKeys

SMALLEST_WEIGHT = 1e-30  # of a query of long ago
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Committed:
    """What a folder holds after a change: queries, distinct ones, and how many were dropped as too old."""

    queries: int
    distinct: int
    expired: int


@dataclass(frozen=True, eq=False)
class BankPlan:
    """The next state of a bank folder, before it is written."""

    folder: Path
    before: BankManifest | None
    settings: BankSettings
    sources: Sequence[LogSource]
    encoder: Encoded | None
    forgotten: ForgottenKeys

    def commit(self, held: Sequence[BankSegment], new: Sequence[BankSegment], progress: Progress | None) -> Committed:
        """Write the segments that are new or have changed and the bank of all, then the manifest."""
        everything = [*held, *([joined(new)] if new else [])]
        segments = kept_in(everything, within_window(everything, self.settings["window"]))
        try:
            manifest, bank = self.write(everything, segments, progress)
            write_bank_manifest(self.folder / ABOUT_BANK, manifest)
        except BaseException:
            with suppress(OSError, ValueError):  # the first error is the one to tell
                remove_unfinished(self.folder)
            raise
        remove_unnamed(self.folder, manifest)
        total = sum(map(len, segments))
        return Committed(total, 0 if bank is None else len(bank), sum(map(len, everything)) - total)

    def write(
        self, before: Sequence[BankSegment], segments: Sequence[BankSegment], progress: Progress | None
    ) -> tuple[BankManifest, Vectors | None]:
        """Write the segments that differ from those before, and the bank of all, as files that do not count yet.

        Return the manifest by which they count, and the bank, None if no query is left.
        """
        names = [*(self.before["segments"] if self.before else ())]
        number = self.before["next"] if self.before else 1
        kept = [one for one in segments if len(one)]
        bank = weighed(kept, self.settings, progress) if kept else None  # before anything is written
        files: list[str] = []
        for place, segment in enumerate(segments):
            if place < len(names) and segment is before[place]:
                files.append(names[place])
            elif len(segment):
                files.append(f"{number:06}.npz")
                write_bank_segment(self.folder / files[-1], segment)
                number += 1
        named = None
        if bank is not None:
            named = f"{number:06}"
            write_joined(self.folder, named, bank)
            number += 1
        width = (kept or before)[0].rows.shape[1] if before else 1
        manifest: BankManifest = {
            "bank_folder": BANK_FORMAT,
            "dimensions": self.before["dimensions"] if self.before else width,
            "next": number,
            "segments": files,
            "joined": named,
            "encoder": self.encoder,
            "settings": self.settings,
            "sources": [*self.sources],
        }
        manifest.update(self.forgotten.in_manifest)
        return manifest, bank


def weighed(segments: Sequence[BankSegment], settings: BankSettings, progress: Progress | None) -> Vectors:
    """Return the bank of these queries: each once, with its aged count to the power of the temper."""
    rows = np.concatenate([one.rows for one in segments])
    weights: Float64 = np.ones(len(rows))
    if settings["half_life"] is not None:
        times = np.concatenate([one.times for one in segments])
        ages = (times.max() - times) / MICROSECONDS
        weights = np.maximum(0.5 ** (ages / settings["half_life"]), SMALLEST_WEIGHT)
    bank = Vectors(np.arange(len(rows)), rows, weights)
    return join_repeats(bank, near=settings["near"], temper=settings["temper"], progress=progress)


def kept_in(segments: Sequence[BankSegment], masks: Sequence[NDArray[np.bool_]]) -> list[BankSegment]:
    """Return the queries that the masks select; a segment of which all stay is the same one."""
    return [one if mask.all() else one.keep(mask) for one, mask in zip(segments, masks, strict=True)]


def read_segments(folder: Path, manifest: BankManifest) -> list[BankSegment]:
    """Return the segments of a bank folder."""
    return [read_bank_segment(folder / name, manifest["dimensions"]) for name in manifest["segments"]]


def joined(segments: Sequence[BankSegment]) -> BankSegment:
    """Return the queries of several segments as one."""
    return BankSegment(
        np.concatenate([one.rows for one in segments]),
        np.concatenate([one.times for one in segments]),
        np.concatenate([one.query_ids for one in segments]),
        np.concatenate([one.text_keys for one in segments]),
        np.concatenate([one.user_keys for one in segments]),
    )


def within_window(segments: Sequence[BankSegment], window: float | None) -> list[NDArray[np.bool_]]:
    """Return which queries stay, a mask for each segment: all that are at most this much older than the newest."""
    if window is None:
        return [np.ones(len(one), bool) for one in segments]
    newest = max((int(one.times.max()) for one in segments if len(one)), default=0)
    return [one.times >= newest - round(window * MICROSECONDS) for one in segments]
