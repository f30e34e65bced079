"""Precision: what a multiply in bf16 does to scores, as a bound and as measured on some of them.

bf16 keeps eight significant bits, so it rounds each number by up to 2**-8 of it: both factors of a product, and the sum
at the end. So a score is off by at most 3 * 2**-8 of the product of the two lengths, nearly always by far less. A mean
or a log-sum of scores is off by at most as much, and each method says what that makes of its h.
"""

from __future__ import annotations

import numpy as np

from unhub import kernels
from unhub.data.similarity import Dot, Similarity
from unhub.kernels import BF16, Kernel

BF16_BOUND = 3 * 2.0**-8
SHORT_MULTIPLY = "the multiply was in bf16"
SAMPLE_ROWS = 256  # of the items and of the bank, evenly spaced


def on_scores(kernel: Kernel, similarity: Similarity) -> str:
    """Say what the kernel's precision does to these scores; nothing in fp32, or if they are given, not multiplied."""
    if not kernel.NAME.endswith(BF16) or not isinstance(similarity, Dot):
        return ""
    of = "" if similarity.kind == "cosine" else " of the product of the lengths"
    most = _measured(kernel, similarity)
    return (
        f"{SHORT_MULTIPLY}: scores are within {BF16_BOUND:.2g}{of} of those in fp32, "
        f"and {most:.2g} was the most in a sample of them"
    )


def on_h(scores: str, gain: float | None, estimated: bool = False) -> tuple[str, ...]:
    """Return the note of `on_scores`, if there is one, with what that does to h.

    gain: how far h may be off for each unit that scores are off, before it is centred; None if no bound is known.
    estimated: the fit states an error of h, which is that of the estimate alone.
    """
    if not scores:
        return ()
    far = "has no known bound"
    if gain is not None:
        far = f"may be {'' if gain == 1 else f'{gain:g} times '}as far off before it is centred"
    return (f"{scores}; h {far}" + (", which the stated error leaves out" if estimated else ""),)


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
