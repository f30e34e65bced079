"""What tune tries, fitted many settings at a time, is what each setting gives alone, with either kernel."""

from typing import Any

import numpy as np
import pytest

import unhub
from tests.runners import Pickled
from tests.tuning.test_tune import world
from unhub.compute.progress import Clock
from unhub.compute.workers import Workers, elsewhere
from unhub.data.vectors import as_vectors
from unhub.evaluation import placing
from unhub.methods import parse
from unhub.tuning import trials
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


@pytest.mark.parametrize("name", ["dn", "cent"])
def test_mean_scores_are_read_where_the_runner_is(name: str) -> None:
    w, runner = world(), Pickled(2)
    sets = FittingSets(as_vectors(w.items, "items"), as_vectors(w.bank, "bank"), None, "cosine")
    with elsewhere(runner):
        list(fitted([parse(name)], sets, Clock()))
    assert runner.jobs > 1


def test_a_choice_is_confirmed_on_the_device_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    w, kernels = world(), list[str]()

    def noted(similarity: Any, truth: Any, rankings: Any, workers: Workers, *rest: Any) -> list[placing.Placed]:
        kernels.append(workers.kernel.NAME)
        return placing.place(similarity, truth, rankings, workers, *rest)

    monkeypatch.setattr(trials, "place", noted)
    sets = FittingSets(as_vectors(w.items, "items"), as_vectors(w.bank, "bank"), None, "cosine")
    one = trials.Round(sets, trials.TrialQueries.without_labels(as_vectors(w.queries, "queries")))
    trials.compare(unhub.fit(w.items, w.bank), one, Clock(device="cpu"))
    assert kernels == ["torch:cpu"]
