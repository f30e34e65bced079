"""Choices: how the recipe of the emoji space was chosen, on `val`; a table in Markdown.

    python recipes/emoji/choices.py --work DIRECTORY [--only NAME] [--split unseen]

Each row is trained on `train` and measured on `val`, never on `test`. Each row is kept in
DIRECTORY/choices.json once it is done, so that a run that was stopped continues. A row takes a minute on one core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TypedDict, get_args

import numpy as np

import unhub
from build import SIZES, Materials, Recipe, Trained, best_of, gallery_of, mean_texts, prepare, train
from catalogue import VENDORS, SplitName, describe
from towers import picture_tower
from unhub.data.ids import positions_of
from unhub.data.vectors import Vectors
from unhub.demo.emoji.space import Descriptions
from unhub.demo.words import Words
from unhub.model import Model
from unhub.model.head_forward import Head
from unhub.model.tower_forward import Preparation, Tower
from unhub.model.trained import Towers


class Figures(TypedDict):
    """The figures of a choice on `val`: R@1 and R@10 at each size, raw and corrected."""

    raw: list[list[float]]
    corrected: list[list[float]]
    correction: str
    skewness: float


CHOICES: dict[str, Recipe] = {
    "ridge regression; lite2; wordllama": Recipe(nets=("lite2",), words="wordllama", towers="ridge"),
    "ridge regression; lite0, lite2, colours; wordllama": Recipe(words="wordllama", towers="ridge"),
    "ridge regression; lite0, lite2, colours; MiniLM's pieces": Recipe(towers="ridge"),
    "contrastive from random; lite2": Recipe(nets=("lite2",), towers="mlp", dropout=0.3),
    "contrastive from random; lite0, lite2, colours": Recipe(towers="mlp", dropout=0.3),
    "contrastive from ridge (what is used)": Recipe(),
    "the same, one query at a time": Recipe(queries=1),
    "the same, pictures of both vendors": Recipe(vendors=("google", "twitter")),
    "the same, head lg-wf": Recipe(head="lg-wf"),
}


def main() -> None:
    """Train each choice, measure it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="the folder of recipes/emoji/build.py")
    parser.add_argument("--only", action="append", choices=list(CHOICES), help="only these rows; default: all")
    parser.add_argument("--split", choices=get_args(SplitName), action="append", help="only this one; default: both")
    options = parser.parse_args()
    path = options.work / "choices.json"
    known: dict[str, Figures] = json.loads(path.read_text()) if path.exists() else {}
    materials = prepare(options.work, nets=Recipe().nets, words=["minilm", "wordllama"])
    for split in options.split or get_args(SplitName):
        for name in options.only or CHOICES:
            key = f"{split}: {name}"
            if key not in known:
                recipe = CHOICES[name]
                trained = (ridge if recipe.towers == "ridge" else train)(materials, split, recipe)
                known[key] = measure(materials.words[recipe.words], trained)
                path.write_text(json.dumps(known, indent=1))
            print(as_row(key, known[key]), flush=True)


def measure(words: Words, trained: Trained) -> Figures:
    """Return R@1 and R@10 on `val`, raw and under the best of the corrections there, and the skewness."""
    asked = [row for row in trained.described if row.split == "val" and row.kind == "keyword"]
    bank = [row.text for row in trained.described if row.split == "bank"]
    model, items = trained.model, trained.items["google"]
    texts, emoji = tuple(row.text for row in asked), np.array([row.emoji for row in asked])
    rows = np.asarray(model.encode_texts(words.rows(texts)).rows)
    keywords = Descriptions(texts, rows, emoji, positions_of(emoji, items.ids, "emoji"))
    best, found = best_of(items, model.encode_texts(words.rows(bank)), keywords, model)
    (combination,) = found.combinations

    def recalls(ranking: str) -> list[list[float]]:
        return [[found[combination, ranking, size].values[name].value for size in SIZES] for name in ("R@1", "R@10")]

    return {
        "raw": recalls("raw"),
        "corrected": recalls(best.spec),
        "correction": best.spec,
        "skewness": unhub.hubness(keywords.once().vectors, items, k=10).skewness,
    }


def as_row(name: str, figures: Figures) -> str:
    """Return a row of the table: R@1 at one, three and five keywords, R@10 at five, raw and corrected; the skewness."""
    sides = [
        f"{' / '.join(f'{one:.1f}' for one in first)} | {ten[-1]:.1f}"
        for first, ten in (figures["raw"], figures["corrected"])
    ]
    return f"| {name} | {' | '.join(sides)} | {figures['correction']} | {figures['skewness']:.2f} |"


def ridge(materials: Materials, split: SplitName, recipe: Recipe) -> Trained:
    """Return the simplest model that works: ridge regression of pictures to the mean of their texts."""
    words = materials.words[recipe.words]
    described = [row for row in describe(materials.emoji, split) if words.split(row.text)]
    trained = [row for row in described if row.split == "train"]
    characters = np.array([one.character for one in materials.emoji])
    targets = mean_texts(words, trained, {one: place for place, one in enumerate(characters.tolist())})
    seen, gallery = np.flatnonzero(targets.any(axis=1)), gallery_of(materials.emoji, split)
    pictures = {vendor: materials.pictures(recipe.nets, vendor) for vendor in VENDORS}
    preparation = Preparation.of(Vectors(characters[seen], pictures["google"][seen]))
    tower = picture_tower(preparation(pictures["google"][seen]), targets[seen], 1, 0.0).export(preparation)
    items = {
        vendor: tower.encode(Vectors(characters[gallery], rows[gallery]), "pictures")
        for vendor, rows in pictures.items()
    }
    size = words.table.shape[1]
    same = Tower("none", size, size)
    return Trained(Model(Towers(same, same), Head("mf", size)), described, items)


if __name__ == "__main__":
    main()
