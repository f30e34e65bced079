"""Precision: what a multiply in bf16 does to scores, as a bound and as measured on some of them.

bf16 rounds each number by up to 2**-9 of it: both factors of a product, and the sum at the end. So a score is off by at
most 3 * 2**-9 of the product of the two lengths, nearly always by far less. h of a mean or a log-sum of scores is off
by at most as much.
"""

from __future__ import annotations

import numpy as np

from unhub import kernels
from unhub.data.similarity import Dot, Similarity
from unhub.kernels import BF16, Kernel

BF16_BOUND = 3 * 2.0**-9
SHORT_MULTIPLY = "the multiply was in bf16"
SAMPLE_ROWS = 256  # of the items and of the bank, evenly spaced


def notes_on(kernel: Kernel, similarity: Similarity) -> tuple[str, ...]:
    """Say what the kernel's precision does to these scores; nothing in fp32, or if they are given, not multiplied."""
    if not kernel.NAME.endswith(BF16) or not isinstance(similarity, Dot):
        return ()
    of = "" if similarity.kind == "cosine" else " of the product of the lengths"
    return (
        f"{SHORT_MULTIPLY}: scores, and h with them, are within {BF16_BOUND:.4f}{of} of those in fp32; "
        f"{_measured(kernel, similarity):.2g} was the most in a sample of scores",
    )


def _measured(kernel: Kernel, similarity: Dot) -> float:
    """Return the largest difference from fp32 among the scores of a sample, relative to the lengths under dot."""
    queries, items = (
        vectors.gather(np.unique(np.linspace(0, len(vectors) - 1, SAMPLE_ROWS).astype(np.int64)))
        for vectors in (similarity.query_vectors, similarity.item_vectors)
    )
    exact = kernels.choose(kernel.NAME.removesuffix(f"/{BF16}"))
    found = []
    for one in (kernel, exact):
        asked, given = (rows.seen(False).ready_block(0, len(rows), "cosine", one) for rows in (queries, items))
        tile = one.empty((len(queries), len(items)))
        one.multiply(asked, given, tile)
        found.append(one.host(tile))
    return float(np.abs(found[0] - found[1]).max())
