"""Check the folder of a data set: what is there, what is missing, and the counts against the official ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from unhub.datasets.dataset import Part
from unhub.datasets.described import Download
from unhub.datasets.loading import find, loaded, media_sides, split_of
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError


@dataclass(frozen=True)
class CheckedFile:
    """A file that is wanted, and where it was found; None where it is missing.

    spare: wanted only where the other files do not say enough; it is listed where it was found or where nothing can be
    read.
    """

    title: str
    needed: bool
    spare: bool
    path: str | None
    fetch: str


@dataclass(frozen=True)
class CheckedPart:
    """A part: what its files hold, what the official split holds, and how many media files are there.

    official: items and queries; None where the papers do not say. media, missing, empty: files that are named, those of
    them that are not there, and those without content, as a download that broke off leaves them.
    """

    name: str
    items: int
    queries: int
    official: tuple[int, int] | None
    media: int
    missing: int
    empty: int

    @property
    def as_official(self) -> bool:
        """Whether the counts are those of the papers, as far as they are known."""
        return self.official in (None, (self.items, self.queries))


@dataclass(frozen=True)
class Checked:
    """What a folder holds of a data set.

    banks: those that are no parts. problem: why nothing can be read, with what to do; empty otherwise.
    """

    name: str
    split: str
    verified: bool
    files: tuple[CheckedFile, ...]
    parts: tuple[CheckedPart, ...]
    banks: tuple[CheckedPart, ...]
    notes: tuple[str, ...]
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether all that a measurement on the test part needs is there, in the official number."""
        test = [part for part in self.parts if part.name.startswith("test")]
        return (
            bool(test)
            and not self.problem
            and all(part.as_official and not part.missing and not part.empty for part in test)
        )


def check(name: str, folder: str | os.PathLike[str], split: str | None = None) -> Checked:
    """Check what a folder holds of a data set, without embedding anything.

    name: as `unhub datasets` lists it. split: one of its splits (default: the usual one).
    """
    known = find(name)
    chosen = split_of(known, split)
    verified = chosen not in known.unverified
    files = Scanned.of(folder)
    wanted = tuple(_checked(files, one) for one in known.files if one.names and one.for_split(chosen))
    try:
        data = loaded(known, files, chosen)
    except ArgumentError as error:
        return Checked(name, chosen, verified, wanted, (), (), (), f"{error.problem}; {error.remedy}")
    wanted = tuple(one for one in wanted if one.path or not one.spare)
    banks = {bank: held for bank, held in data.banks.items() if bank not in data.parts}
    counted, notes = dict[str, CheckedPart](), [*data.notes]
    for part, held in {**data.parts, **banks}.items():
        sides = media_sides(held)
        media, missing = sum(map(len, sides)), sum(len(side.missing) for side in sides)
        empty = list(_empty(held))
        counts = (len(held.items), len(held.queries), data.counted.get(part))
        counted[part] = CheckedPart(part, *counts, media, missing, len(empty))
        if empty:
            files_are = f"{len(empty):,} of {media:,} files {'is' if len(empty) == 1 else 'are'}"
            notes.append(f"{part}: {files_are} empty, for example {empty[0]}: fetch them again")
    of_parts, of_banks = (tuple(counted[one] for one in names) for names in (data.parts, banks))
    return Checked(name, chosen, verified, wanted, of_parts, of_banks, tuple(notes))


def _empty(part: Part) -> Iterator[str]:
    """Yield the media of a part whose files are empty."""
    for side in media_sides(part):
        for one, path in zip(side.ids.tolist(), side.paths or (), strict=True):
            if path is not None and path.stat().st_size == 0:
                yield one


def _checked(files: Scanned, wanted: Download) -> CheckedFile:
    path = files.find(*wanted.names)
    where = None if path is None else path.relative_to(files.folder).as_posix()
    return CheckedFile(wanted.title, wanted.needed, wanted.spare, where, wanted.fetch)
