"""AudioCaps (Kim et al., NAACL 2019): ten seconds of sound from YouTube, five captions each in val and test."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from unhub.datasets.annotations import need, read_table
from unhub.datasets.clotho import FIVE_CAPTIONS, read_five_captions
from unhub.datasets.described import TEXT_AUDIO, Contents, Download, Known
from unhub.datasets.parts import captioned_parts
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError

COLUMNS = ("youtube_id", "start_time", "caption")
RELEASE = "the repository audiocaps, folder dataset, not dataset2.0"
PARTS = ("train", "val", "test")
SPLITS = {"official": RELEASE, "mei": "audio-text_retrieval of Mei et al., data/AudioCaps/csv_files"}
FILES = {
    split: {part: Download((f"{part}.csv",), f"{part} captions", where, part == "test", (split,)) for part in PARTS}
    for split, where in SPLITS.items()
}
SOUNDS = Download((), "Y<YouTube id>.wav or <YouTube id>.wav or <YouTube id>_<start>.wav", "YouTube")


def load(files: Scanned, split: str) -> Contents:
    """Read the captions of each part: of the release, or of the smaller set of Mei et al."""
    need(files, FILES[split]["test"])
    captions: dict[str, dict[str, list[str]]] = {}
    starts: dict[tuple[str, str], str] = {}
    for part, wanted in FILES[split].items():
        if path := files.find(*wanted.names):
            _check_version(path, split)
            captions[part] = read_five_captions(path) if split == "mei" else _read_rows(path, part, starts)
    lists = {part: list(read) for part, read in captions.items()}
    return captioned_parts(
        files, "audio", lists, captions, names=lambda part, item: _names(item, starts.get((part, item)))
    )


def _read_rows(path: Path, part: str, starts: dict[tuple[str, str], str]) -> dict[str, list[str]]:
    captions = defaultdict(list)
    for clip, start, text in read_table(path, COLUMNS):
        starts[part, clip] = start
        captions[clip].append(text)
    return captions


def _check_version(path: Path, split: str) -> None:
    """Raise if a file belongs to the other split, whose files have the same names."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        heads = file.readline().strip().split(",")
    wanted, other = (FIVE_CAPTIONS, COLUMNS) if split == "mei" else (COLUMNS, FIVE_CAPTIONS)
    if not {*wanted} <= {*heads} and {*other} <= {*heads}:
        have = next(name for name in SPLITS if name != split)
        problem = f"{path} is of the split {have}: it has the columns {', '.join(heads)}"
        raise ArgumentError("data", problem, f"give the split {have}, or fetch {path.name} from {SPLITS[split]}")


def _names(item: str, start: str | None) -> tuple[str, ...]:
    return (*((f"{item}_{start}", f"Y{item}_{start}") if start else ()), item, f"Y{item}")


KNOWN = Known(
    "audiocaps",
    "AudioCaps",
    TEXT_AUDIO,
    ("official", "mei"),
    {
        "official": {"train": (49_838, 49_838), "val": (495, 2_475), "test": (975, 4_875)},
        "mei": {"val": (494, 2_470), "test": (957, 4_785)},
    },
    (*FILES["official"].values(), *FILES["mei"].values(), SOUNDS),
    "captions MIT; sounds under the terms of YouTube",
    load,
)
