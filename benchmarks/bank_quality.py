"""What good and bad banks bring, and what `judge_bank` says of them: the figures that its limits rest on.

    python benchmarks/bank_quality.py FOLDER [--split val] [--seed 0]

FOLDER holds Flickr8k embeddings as tests/flickr8k.py describes them. The limits were set on `val`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import unhub
from unhub.evaluation.tables import as_text

Rows = NDArray[np.float32]
METHODS = ("nnn:k={k},alpha=0.5", "is:tau=0.05", "sn:tau=0.05")
SIZES = (1000, 500, 300, 200, 100, 50, 10)
HEADS = ("bank", "size", "nnn", "is", "sn", "coverage ratio", "shift", "nearness ratio", "verdict")


def cases(folder: Path, space: str, split: str) -> Iterator[tuple[str, Rows, Rows, Rows, list[tuple[int, int]]]]:
    """Yield, for each direction, its name, items, bank, queries and the (query, item) pairs that belong together."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    of_image, image_of = np.array(meta["split"]), np.array(meta["caption_image"])
    images, texts = (np.load(folder / f"{space}_{kind}.npy").astype(np.float32) for kind in ("img", "txt"))
    here, asked = np.flatnonzero(of_image == split), np.flatnonzero(of_image[image_of] == split)
    pairs = list(zip(range(len(asked)), np.searchsorted(here, image_of[asked]).tolist(), strict=True))
    past_texts, past_images = texts[of_image[image_of] == "bank"], images[of_image == "bank"]
    yield f"{space}, text to image", images[here], past_texts, texts[asked], pairs
    yield f"{space}, image to text", texts[asked], past_images, images[here], [(image, text) for text, image in pairs]


def banks(items: Rows, bank: Rows, queries: Rows, seed: int) -> Iterator[tuple[str, Rows]]:
    """Yield banks of every kind, by name; the bad ones of 1,000 queries, or of half the bank."""
    part = min(1000, len(bank) // 2)
    yield "all", bank
    for size in sorted({min(size, part) for size in SIZES}, reverse=True):
        yield "random", bank[unhub.sample_bank(bank, size, seed=seed)]
    for how in ("stratified", "adversarial", "near", "far"):
        yield how, bank[unhub.sample_bank(bank, part, how, items=items, queries=queries, seed=seed)]
    halves = [unhub.sample_bank(bank, part // 2, how, queries=queries, seed=seed) for how in ("far", "random")]
    yield "half far", bank[np.concatenate(halves)]
    yield "noise", np.random.default_rng(0).normal(size=(part, bank.shape[1])).astype(np.float32)


def row(name: str, items: Rows, bank: Rows, queries: Rows, pairs: list[tuple[int, int]], threads: int) -> list[str]:
    """Return the gains in R@1 over raw and the figures of one bank."""
    specs = [spec.format(k=min(32, len(bank))) for spec in METHODS]
    fitted = unhub.fit(items, bank, method=specs, threads=threads)
    measured = unhub.evaluate(queries, items, pairs, fitted, ["R@1"], hubness_k=None, resamples=1, threads=threads)
    report = unhub.judge_bank(items, bank, queries, distances=False, threads=threads)
    assert report.shift is not None and report.nearness is not None
    gains = [f"{one.gains['R@1'].value:+.2f}" for one in measured.rows[1:]]
    ratios = [f"{ratio:.2f}" if ratio is not None else "" for ratio in (report.coverage.ratio, report.nearness.ratio)]
    return [name, f"{len(bank):,}", *gains, ratios[0], f"{report.shift.value:.3f}", ratios[1], report.verdict]


def main() -> None:
    """Print a table for each space and direction."""
    parser = argparse.ArgumentParser(description="What good and bad banks bring, and what judge_bank says of them.")
    parser.add_argument("folder", type=Path, help="the flickr8k folder")
    parser.add_argument("--split", default="val", choices=("val", "test"))
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    for space in ("ridge", "vse_holdout"):
        for title, items, bank, queries, pairs in cases(arguments.folder, space, arguments.split):
            lines = [
                row(name, items, one, queries, pairs, arguments.threads)
                for name, one in banks(items, bank, queries, arguments.seed)
            ]
            print(f"{title}: gain in R@1\n{as_text(HEADS, lines)}\n")


if __name__ == "__main__":
    main()
