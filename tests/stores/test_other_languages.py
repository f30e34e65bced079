"""The page for other languages: its steps, written down anew without numpy's help, give its numbers and unhub's."""

import dataclasses
import math
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests.test_documents import table_rows
from unhub.arrays import Kind
from unhub.correction import Bias
from unhub.layouts import Form, Layout

pytestmark = pytest.mark.once

PAGE = (Path(__file__).parents[2] / "docs" / "stores" / "other_languages.md").read_text(encoding="utf-8")
FORMS: tuple[Form, ...] = ("ip", "l2", "cosine")
ROWS = np.array([[2.0, 1, 2], [0, 3, 4]])
ITEMS = unhub.Vectors(np.array(["a", "b"]), ROWS)
QUERY = [1.0, 2.0, 2.0]
BIASES: dict[Kind, list[float]] = {"cosine": [-0.1, 0.1], "dot": [-2.0, 2.0]}


def made(similarity: Kind, form: Form, rotate: bool = False) -> tuple[Layout, Bias]:
    fitted = unhub.fit(ITEMS, np.array([QUERY]), method="nnn:k=1", similarity=similarity)
    correction = dataclasses.replace(cast("Bias", fitted), arrays={"bias": np.array(BIASES[similarity])})
    return unhub.layout(correction, ITEMS, form=form, rotate=rotate), correction


def numbers(cell: str) -> list[float]:
    return [float(one) for one in cell.split(",")]


def sent(record: dict[str, Any], query: list[float], weight: float, matrix: list[list[float]] | None) -> list[float]:
    """Do the five steps of the page with the layout of a record, in plain Python."""
    row = list(query)
    if record["similarity"] == "cosine":
        length = math.sqrt(sum(one * one for one in row))
        row = [one / length for one in row]
    row.append(weight / record["ratio"])
    if record["form"] in ("l2", "cosine"):
        row.append(0.0)
    row += [0.0] * (record["width"] - len(row))
    if record["rotate"] and matrix is not None:
        row = [sum(row[i] * matrix[i][j] for i in range(len(row))) for j in range(len(row))]
    return row


def score(record: dict[str, Any], query: list[float], weight: float, value: float) -> float:
    """Turn an engine's value into s - w h as the page says."""
    ready = sent({**record, "rotate": False}, query, 0.0, None)
    length = sum(one * one for one in ready) + (weight / record["ratio"]) ** 2
    radius = record["radius"] or 0.0
    scores: dict[str, float] = {
        "ip": value,
        "l2": (length + radius**2 - value) / 2,
        "cosine": value * radius * math.sqrt(length),
    }
    return scores[record["form"]] - weight * float(record["shift"])


def values(form: Form, stored: NDArray[np.float32], asked: NDArray[np.float32]) -> list[float]:
    """Return what an engine answers for one query."""
    g, q = stored.astype(np.float64), asked.astype(np.float64)
    answers = {
        "ip": g @ q,
        "l2": ((g - q) ** 2).sum(axis=1),
        "cosine": g @ q / np.linalg.norm(g, axis=1) / np.linalg.norm(q),
    }
    return cast("list[float]", answers[form].tolist())


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("column", range(3), ids=FORMS)
def test_the_page_has_the_numbers_of_the_layout(similarity: Kind, column: int) -> None:
    form = FORMS[column]
    layout, correction = made(similarity, form)
    rows = {what: cells[column] for what, cells in table_rows(PAGE, similarity).items()}
    stored, asked = layout.items(ITEMS, correction), layout.queries(np.array([QUERY]))[0]
    near = partial(pytest.approx, abs=2e-6, rel=2e-6)
    assert float(rows["ratio"]) == near(layout.ratio)
    assert float(rows["shift"]) == near(layout.shift)
    assert rows["radius"] == "none" if form == "ip" else float(rows["radius"]) == near(layout.radius)
    assert numbers(rows["a is stored as"]) == near(stored[0].tolist())
    assert numbers(rows["b is stored as"]) == near(stored[1].tolist())
    assert numbers(rows["send at w = 1"]) == near(asked.tolist())
    assert numbers(rows["send at w = 0.5"]) == near(layout.queries(np.array([QUERY]), 0.5)[0].tolist())
    found = numbers(rows["v of a and b at w = 1"])
    assert found == near(values(form, stored, asked))
    right = np.array([QUERY]) @ ROWS.T - correction.bias
    if similarity == "cosine":
        lengths = np.linalg.norm(QUERY) * np.linalg.norm(ROWS, axis=1)
        right = np.array([QUERY]) @ ROWS.T / lengths - correction.bias
    assert numbers(rows["s - h of a and b"]) == near(right[0].tolist())
    record = layout.to_json()
    assert [score(record, QUERY, 1.0, one) for one in found] == pytest.approx(right[0].tolist(), abs=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rotate", [False, True])
def test_the_steps_of_the_page_give_what_is_sent(similarity: Kind, form: Form, rotate: bool) -> None:
    layout, _ = made(similarity, form, rotate)
    wide = dataclasses.replace(layout, width=8)
    matrix = None if wide.rotation is None else wide.rotation.tolist()
    for weight in (0.0, 0.5, 1.0):
        steps = sent(wide.to_json(), QUERY, weight, matrix)
        assert steps == pytest.approx(wide.queries(np.array([QUERY]), weight)[0].tolist(), abs=1e-5)


def test_the_page_has_the_matrix() -> None:
    layout, _ = made("cosine", "ip", rotate=True)
    assert layout.rotation is not None
    rows = table_rows(PAGE, "rotated")
    for row in range(4):
        assert numbers(rows[f"row {row} of the matrix"][0]) == pytest.approx(layout.rotation[row].tolist(), abs=1e-6)
    asked = layout.queries(np.array([QUERY]))[0].tolist()
    assert numbers(rows["send at w = 1"][0]) == pytest.approx(asked, abs=2e-6)
