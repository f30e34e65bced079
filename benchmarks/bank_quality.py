"""What good and bad banks gain, and what `judge_bank` says about them: the figures behind its limits.

    python benchmarks/bank_quality.py FOLDER [--split val] [--seed 0] [--mix 0.4]

FOLDER holds Flickr8k embeddings as tests/flickr8k.py describes them. The limits were set on `val`. With `--mix`, a part
of its picture's vector is added to each caption, to imitate a stronger model. Text to image then uses one caption of
each picture as a query; the other captions make a bank of their own, "same items", drawn with replacement.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import unhub
from unhub.data.vectors import as_vectors
from unhub.evaluation.tables import as_text
from unhub.hopeless_banks import nearest_at_home

Rows = NDArray[np.float32]
METHODS = ("nnn:k={k},alpha=0.5", "is:tau=0.05", "sn:tau=0.05")
SIZES = (1000, 500, 300, 200, 100, 50, 10)
HEADS = ("bank", "size", "nnn", "is", "sn", "coverage ratio", "shift", "nearness ratio", "verdict")


class Case(NamedTuple):
    """A gallery with its bank, queries, and the (query, item) pairs that belong together.

    same: other queries for the items of the gallery; empty if all are used as queries.
    """

    title: str
    items: Rows
    bank: Rows
    queries: Rows
    pairs: list[tuple[int, int]]
    same: Rows


def cases(folder: Path, space: str, split: str, mix: float = 0.0) -> Iterator[Case]:
    """Yield the case of each direction."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    of_image, image_of = np.array(meta["split"]), np.array(meta["caption_image"])
    images, texts = (np.load(folder / f"{space}_{kind}.npy").astype(np.float32) for kind in ("img", "txt"))
    texts = texts + np.float32(mix) * images[image_of]
    here, captions = np.flatnonzero(of_image == split), np.flatnonzero(of_image[image_of] == split)
    past_texts, past_images = texts[of_image[image_of] == "bank"], images[of_image == "bank"]
    asked = captions[np.unique(image_of[captions], return_index=True)[1]] if mix else captions
    left = texts[np.setdiff1d(captions, asked)]
    pairs = list(enumerate(np.searchsorted(here, image_of[asked]).tolist()))
    yield Case(f"{space}, text to image", images[here], past_texts, texts[asked], pairs, left)
    back = [(image, text) for text, image in enumerate(np.searchsorted(here, image_of[captions]).tolist())]
    yield Case(f"{space}, image to text", texts[captions], past_images, images[here], back, images[:0])


def banks(case: Case, seed: int) -> Iterator[tuple[str, Rows]]:
    """Yield banks of every kind by name; the bad ones have 1,000 queries, or half of the bank."""
    items, bank, queries = case.items, case.bank, case.queries
    part = min(1000, len(bank) // 2)
    yield "all", bank
    for size in sorted({min(size, part) for size in SIZES}, reverse=True):
        yield "random", bank[unhub.sample_bank(bank, size, seed=seed)]
    if len(case.same):
        yield "same items", case.same[np.random.default_rng(seed).integers(len(case.same), size=2 * len(items))]
    for how in ("stratified", "adversarial", "near", "far"):
        yield how, bank[unhub.sample_bank(bank, part, how, items=items, queries=queries, seed=seed)]
    halves = [unhub.sample_bank(bank, part // 2, how, queries=queries, seed=seed) for how in ("far", "random")]
    yield "half far", bank[np.concatenate(halves)]
    yield "noise", np.random.default_rng(0).normal(size=(part, bank.shape[1])).astype(np.float32)


def row(name: str, case: Case, bank: Rows, threads: int) -> list[str]:
    """Return the gains in R@1 over raw and the figures of one bank."""
    items, queries = case.items, case.queries
    specs = [spec.format(k=min(32, len(bank))) for spec in METHODS]
    fitted = unhub.fit(items, bank, method=specs, threads=threads)
    measured = unhub.evaluate(queries, items, case.pairs, fitted, ["R@1"], hubness_k=None, resamples=1, threads=threads)
    report = unhub.judge_bank(items, bank, queries, distances=False, threads=threads)
    assert report.shift is not None and report.nearness is not None
    gains = [f"{one.gains['R@1'].value:+.2f}" for one in measured.rows[1:]]
    ratios = [f"{ratio:.2f}" if ratio is not None else "" for ratio in (report.coverage.ratio, report.nearness.ratio)]
    return [name, f"{len(bank):,}", *gains, ratios[0], f"{report.shift.value:.3f}", ratios[1], report.verdict]


def raw_recall(case: Case, threads: int) -> float:
    """Return R@1 of the raw ranking."""
    measured = unhub.evaluate(
        case.queries, case.items, case.pairs, [], ["R@1"], hubness_k=None, resamples=1, threads=threads
    )
    return measured.rows[0].values["R@1"].value


def at_home(items: Rows, bank: Rows) -> str:
    """Return the shares of items and of bank queries that are nearest to another of their own set."""
    shares = nearest_at_home(as_vectors(items, "items"), as_vectors(bank, "bank"), "cosine")
    return " and ".join(f"{share:.2f}" for share in shares)


def main() -> None:
    """Print a table for each space and direction."""
    parser = argparse.ArgumentParser(description="What good and bad banks gain, and what judge_bank says about them.")
    parser.add_argument("folder", type=Path, help="the flickr8k folder")
    parser.add_argument("--split", default="val", choices=("val", "test"))
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples")
    parser.add_argument("--mix", type=float, default=0.0, help="share of the picture's vector added to a caption")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    for space in ("ridge", "vse_holdout"):
        for case in cases(arguments.folder, space, arguments.split, arguments.mix):
            lines = [row(name, case, bank, arguments.threads) for name, bank in banks(case, arguments.seed)]
            raw = raw_recall(case, arguments.threads)
            print(f"{case.title}: gain in R@1 over raw, {raw:.2f}\n{as_text(HEADS, lines)}")
            order = np.random.default_rng(arguments.seed).permutation(len(case.items))
            one, other = (case.items[half] for half in np.array_split(order, 2))
            print(
                f"nearest to another of its own set: items and bank {at_home(case.items, case.bank)}, "
                f"two halves of the items {at_home(one, other)}\n"
            )


if __name__ == "__main__":
    main()
