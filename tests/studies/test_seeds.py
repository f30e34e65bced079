"""Means and deviations over random banks are those of the banks one by one."""

import json

import numpy as np
import pytest

import unhub
from tests.compute.test_workers import Recorder
from unhub.evaluation.measures import parse_measures

pytestmark = pytest.mark.once

RANDOM = np.random.default_rng(0)
ITEMS, BANK, QUERIES = (RANDOM.normal(size=(rows, 6)).astype(np.float32) for rows in (30, 80, 50))
TRUTH = {query: query % 30 for query in range(50)}
METHODS = ["is:tau=0.1", "nnn:k=5,alpha=0.5"]


def test_means_and_deviations_are_those_of_the_banks_one_by_one() -> None:
    over = unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS, 20, 3, ["R@5", "MnR"], seed=4)
    alone = []
    for seed in (4, 5, 6):
        part = BANK[unhub.sample_bank(BANK, 20, seed=seed)]
        alone.append(unhub.evaluate(QUERIES, ITEMS, TRUTH, unhub.fit(ITEMS, part, method=METHODS), ["R@5", "MnR"]))
    assert [row.name for row in over.rows] == ["raw", *METHODS]
    for name in METHODS:
        for measure in ("R@5", "MnR"):
            values = [one[name].values[measure].value for one in alone]
            assert over[name].values[measure].mean == pytest.approx(np.mean(values))
            assert over[name].values[measure].deviation == pytest.approx(np.std(values, ddof=1))
            gains = [one[name].gains[measure].value for one in alone]
            assert over[name].gains[measure].mean == pytest.approx(np.mean(gains))
        skewness = [one[name].hubness.skewness for one in alone]  # type: ignore[union-attr]
        spread = over[name].skewness
        assert spread is not None
        assert spread.mean == pytest.approx(np.mean(skewness))
    raw = over["raw"].values["R@5"]
    assert (raw.mean, raw.deviation) == (alone[0]["raw"].values["R@5"].value, None)


def test_corrections_and_runs_stand_beside_the_banks_and_the_best_is_marked() -> None:
    fixed = unhub.fit(ITEMS, BANK, method="csls")
    perfect = unhub.Run(list(TRUTH), list(TRUTH.values()), [1.0] * 50)
    over = unhub.over_seeds(
        QUERIES, ITEMS, TRUTH, BANK, METHODS[:1], 20, 2, "MnR,R@1", corrections=[fixed], runs={"theirs": perfect}
    )
    assert [row.name for row in over.rows] == ["raw", fixed.spec, METHODS[0], "theirs"]
    assert over.best.name == "theirs"
    assert over[fixed.spec].values["R@1"].deviation is None
    heads, rows = over.cells()
    assert heads == ["ranking", "MnR", "R@1", "change in MnR", "skewness@10"]
    assert [row[0] for row in rows] == ["raw", fixed.spec, METHODS[0], "theirs *"]
    assert "±" in rows[2][1] and "±" not in rows[1][1]
    assert "2 random banks of 20 queries" in str(over)
    told = json.loads(json.dumps(over.to_dict()))
    assert told["best"] == "theirs"
    assert told["seeds"] == [0, 1]
    assert [one["name"] for one in told["rankings"]] == [row.name for row in over.rows]
    assert len(told["banks"]["rankings"]) == 5


def test_raw_among_the_methods_is_the_raw_row() -> None:
    over = unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, ["raw", METHODS[0]], 20, 2, "R@1")
    assert [row.name for row in over.rows] == ["raw", METHODS[0]]
    assert over["raw"].values["R@1"].deviation is None and not over["raw"].gains
    assert [row.name for row in over.evaluation.rows] == ["raw", *(f"{METHODS[0]} (seed {seed})" for seed in (0, 1))]


def test_one_method_need_not_be_a_list() -> None:
    over = unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS[0], 20, 2, "R@1")
    assert [row.name for row in over.rows] == ["raw", METHODS[0]]


def test_progress_is_one_that_rises_to_the_end() -> None:
    progress = Recorder()
    unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS, 20, 3, "R@1", progress=progress)
    progress.assert_rises_to_the_end()


def test_what_cannot_be_drawn_or_named_is_an_error() -> None:
    with pytest.raises(ValueError, match="seeds must be a whole number of at least 2"):
        unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS, 20, 1)
    with pytest.raises(ValueError, match=r"size must be .* 80"):
        unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS, 81)
    fitted = unhub.fit(ITEMS, BANK, method="is:tau=0.1")
    with pytest.raises(ValueError, match=r"^corrections has one named 'is:tau=0\.1', the name of another ranking"):
        unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS, 20, corrections=[fitted])
    run = unhub.Run([0], [1], [1.0])
    with pytest.raises(ValueError, match=r"runs has 'is:tau=0\.1', the name of another ranking"):
        unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS, 20, runs={"is:tau=0.1": run})
    with pytest.raises(KeyError, match="no ranking is named 'sn'; the names are raw"):
        unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, METHODS, 20, 2, parse_measures("R@1"))["sn"]
