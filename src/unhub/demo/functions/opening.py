"""Opening: find the code on this machine, read it or what was kept of it, and fit the correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import unhub
from unhub.arrays import Float32
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.vectors import Vectors, as_vectors
from unhub.demo.functions.code_files import CodeFiles, find_code
from unhub.demo.functions.keeping import CacheEntry
from unhub.demo.functions.library import Collection, Library, collect, items_of, questions_of
from unhub.demo.functions.reading import read_functions
from unhub.demo.showing import Watch
from unhub.demo.words import TABLE, Words, load_words
from unhub.tuning.sight import temperatures

# How many items a bank query sees at the temperature of the correction. From 20 to 80 works alike.
SEEN_ITEMS = 40.0


@dataclass(frozen=True, eq=False)
class Opened:
    """A library, the files it was read from, and whether it was kept from an earlier time."""

    library: Library
    code: CodeFiles
    kept: bool


def open_library(named: Sequence[str], watch: Watch, threads: int | None = None) -> Opened:
    """Return the library of what is named (see `find_code`), read anew or kept."""
    code = find_code(named)
    kept, words = CacheEntry.of(code), load_words(TABLE)
    read = kept.collection()
    was_kept = read is not None
    if read is None:
        read = _read(code, words, watch, threads)
        kept.keep_collection(read)
    items = items_of(read)
    correction = kept.correction(items)
    if correction is None:
        with watch("fit") as progress:
            correction = choose_correction(items, questions_of(read, "bank").rows, threads, progress)
        kept.keep_correction(correction)
    return Opened(Library(read, words.weighted(read.weights), correction), code, was_kept)


def _read(code: CodeFiles, words: Words, watch: Watch, threads: int | None) -> Collection:
    with watch("read code") as progress:
        return collect(code.files, read_functions(code.files, threads, progress), words)


def choose_correction(
    items: Vectors, bank: Float32, threads: int | None = None, progress: Progress | None = None
) -> Correction:
    """Fit `sn` at a temperature found without labels, in a second or two.

    `unhub.tune` tries many settings, and so takes longer than someone who looks at a demo wants to wait.
    """
    seen = min(SEEN_ITEMS, len(items) / 2)
    taus = temperatures(items, as_vectors(bank, "bank"), [seen], "cosine", threads=threads)
    method = f"sn:tau={taus[0]:.2g}" if taus else "sn"  # items that are all alike have no temperature of their own
    return unhub.fit(items, bank, method=method, threads=threads, progress=progress)
