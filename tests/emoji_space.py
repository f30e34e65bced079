"""A small space of emoji with hubs in it, in the format of the one that ships; its descriptions are made up."""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import unhub
from unhub.demo.words import Words
from unhub.model import Head, Model, Tower, Towers

NAMES = {
    "🐕": "dog",
    "🐈": "cat",
    "🐎": "horse",
    "🐄": "cow",
    "🐖": "pig",
    "🐑": "sheep",
    "🐐": "goat",
    "🐪": "camel",
    "🐘": "elephant",
    "🐁": "mouse",
    "🐇": "rabbit",
    "🦔": "hedgehog",
    "🦇": "bat",
    "🦉": "owl",
    "🐢": "turtle",
    "🐍": "snake",
    "🐳": "whale",
    "🐬": "dolphin",
    "🐟": "fish",
    "🦀": "crab",
    "🐌": "snail",
    "🐝": "bee",
    "☀️": "sun",
    "❄️": "snow",
}
HUBS = ("🦔", "☀️")  # which lean towards every text
KEYWORDS = {"bank": 4, "val": 3, "test": 5}  # of each emoji: dog0, dog1, ...
DIMENSIONS = 16
LEAN, COMMON, NOISE = 1.6, 0.9, 1.1


def described() -> list[tuple[str, str, str, str]]:
    """Return text, emoji, kind and split of every description."""
    rows = []
    for emoji, name in NAMES.items():
        rows.append((name, emoji, "name", "train"))
        number = 0
        for split, count in KEYWORDS.items():
            rows += [(f"{name}{number + one}", emoji, "keyword", split) for one in range(count)]
            number += count
    return rows


def write_space(folder: Path) -> Path:
    """Write the space to a new folder and return it."""
    folder.mkdir()
    random = np.random.default_rng(0)

    def draw(rows: int) -> NDArray[np.float64]:
        return random.normal(scale=DIMENSIONS**-0.5, size=(rows, DIMENSIONS))

    meanings, common = dict(zip(NAMES, draw(len(NAMES)), strict=True)), draw(1)[0]
    rows = described()
    pieces = Words.of(
        [row[0] for row in rows],
        np.array([meanings[row[1]] + COMMON * common + NOISE * draw(1)[0] for row in rows], np.float32),
    )
    items = unhub.Vectors(
        np.array(list(NAMES)),
        np.array([meanings[emoji] + (LEAN if emoji in HUBS else 0) * common for emoji in NAMES], np.float32),
    )
    tower = Tower("none", DIMENSIONS, DIMENSIONS)
    bank = pieces.rows([row[0] for row in rows if row[3] == "bank"])
    pieces.save(folder / "words.safetensors")
    np.savez(folder / "items.npz", vectors=items.block(0, len(items)), ids=items.ids, names=list(NAMES.values()))
    unhub.save(Model(Towers(tower, tower), Head("mf", DIMENSIONS)), folder / "model.safetensors")
    unhub.save(unhub.fit(items, bank, method="nnn:k=32,alpha=0.75"), folder / "correction.unhub")
    with (folder / "descriptions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "emoji", "kind", "split"), *rows])
    return folder
