"""What changed from one correction to another, against numbers by hand, in Python and on the command line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.bank_cases import drawn
from tests.command import fail, succeed
from unhub.correction import Bias

SETS = drawn(12, items=20, bank=60, queries=9)


def fitted(items: np.ndarray = SETS.items, bank: np.ndarray = SETS.bank, method: str = "is") -> Bias:
    made = unhub.fit(items, bank, method=method)
    assert isinstance(made, Bias)
    return made


def biased(h: list[float]) -> Bias:
    """Return a correction of the first items with these biases."""
    made = fitted(SETS.items[: len(h)])
    return replace(made, arrays={"bias": np.array(h)})


def test_h_is_compared_on_common_items_up_to_a_constant_by_hand() -> None:
    first, second = biased([1.0, 0.0, -1.0, 9.0]), unhub.remove(biased([6.0, 3.0, 3.0, 7.0]), [3])
    found = unhub.diff(first, second).bias
    assert found is not None
    # Centred over three items: (1, 0, -1) and (2, -1, -1), so that the change is (1, -1, 0).
    assert [found.rms, found.spread] == pytest.approx([np.sqrt(2 / 3)] * 2)
    assert found.correlation == pytest.approx(3 / np.sqrt(2 * 6))
    assert [(one.id, one.before, one.after) for one in found.lost] == [(0, 1.0, 2.0)]
    assert [(one.id, one.before, one.after) for one in found.gained] == [(1, 0.0, -1.0)]


def test_the_same_correction_differs_in_nothing() -> None:
    found = unhub.diff(fitted(), fitted(), queries=SETS.queries, items=SETS.items)
    assert found.facts == (("items", "20", "20"),)
    assert (found.common, len(found.came), len(found.went), found.contents) == (20, 0, 0, 0)
    assert found.bias is not None and found.answers is not None
    assert found.bias.rms == 0 and found.bias.correlation == pytest.approx(1)
    assert (found.answers.overlap, found.answers.first_changed) == (1, 0)
    assert found.moves() == []


def test_items_bank_and_method_that_differ_are_named() -> None:
    first = fitted(SETS.items[:18], SETS.bank[:50])
    changed = unhub.Vectors(np.array([4]), SETS.items[4:5] + 1)
    second = unhub.extend(unhub.remove(unhub.replace(first, changed, SETS.bank), [2, 3]), SETS.items[18:], SETS.bank)
    merged = unhub.fit(unhub.Vectors(second.ids, np.ones((len(second), 16))), SETS.bank[10:], "nnn:k=5")
    found = unhub.diff(first, second)
    assert (found.common, found.came.tolist(), found.went.tolist(), found.contents) == (16, [18, 19], [2, 3], 1)
    assert [name for name, *_ in found.facts] == ["items"]
    found = unhub.diff(first, merged)
    facts = {name: (before, after) for name, before, after in found.facts}
    assert facts["method"] == ("is:tau=0.05", "nnn:k=5,alpha=0.75")
    assert facts["bank"][0].startswith("50 (") and facts["bank"][1].startswith("50 (")
    assert facts["bank queries of one alone"] == ("10", "10")
    assert found.contents == 16


def test_answers_are_compared_by_id_against_a_count_by_hand() -> None:
    first, second = fitted(), unhub.remove(fitted(method="nnn:k=3"), [0, 1])
    found = unhub.diff(first, second, queries=SETS.queries, items=SETS.items, k=4, count=20).answers
    assert found is not None
    one = unhub.searcher(SETS.items, first).search(SETS.queries, k=4).ids.tolist()
    held = unhub.Vectors(second.ids, np.delete(SETS.items, [0, 1], axis=0))
    other = unhub.searcher(held, second).search(SETS.queries, k=4).ids.tolist()
    shared = [len({*mine} & {*theirs}) / 4 for mine, theirs in zip(one, other, strict=True)]
    assert found.overlap == pytest.approx(np.mean(shared))
    assert found.first_changed == np.mean([mine[0] != theirs[0] for mine, theirs in zip(one, other, strict=True)])
    times = {row: (sum(row in ids for ids in one), sum(row in ids for ids in other)) for row in range(20)}
    told = {moved.id: (moved.before, moved.after) for moved in (*found.appeared, *found.vanished)}
    assert told == {row: counts for row, counts in times.items() if counts[0] != counts[1]}
    assert all(one.after > one.before for one in found.appeared)


def test_whole_row_corrections_are_compared_by_their_answers_alone() -> None:
    other = unhub.fit(SETS.items, SETS.bank, "gc")
    found = unhub.diff(fitted(), other, queries=SETS.queries, items=SETS.items)
    assert found.bias is None and found.answers is not None and 0 < found.answers.overlap < 1
    raw = unhub.diff(fitted(), unhub.fit(SETS.items, method="raw")).bias
    assert raw is not None and raw.correlation is None


def test_what_cannot_be_compared_is_refused() -> None:
    named = unhub.fit(unhub.Vectors(np.array(["a", "b"]), SETS.items[:2]), SETS.bank)
    with pytest.raises(ValueError, match=r"^second has ids that are strings, the first integers"):
        unhub.diff(fitted(), named)
    with pytest.raises(ValueError, match=r"^items is missing beside queries; give both"):
        unhub.diff(fitted(), fitted(), queries=SETS.queries)
    with pytest.raises(
        ValueError, match=r"^items lacks 2 of the 20 items of the correction, for example 18.*those that one of them"
    ):
        unhub.diff(fitted(), fitted(), queries=SETS.queries, items=SETS.items[:18])
    with pytest.raises(ValueError, match=r"^correction must be a fitted correction to compare, got the text 'a'"):
        unhub.diff("a", fitted())  # type: ignore[arg-type]


@pytest.mark.once
def test_the_command_prints_what_the_library_returns(tmp_path: Path) -> None:
    first, second = fitted(), unhub.remove(fitted(method="nnn:k=3"), [0, 1])
    unhub.save(first, tmp_path / "a.unhub")
    unhub.save(second, tmp_path / "b.unhub")
    np.save(tmp_path / "items.npy", SETS.items)
    np.save(tmp_path / "q.npy", SETS.queries)
    asked = ("diff", "a.unhub", "b.unhub", "--queries", "q.npy", "--items", "items.npy")
    found = unhub.diff(first, second, queries=SETS.queries, items=SETS.items)
    told: dict[str, Any] = json.loads(succeed(tmp_path, *asked, "--json"))
    assert told == json.loads(json.dumps(found.to_dict()))
    assert [line.rstrip() for line in succeed(tmp_path, *asked).splitlines()] == str(found).splitlines()
    assert "2 gone, for example 0, 1" in str(found)
    assert fail(tmp_path, "diff", "a.unhub", "q.npy") == "SECOND: q.npy: truncated, or not a file that unhub saved"
    assert fail(tmp_path, *asked[:5]) == "--items is missing beside queries; give both, to compare what is found"
