"""Arguments of the wrong kind: a ValueError that says what is wanted, for everything a user may call."""

import re
import shlex
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import unhub
from unhub.errors import install_line, optional

pytestmark = pytest.mark.once

RANDOM = np.random.default_rng(0)
ITEMS, BANK, QUERIES = RANDOM.normal(size=(9, 4)), RANDOM.normal(size=(20, 4)), RANDOM.normal(size=(2, 4))
FITTED = unhub.fit(ITEMS, BANK, method="is")
SEARCHER = unhub.searcher(ITEMS, FITTED)


def refused(call: Callable[[], object]) -> str:
    """Run a call that must raise a ValueError of one line, and return the line."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its callers look at the words)
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("among", "words"),
    [
        (5, "among must be a collection of ids, got 5; put a single id in a list"),
        ("a", "among must be a collection of ids, got 'a'; put a single id in a list"),
        ([1.5], "among has ids of type float64, the ids here are integers; name the items as in the fit"),
        ([True], "among has ids of type bool, the ids here are integers; give the ids that the mask selects"),
        (
            np.ones(9, bool),
            "among has ids of type bool, the ids here are integers; give the ids that the mask selects",
        ),
        ([[1, 2], [3]], "among must be a flat list of ids, got a list of lists"),
        ([[1, 2]], "among must be a flat list of ids, got a list of lists"),
    ],
)
def test_among_must_be_ids(among: Any, words: str) -> None:
    assert refused(lambda: SEARCHER.search(QUERIES, among=among)) == words


@pytest.mark.parametrize(
    ("exclude", "words"),
    [
        (5, "exclude must have one entry (an id, ids or None) for each of 2 queries, got 5"),
        ([1.5, None], "exclude must have an id, ids or None for each query, got 1.5 for query 0"),
        ([None, [1.5]], "exclude has ids of type float64, the ids here are integers; name the items as in the fit"),
    ],
)
def test_exclude_must_be_ids(exclude: Any, words: str) -> None:
    assert refused(lambda: SEARCHER.search(QUERIES, exclude=exclude)) == words


def test_numbers_are_no_names_of_named_items() -> None:
    named = unhub.Vectors(np.array([f"item {row}" for row in range(9)]), ITEMS)
    searcher = unhub.searcher(named, unhub.fit(named, BANK))
    words = "among has ids of type float64, the ids here are strings"
    assert refused(lambda: searcher.search(QUERIES, among=cast("Any", [1.5]))).startswith(words)
    as_objects = np.array(["item 3", "item 8"], dtype=object)
    assert set(searcher.search(QUERIES, k=2, among=cast("Any", as_objects)).ids.ravel()) == {"item 3", "item 8"}


def test_an_index_must_be_a_text() -> None:
    words = "index must be a text such as 'exact' or 'faiss:HNSW32', got 7"
    assert refused(lambda: unhub.searcher(ITEMS, FITTED, index=cast("Any", 7))) == words


@pytest.mark.parametrize("strength", ["full", [[1.0], [2.0, 3.0]]])
def test_a_strength_must_be_numbers(strength: Any) -> None:
    assert refused(lambda: SEARCHER.search(QUERIES, strength=strength)).startswith("strength must be one number or one")


CALLS: dict[str, Callable[[Any], object]] = {
    "search with": lambda one: unhub.searcher(ITEMS, one),
    "save": lambda one: unhub.save(one, "never.unhub"),
    "extend": lambda one: unhub.extend(one, ITEMS + 1, BANK),
    "remove from": lambda one: unhub.remove(one, [1]),
    "merge into": lambda one: unhub.merge(one, ITEMS, BANK + 1),
    "augment vectors with": lambda one: unhub.augment(ITEMS, one),
    "add": lambda one: SEARCHER.add(ITEMS + 1, one),
}


@pytest.mark.parametrize("use", CALLS)
def test_a_correction_must_be_one(use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = f"correction must be a fitted correction to {use}, got "
    given: dict[str, object] = {
        "the text 'my.unhub'; load a saved one first": "my.unhub",
        "the text 'a.unhub'; load a saved one first": Path("a.unhub"),
        "a list of 1; give one at a time": [FITTED],
        "NoneType": None,
    }
    for got, value in given.items():
        assert refused(lambda value=value: CALLS[use](value)) == wanted + got  # type: ignore[misc]
    assert list(tmp_path.iterdir()) == []


TRUTH = {0: 3, 1: 4}
SEEDED: dict[str, Callable[[Any], object]] = {
    "evaluate": lambda seed: unhub.evaluate(QUERIES, ITEMS, TRUTH, seed=seed),
    "over_seeds": lambda seed: unhub.over_seeds(QUERIES, ITEMS, TRUTH, BANK, "is", 10, seed=seed),
    "tune": lambda seed: unhub.tune(ITEMS, BANK, seed=seed),
    "sample_bank": lambda seed: unhub.sample_bank(BANK, 10, seed=seed),
    "judge_bank": lambda seed: unhub.judge_bank(ITEMS, BANK, seed=seed),
    "report": lambda seed: unhub.report(ITEMS, BANK, QUERIES, path="never.html", seed=seed),
    "study_temperature": lambda seed: unhub.study_temperature(ITEMS, BANK, QUERIES, seed=seed),
    "study_k_and_alpha": lambda seed: unhub.study_k_and_alpha(ITEMS, BANK, QUERIES, seed=seed),
    "study_bank_size": lambda seed: unhub.study_bank_size(ITEMS, BANK, QUERIES, seed=seed),
    "study_bank_source": lambda seed: unhub.study_bank_source(ITEMS, {"one": BANK}, QUERIES, seed=seed),
    "study_growth": lambda seed: unhub.study_growth(ITEMS, BANK, QUERIES, seed=seed),
}


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("seed", [-1, 0.5, True, None, "0"])
def test_a_seed_must_be_a_whole_number(name: str, seed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(lambda: SEEDED[name](seed)) == f"seed must be a whole number of at least 0, got {seed!r}"
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_no_vectors() -> None:
    for path in ("gallery.npy", Path("gallery.npy")):
        words = "must be vectors, got the text 'gallery.npy'; read the file first"
        assert refused(lambda path=path: unhub.fit(path, BANK)) == f"items {words}"  # type: ignore[misc]
        assert refused(lambda path=path: unhub.fit(ITEMS, path)) == f"bank {words}"  # type: ignore[misc]
        assert refused(lambda path=path: SEARCHER.search(path)) == f"queries {words}"  # type: ignore[misc]


def test_a_method_in_capitals_is_recognised() -> None:
    assert "did you mean 'nnn'?" in refused(lambda: unhub.fit(ITEMS, BANK, method="NNN"))
    assert "did you mean 'tau'?" in refused(lambda: unhub.fit(ITEMS, BANK, method="is:TAU=1"))


def test_vectors_with_rows_first_say_so() -> None:
    words = "ids is a matrix and rows is not; give the ids first, then the rows"
    assert refused(lambda: unhub.Vectors(cast("Any", ITEMS), np.arange(9))) == words
    assert refused(lambda: unhub.Vectors(cast("Any", ITEMS), cast("Any", ["a", "b"]))) == words


@pytest.mark.parametrize(("ids", "nobody"), [([3, -1, 4], "-1"), (["a", "", "b"], "''")])
def test_no_item_has_the_id_of_an_empty_place(ids: Any, nobody: str) -> None:
    words = f"ids has the id {nobody}, which marks an empty place in results; use another id"
    assert refused(lambda: unhub.Vectors(np.array(ids), ITEMS[:3])) == words
    assert refused(lambda: unhub.Dense(np.ones((2, 3)), item_ids=ids)) == f"item_{words}"


def test_scaled_or_rounded_copies_of_the_items_are_told_from_others() -> None:
    scaled = ITEMS / np.linalg.norm(ITEMS, axis=1, keepdims=True)
    words = "Every row differs: are they in another precision (float16 for float32), or scaled to length one?"
    rounded = ITEMS.astype(np.float16)
    assert refused(lambda: unhub.searcher(scaled, FITTED)).endswith(words)
    assert refused(lambda: unhub.searcher(rounded, FITTED)).endswith(words)
    changed = ITEMS.copy()
    changed[3] += 1
    assert not refused(lambda: unhub.searcher(changed, FITTED)).endswith(words)


def test_the_line_that_installs_an_extra_is_for_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    python = shlex.quote(sys.executable)
    assert install_line("faiss") == f"{python} -m pip install 'unhub[faiss]'"
    with pytest.raises(ImportError, match=re.escape(f"drawing needs no_such: {python} -m pip install 'unhub[plot]'")):
        optional("no_such.part", "plot", "drawing")

    def absent(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("unhub.errors.metadata.distribution", absent)
    root = Path(__file__).parents[2]
    assert install_line("faiss") == shlex.join([sys.executable, "-m", "pip", "install", f"{root}[faiss]"])
