"""What tune tries, fitted many settings at a time, is what each setting gives alone, with either kernel."""

import numpy as np
import pytest

import unhub
from tests.tuning.test_tune import world
from unhub.compute.progress import Clock
from unhub.data.vectors import as_vectors
from unhub.tuning.candidates import FittingSets, fitted
from unhub.tuning.grid import DataScale, candidates


@pytest.mark.parametrize("name", ["nnn", "is", "dis", "dn", "cent", "csls", "dualis", "sn", "dbsn", "gc", "dualdis"])
def test_a_candidate_ranks_as_the_fit_of_its_spec(name: str) -> None:
    w = world()
    items, bank, targets = (as_vectors(rows, "rows") for rows in (w.items, w.bank, w.items[::2] + 0.1))
    sets = FittingSets(items, bank, targets, "cosine")
    methods = candidates([name], DataScale(0.2, len(w.bank), len(w.items), True))[:3]
    for group in fitted(methods, sets, Clock()):
        for candidate in group:
            dual = candidate.method.dual or candidate.method.joint
            again = unhub.fit(w.items, w.bank, candidate.method, bank_items=targets if dual else None)
            if isinstance(again, unhub.Bias):
                np.testing.assert_allclose(candidate.ranking.h, again.bias, atol=1e-6)  # type: ignore[union-attr]
            else:
                assert candidate.ranking.method == again.method  # type: ignore[union-attr]
