"""MSR-VTT (Xu et al., CVPR 2016), with the full split and the split 1k-A of JSFusion (Yu et al., ECCV 2018)."""

from __future__ import annotations

from collections import defaultdict

from unhub.datasets.annotations import need, of_form, read_json, read_list, read_table, text_of
from unhub.datasets.described import TEXT_VIDEO, Contents, Download, Known
from unhub.datasets.parts import captioned, captioned_parts, numbered
from unhub.datasets.scanned import Scanned

FORM = '{"videos": [{"video_id", "split"}], "sentences": [{"video_id", "caption"}]}'
PARTS = {"train": "train", "validate": "val", "test": "test"}
CAPTIONS_FILE = "MSRVTT_data.json"
CHALLENGE_FILES = ("train_val_videodatainfo.json", "test_videodatainfo.json")

CLIP4CLIP = "msrvtt_data.zip of CLIP4Clip"
CAPTIONS = Download(
    (CAPTIONS_FILE, CHALLENGE_FILES[0]),
    f"20 captions of each of the 10,000 videos; {CHALLENGE_FILES[1]} with the second",
    CLIP4CLIP,
    splits=("full",),
)
TRAIN_CAPTIONS = Download(
    CAPTIONS.names, "the captions of training videos, for the bank", CAPTIONS.source, needed=False, splits=("1k-A",)
)
TEST_1K = Download(("MSRVTT_JSFUSION_test.csv",), "1,000 videos, a caption each", CLIP4CLIP, splits=("1k-A",))
TRAIN_1K = Download(
    ("MSRVTT_train.9k.csv", "train_list_jsfusion.txt"),
    "the 9,000 training videos",
    CLIP4CLIP,
    needed=False,
    splits=("1k-A",),
)
VIDEOS = Download((), "video0.mp4 to video9999.mp4", "the MSR-VTT release of Microsoft Research")


def load(files: Scanned, split: str) -> Contents:
    """Read the captions and the lists of a split."""
    return _load_full(files) if split == "full" else _load_1k(files)


def _load_full(files: Scanned) -> Contents:
    need(files, CAPTIONS)
    captions, lists = _read_captions(files)
    return captioned_parts(files, "video", lists, dict.fromkeys(lists, captions))


def _load_1k(files: Scanned) -> Contents:
    rows = [
        (video, key, text) for key, video, text in read_table(need(files, TEST_1K), ("key", "video_id", "sentence"))
    ]
    videos = [video for video, _, _ in rows]
    contents = Contents({"test": captioned(files, "video", videos, rows)})
    if files.find(*TRAIN_CAPTIONS.names) is None:
        return contents
    captions, _ = _read_captions(files)
    # The bank that a paper calls after JSFusion: what else people said of the test videos.
    asked = {video: text.split() for video, _, text in rows}
    others = [row for row in numbered(captions, videos) if row[2].split() != asked[row[0]]]
    banks = {"other-captions": captioned(files, "video", videos, others)} if others else {}
    listed = files.find(*TRAIN_1K.names)
    lists = {"train": read_list(listed)} if listed else {}
    trained = captioned_parts(files, "video", lists, {"train": captions})
    return Contents({**trained.parts, **contents.parts}, trained.notes, banks)


def _read_captions(files: Scanned) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the captions of each video, and the videos of each part."""
    whole = files.find(CAPTIONS_FILE)
    paths = [whole] if whole else [path for name in CHALLENGE_FILES if (path := files.find(name))]
    captions, lists = defaultdict(list), defaultdict(list)
    for path in paths:
        read = read_json(path)
        with of_form(path, FORM):
            for sentence in read["sentences"]:
                captions[text_of(sentence["video_id"])].append(text_of(sentence["caption"]))
            for video in read["videos"]:
                lists[PARTS[video["split"]]].append(text_of(video["video_id"]))
    return captions, lists


KNOWN = Known(
    "msrvtt",
    "MSR-VTT",
    TEXT_VIDEO,
    ("1k-A", "full"),
    {
        "1k-A": {"train": (9_000, 180_000), "test": (1_000, 1_000)},
        "full": {"train": (6_513, 130_260), "val": (497, 9_940), "test": (2_990, 59_800)},
    },
    (TEST_1K, TRAIN_1K, TRAIN_CAPTIONS, CAPTIONS, VIDEOS),
    "none stated with the files; research use",
    load,
    unverified=("full",),
)
