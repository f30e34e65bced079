"""Exports: every item's id and bias, as programs that subtract it themselves read them."""

import csv
import dataclasses
import json
import sqlite3
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow.parquet as parquet
import pytest
from numpy.typing import NDArray

import unhub
from unhub.correction import Bias
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once

RANDOM = np.random.default_rng(0)
NAMES = ["plain", "it's; DROP TABLE unhub_h;--", "two\nlines", 'a "quoted", one', "über 写真", "=1+1"]


def fitted(ids: NDArray[np.generic] | None = None, method: str = "nnn:k=3") -> Bias:
    """Return a correction of a few items with values that have many digits."""
    items = RANDOM.standard_normal((len(NAMES), 4))
    named = items if ids is None else unhub.Vectors(cast("NDArray[np.int64]", ids), items)
    return cast("Bias", unhub.fit(named, RANDOM.standard_normal((30, 4)), method=method))


def values(correction: Bias) -> dict[int | str, float]:
    return dict(zip(correction.ids.tolist(), correction.bias.tolist(), strict=True))


@pytest.mark.parametrize("ids", [None, np.array(NAMES), np.array([-5, 0, 3, 2**40, 7, 2**62])])
def test_every_form_holds_the_very_biases(ids: NDArray[np.generic] | None, tmp_path: Path) -> None:
    correction = fitted(ids)
    right = values(correction)
    for suffix in ("csv", "jsonl", "parquet", "sql"):
        unhub.export(correction, tmp_path / f"h.{suffix}")
    kind = type(next(iter(right)))
    with (tmp_path / "h.csv").open(newline="", encoding="utf-8") as file:
        assert {kind(row["id"]): float(row["h"]) for row in csv.DictReader(file)} == right
    lines = (tmp_path / "h.jsonl").read_text(encoding="utf-8").splitlines()
    assert {row["id"]: row["h"] for row in map(json.loads, lines)} == right
    assert {row["id"]: row["h"] for row in parquet.read_table(tmp_path / "h.parquet").to_pylist()} == right
    with sqlite3.connect(":memory:") as database:
        database.executescript((tmp_path / "h.sql").read_text(encoding="utf-8"))
        assert dict(database.execute("SELECT id, h FROM unhub_h").fetchall()) == right


def test_a_gate_is_a_column(tmp_path: Path) -> None:
    correction = fitted(method="dis:tau=0.05")
    assert correction.active is not None
    active = dict(zip(correction.ids.tolist(), correction.active.astype(bool).tolist(), strict=True))
    for suffix in ("csv", "jsonl", "parquet", "sql"):
        unhub.export(correction, tmp_path / f"h.{suffix}")
    with (tmp_path / "h.csv").open(newline="") as file:
        assert {int(row["id"]): row["active"] == "True" for row in csv.DictReader(file)} == active
    assert {
        row["id"]: row["active"] for row in map(json.loads, (tmp_path / "h.jsonl").read_text().splitlines())
    } == active
    assert {row["id"]: row["active"] for row in parquet.read_table(tmp_path / "h.parquet").to_pylist()} == active
    with sqlite3.connect(":memory:") as database:
        database.executescript((tmp_path / "h.sql").read_text())
        found = database.execute("SELECT id, active FROM unhub_h").fetchall()
        assert {one: bool(gate) for one, gate in found} == active


def test_a_long_script_is_in_parts(tmp_path: Path) -> None:
    items = RANDOM.standard_normal((1203, 3))
    correction = cast("Bias", unhub.fit(items, RANDOM.standard_normal((20, 3)), method="nnn:k=3"))
    unhub.export(correction, tmp_path / "h.sql")
    script = (tmp_path / "h.sql").read_text()
    assert script.count("INSERT INTO") == 3 and script.startswith("BEGIN;\n") and script.endswith("COMMIT;\n")
    with sqlite3.connect(":memory:") as database:
        database.executescript(script)
        assert dict(database.execute("SELECT id, h FROM unhub_h").fetchall()) == values(correction)


def test_the_exported_numbers_rank_as_the_correction_does(tmp_path: Path) -> None:
    correction = fitted()
    unhub.export(correction, tmp_path / "h.csv")
    with (tmp_path / "h.csv").open(newline="") as file:
        h = np.array([float(row["h"]) for row in csv.DictReader(file)])
    scores = RANDOM.standard_normal((5, len(NAMES)))
    np.testing.assert_array_equal(scores - h, correction.apply(scores))


def test_another_ending_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^path must end in \.csv, \.jsonl, \.parquet, \.sql, got '.*h\.txt'$"):
        unhub.export(fitted(), tmp_path / "h.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_correction_of_whole_rows_is_refused(tmp_path: Path) -> None:
    items, bank = RANDOM.standard_normal((6, 4)), RANDOM.standard_normal((20, 4))
    with pytest.raises(ArgumentError, match=r"^correction of 'gc' re-scores whole rows.*nnn, is or sn"):
        unhub.export(unhub.fit(items, bank, method="gc"), tmp_path / "h.csv")


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("old")
    broken = dataclasses.replace(fitted(), arrays={"bias": np.array([0.1])})  # shorter than the ids
    with pytest.raises(ValueError, match="shorter"):
        unhub.export(broken, tmp_path / "h.csv")
    assert (tmp_path / "h.csv").read_text() == "old" and len(list(tmp_path.iterdir())) == 1
