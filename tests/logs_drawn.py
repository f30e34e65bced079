"""Logs of queries drawn by Zipf's law: a few are asked again and again, most of them once or never."""

import numpy as np
from numpy.typing import NDArray


def zipf(kinds: int, exponent: float = 1.1, seed: int = 0) -> NDArray[np.float64]:
    """Return how large a share of what is asked each kind has; which kind is popular is drawn."""
    shares = np.random.default_rng(seed).permutation(np.arange(1, kinds + 1.0) ** -exponent)
    return np.asarray(shares / shares.sum())


def drawn(shares: NDArray[np.float64], size: int, seed: int) -> NDArray[np.int64]:
    """Return which kind is asked, `size` times."""
    return np.random.default_rng(seed).choice(len(shares), size, p=shares)
