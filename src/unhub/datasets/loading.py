"""Load a data set from the folder that holds it, and say what of it is missing."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from unhub.datasets.dataset import DataSet, Part, Side
from unhub.datasets.described import OWN, Contents, Known
from unhub.datasets.known import DATASETS
from unhub.datasets.scanned import Scanned, md5_of
from unhub.errors import ArgumentError, unknown
from unhub.evaluation.tables import counted

ORDER = ("train", "val", "test")
COMMON_NAMES = {"captions.json", "test.csv"}  # which say little about whose they are


def load(name: str, folder: str | os.PathLike[str], split: str | None = None) -> DataSet:
    """Load a data set from the files below a folder, in the layout in which it is published.

    name: as `unhub datasets` lists it. split: one of its splits (default: the usual one). Media files that are missing
    have no path and are counted in the notes; annotation files that are missing are an error that says what to fetch.
    """
    known = find(name)
    chosen = split_of(known, split)
    return loaded(known, Scanned.of(folder), chosen)


def find(name: str) -> Known:
    """Return what is known of a data set."""
    if name not in DATASETS:
        raise unknown("name", name, DATASETS, "data sets")
    return DATASETS[name]


def split_of(known: Known, split: str | None) -> str:
    """Return the split of that name, or the usual one."""
    if split is not None and split not in known.splits:
        raise unknown("split", split, known.splits, f"splits of {known.name}")
    return split or known.splits[0]


def loaded(known: Known, files: Scanned, split: str) -> DataSet:
    """Return the data set that lies in a scanned folder, with notes on what is missing and what to fetch."""
    try:
        contents = known.load(files, split)
    except ArgumentError as error:
        about = error.problem if error.name == "data" else f"{files.folder}: {error.name} {error.problem}"
        remedy = error.remedy if error.name == "data" else "an annotation file is of another version: fetch it again"
        near = _lookalike(known, files)
        raise ArgumentError("data", about, f"it looks like {near}; {remedy}" if near else remedy) from None
    if "test" not in contents.parts:
        wanted = next(one for one in known.files if one.needed and one.names and one.for_split(split))
        raise ArgumentError("data", f"{files.folder} has no test part of {known.name}", wanted.fetch)
    ordered = sorted(contents.parts, key=lambda one: ORDER.index(one) if one in ORDER else len(ORDER))
    parts = {name: contents.parts[name] for name in ordered}
    # More than one test part means folds: a bank of the others would be test queries.
    banks = {name: part for name, part in parts.items() if name in ORDER}
    counted = known.sizes.get(split, {})
    on_media = tuple(_media_notes(known, files, contents))
    return DataSet(
        known.name,
        split,
        parts,
        {**banks, **contents.banks},
        contents.protocol or known.protocol,
        counted,
        (*contents.notes, *_shared_notes(parts), *_notes(known, files, split, contents, counted), *on_media),
        contents.groups,
        on_media,
    )


def _lookalike(known: Known, files: Scanned) -> str | None:
    """Return another data set whose needed files are here, under names of its own."""
    own = COMMON_NAMES | {name for one in known.files for name in one.names}
    for other in DATASETS.values():
        needed = [one for one in other.files if one.needed and one.names and not {*one.names} & own]
        if other.name not in (known.name, "folder") and needed and all(files.find(*one.names) for one in needed):
            return other.name
    return None


def _notes(
    known: Known, files: Scanned, split: str, contents: Contents, counted: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    """Yield what is missing, what is there twice, and what is of another version."""
    if split in known.unverified:
        yield "layout not verified: not all official files of this split were at hand when its reader was written"
    for wanted in known.files:
        if not wanted.for_split(split) or not wanted.names:
            continue
        paths = files.all(next((one for one in wanted.names if files.all(one)), wanted.names[0]))
        if not paths and not wanted.spare:
            yield f"missing: {wanted.fetch}"
        if len(paths) > 1:
            shown = " and not ".join(path.relative_to(files.folder).as_posix() for path in paths[:2])
            yield f"{wanted.title} is there {len(paths)} times: {shown} is read"
        if paths and wanted.md5 and paths[0].name == wanted.names[0] and md5_of(paths[0]) != wanted.md5:
            yield f"{paths[0].name} is another version than the official one: its md5 is not {wanted.md5}"
    for name, (items, queries) in counted.items():
        part = contents.parts.get(name)
        if part and (len(part.items), len(part.queries)) != (items, queries):
            yield (
                f"{name}: {len(part.items):,} items and {len(part.queries):,} queries; the official split has "
                f"{items:,} and {queries:,}: a list or an annotation file is of another version, or cut short"
            )


def _shared_notes(parts: Mapping[str, Part]) -> Iterator[str]:
    """Yield which parts have names of media in common: what is learnt on one then knows the other."""
    held = {name: {one for side in media_sides(part) for one in side.ids.tolist()} for name, part in parts.items()}
    for first, second in itertools.combinations(held, 2):
        if both := held[first] & held[second]:
            names = counted(len(both), "name is", "names are")
            yield f"{first} and {second}: {names} in both, for example {min(both)}"


def _media_notes(known: Known, files: Scanned, contents: Contents) -> Iterator[str]:
    """Yield how many media files are missing, how many serve several items, and how many no annotation names."""
    media = next(one for one in known.files if not one.names)
    used: dict[Path, set[str]] = defaultdict(set)
    kinds, lacking = set(), False
    for name, part in {**contents.banks, **contents.parts}.items():
        for side in media_sides(part):
            kinds.add(side.kind)
            for one, path in zip(side.ids.tolist(), side.paths or (), strict=True):
                if path:
                    used[path].add(one)
            if missing := len(side.missing):
                lacking = True
                first = side.missing[0]
                are = "is" if missing == 1 else "are"
                yield f"{name}: {missing:,} of {len(side):,} {side.kind} files {are} missing, for example {first}"
    if lacking:
        where = "the files must be there" if media.exact else "the files may lie anywhere below the folder"
        yield f"{where}: {media.holds}" + ("" if media.source == OWN else f"; fetch them from {media.source}")
    if files.dangling:
        links, first = counted(len(files.dangling), "link leads", "links lead"), files.dangling[0]
        yield f"{links} to what is not there, for example {first}: fetch it, as by git annex or dvc"
    shared = {path: names for path, names in used.items() if len(names) > 1}
    if shared:
        path, names = next(iter(shared.items()))
        example = f"{path.relative_to(files.folder).as_posix()} for {' and '.join(sorted(names)[:2])}"
        files_shared = counted(len(shared), "media file serves", "media files serve")
        yield f"{files_shared} two items or more, for example {example}: some may be missing"
    for kind in sorted(kinds):
        if others := files.count_others(kind, used):
            yield f"{counted(others, f'{kind} file is', f'{kind} files are')} named by no annotation that was read"


def media_sides(part: Part) -> tuple[Side, ...]:
    """Return the sides of a part that are media, each once."""
    sides = (part.items,) if part.items is part.queries else (part.items, part.queries)
    return tuple(side for side in sides if side.kind != "text")
