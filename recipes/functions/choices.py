"""Compare tables of word vectors for the demo of functions, and print the comparison that docs/demo/tables.md has.

    python recipes/functions/choices.py --wordllama DIRECTORY

DIRECTORY is where `pip install --no-deps --target DIRECTORY wordllama==0.4.0.post1` put the package. The shipped table
(distilled from MiniLM) and wordllama's own are asked for the functions of the standard library alone and of everything
that the demo reads, with and without less weight for common words, at 256, 128 and 64 dimensions. Minutes on two cores.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "emoji"))

from features import llama_pieces
from unhub import kernels
from unhub.demo.functions.code_files import CodeFiles, find_code
from unhub.demo.functions.function_demo import FunctionDemo, compared
from unhub.demo.functions.library import RARE, Collection, Library, collect, items_of, questions_of
from unhub.demo.functions.opening import choose_correction
from unhub.demo.functions.reading import read_file
from unhub.demo.words import TABLE, Words, load_words

CODE = {"standard library": ["stdlib"], "all installed": []}
DIMENSIONS = (256, 128, 64)
WEIGHTS = {"as it is": math.inf, "common words less": RARE}


def tables(wordllama: Path) -> Iterator[tuple[str, Words]]:
    """Yield both tables; the first dimensions of each are its main ones."""
    yield "MiniLM, shipped", load_words(TABLE)
    pieces, vectors = llama_pieces(wordllama)
    yield "wordllama", Words.of(pieces, vectors)


def first_dimensions(words: Words, count: int) -> Words:
    """Return a table with its first dimensions alone, rounded again to 255 steps."""
    return Words.of(words.pieces, words.table[:, :count].astype(np.float32) * words.scales[:, None])


def main(wordllama: Path) -> None:
    """Print a row for each code, table, weight and number of dimensions."""
    print("| code | table | weights | dimensions | MB | raw R@1, 5, 10 | corrected R@1, 5, 10 | change of R@1 |")
    print("|---|---|---|---|---|---|---|---|")
    for named, code in CODE.items():
        files = find_code(code)
        for title, words in tables(wordllama):
            found = [read_file(one.path, words) for one in files.files]
            for weights, rare in WEIGHTS.items():
                for dimensions in DIMENSIONS:
                    shorter = first_dimensions(words, dimensions)
                    read = collect(files.files, found, shorter, rare)
                    size = (shorter.table.nbytes + shorter.scales.nbytes) / 1e6
                    cells = [named, title, weights, str(dimensions), f"{size:.1f}"]
                    print(f"| {' | '.join([*cells, *figures(read, shorter, files)])} |", flush=True)


def figures(read: Collection, words: Words, files: CodeFiles) -> list[str]:
    """Return R@1, 5 and 10, raw and corrected, and the change of R@1."""
    correction = choose_correction(items_of(read), questions_of(read, "bank").rows)
    first, *others, _ = compared(FunctionDemo(Library(read, words, correction), files).measure())
    sides = ([one.raw.value for one in (first, *others)], [one.corrected.value for one in (first, *others)])
    return [*(", ".join(f"{one:.1f}" for one in side) for side in sides), f"{first.change:+.1f}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordllama", type=Path, required=True)
    with kernels.prefer("numpy"):
        main(parser.parse_args().wordllama)
