"""Inputs are checked and hashed once per public call and per command, and never by hashes that are out of date."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unhub
from tests import command
from unhub import kernels
from unhub.arrays import Float32, unit
from unhub.correction import Correction, Rescore
from unhub.data.fingerprint import CheckedOnce, ReadOnce, inspect
from unhub.data.vectors import Vectors, as_vectors
from unhub.matching import Matched, checked_once

RANDOM = np.random.default_rng(3)
CENTRES = RANDOM.normal(size=(25, 12))


def cloud(rows: int) -> Float32:
    spots = CENTRES[RANDOM.integers(len(CENTRES), size=rows)]
    return np.asarray(spots + 0.7 * RANDOM.normal(size=(rows, 12)), np.float32)


ITEMS, BANK, QUERIES, BANK_ITEMS = cloud(130), cloud(610), cloud(170), cloud(90)
TRUTH = {query: int(item) for query, item in enumerate((QUERIES @ ITEMS.T).argmax(axis=1))}
ALL_KINDS = ["nnn:k=5,alpha=0.5", "is", "dis", "gc", "sn"]  # a bias, one with a gate, one of whole rows


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Float32]:
    """Keep a copy of every row that is hashed."""
    rows: list[Float32] = []
    hash_rows = kernels.choose().hash_rows

    def kept(block: Float32, *rest: Any) -> None:
        rows.extend(block.copy())
        hash_rows(block, *rest)

    monkeypatch.setattr(kernels.choose(), "hash_rows", kept)
    return rows


def assert_each_once(hashed: list[Float32], *sets: Float32) -> None:
    expected = np.concatenate(sets)
    assert len(hashed) == len(expected)
    assert_array_equal(np.unique(np.array(hashed), axis=0), np.unique(expected, axis=0))


def several() -> list[Correction]:
    return unhub.fit(ITEMS, BANK, method=ALL_KINDS)


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "sets"),
    [
        (lambda fitted, path: unhub.evaluate(QUERIES, ITEMS, TRUTH, fitted), (QUERIES, ITEMS)),
        (lambda fitted, path: unhub.hubness(QUERIES, ITEMS, fitted[3]), (QUERIES, ITEMS)),
        (lambda fitted, path: unhub.worst_hubs(QUERIES, ITEMS, fitted[0], exclude="self"), (QUERIES, ITEMS)),
        (lambda fitted, path: unhub.group_bias(QUERIES, ITEMS, [1, 2], [3, 4], fitted[0]), (QUERIES, ITEMS)),
        (lambda fitted, path: unhub.judge_bank(ITEMS, BANK, QUERIES, distances=False), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.sample_bank(BANK, 9, "stratified", items=ITEMS), (ITEMS, BANK)),
        (
            lambda fitted, path: unhub.fit(ITEMS, BANK, method=[*ALL_KINDS, "dualis"], bank_items=BANK_ITEMS),
            (ITEMS, BANK, BANK_ITEMS),
        ),
        (
            lambda fitted, path: unhub.tune(ITEMS, BANK, bank_items=BANK_ITEMS, methods="nnn,sn,gc,dualis"),
            (ITEMS, BANK, BANK_ITEMS),
        ),
        (lambda fitted, path: unhub.tune(ITEMS, BANK, QUERIES, methods="nnn,sn"), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.tune(ITEMS, BANK, QUERIES, TRUTH, methods="nnn,gc"), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.report(ITEMS, BANK, QUERIES, TRUTH, path=path), (ITEMS, BANK, QUERIES)),
        (
            lambda fitted, path: unhub.report(ITEMS, BANK, QUERIES, path=path, corrections=fitted, exclude="self"),
            (ITEMS, BANK, QUERIES),
        ),
        (lambda fitted, path: unhub.study_temperature(ITEMS, BANK, QUERIES, TRUTH), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.study_k_and_alpha(ITEMS, BANK, QUERIES), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.study_bank_size(ITEMS, BANK, QUERIES, TRUTH, seeds=2), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.study_bank_source(ITEMS, {"a": BANK}, QUERIES), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.study_growth(ITEMS, BANK, QUERIES), (ITEMS, BANK, QUERIES)),
        (lambda fitted, path: unhub.study_occurrences(ITEMS, BANK, QUERIES), (ITEMS, BANK, QUERIES)),
        (
            lambda fitted, path: unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, ["is", "nnn:k=2"], 200, seeds=2),
            (ITEMS, BANK, QUERIES),
        ),
    ],
    ids=[
        "evaluate",
        "hubness",
        "worst_hubs",
        "group_bias",
        "judge_bank",
        "sample_bank",
        "fit",
        "tune",
        "tune-queries",
        "tune-labels",
        "report",
        "report-corrections",
        "study_temperature",
        "study_k_and_alpha",
        "study_bank_size",
        "study_bank_source",
        "study_growth",
        "study_occurrences",
        "over_seeds",
    ],
)
def test_a_public_call_hashes_each_row_once(
    hashed: list[Float32],
    tmp_path: Path,
    call: Callable[[list[Correction], Path], object],
    sets: tuple[Float32, ...],
) -> None:
    fitted = several()
    hashed.clear()
    call(fitted, tmp_path / "page.html")
    assert_each_once(hashed, *sets)


FILES = ("--items", "items.npy", "--queries", "queries.npy")
LABELS = ("--relevance", "truth.csv")


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "sets"),
    [
        (("eval", *FILES, *LABELS, "--method", "is", "--method", "gc", "--bank", "bank.npy"), (ITEMS, BANK, QUERIES)),
        (("eval", *FILES, *LABELS, "--correction", "gc.unhub", "--correction", "is.unhub"), (ITEMS, QUERIES)),
        (("eval", *FILES, *LABELS, "--reverse", "--correction", "reversed.unhub"), (ITEMS, QUERIES)),
        (("hubs", *FILES, "--correction", "is.unhub", "--exclude-self"), (ITEMS, QUERIES)),
        (
            ("tune", *FILES, *LABELS, "--bank", "bank.npy", "-o", "best.unhub", "--allow-raw", "--methods", "nnn,sn"),
            (ITEMS, BANK, QUERIES),
        ),
        (("tune", *FILES, "--bank", "bank.npy", "-o", "best.unhub", "--methods", "nnn"), (ITEMS, BANK, QUERIES)),
        (("report", *FILES, *LABELS, "--bank", "bank.npy", "-o", "page.html"), (ITEMS, BANK, QUERIES)),
        (
            ("report", *FILES, "--bank", "bank.npy", "--correction", "gc.unhub", "-o", "page.html"),
            (ITEMS, BANK, QUERIES),
        ),
    ],
    ids=["eval-fit", "eval", "eval-reverse", "hubs", "tune-labels", "tune", "report", "report-correction"],
)
def test_a_command_hashes_each_row_once(
    hashed: list[Float32], tmp_path: Path, arguments: tuple[str, ...], sets: tuple[Float32, ...]
) -> None:
    for name, rows in {"items": ITEMS, "bank": BANK, "queries": QUERIES}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    (tmp_path / "truth.csv").write_text("query_id,item_id\n" + "".join(f"{q},{i}\n" for q, i in TRUTH.items()))
    for method in ("is", "gc"):
        unhub.save(unhub.fit(ITEMS, BANK, method), tmp_path / f"{method}.unhub")
    unhub.save(unhub.fit(QUERIES, BANK, "is"), tmp_path / "reversed.unhub")
    hashed.clear()
    command.succeed(tmp_path, *arguments)
    assert_each_once(hashed, *sets)


def test_an_array_that_a_user_changes_between_two_calls_is_hashed_again() -> None:
    items = ITEMS.copy()
    given = Vectors(np.arange(len(items)), items)
    fitted = unhub.fit(given, BANK, "gc")
    assert isinstance(fitted, Rescore)
    assert unhub.hubness(QUERIES, given, fitted).k == 10
    items[5] += 1
    with pytest.raises(ValueError, match=r"^items differs from the items of the fit in row 5"):
        unhub.hubness(QUERIES, given, fitted)
    with pytest.raises(
        ValueError, match="items must be the items that the correction was fitted on, in the same order"
    ):
        fitted.bind(given)


def test_nothing_that_is_returned_remembers_hashes(tmp_path: Path) -> None:
    items = checked_once(ITEMS, "items")
    fitted = unhub.fit(items, BANK, "gc")
    assert isinstance(fitted, Rescore)
    assert type(fitted.items) is Vectors
    assert type(fitted.bind(items).items) is Vectors
    tuning = unhub.tune(ITEMS, BANK, QUERIES, TRUTH, methods="gc")
    assert type(getattr(tuning.best, "items", Vectors(items.ids, ITEMS))) is Vectors
    made = unhub.report(ITEMS, BANK, QUERIES, path=tmp_path / "page.html", corrections=fitted)
    similarity: Any = made.findings.setting.similarity
    assert {type(similarity.query_vectors), type(similarity.item_vectors)} == {Vectors}


def test_another_similarity_is_checked_for_itself(hashed: list[Float32]) -> None:
    rows = ITEMS.copy()
    rows[7] = 0
    known = checked_once(rows, "items")
    assert inspect(known, "items", "dot").hashes[7] == inspect(known, "items", "dot").hashes[7]
    assert len(hashed) == len(rows)
    with pytest.raises(ValueError, match="items has only zeros in row 7, which has no direction under cosine"):
        inspect(known, "items", "cosine")
    with pytest.raises(ValueError, match="has only zeros in row 7"):  # a check that failed is not remembered as passed
        inspect(known, "items", "cosine")
    long = ITEMS * np.float32(1e19)
    known = checked_once(long, "items")
    inspect(known, "items", "cosine")
    with pytest.raises(ValueError, match="so long that dot products overflow"):
        inspect(known, "items", "dot")


def test_gathered_rows_have_their_own_hashes(hashed: list[Float32]) -> None:
    known = checked_once(ITEMS, "items")
    whole = inspect(known, "items", "cosine").hashes
    some = np.array([9, 2, 77, 2 + 1])
    hashed.clear()
    part = known.gather(some)
    assert_array_equal(inspect(part, "items", "cosine").hashes, whole[some])
    assert_array_equal(inspect(part.gather(np.array([3, 0])), "items", "cosine").hashes, whole[some[[3, 0]]])
    assert_array_equal(inspect(part.seen(unit_length=True), "items", "cosine").hashes, whole[some])
    assert not hashed
    assert_array_equal(inspect(part, "items", "dot").hashes, whole[some])
    assert_array_equal(np.array(hashed), ITEMS[some])
    assert_array_equal(part.block(0, 4), ITEMS[some])


def test_rows_that_were_read_in_part_are_read_to_the_end(hashed: list[Float32]) -> None:
    known = checked_once(ITEMS, "items")
    ReadOnce(known, "items", "cosine").block(0, 40)
    part = known.gather(np.arange(30, 60))
    expected = inspect(as_vectors(ITEMS, "items"), "items", "cosine").hashes
    hashed.clear()
    assert_array_equal(inspect(part, "items", "cosine").hashes, expected[30:60])
    assert len(hashed) == 30  # a block with an unread row is hashed as a whole
    assert_array_equal(inspect(known, "items", "cosine").hashes, expected)


def test_lengths_are_known_row_by_row_and_trusted_only_by_who_asks() -> None:
    rows = unit(ITEMS)
    rows[40] *= np.float32(3)
    known = checked_once(rows, "items")
    assert not inspect(known, "items", "cosine").unit_length
    assert inspect(known.gather(np.arange(40)), "items", "cosine").unit_length
    first = known.gather(np.arange(40))
    assert not first.unit_length
    assert not np.shares_memory(first.unit_block(0, 40, "cosine"), rows)  # scaled, as before anyone looked
    assert ReadOnce(first, "items", "cosine").are_unit(0, 40)
    trusted = first.seen(unit_length=True)
    assert trusted.unit_length and not as_vectors(trusted, "items").unit_length


def test_vectors_are_passed_on_and_arrays_are_not_remembered() -> None:
    known = checked_once(ITEMS, "items")
    assert checked_once(known, "items").record("cosine") is known.record("cosine")
    assert type(as_vectors(known, "items")) is CheckedOnce
    assert type(as_vectors(Vectors(known.ids, ITEMS), "items")) is Vectors
    with pytest.raises(ValueError, match=r"^rows must be a matrix"):
        checked_once(ITEMS[0], "rows")


def test_sets_of_another_width_are_named() -> None:
    with pytest.raises(ValueError, match=r"^queries has 5 dimensions, the items 12; embed both with one model$"):
        Matched.of(BANK, ITEMS, QUERIES[:, :5], "cosine", None)
    with pytest.raises(ValueError, match=r"^bank_items has 5 dimensions, the items 12; embed both with one model$"):
        unhub.tune(ITEMS, BANK, bank_items=BANK_ITEMS[:, :5])


@pytest.mark.parametrize("use", [unhub.fit, unhub.tune, unhub.judge_bank])
def test_a_bank_of_another_width_is_the_one_to_blame_everywhere(use: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"^bank has 5 dimensions, the items 12; embed both with one model$"):
        use(ITEMS, BANK[:, :5])
