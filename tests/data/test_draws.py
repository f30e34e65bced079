"""Draws: uniform, without replacement, all sets where they are few; the same on every machine, and on disk."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import unhub
from unhub.data.captions import Captions
from unhub.data.draws import Drawn, Draws
from unhub.data.vectors import Vectors
from unhub.files import read_draws, write_draws

pytestmark = pytest.mark.once

draw: Callable[..., Draws] = Draws.of  # for what the types would refuse


def rows(count: int) -> Vectors:
    return Vectors(np.arange(count), np.ones((count, 2)))


def of_counts(counts: list[int], **options: object) -> Draws:
    """Draw for items with so many texts each, the texts numbered from the first item's on."""
    owners = np.repeat(np.arange(len(counts)), counts)
    relevance = dict(enumerate(owners.tolist()))
    return draw(rows(len(owners)), rows(len(counts)), relevance, **options)


def sets_of(drawn: Drawn, number: int) -> list[tuple[int, ...]]:
    start, stop = drawn.starts[number : number + 2]
    return [tuple(one) for one in drawn.texts[start:stop].tolist()]


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any),
    sizes=st.sets(st.integers(1, 7), min_size=1),
    draws=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_every_item_gets_its_own_texts(counts: list[int], sizes: set[int], draws: int, seed: int) -> None:
    found = of_counts(counts, sizes=sizes, draws=draws, seed=seed)
    starts = np.cumsum([0, *counts]).tolist()
    assert list(found.sizes) == sorted(sizes)
    for size, drawn in found.sizes.items():
        assert drawn.items.tolist() == [item for item, count in enumerate(counts) if count >= size]
        assert drawn.short == sum(0 < count < size for count in counts)
        for number, item in enumerate(drawn.items.tolist()):
            sets = sets_of(drawn, number)
            mine = range(*starts[item : item + 2])
            assert all(len({*one}) == size and {*one} <= {*mine} and list(one) == sorted(one) for one in sets)
            assert drawn.whole[number] == (comb(counts[item], size) <= draws)
            if drawn.whole[number]:
                assert sets == [*combinations(mine, size)]
            else:
                assert len(sets) == draws


def test_draws_are_uniform_and_independent() -> None:
    drawn = of_counts([5, 5], sizes=[2], draws=9, seed=1).sizes[2]
    assert not drawn.whole.any()
    many = [of_counts([5, 5], sizes=[2], draws=9, seed=seed).sizes[2] for seed in range(400)]
    seen = Counter(one for drawn in many for one in sets_of(drawn, 0))
    assert set(seen) == {*combinations(range(5), 2)}
    assert all(abs(count - 360) < 5 * np.sqrt(360) for count in seen.values())
    # of 9 draws of 10 sets, 45 % come again: a draw knows nothing of the others
    distinct = np.mean([len({*sets_of(drawn, 0)}) for drawn in many])
    assert distinct == pytest.approx(10 * (1 - 0.9**9), abs=0.2)
    assert np.mean([sets_of(drawn, 0)[0] == tuple(t - 5 for t in sets_of(drawn, 1)[0]) for drawn in many]) < 0.2


def test_draws_are_the_same_everywhere() -> None:
    """Written down once: another numpy or another machine must draw these too."""
    drawn = of_counts([7, 3, 7], sizes=[3, 5], draws=2, seed=5).sizes
    assert drawn[3].texts.tolist() == [[1, 4, 5], [1, 2, 4], [7, 8, 9], [10, 13, 16], [10, 14, 15]]
    assert drawn[5].texts.tolist() == [[0, 2, 3, 4, 6], [0, 1, 2, 4, 6], [10, 11, 13, 14, 15], [10, 12, 13, 14, 15]]


def test_a_size_draws_the_same_whatever_the_other_sizes() -> None:
    alone, among = of_counts([8, 9], sizes=[3], draws=4), of_counts([8, 9], sizes=[2, 3, 5], draws=4)
    assert_array_equal(alone.sizes[3].texts, among.sizes[3].texts)
    other = of_counts([8, 9], sizes=[3], draws=4, seed=1)
    assert np.any(other.sizes[3].texts != alone.sizes[3].texts)


def test_a_text_of_two_items_is_a_caption_of_both() -> None:
    found = draw(rows(3), rows(2), {0: [0, 1], 1: 0, 2: 1}, sizes=[2])
    drawn = found.sizes[2]
    assert [sets_of(drawn, 0), sets_of(drawn, 1)] == [[(0, 1)], [(0, 2)]]


