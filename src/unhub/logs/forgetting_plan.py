"""What forgetting changes: found before anything is written, then written as one joint change."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unhub.atomic import strays
from unhub.compute.workers import Progress
from unhub.correction import Bias, Correction
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.files.bank_folders import LogSource
from unhub.files.container import WHAT, read_container
from unhub.files.corrections import as_correction_manifest, load_correction, save_correction
from unhub.files.joint_change import JointChange
from unhub.files.kept_state import FoundMarks, read_kept_bank, remove_marks, write_kept_bank
from unhub.files.log_bytes import byte_count
from unhub.files.log_removal import FoundLines, ToForget, remove_lines
from unhub.files.models import MODEL
from unhub.files.query_logs import (
    ABOUT,
    next_number,
    read_log_manifest,
    read_query_log,
    whole_rows,
    write_log_manifest,
)
from unhub.files.version_folders import files_of_version, names_in, read_active
from unhub.layouts import Layout, layout_of
from unhub.logs.forgotten_banks import BankRefits, LosingBank
from unhub.logs.forgotten_rows import ForgottenRows
from unhub.logs.known_files import new_part, source_of
from unhub.logs.losing_folder import LosingFolder

DROP_REMEDY = "or drop such versions, of which none is active: drop_inactive=True (--drop-inactive)"


@dataclass(frozen=True, eq=False)
class SavedCorrection:
    """A correction in a file, with the layout that was saved along.

    inactive: whether it is a version in a folder where another one is active.
    """

    path: Path
    correction: Correction
    layout: Layout | None
    inactive: bool = False


@dataclass(frozen=True, eq=False)
class RefittedCorrection:
    """A correction that must be fitted again, on this bank."""

    saved: SavedCorrection
    bank: Vectors


class Doubt(NamedTuple):
    """What may still be there: so many ids have no vector to look for, among so many queries whose ids are unknown.

    users: of how many queries the users are unknown, if queries of users are to be forgotten.
    """

    ids: int = 0
    queries: int = 0
    users: int = 0

    def told(self, path: str) -> str:
        """Say it of a file or folder."""
        reasons = []
        if self.ids:
            reasons.append(
                f"for {self.ids:,} of the ids there is no vector to look for, and of {self.queries:,} of its queries "
                "nothing here tells the id"
            )
        if self.users:
            reasons.append(f"of {self.users:,} of its queries nothing here tells who asked")
        remedy = "Name the bank folder or the log of a service that does, or fit it again without them."
        if self.users:
            remedy = "Forget the queries of these users by their ids."
        return f"{path} may still hold what is to be forgotten: {'; '.join(reasons)}. {remedy}"


@dataclass(frozen=True, eq=False)
class KeptBank:
    """The bank that a service kept with a version, and what it loses."""

    version: Path
    bank: LosingBank
    lost: int


@dataclass(frozen=True, eq=False)
class ForgettingPlan:
    """All that changes."""

    folder: LosingFolder | None
    lines: Sequence[FoundLines]
    kept: Sequence[KeptBank]
    marks: FoundMarks | None
    refitted: Sequence[RefittedCorrection]
    dropped: Mapping[Path, str]  # versions, and why they cannot be fitted again
    refits: BankRefits
    left: Sequence[Path]  # by killed writers
    stays: Sequence[SavedCorrection]

    @staticmethod
    def of(
        folder: LosingFolder | None,
        lines: Sequence[FoundLines],
        kept: Sequence[KeptBank],
        marks: FoundMarks | None,
        saved: Sequence[SavedCorrection],
        refits: BankRefits,
        left: Sequence[Path],
    ) -> ForgettingPlan:
        """Find out which corrections must be fitted again; raise if one cannot be and may not be dropped."""
        again, dropped, same = [], {}, []
        for one in saved:
            try:
                bank = refits.bank_of(one.correction, one.path)
            except ArgumentError as error:
                if not one.inactive or not refits.pool:  # without any items nothing can be fitted again
                    raise
                if not refits.drop_inactive:
                    raise ArgumentError(error.name, error.problem, f"{error.remedy}; {DROP_REMEDY}") from None
                dropped[one.path] = f"{error.name} {error.problem}"
                continue
            if bank is None:
                same.append(one)
            else:
                again.append(RefittedCorrection(one, bank))
        beside = [stray for one in saved for stray in strays(Path(os.path.realpath(one.path)))]
        banks = [one for one in kept if one.version not in dropped]
        gone = [*dict.fromkeys([*left, *beside])]
        return ForgettingPlan(folder, lines, banks, marks, again, dropped, refits, gone, same)

    @property
    def removed(self) -> dict[str, int]:
        """How many queries go, by the file or folder."""
        counts = {} if self.folder is None else {str(self.folder.path): len(self.folder)}
        counts |= {str(one.file.path): len(one) for one in self.lines}
        counts |= {one.bank.name: one.lost for one in self.kept}
        if self.marks is not None:
            counts[str(self.marks.folder)] = len(self.marks)
        return {name: count for name, count in counts.items() if count}

    def unsure(
        self, wanted: ToForget, unplaced: int, named: Sequence[LosingBank], of_users: Sequence[LosingBank]
    ) -> dict[str, Doubt]:
        """Return what may be left in the bank folder, and in each correction that will be there.

        unplaced: how many ids to forget have no vector here. named, of_users: queries whose ids, or users, are known.
        """
        found = {}
        if self.folder is not None and wanted.users and self.folder.of_nobody:
            found[str(self.folder.path)] = Doubt(users=self.folder.of_nobody)
        held = [*((one, None) for one in self.stays), *((one.saved, one.bank) for one in self.refitted)]
        for one, bank in held:
            comparable = one.correction.source.dimensions in self.refits.forgotten.widths
            ids = unplaced if comparable else len(wanted.query_ids)
            unnamed = self.refits.strange(one.correction, bank, named) if ids else 0
            unknown = self.refits.strange(one.correction, bank, of_users) if wanted.users else 0
            if unnamed or unknown:
                found[str(one.path)] = Doubt(ids if unnamed else 0, unnamed, unknown)
        return found

    def write(self, change: JointChange, progress: Progress | None) -> None:
        """Write everything anew beside what it replaces."""
        sources = [source for one in self.lines if (source := self._written(change, one)) is not None]
        for folder in dict.fromkeys(one.file.path.parent for one in self.lines if one.file.dimensions is not None):
            with change.replacing(folder / ABOUT) as new:
                write_log_manifest(new, {**read_log_manifest(folder), "next": next_number(folder)})
        if self.marks is not None:
            remove_marks(change, self.marks)
        for kept in self.kept:
            left = kept.bank.left(len(kept.bank.before)) if kept.lost else None
            if left is not None:
                write_kept_bank(kept.version, left, change.replacing)
        for one in self.refitted:
            self._fit_again(change, one.saved, one.bank)
        for version in self.dropped:
            for path in files_of_version(version):
                change.delete(path)
        if self.folder is not None:
            self.folder.write(change, sources, progress)
        for path in self.left:
            change.delete(path)

    def _written(self, change: JointChange, lines: FoundLines) -> LogSource | None:
        """Write a log file without some lines; return what the bank folder is to know of it, as it knew the old one."""
        old = None if self.folder is None else new_part(lines.file, self.folder.manifest["sources"])
        new = remove_lines(change, lines)
        if old is None or new is None:
            return None
        if not lines.spans_are_bytes:
            return source_of(new, byte_count(new), b"") if old.is_empty else None
        stop = lines.bytes_kept(old.span.start)
        return source_of(new, stop, lines.row_kept()) if stop else None

    def _fit_again(self, change: JointChange, one: SavedCorrection, bank: Vectors) -> None:
        made = self.refits.again(one.correction, bank, one.path)
        layout = one.layout
        if layout is not None and isinstance(made, Bias):
            items = self.refits.pool.items_of(made, one.path)
            layout = dataclasses.replace(
                layout_of(items, made, made.bias, layout.shape, layout.engine), strength=layout.strength
            )
        with change.replacing(one.path) as new:
            save_correction(made, new, overwrite=True, layout=layout)


def kept_banks(folders: Sequence[Path], rows: ForgottenRows) -> list[KeptBank]:
    """Return the banks that a service kept with its versions."""
    found = []
    for version in (folder / f"{name}.unhub" for folder in folders for name in names_in(folder)):
        bank = read_kept_bank(version)
        if bank is not None:
            stays, name = rows.stays_in(bank), f"the bank of {version}"
            found.append(KeptBank(version, LosingBank.of_rows(name, bank, stays), int((~stays).sum())))
    return found


def logs_as_banks(folders: Sequence[Path], found: Sequence[FoundLines]) -> list[LosingBank]:
    """Return the logs of services as banks, which grow: a correction may be fitted on their first rows."""
    banks = []
    for folder in folders:
        masks = []
        for one in found:
            if one.file.path.parent == folder and one.file.dimensions is not None:
                mask = np.ones(whole_rows(one.file.rows_path, one.file.dimensions), bool)
                mask[one.places] = False
                masks.append(mask)
        if sum(map(len, masks)):
            rows = read_query_log(folder).rows
            bank = Vectors(np.arange(rows.shape[0]), rows)
            banks.append(LosingBank.of_rows(str(folder), bank, np.concatenate(masks), grows=True))
    return banks


def saved_corrections(paths: Sequence[Path], left: Collection[Path]) -> list[SavedCorrection]:
    """Read corrections: files, and those in folders; but models in folders, and what killed writers left."""
    inside: dict[str, tuple[Path, Path]] = {}
    for given in paths:
        for path in sorted(given.glob("*.unhub")) if given.is_dir() else [given]:
            inside.setdefault(os.path.realpath(path), (path, given))
    found = []
    for path, given in inside.values():
        if path in left:
            continue
        manifest, tensors = read_container(path)
        if manifest.get(WHAT) == MODEL and given.is_dir():
            continue
        told = as_correction_manifest(manifest, path)
        layout = Layout.from_json(told["layout"]) if "layout" in told else None
        inactive = given.is_dir() and not path.is_symlink() and _is_inactive(given, path.stem)
        found.append(SavedCorrection(path, load_correction(path, manifest, tensors), layout, inactive))
    return found


def _is_inactive(folder: Path, name: str) -> bool:
    """Return whether this is a version in a folder where another one is active."""
    if name not in names_in(folder):
        return False
    active = read_active(folder)
    return active is not None and active.active != name
