"""Fitting: one call for one method or several, in one pass, and what it refuses."""

from typing import Any, cast

import numpy as np
import pytest

import unhub
from tests import oracles
from unhub.correction import Bias
from unhub.errors import ArgumentError

RANDOM = np.random.default_rng(16)
ITEMS, BANK = RANDOM.normal(size=(7, 4)), RANDOM.normal(size=(30, 4))


def biased(items: np.ndarray, bank: np.ndarray, method: str) -> Bias:
    """Fit a method that gives one number per item."""
    fitted = unhub.fit(items, bank, method=method)
    assert isinstance(fitted, Bias)
    return fitted


def test_one_method_gives_one_correction_and_several_give_a_list() -> None:
    alone = biased(ITEMS, BANK, "is")
    both = unhub.fit(ITEMS, BANK, method=["is", "nnn:k=3"])
    assert alone.spec.startswith("is:")
    assert [one.spec.partition(":")[0] for one in both] == ["is", "nnn"]
    np.testing.assert_array_equal(alone.bias, both[0].arrays["bias"])


def test_several_methods_share_one_pass() -> None:
    both = unhub.fit(ITEMS, BANK, method=["is", "nnn:k=3"])
    assert [one.cost.passes for one in both] == [1.0, 1.0]


def test_h_is_that_of_the_formula_and_centred() -> None:
    fitted = biased(ITEMS, BANK, "is:tau=0.1")
    h = oracles.is_(oracles.cosine(BANK, ITEMS), 0.1)
    np.testing.assert_allclose(fitted.bias, h - h.mean(), atol=1e-6)
    assert fitted.offset == pytest.approx(h.mean(), abs=1e-6)


def test_one_item_and_one_bank_query_are_enough() -> None:
    assert biased(ITEMS[:1], BANK[:1], "is").bias.tolist() == [0.0]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_inputs_of_any_kind_stay_as_they_are(dtype: type[np.floating[Any]], order: Any) -> None:
    items, bank = (np.asarray(rows.astype(dtype), order=order) for rows in (ITEMS, BANK))
    before = items.copy(), bank.copy()
    for rows in (items, bank):
        rows.setflags(write=False)
    unhub.fit(items, bank, method="nnn:k=2")
    np.testing.assert_array_equal(items, before[0])
    np.testing.assert_array_equal(bank, before[1])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"bank": BANK[:, :3]}, "bank"),
        ({"bank": None}, "bank"),
        ({"bank": np.full((3, 4), np.nan)}, "bank"),
        ({"items": np.zeros((2, 4))}, "items"),
        ({"method": "iss"}, "method"),
        ({"method": "is:tau=0"}, "method"),
        ({"method": "dualis"}, "bank_items"),
        ({"similarity": "euclid"}, "similarity"),
        ({"threads": 0}, "threads"),
        ({"memory": "lots"}, "memory"),
    ],
)
def test_a_mistake_names_its_argument(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        cast("Any", unhub.fit)(**{"items": ITEMS, "bank": BANK, "method": "is", **arguments})
    assert caught.value.name == name
    assert caught.value.problem