def test_draws_follow_their_texts_and_items_into_another_order() -> None:
    texts = Vectors(np.array([f"t{row}" for row in range(12)]), np.ones((12, 2)))
    items = Vectors(np.array([f"i{row}" for row in range(3)]), np.ones((3, 2)))
    relevance = {f"t{row}": f"i{row % 3}" for row in range(12)}
    found = draw(texts, items, relevance, sizes=[1, 2, 3], draws=5)
    order, turned = np.random.default_rng(0).permutation(12), np.array([2, 0, 1])
    captions = draw(texts.gather(order), items.gather(turned), relevance).captions
    moved = found.against(texts.ids[order], items.ids[turned], captions)
    for size, drawn in moved.sizes.items():
        assert named(moved, drawn) == named(found, found.sizes[size])
        assert drawn.items.tolist() == [0, 1, 2]
        assert np.all(np.diff(drawn.texts, axis=1) > 0)


def named(draws: Draws, drawn: Drawn) -> dict[object, Counter[frozenset[object]]]:
    """Return the sets of each item by ids."""
    ids = draws.text_ids.tolist()
    return {
        draws.item_ids[item].item(): Counter(frozenset(ids[text] for text in one) for one in sets_of(drawn, number))
        for number, item in enumerate(drawn.items.tolist())
    }


@pytest.mark.parametrize(
    ("texts", "items", "words"),
    [
        (range(1, 11), range(4), "draws were made for 10 texts, got 10, and 0 is missing; draw again"),
        (range(11), range(4), "draws were made for 10 texts, got 11; draw again"),
        (range(10), range(3), "draws were made for 4 items, got 3, and 3 is missing"),
        ([f"t{row}" for row in range(10)], range(4), "draws were made for 10 texts, got 10, and '0' is missing"),
    ],
)
def test_draws_for_other_texts_or_items_are_refused(texts: object, items: object, words: str) -> None:
    found = of_counts([3, 3, 2, 2])
    with pytest.raises(ValueError, match=words):
        found.against(np.array(texts), np.array(items), found.captions)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({2: 1}, "text 2 described item 0, but in this relevance it does not, and 1 more pairs differ; draw again"),
        ({2: [0, 1]}, "text 2 did not describe item 1, but in this relevance it does, and 0 more pairs differ"),
        ({2: []}, "text 2 described item 0, but in this relevance it does not, and 0 more pairs differ; draw again"),
    ],
)
def test_draws_for_other_captions_are_refused(change: dict[int, object], words: str) -> None:
    """Each size is still of texts of their items, but no longer every set of them."""
    before: dict[int, object] = {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}
    found, now = (draw(rows(5), rows(2), pairs, sizes=[1]) for pairs in (before, before | change))
    assert_same(found.against(found.text_ids, found.item_ids, found.captions), found)
    with pytest.raises(ValueError, match=f"draws were made when {words}"):
        found.against(now.text_ids, now.item_ids, now.captions)


