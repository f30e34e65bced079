"""Anyone's own data set: media files, and one CSV file with a line for each caption."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from unhub.datasets.annotations import need, read_table
from unhub.datasets.dataset import Kind, Protocol
from unhub.datasets.described import (
    IMAGE_MEASURES,
    OWN,
    TEXT_AUDIO,
    TEXT_IMAGE,
    TEXT_VIDEO,
    Contents,
    Download,
    Known,
)
from unhub.datasets.parts import Row, captioned
from unhub.datasets.scanned import MEDIA, Scanned
from unhub.errors import ArgumentError
from unhub.evaluation.tables import counted

COLUMNS, OPTIONAL = ("file", "text", "split", "id"), ("split", "id")
PARTS = {"": "test", "training": "train", "validation": "val", "dev": "val"}
OWN_PARTS = ("train", "val", "test")
PREFERRED = "captions.csv"
PROTOCOLS: dict[Kind, Protocol] = {"image": TEXT_IMAGE, "video": TEXT_VIDEO, "audio": TEXT_AUDIO}
TABLE = Download(
    (PREFERRED, "*.csv"),
    "columns file, text, and if you like split (train, val, test) and id; several lines for a file are its captions",
    OWN,
)
FILES = Download(
    (),
    "images, videos or sounds, at the path that the column file gives, from the table or from --data",
    OWN,
    exact=True,
)


def load(files: Scanned, split: str) -> Contents:
    """Read the lines; any split that is not train, val or test is a bank of that name."""
    path = need(files, TABLE)
    if path.name != PREFERRED and len(files.all("*.csv")) > 1:
        names = ", ".join(sorted(one.name for one in files.all("*.csv"))[:3])
        raise ArgumentError("data", f"{files.folder} has several .csv files: {names}", f"name the one {PREFERRED}")
    lines = read_table(path, COLUMNS, OPTIONAL)
    kind = _kind(path, [file for file, *_ in lines])
    rows: dict[str, list[Row]] = defaultdict(list)
    texts: dict[str, str] = {}
    counts: dict[str, int] = defaultdict(int)
    for file, text, part, given in lines:
        query = given or f"{file}#{counts[file]}"
        counts[file] += 1
        if texts.setdefault(query, text) != text:
            raise ArgumentError("data", f"{path} has two texts with the id {query!r}", "give each text its own id")
        rows[PARTS.get(part.strip().lower(), part.strip().lower())].append((file, query, text))
    if "test" not in rows:
        problem = f"{path} has no line of the split test, only of {', '.join(rows)}"
        raise ArgumentError("data", problem, "write test for some, or leave out the column split: then all are of test")
    places = [path.parent.relative_to(files.folder), Path()]
    made = {
        name: captioned(
            files,
            kind,
            [*dict.fromkeys(row[0] for row in some)],
            some,
            lambda file: [PurePosixPath("/", place, file).as_posix() for place in places],
        )
        for name, some in rows.items()
    }
    parts = {name: part for name, part in made.items() if name in OWN_PARTS}
    banks = {name: part for name, part in made.items() if name not in OWN_PARTS}
    notes = [
        f"{path.name}: {counted(len(rows[name]), 'line is', 'lines are')} of the split {name!r}, which is none of "
        f"{', '.join(OWN_PARTS)}: a bank of that name"
        for name in banks
    ]
    return Contents(parts, tuple(notes), banks, PROTOCOLS[kind])


def _kind(path: Path, names: Sequence[str]) -> Kind:
    """Return what the files are by their suffixes; all must be of one kind."""
    kinds = {kind for kind in PROTOCOLS if all(_suffix(name) in MEDIA[kind] for name in names)}
    found = next((kind for kind in PROTOCOLS if kind in kinds), None)  # a video is also a sound: take it as a video
    if found is None:
        suffixes = ", ".join(sorted({_suffix(name) or "none" for name in names})[:5])
        problem = f"{path} names files with the suffixes {suffixes}"
        raise ArgumentError("data", problem, "all must be images, or all videos, or all sounds")
    return found


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


KNOWN = Known(
    "folder",
    "Your own files",
    Protocol("your own", ("t2i", "i2t"), IMAGE_MEASURES),
    ("own",),
    {},
    (TABLE, FILES),
    "your own",
    load,
)
