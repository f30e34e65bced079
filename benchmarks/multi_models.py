"""The models of the multi-query study: what is trained, on which data, with what recipe."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

import unhub
from unhub.training import train

RATES = (7e-4, 2e-3, 5e-3)
# Chosen on val, one parameter at a time; `multi_query.py recipes` compares recipes.
RECIPE: Mapping[str, float] = {"batch": 256, "hidden": 512, "dropout": 0.5, "weight_decay": 0.01, "epochs": 30}


class Kind(TypedDict):
    """How a model is trained: the head, and how many captions an item has in a step."""

    head: str
    queries: int
    combination: bool


KINDS: Mapping[str, Kind] = {
    "1 query": {"head": "mf", "queries": 1, "combination": False},
    "MF": {"head": "mf", "queries": 5, "combination": False},
    "TS-WF": {"head": "ts-wf", "queries": 5, "combination": False},
    "LG-WF": {"head": "lg-wf", "queries": 5, "combination": False},
    "CG-WF": {"head": "cg-wf", "queries": 5, "combination": False},
    "Cmb (MF)": {"head": "mf", "queries": 5, "combination": True},
    "MF, 2 queries": {"head": "mf", "queries": 2, "combination": False},
    "MF, 3 queries": {"head": "mf", "queries": 3, "combination": False},
}


@dataclass(frozen=True, eq=False)
class Split:
    """Features of the captions and images of one split, with their rows as ids, and which belong together."""

    texts: unhub.Vectors
    items: unhub.Vectors
    relevance: NDArray[np.int64]

    @property
    def captions(self) -> NDArray[np.int64]:
        """The positions of the captions of each image, (images, 5)."""
        owners = np.searchsorted(self.items.ids, self.relevance[:, 1])
        return np.argsort(owners, kind="stable").reshape(len(self.items), -1)


def flickr8k() -> Path:
    """Return the flickr8k folder in $UNHUB_DATA, or in ../shared/data beside the checkout if that is unset."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("UNHUB_DATA") or beside) / "flickr8k"


def read_split(folder: Path, split: str) -> Split:
    """Read one split of the flickr8k folder: the frozen encoders' own features."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    of_image, image_of = np.array(meta["split"]), np.array(meta["caption_image"])
    images, texts = np.flatnonzero(of_image == split), np.flatnonzero(of_image[image_of] == split)
    return Split(
        unhub.Vectors(texts, np.load(folder / "raw_txt.npy", mmap_mode="r")[texts]),
        unhub.Vectors(images, np.load(folder / "raw_img.npy", mmap_mode="r")[images]),
        np.stack([texts, image_of[texts]], axis=1),
    )


def path_of(work: Path, kind: str, seed: int) -> Path:
    """Return where the model of a kind and a seed is kept."""
    return work / f"{kind} {seed}.safetensors".replace(" ", "_").replace(",", "").replace("(", "").replace(")", "")


def train_one(
    folder: Path, work: Path, kind: str, seed: int, rates: tuple[float, ...], recipe: Mapping[str, float]
) -> tuple[str, int, float, float]:
    """Train a model unless it exists; return its kind, seed, rate and R@1 on val."""
    path = path_of(work, kind, seed)
    if not path.exists():
        data, judged = read_split(folder, "train"), read_split(folder, "val")
        model = train(
            data.texts,
            data.items,
            data.relevance,
            towers="mlp",
            seed=seed,
            rate=rates,
            threads=1,
            validation=(judged.texts, judged.items, judged.relevance),
            batch=int(recipe["batch"]),
            hidden=int(recipe["hidden"]),
            dropout=recipe["dropout"],
            weight_decay=recipe["weight_decay"],
            epochs=int(recipe["epochs"]),
            head_rate=1.0,
            **KINDS[kind],  # one rate for all, as in the paper
        )
        unhub.save(model, path)
    training = unhub.load(path, "model").training
    held = {name: training.settings[name] for name in recipe} | {"rates": training.settings["rates"]}
    if held != {**recipe, "rates": list(rates)}:
        raise ValueError(f"{path} is of another recipe ({held}); name another directory")
    chosen = training.chosen
    assert chosen is not None and chosen.kept.recall is not None
    return kind, seed, chosen.rate, chosen.kept.recall