MISTAKES: dict[str, tuple[dict[str, object], str]] = {
    "no sizes": ({"sizes": []}, "sizes is empty"),
    "a size of none": ({"sizes": [0, 1]}, "sizes must be a whole number of at least 1, got 0"),
    "half a size": ({"sizes": [1.5]}, "sizes must be a whole number"),
    "a number": ({"sizes": 5}, "sizes must be a list of whole numbers, for example .* got 5"),
    "a text": ({"sizes": "1,2"}, "sizes must be a list of whole numbers, for example .* got '1,2'"),
    "no draws": ({"draws": 0}, "draws must be a whole number of at least 1, got 0"),
    "half a draw": ({"draws": 0.5}, "draws must be a whole number"),
    "a seed below zero": ({"seed": -1}, "seed must be a whole number of at least 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_remedy(mistake: str) -> None:
    options, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        of_counts([3, 4], **options)


# On disk.


def assert_same(one: Draws, other: Draws) -> None:
    assert one.text_ids.tolist() == other.text_ids.tolist()
    assert one.item_ids.tolist() == other.item_ids.tolist()
    assert (one.count, one.seed, list(one.sizes)) == (other.count, other.seed, list(other.sizes))
    for field in dataclasses.fields(Captions):
        assert_array_equal(getattr(one.captions, field.name), getattr(other.captions, field.name))
    for size, drawn in one.sizes.items():
        for field in dataclasses.fields(Drawn):
            assert_array_equal(getattr(drawn, field.name), getattr(other.sizes[size], field.name))


@pytest.mark.parametrize("texts", [np.arange(9), np.array([f"日本 {row}" for row in range(9)])], ids=["rows", "names"])
def test_draws_survive_the_disk(texts: np.ndarray, tmp_path: Path) -> None:
    relevance = {text: row // 4 for row, text in enumerate(texts.tolist()[:8])}
    made = draw(Vectors(texts, np.ones((9, 2))), rows(3), relevance, sizes=[1, 2, 6], draws=3, seed=9)
    write_draws(made, tmp_path / "one.draws")
    assert_same(read_draws(tmp_path / "one.draws"), made)
    assert unhub.read_draws is read_draws and unhub.write_draws is write_draws and unhub.Draws is Draws


def damaged(folder: Path, **changes: object) -> Path:
    """Write draws with some arrays changed, or gone where the change is None."""
    write_draws(of_counts([3, 3], sizes=[2], draws=2), folder / "good.npz")
    with np.load(folder / "good.npz") as good:
        arrays = {name: good[name] for name in good.files}
    for name, value in changes.items():
        key = f"2.{name.removesuffix('_of_2')}" if name.endswith("_of_2") else name
        arrays.pop(key, None)
        if value is not None:
            arrays[key] = np.asarray(value)
    np.savez(folder / "bad.npz", **arrays)
    return folder / "bad.npz"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unhub_draws": None}, "holds no draws of texts"),
        ({"unhub_draws": [1, 2]}, "holds no draws"),
        ({"unhub_draws": "two"}, "holds no draws"),
        ({"unhub_draws": 99}, r"written by a newer unhub \(format 99, this one reads 2\): upgrade unhub"),
        ({"unhub_draws": 1}, r"written by an older unhub \(format 1, this one reads 2\): draw anew"),
        ({"caption_texts": None}, "damaged, .*caption_texts"),
        ({"caption_texts": [0, 1, 2, 3, 4]}, r"damaged, .*\(the captions\)"),
        ({"caption_texts": [0, 1, 2, 3, 4, 6]}, r"damaged, .*\(the captions\)"),
        ({"caption_items": [0, 0, 0, 1, 1, 2]}, r"damaged, .*\(the captions\)"),
        ({"caption_items": [1, 1, 1, 0, 0, 0]}, "the sets of size 2, which are not of an item's captions"),
        ({"count": [1, 2]}, "damaged, its draws do not fit together"),
        ({"sizes": None}, r"damaged, its draws do not fit together \('sizes'\)"),
        ({"text_ids": [0, 0, 1, 2, 3, 4]}, "damaged, .* repeated ids"),
        ({"texts_of_2": [[0, 9], [0, 1], [3, 4], [3, 4]]}, "damaged, .*the sets of size 2"),
        ({"texts_of_2": [[1, 0], [0, 1], [3, 4], [3, 4]]}, "the sets of size 2"),
        ({"texts_of_2": [[0, 1]]}, "the sets of size 2"),
        ({"texts_of_2": [[0.5, 1], [0, 1], [3, 4], [3, 4]]}, "positions of float64"),
        ({"starts_of_2": [0, 4, 2]}, "the sets of size 2"),
        ({"items_of_2": [0, 2]}, "the sets of size 2"),
        ({"whole_of_2": None}, "damaged, .*2.whole"),
    ],
)
def test_a_damaged_file_is_refused(changes: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        read_draws(damaged(tmp_path, **changes))


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    good = damaged(tmp_path).with_name("good.npz")
    assert len(read_draws(good).sizes) == 1
    (tmp_path / "cut.npz").write_bytes(good.read_bytes()[:-40])
    (tmp_path / "text.npz").write_text(json.dumps({"sizes": [1]}))
    np.save(tmp_path / "rows.npy", np.ones(3))
    for name in ("cut.npz", "text.npz"):
        with pytest.raises(ValueError, match=f"{name}: truncated or not a file of draws"):
            read_draws(tmp_path / name)
    with pytest.raises(ValueError, match=r"rows.npy: holds no draws"):
        read_draws(tmp_path / "rows.npy")
    with pytest.raises(FileNotFoundError):
        read_draws(tmp_path / "none.npz")


def test_draws_say_how_many_they_are() -> None:
    found = of_counts([4, 2], sizes=[2], draws=100)
    assert repr(found) == "<Draws of 6 texts for 2 items: 7 of size 2>"
    assert [stop - start for start, stop in pairwise(found.sizes[2].starts.tolist())] == [6, 1]
