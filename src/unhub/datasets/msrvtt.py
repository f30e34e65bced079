"""MSR-VTT (Xu et al., CVPR 2016): the full split, and the 1,000 test videos of JSFusion (Yu et al., ECCV 2018).

These have a caption each in `1k-A`, and all twenty in `1k-A-20`, as in Wang et al. 2022.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from unhub.datasets.annotations import need, of_form, read_json, read_list, read_table, text_of, texts_of
from unhub.datasets.described import TEXT_VIDEO, Contents, Download, Known
from unhub.datasets.parts import Row, captioned, captioned_parts, numbered
from unhub.datasets.scanned import Scanned
from unhub.errors import ArgumentError

SMALL, ALL_CAPTIONS = "1k-A", "1k-A-20"
FORM = '{"videos": [{"video_id", "split"}], "sentences": [{"video_id", "caption"}]}'
MQVR_FORM = '[["video7020.mp4", number, ["a caption", ...]], ...]'
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
MQVR_FILES = ("msrvtt_test.json", "mqvr_msrvtt_test.json")
TEST_CAPTIONS = Download(
    (*MQVR_FILES, *CAPTIONS.names),
    "20 captions of each of the 1,000 test videos; all but the first two need MSRVTT_JSFUSION_test.csv too",
    "data/msrvtt of MQVR; the others are in msrvtt_data.zip of CLIP4Clip",
    splits=(ALL_CAPTIONS,),
)
TRAIN_CAPTIONS = Download(
    CAPTIONS.names,
    "the captions of training videos, for the bank",
    CAPTIONS.source,
    needed=False,
    splits=(SMALL, ALL_CAPTIONS),
)
TEST_1K = Download(("MSRVTT_JSFUSION_test.csv",), "1,000 videos, a caption each", CLIP4CLIP, splits=(SMALL,))
TRAIN_1K = Download(
    ("MSRVTT_train.9k.csv", "train_list_jsfusion.txt"),
    "the 9,000 training videos",
    CLIP4CLIP,
    needed=False,
    splits=(SMALL, ALL_CAPTIONS),
)
VIDEOS = Download((), "video0.mp4 to video9999.mp4", "the MSR-VTT release of Microsoft Research")


def load(files: Scanned, split: str) -> Contents:
    """Read the captions and the lists of a split."""
    return LOADERS[split](files)


def _load_full(files: Scanned) -> Contents:
    need(files, CAPTIONS)
    captions, lists = _read_captions(files)
    return captioned_parts(files, "video", lists, dict.fromkeys(lists, captions))


def _load_1k(files: Scanned) -> Contents:
    rows = _read_test(files)
    videos = [video for video, _, _ in rows]
    contents = Contents({"test": captioned(files, "video", videos, rows)})
    if files.find(*TRAIN_CAPTIONS.names) is None:
        return contents
    captions, _ = _read_captions(files)
    # The bank that a paper calls after JSFusion: what else people said of the test videos.
    asked = {video: text.split() for video, _, text in rows}
    others = [row for row in numbered(captions, videos) if row[2].split() != asked[row[0]]]
    banks = {"other-captions": captioned(files, "video", videos, others)} if others else {}
    trained = captioned_parts(files, "video", _train_list(files), {"train": captions})
    return Contents({**trained.parts, **contents.parts}, trained.notes, banks)


def _load_all_captions(files: Scanned) -> Contents:
    need(files, TEST_CAPTIONS)
    captions: dict[str, list[str]] = _read_captions(files)[0] if files.find(*CAPTIONS.names) else {}
    path = files.find(*MQVR_FILES)
    of_test = captions if path is None else _read_mqvr(path)
    videos = [video for video, _, _ in _read_test(files)] if path is None else [*of_test]
    lists = {**(_train_list(files) if captions else {}), "test": videos}
    return captioned_parts(files, "video", lists, {"train": captions, "test": of_test})


def _train_list(files: Scanned) -> dict[str, list[str]]:
    listed = files.find(*TRAIN_1K.names)
    return {"train": read_list(listed)} if listed else {}


def _read_test(files: Scanned) -> list[Row]:
    table = read_table(need(files, TEST_1K), ("key", "video_id", "sentence"))
    return [(video, key, text) for key, video, text in table]


def _read_mqvr(path: Path) -> dict[str, list[str]]:
    """Return the captions of each test video as Wang et al. 2022 publish them."""
    read = read_json(path)
    with of_form(path, MQVR_FORM):
        return {Path(text_of(video)).stem: texts_of(texts) for video, _, texts in read}


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
    if not captions:
        remedy = "the download is perhaps cut short, or another version: fetch it again"
        raise ArgumentError("data", f"{paths[0]} has no captions", remedy)
    return captions, lists


LOADERS = {SMALL: _load_1k, ALL_CAPTIONS: _load_all_captions, "full": _load_full}

KNOWN = Known(
    "msrvtt",
    "MSR-VTT",
    TEXT_VIDEO,
    (SMALL, ALL_CAPTIONS, "full"),
    {
        SMALL: {"train": (9_000, 180_000), "test": (1_000, 1_000)},
        ALL_CAPTIONS: {"train": (9_000, 180_000), "test": (1_000, 20_000)},
        "full": {"train": (6_513, 130_260), "val": (497, 9_940), "test": (2_990, 59_800)},
    },
    (TEST_1K, TEST_CAPTIONS, TRAIN_1K, TRAIN_CAPTIONS, CAPTIONS, VIDEOS),
    "none stated with the files; research use",
    load,
    unverified=("full",),
)
