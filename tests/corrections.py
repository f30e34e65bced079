"""Corrections made by hand, for tests of what happens to them after the fit."""

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Ids
from unhub.correction import Bias, Correction, Cost, Plan, Rescore, Source
from unhub.data.fingerprint import Fingerprint
from unhub.data.vectors import Vectors
from unhub.methods import parse

COST = Cost(2.5, 0.125, 12345678, "numba", "fp32", 10, 1e-9, 3e-7, ("k was clipped to 7", "µ"))
SOURCE = Source("cosine", 64, Fingerprint(100, 2**64 - 3), Fingerprint(7, 5))

ID_KINDS: dict[str, Ids] = {
    "range": np.arange(6),
    "integers": np.array([5, -3, 2**62, 0, 1, 2]),
    "strings": np.array(["a", " ", "日本語", "x/y z.jpg", "é\udc80", "\N{PILE OF POO}" * 40]),
}


def bias(ids: Ids, *, seed: int = 0, offset: float = 0.1 + 0.2) -> Bias:
    """Return a gated Bias, as dis makes it, with an array of every type that a fit may keep."""
    random = np.random.default_rng(seed)
    best = random.integers(len(ids), size=(100, 1), dtype=np.int32)
    arrays: dict[str, NDArray[np.generic]] = {
        "bias": random.normal(size=len(ids)),
        "active": np.isin(np.arange(len(ids)), best),
        "best_items": best,
        "best_scores": random.normal(size=(100, 1)).astype(np.float32),
    }
    hashes = random.integers(2**64, size=len(ids), dtype=np.uint64)
    return Bias(parse("dis:tau=0.02"), ids, hashes, SOURCE, COST, arrays, offset)


def of_every_kind(ids: Ids) -> dict[str, Correction]:
    """Return one correction of each kind for these ids."""
    hashes = np.arange(len(ids), dtype=np.uint64)
    items = Vectors(ids, np.ones((len(ids), 3)))
    return {
        "bias": bias(ids),
        "rescore": Rescore(parse("gc"), ids, hashes, SOURCE, COST, {"bank": np.ones((100, 64), np.float32)}, items),
        "plan": Plan(parse("otn"), ids, hashes, Source("given", None), Cost()),
    }


def assert_same(loaded: Correction, saved: Correction) -> None:
    """Assert that two corrections are the same to the bit, but for the item vectors, which are not saved."""
    assert type(loaded) is type(saved)
    assert loaded.method == saved.method
    assert (loaded.source, loaded.cost) == (saved.source, saved.cost)
    assert loaded.ids.dtype.kind == saved.ids.dtype.kind
    assert loaded.ids.tolist() == saved.ids.tolist()
    assert loaded.item_hashes.dtype == saved.item_hashes.dtype
    assert loaded.item_hashes.tolist() == saved.item_hashes.tolist()
    assert loaded.arrays.keys() == saved.arrays.keys()
    for name, array in saved.arrays.items():
        assert loaded.arrays[name].dtype == array.dtype
        assert loaded.arrays[name].shape == array.shape
        assert loaded.arrays[name].tobytes() == array.tobytes()
    if isinstance(loaded, Bias) and isinstance(saved, Bias):
        assert loaded.offset == saved.offset
    if isinstance(loaded, Rescore):
        assert loaded.items is None
