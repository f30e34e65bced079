"""Tiny folders in the layouts in which the data sets are published, with media files that hold nothing to see."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import scipy.io

BIRDS = {1: ["001.Auk/Auk_0001_1.jpg", "001.Auk/Auk_0002_2.jpg"], 101: ["101.Owl/Owl_1.jpg", "101.Owl/Owl_2.jpg"]}
CLASSES = ("n01440764", "n01443537", "n01484850")


def touch(folder: Path, names: Iterable[str]) -> None:
    """Write files of one byte."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b".")


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_table(path: Path, rows: Iterable[Iterable[object]], delimiter: str = ",", end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator=end).writerows(rows)


def write_list(path: Path, names: Iterable[str]) -> None:
    """Write a list without a final newline, as several are published."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(names))


def karpathy(images: Mapping[str, str], captions: int = 5) -> object:
    """Return the form of Karpathy for images and their splits."""
    return {
        "images": [
            {
                "filename": name,
                "split": split,
                "sentences": [{"tokens": [], "raw": f"{name} said {k}"} for k in range(captions)],
            }
            for name, split in images.items()
        ],
        "dataset": "tiny",
    }


def msrvtt(folder: Path) -> None:
    videos = {"video0": "train", "video1": "train", "video6513": "validate", "video7010": "test", "video7020": "test"}
    sentences = [{"sen_id": k, "video_id": one, "caption": f"{one} {k}"} for one in videos for k in range(3)]
    listed = [{"id": k, "video_id": one, "split": split} for k, (one, split) in enumerate(videos.items())]
    write_json(folder / "MSRVTT_data.json", {"info": {}, "videos": listed, "sentences": sentences})
    heads = ("key", "vid_key", "video_id", "sentence")
    rows = [("ret0", "msr7020", "video7020", "video7020  1"), ("ret1", "msr7010", "video7010", "another sentence")]
    write_table(folder / "MSRVTT_JSFUSION_test.csv", [heads, *rows])
    write_table(folder / "MSRVTT_train.9k.csv", [("video_id",), ("video0",), ("video1",), ("video6513",)])
    touch(folder / "videos" / "all", (f"{one}.mp4" for one in videos))


def msvd(folder: Path) -> None:
    ids = {"train": "-4wsuPCjDBc_5_15", "val": "bQJQGoJF7_k_162_169", "test": "eyhzdC936uk_15_27"}
    write_json(folder / "captions_msvd.json", {one: ["a cat", "a dog"][: 1 + k] for k, one in enumerate(ids.values())})
    for part, one in ids.items():
        write_list(folder / f"{part}_list.txt", [one])
    touch(folder / "YouTubeClips", (f"{one}.avi" for one in ids.values()))


def didemo(folder: Path) -> None:
    names = {"train": "1@N00_1_a.mov", "val": "2@N00_2_b.mp4", "test": "3@N00_3_c."}
    for part, name in names.items():
        sentences = [("a dog runs.", name), ("no list has it", f"x{name}"), ("it sits.", name)]
        entries = [{"video": video, "description": text, "times": [[0, 0]]} for text, video in sentences]
        write_json(folder / "data" / f"{part}_data.json", entries)
        write_list(folder / f"{part}_list.txt", [name])
    touch(folder / "videos", ("1@N00_1_a.mov.mp4", "2@N00_2_b.avi", "3@N00_3_c.mp4"))


def lsmdc(folder: Path) -> None:
    times = "\t".join(["00.00.01.000"] * 4)
    test = {"LSMDC16_challenge_1000_publictect.csv": [("1001_A_00.00.01.000-00.00.02.000", 'SOMEONE says "no.')]}
    train = {"LSMDC16_annos_training.csv": [("0001_B_00.00.01.000-00.00.02.000", one) for one in ("He goes.", "Gone.")]}
    for name, rows in {**test, **train}.items():
        (folder / name).write_text("".join(f"{clip}\t{times}\t{text}\n" for clip, text in rows))
        touch(folder / "avi" / rows[0][0][:6], [f"{rows[0][0]}.avi"])


def vatex(folder: Path) -> None:
    ids = {
        "vatex_training_v1.0.json": ["Gxx8wOZPCuA_000012_000022"],
        "vatex_validation_v1.0.json": ["aaaaaaaaaaa_000000_000010", "bbbbbbbbbbb_000000_000010"],
        "vatex_public_test_english_v1.1.json": ["ccccccccccc_000001_000011"],
    }
    for name, videos in ids.items():
        caps = [f"caption {k}" for k in range(10)]
        write_json(folder / name, [{"videoID": one, "enCap": caps, "chCap": []} for one in videos])
    write_list(folder / "val_list_split1.txt", ids["vatex_validation_v1.0.json"][:1])
    write_list(folder / "val_list_split2.txt", ids["vatex_validation_v1.0.json"][1:])
    touch(folder / "videos", ["Gxx8wOZPCuA_000012_000022.mp4", "aaaaaaaaaaa.mp4", "bbbbbbbbbbb.mkv", "ccccccccccc.mp4"])


def activitynet(folder: Path) -> None:
    for name, video in {"train.json": "v_aaaaaaaaaaa", "val_1.json": "v_uqiMw7tQ1Cc"}.items():
        entry = {"duration": 9.0, "timestamps": [[0, 1], [1, 2]], "sentences": ["A man lifts.", "  The coach helps."]}
        write_json(folder / "captions" / name, {video: entry})
        touch(folder / "videos", [f"{video}.mkv"])
    write_json(folder / "captions" / "val_ids.json", ["v_uqiMw7tQ1Cc", "v_nobody"])


def queryd(folder: Path) -> None:
    ids = {"train": "video-aaaaaaaaaaa", "val": "video-bbbbbbbbbbb", "test": "video-uc0O6cqYbyk"}
    captions = {one: [["a", "man"], ["walks"]] for one in ids.values()}
    write_json(folder / "raw_captions_combined_filtered.json", captions)
    for part, one in ids.items():
        write_list(folder / f"{part}_list.txt", [one])
    touch(folder / "videos", ["aaaaaaaaaaa.mp4", "video-bbbbbbbbbbb.webm", "uc0O6cqYbyk.mp4"])


def coco(folder: Path) -> None:
    images = {
        "COCO_train2014_000000000009.jpg": "train",
        "COCO_val2014_000000000042.jpg": "restval",
        "COCO_val2014_000000000073.jpg": "val",
        "COCO_val2014_000000391895.jpg": "test",
        "COCO_val2014_000000060623.jpg": "test",
    }
    write_json(folder / "dataset_coco.json", karpathy(images, captions=6))
    touch(folder / "train2014", [one for one in images if "train" in one])
    touch(folder / "val2014", [one for one in images if "val" in one])


def flickr30k(folder: Path) -> None:
    images = {"1000092795.jpg": "train", "1000268201.jpg": "val", "1007129816.jpg": "test"}
    write_json(folder / "dataset_flickr30k.json", karpathy(images))
    touch(folder / "flickr30k-images", images)


def flickr8k(folder: Path) -> None:
    names = {
        "train": "1000268201_693b08cb0e.jpg",
        "dev": "2090545563_a4e66ec76b.jpg",
        "test": "3385593926_d3e9c21170.jpg",
    }
    ghost = "2258277193_586949ec62.jpg.1"
    lines = [f"{name}#{k}\tA dog , {k} .\n" for name in (*names.values(), ghost) for k in range(5)]
    (folder / "Flickr8k.token.txt").write_text("".join(lines))
    for part, name in names.items():
        write_list(folder / f"Flickr_8k.{part}Images.txt", [name])
    write_json(folder / "dataset_flickr8k.json", karpathy({names["test"]: "test", names["train"]: "train"}))
    touch(folder / "Flicker8k_Dataset", [*names.values()])


def plip(folder: Path) -> None:
    entries = {str(k): {"caption": f"stain {k}", "uuid": f"uuid-{k}"} for k in range(3)}
    write_json(folder / "captions.json", entries)
    touch(folder / "images", ["uuid-0.png", "uuid-1.jpg", "uuid-2.png"])


def audiocaps(folder: Path) -> None:
    clips = {"train": ("aaaaaaaaaaa", 1), "val": ("bbbbbbbbbbb", 5), "test": ("7fmOlUlwoNg", 5)}
    heads = ("audiocap_id", "youtube_id", "start_time", "caption")
    for part, (clip, captions) in clips.items():
        rows = [(k, clip, 20, f"a rattle, a hum and {k}") for k in range(captions)]
        write_table(folder / "dataset" / f"{part}.csv", [heads, *rows], end="\r\n")
    touch(folder / "sounds", ["aaaaaaaaaaa_20.wav", "Ybbbbbbbbbbb.wav", "7fmOlUlwoNg.flac"])


def audiocaps_of_mei(folder: Path) -> None:
    five_captions(folder / "test.csv", ["Y7fmOlUlwoNg.wav"])
    touch(folder / "test", ["Y7fmOlUlwoNg.wav"])


def five_captions(path: Path, names: Iterable[str]) -> None:
    heads = ("file_name", *(f"caption_{k}" for k in range(1, 6)))
    write_table(path, [heads, *((name, *(f'a "bell", {k}' for k in range(5))) for name in names)])


def clotho(folder: Path) -> None:
    names = {
        "development": "Distorted AM Radio noise.wav",
        "validation": "Ocean (1).wav",
        "evaluation": "Santa Motor.wav",
    }
    for part, name in names.items():
        five_captions(folder / f"clotho_captions_{part}.csv", [name])
        touch(folder / part, [name])


def cub(folder: Path) -> None:
    images = [(name, one) for one, names in BIRDS.items() for name in names]
    (folder / "images.txt").write_text("".join(f"{k} {name}\n" for k, (name, _) in enumerate(images, 1)))
    (folder / "image_class_labels.txt").write_text("".join(f"{k} {one}\n" for k, (_, one) in enumerate(images, 1)))
    touch(folder / "images", [name for name, _ in images])


def online_products(folder: Path) -> None:
    for part in ("train", "test"):
        rows = [f"{k} {k // 2} 1 {part}_final/11108512{k}_0.JPG\n" for k in range(4)]
        (folder / f"Ebay_{part}.txt").write_text("image_id class_id super_class_id path\n" + "".join(rows))
        touch(folder / f"{part}_final", (f"11108512{k}_0.JPG" for k in range(4)))


def write_mat(path: Path, rows: list[tuple[int, str]], name: str = "fname", packed: bool = True) -> None:
    """Write a struct array as the devkit of Cars-196 has it; the official ones are packed."""
    fields = np.dtype([("bbox_x1", object), ("class", object), (name, object)])
    path.parent.mkdir(parents=True, exist_ok=True)
    annotations = np.array([[(1, *row) for row in rows]], fields)
    scipy.io.savemat(path, {"annotations": annotations}, do_compression=packed)


def cars196(folder: Path) -> None:
    rows = [(1, "00001.jpg"), (1, "00002.jpg"), (150, "00003.jpg"), (150, "00004.jpg")]
    write_mat(folder / "devkit" / "cars_train_annos.mat", rows)
    write_mat(folder / "cars_test_annos_withlabels.mat", rows)
    for part in ("cars_train", "cars_test"):
        touch(folder / part, [name for _, name in rows])


def inshop(folder: Path) -> None:
    uses = {
        "id_00000001": ("query", "gallery", "gallery"),
        "id_00000002": ("train", "train"),
        "id_3": ("query", "gallery"),
    }
    rows = [
        (f"img/WOMEN/Dresses/{item}/02_{k}_front.jpg", item, use)
        for item, several in uses.items()
        for k, use in enumerate(several, 1)
    ]
    lines = [f"{name:<60} {item:<14} {use}\n" for name, item, use in rows]
    text = f"{len(rows)}\nimage_name item_id evaluation_status\n" + "".join(lines)
    write_list(folder / "Eval" / "list_eval_partition.txt", [text.rstrip()])
    touch(folder, [name for name, _, _ in rows])


def imagenet(folder: Path) -> None:
    write_json(folder / "imagenet_classes.json", ["tench", "goldfish", "great white shark"])
    write_json(folder / "imagenet_templates.json", ["a photo of a {}.", "art of the {}."])
    (folder / "LOC_synset_mapping.txt").write_text("".join(f"{one} some, words\n" for one in CLASSES))
    touch(folder / "val", (f"{one}/ILSVRC2012_val_0000000{k}.JPEG" for k, one in enumerate(CLASSES)))
    touch(folder / "train", (f"{one}/{one}_{k}.JPEG" for one in CLASSES for k in range(2)))


def visogender(folder: Path) -> None:
    heads = (
        "IDX",
        "Sector",
        "Specialisation",
        "Occupation",
        "Object",
        "URL",
        "Occupation_perceived_gender",
        "Annotator",
    )
    rows = [
        (f"OO_{k}", "food", "kitchen", "baker", spoon, f"https://example.org/{k}", gender, "A")
        for k, (spoon, gender) in enumerate([("mixing spoon", "masculine"), ("mixing_spoon", "feminine")], 1)
    ]
    write_table(folder / "data" / "OO_Visogender_10052025.tsv", [heads, *rows], delimiter="\t")
    others = [(f"OP_{k}", *row[1:]) for k, row in enumerate(rows, 1)]
    swapped = ["Participant" if head == "Object" else head for head in heads]
    write_table(folder / "data" / "OP_Visogender_11012024.tsv", [swapped, *others], delimiter="\t")
    touch(folder / "images", ["OO_1.jpg", "OO_2.png", "OP_1.jpg", "OP_2.jpg"])


def own_folder(folder: Path) -> None:
    rows = [
        ("a.jpg", "a red circle", "test", "first"),
        ("a.jpg", "a round thing", "test", "second"),
        ("sub/b.jpg", "a square", "test", "third"),
        ("c.jpg", "a line", "train", "fourth"),
        ("c.jpg", "buy this", "adversarial", "fifth"),
    ]
    write_table(folder / "captions.csv", [("file", "text", "split", "id"), *rows])
    touch(folder, ["a.jpg", "sub/b.jpg", "c.jpg"])


WRITERS: Mapping[str, Callable[[Path], None]] = {
    "msrvtt": msrvtt,
    "msvd": msvd,
    "didemo": didemo,
    "lsmdc": lsmdc,
    "vatex": vatex,
    "activitynet": activitynet,
    "queryd": queryd,
    "coco": coco,
    "flickr30k": flickr30k,
    "flickr8k": flickr8k,
    "pubmed": plip,
    "bookset": plip,
    "audiocaps": audiocaps,
    "clotho": clotho,
    "cub": cub,
    "sop": online_products,
    "cars196": cars196,
    "inshop": inshop,
    "imagenet": imagenet,
    "visogender": visogender,
    "folder": own_folder,
}
