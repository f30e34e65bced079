"""ImageNet, ILSVRC 2012 (Deng et al., CVPR 2009): images ask for the name of their class, as CLIP does it.

Class names and prompts are read from the files that CLIP and others publish: the wording is theirs.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from unhub.data.relevance import Relevance
from unhub.datasets.annotations import need, of_form, read_fields, read_json, read_table, text_of, texts_of
from unhub.datasets.dataset import Part, Protocol, Side
from unhub.datasets.described import Contents, Download, Known
from unhub.datasets.scanned import MEDIA, Scanned
from unhub.errors import ArgumentError

Labelled: TypeAlias = dict[str, tuple[Path | None, str]]  # the file and the class of each image

WORDNET_ID = re.compile(r"n\d{8}")
SINGLE = "a photo of a {}."
NOTEBOOK = "Prompt_Engineering_for_ImageNet.ipynb"
CLIP = "the repository CLIP, folder notebooks; or DBSN, whose .json lists are made of it"
NAMES = Download(
    ("imagenet_classes.json", NOTEBOOK), "the 1,000 class names of CLIP, in the order of the classes", CLIP
)
PROMPTS = Download(
    ("imagenet_templates.json", NOTEBOOK), "the 80 prompts of CLIP, {} for the name", CLIP, splits=("ensemble",)
)
ORDER = Download(
    ("LOC_synset_mapping.txt", "synset_words.txt", "imagenet_class_index.json"),
    "the WordNet id of each class; where all 1,000 folders are there, they say it",
    "the Kaggle page of ImageNet, or Caffe, or Keras",
    needed=False,
    spare=True,
)
SOLUTION = Download(
    ("LOC_val_solution.csv",), "the classes of val images that are not in folders", "Kaggle", needed=False, spare=True
)
IMAGES = Download(
    (),
    "val/n01440764/ILSVRC2012_val_00000293.JPEG; or val/ flat; train/n01440764/ for the bank",
    "the ImageNet site, after its agreement",
)


def load(files: Scanned, split: str) -> Contents:
    """Read class names, prompts, and which image is of which class; training images are a bank without labels."""
    names = _listed(need(files, NAMES), "imagenet_classes")
    prompts = [SINGLE] if split == "single" else _listed(need(files, PROMPTS), "imagenet_templates")
    labelled = _in_folders(files)
    classes = _order(files, labelled, len(names))
    texts = tuple(tuple(prompt.replace("{}", name) for prompt in prompts) for name in names)
    items = Side("text", np.array(classes, np.str_), texts=texts)
    images = {part: _part(items, labelled[part]) for part in ("train", "val") if part in labelled}
    solution = files.find(*SOLUTION.names)
    if "val" not in images and solution:
        images["val"] = _part(items, _solved(files, solution))
    if "val" not in images:
        raise ArgumentError("data", f"{files.folder} has no images below val/, sorted by class", IMAGES.fetch)
    trained = images.get("train")
    parts = {"test": images["val"], **({"train": trained} if trained else {})}
    banks = {"train": Part(items, trained.queries, None)} if trained else {}
    return Contents(parts, tuple(_path_notes(parts)), banks)


def _part(items: Side, labelled: Labelled) -> Part:
    """Return images that ask for their class, by image id; a class that is not among the items has no answer."""
    ids = np.array([*labelled], np.str_)
    queries = Side("image", ids, paths=tuple(path for path, _ in labelled.values()))
    return Part(items, queries, Relevance(ids, np.array([one for _, one in labelled.values()], np.str_)))


def _in_folders(files: Scanned) -> Mapping[str, Labelled]:
    """Return the images below train/ and val/ that lie in a folder of their class, each with the class."""
    held: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))  # paths by part and stem
    for path in itertools.chain(*files.names.values(), files.dangling):
        *above, folder, name = ("", *path.split("/"))
        stem, suffix = os.path.splitext(name)
        part = next((one for one in ("train", "val") if one in above), None)
        if part and suffix.lower() in MEDIA["image"] and WORDNET_ID.fullmatch(folder):
            held[part][stem].append(path)
    return {part: dict(_named(files, paths)) for part, paths in held.items()}


def _named(files: Scanned, held: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, tuple[Path | None, str]]]:
    """Yield each image by its name without suffix, or by its path where others have that name."""
    absent = {*files.dangling}
    for stem, paths in held.items():
        for path in paths:
            place = None if path in absent else files.folder / path
            yield stem if len(paths) == 1 else path, (place, path.split("/")[-2])


def _path_notes(parts: Mapping[str, Part]) -> Iterator[str]:
    """Yield how many images of each part are called by their paths."""
    for part, held in parts.items():
        if named := [one for one in held.queries.ids.tolist() if "/" in one]:
            yield f"{part}: {len(named):,} images share their names and have their paths as ids, for example {named[0]}"


def _solved(files: Scanned, path: Path) -> Labelled:
    """Return the images of a table that names their classes, wherever they lie."""
    with of_form(path, "ImageId,PredictionString"):
        rows = read_table(path, ("ImageId", "PredictionString"))
        return {image: (files.media("image", image), boxes.split()[0]) for image, boxes in rows}


def _order(files: Scanned, labelled: Mapping[str, Labelled], count: int) -> list[str]:
    """Return the WordNet id of each class, in the order of the class names: they are sorted."""
    path = files.find(*ORDER.names)
    if path is None:
        classes = sorted({one for images in labelled.values() for _, one in images.values()})
        remedy = f"the folders do not say which name is whose: {ORDER.fetch}"
    else:
        remedy = f"{path.name} and {NAMES.title} are of different sets: fetch both again"
        if path.suffix == ".json":
            with of_form(path, '{"0": ["n01440764", "tench"], ...}'):
                read = read_json(path)
                classes = [text_of(read[str(number)][0]) for number in range(len(read))]
        else:
            classes = [row[0] for row in read_fields(path, " ", 1, 2)]
    if len(classes) != count:
        raise ArgumentError("data", f"{files.folder} has {len(classes):,} classes and {count:,} class names", remedy)
    return classes


def _listed(path: Path, name: str) -> Sequence[str]:
    """Return a list of texts from a JSON file, or from the line `name = [...]` of a notebook, which is never run."""
    read = read_json(path)
    form = f"a notebook with {name} = [...]" if path.suffix == ".ipynb" else '["...", ...]'
    with of_form(path, form):
        if path.suffix == ".ipynb":
            read = _assigned(["".join(cell["source"]) for cell in read["cells"] if cell["cell_type"] == "code"], name)
        texts = texts_of(read)
    if not texts:
        raise ArgumentError("data", f"{path} has no {name}", f"{form} is wanted")
    return texts


def _assigned(cells: Sequence[str], name: str) -> list[object]:
    """Return the list that is assigned to a name in one of these programs."""
    for cell in cells:
        if not cell.lstrip().startswith(f"{name} ="):
            continue
        try:
            body = ast.parse(cell).body
        except SyntaxError:
            continue
        if isinstance(body[0], ast.Assign) and isinstance(body[0].value, ast.List):
            return list(ast.literal_eval(body[0].value))
    raise KeyError(name)


KNOWN = Known(
    "imagenet",
    "ImageNet",
    Protocol("classification", ("i2t",), ("R@1", "R@5", "R@10")),
    ("ensemble", "single"),
    {split: {"train": (1_000, 1_281_167), "test": (1_000, 50_000)} for split in ("ensemble", "single")},
    (NAMES, PROMPTS, ORDER, SOLUTION, IMAGES),
    "non-commercial research and education only; class names and prompts MIT",
    load,
)
