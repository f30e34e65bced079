"""Witness: it knows items again after scaling and rounding, and no others, and follows items that are removed."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unhub
from tests.forging import forge
from unhub.arrays import Kind
from unhub.data.witness import MOST_ITEMS, Witness

SEEDS = st.integers(0, 2**32 - 1)


def items_of(seed: int, count: int = 40, dimensions: int = 24) -> unhub.Vectors:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return unhub.Vectors(np.arange(count), rows)


@given(seed=SEEDS, factor=st.floats(0.01, 100))
def test_scaled_and_rounded_items_are_known(seed: int, factor: float) -> None:
    items = items_of(seed)
    rounded = (np.asarray(items.rows) * np.float32(factor)).astype(np.float16)
    assert Witness.of(items).cosines(unhub.Vectors(items.ids, rounded), "cosine").min() > 0.9999
    if not 0.99 < factor < 1.01:
        assert (Witness.of(items).cosines(unhub.Vectors(items.ids, rounded), "dot") == -1).all()


@given(seed=SEEDS)
def test_items_of_another_model_are_not(seed: int) -> None:
    cosines = Witness.of(items_of(seed)).cosines(items_of(seed + 1), "cosine")
    assert (cosines < 0.9999).mean() > 0.9


def test_the_estimate_is_about_the_cosine() -> None:
    items = items_of(0, count=400, dimensions=200)
    moved = np.asarray(items.rows) + 0.1 * np.random.default_rng(1).standard_normal((400, 200)).astype(np.float32)
    first, second = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (np.asarray(items.rows), moved))
    right = (first * second).sum(axis=1)
    found = Witness.of(items).cosines(unhub.Vectors(items.ids, moved), "cosine")
    assert (1 - found).mean() == pytest.approx((1 - right).mean(), rel=0.1)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@given(seed=SEEDS, gone=st.lists(st.integers(0, 29), unique=True, max_size=29))
def test_it_follows_removed_and_added_items(similarity: Kind, seed: int, gone: list[int]) -> None:
    items, more = items_of(seed, 30), unhub.Vectors(np.arange(30, 35), items_of(seed + 2, 5).rows)
    bank = items_of(seed + 3, 20).rows
    fitted = unhub.fit(items, bank, method="is", similarity=similarity)
    grown = unhub.extend(unhub.remove(fitted, gone), more, bank)
    witness = grown.source.witness
    assert witness is not None and len(witness.places) == 30 - len(gone)
    left = unhub.Vectors(grown.ids, np.vstack([np.asarray(items.rows), np.asarray(more.rows)])[grown.ids])
    assert witness.cosines(left, similarity).min() > 0.9999


def test_a_correction_whose_items_of_the_witness_were_all_removed_is_saved_and_read(tmp_path: Path) -> None:
    fitted = unhub.fit(items_of(4, MOST_ITEMS + 100), items_of(5).rows, method="is")
    assert fitted.source.witness is not None
    left = unhub.remove(fitted, fitted.source.witness.places)
    unhub.save(left, tmp_path / "left.unhub")
    read = unhub.load(tmp_path / "left.unhub")
    assert len(read) == 100 and read.source.witness is None


def test_it_is_saved_and_checked(tmp_path: Path) -> None:
    items = items_of(4, MOST_ITEMS + 100)
    fitted = unhub.fit(items, items_of(5).rows, method="is")
    unhub.save(fitted, tmp_path / "c.unhub")
    read, kept = unhub.load(tmp_path / "c.unhub").source.witness, fitted.source.witness
    assert read is not None and kept is not None and len(read.places) == MOST_ITEMS
    for name in ("places", "marks", "lengths"):
        np.testing.assert_array_equal(getattr(read, name), getattr(kept, name))
    forge(tmp_path / "c.unhub", tmp_path / "bad.unhub", lambda _, held: held["witness.places"].__setitem__(0, 9999))
    with pytest.raises(ValueError, match=r"bad\.unhub: its contents are wrong: the array witness\.places"):
        unhub.load(tmp_path / "bad.unhub")
    old = dataclasses.replace(fitted, source=dataclasses.replace(fitted.source, witness=None))
    unhub.save(old, tmp_path / "old.unhub")
    assert unhub.load(tmp_path / "old.unhub").source.witness is None
