"""The strength of `sn` and `dbsn`: h times a factor, through upkeep and files."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from unhub.correction import Correction

SPECS = ["sn:tau=0.1", "dbsn:tau=0.1"]
Rows = NDArray[np.float64]


@pytest.fixture(name="sets")
def _sets() -> tuple[Rows, Rows, Rows]:
    random = np.random.default_rng(0)
    return random.normal(size=(40, 6)), random.normal(size=(60, 6)), random.normal(size=(15, 6))


def fit(spec: str, items: Rows, bank: Rows, targets: Rows) -> unhub.Bias:
    found = unhub.fit(items, bank, spec, bank_items=targets if spec.startswith("dbsn") else None)
    assert isinstance(found, unhub.Bias)
    return found


@pytest.mark.parametrize("spec", SPECS)
def test_strength_multiplies_h_through_upkeep(spec: str, sets: tuple[Rows, Rows, Rows], tmp_path: Path) -> None:
    items, bank, targets = sets
    own = targets if spec.startswith("dbsn") else None
    whole, half = fit(spec, items, bank, targets), fit(f"{spec},strength=0.5", items, bank, targets)
    np.testing.assert_allclose(half.bias, 0.5 * whole.bias, atol=1e-12)
    new, more = items[:5] + 0.3, bank[:20] - 0.2

    def changed(one: unhub.Bias) -> list[Correction]:
        return [
            unhub.extend(one, new, bank, bank_items=own),
            unhub.extend(one, new, bank, bank_items=own, items=items, warm=2),
            unhub.merge(one, items, more, bank_items=own),
            unhub.remove(one, [3, 4], items=items, bank=bank, bank_items=own, warm=1),
        ]

    for of_half, of_whole in zip(changed(half), changed(whole), strict=True):
        assert isinstance(of_half, unhub.Bias) and isinstance(of_whole, unhub.Bias)
        np.testing.assert_allclose(of_half.bias, 0.5 * of_whole.bias, atol=1e-7)
    unhub.save(half, tmp_path / "half.unhub")
    again = unhub.load(tmp_path / "half.unhub")
    assert again.spec == half.spec and "strength=0.5" in again.spec and "strength" not in whole.spec


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), "much"])
def test_a_strength_is_a_number_above_0(wrong: float | str, sets: tuple[Rows, Rows, Rows]) -> None:
    with pytest.raises(ValueError, match="'sn' needs strength to be a finite number above 0"):
        unhub.fit(sets[0], sets[1], "sn", strength=wrong)
