"""Generated vectors for the benchmarks: unit length, with a shared direction as in CLIP's spaces."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unhub.arrays import Float32, spans, unit

DIRECTION_LENGTH = 1.0  # of the shared direction; the noise has length 1
BLOCK_ROWS = 16_384


def unit_vectors(rows: int, dimensions: int, seed: int) -> Float32:
    """Return (rows, dimensions) unit vectors around one shared direction."""
    out = np.empty((rows, dimensions), np.float32)
    _fill(out, seed)
    return out


def write_unit_vectors(path: Path, rows: int, dimensions: int, seed: int, dtype: str = "float32") -> None:
    """Write such vectors to a .npy file, block by block."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=(rows, dimensions))
    _fill(out, seed)
    out.flush()


def _fill(out: np.ndarray, seed: int) -> None:
    generator = np.random.default_rng(seed)
    direction = np.full(out.shape[1], DIRECTION_LENGTH / np.sqrt(out.shape[1]), np.float32)
    for start, stop in spans(out.shape[0], BLOCK_ROWS):
        noise = generator.standard_normal((stop - start, out.shape[1]), dtype=np.float32)
        out[start:stop] = unit(noise / np.float32(np.sqrt(out.shape[1])) + direction)
