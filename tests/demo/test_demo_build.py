"""What the shipped emoji space is made of: who is in which split, how a text becomes a row, where towers start."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unhub
from catalogue import Described, Emoji, SplitName, describe, part_of, read_emoji
from towers import Residual, picture_tower, text_tower
from unhub.data.vectors import Vectors
from unhub.demo.emoji.space import FOLDER, load_space
from unhub.demo.words import CONTINUED, Words, load_words, plain
from unhub.model.tower_forward import Preparation

pytestmark = pytest.mark.once

KINDS = ("Objects", "People & Body")


def made_up(count: int) -> list[Emoji]:
    """Return emoji with a name of their own and keywords that many share."""
    words = ("red", "happy", "animal", "food", "tool", "sky", "sea", "home", "old", "new", "round")
    return [
        Emoji(chr(0x1F400 + place), f"thing {place}", tuple(words[place % 5 :][:6]), "x.png", KINDS[place % 2])
        for place in range(count)
    ]


def by_split(rows: list[Described]) -> dict[str, list[Described]]:
    found = defaultdict(list)
    for row in rows:
        found[row.split].append(row)
    return found


def test_unseen_emoji_are_of_one_part_and_no_text_is_both_banked_and_asked() -> None:
    rows = by_split(describe(made_up(300), "unseen"))
    parts = [{row.emoji for row in rows[split]} for split in ("train", "bank", "val", "test")]
    assert all(parts) and sum(map(len, parts)) == len(set().union(*parts))
    assert not {row.text for row in rows["bank"]} & {row.text for row in rows["val"] + rows["test"]}


def test_known_emoji_train_on_half_of_their_texts_and_the_rest_is_of_one_part() -> None:
    emoji = made_up(300)
    rows = by_split(describe(emoji, "known"))
    for one in emoji:
        trained = [row for row in rows["train"] if row.emoji == one.character]
        assert len(trained) == (len(one.texts) + 1) // 2
    asked = [{row.emoji for row in rows[split]} for split in ("bank", "val", "test")]
    assert all(asked) and sum(map(len, asked)) == len(set().union(*asked))
    pairs = [(row.text, row.emoji) for split in rows.values() for row in split]
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("split", ["unseen", "known"])
def test_a_text_is_in_the_bank_once(split: SplitName) -> None:
    banked = [row.text for row in by_split(describe(made_up(300), split))["bank"]]
    assert len(set(banked)) == len(banked) > 0


def test_variants_of_a_person_are_in_one_part_and_flags_are_not() -> None:
    persons = [Emoji(who, f"{who} running", (), "x.png", "People & Body") for who in ("man", "woman", "person")]
    assert len({part_of(one, "unseen") for one in persons}) == 1
    flags = [Emoji(str(one), f"flag: land {one}", (), "x.png", "Flags") for one in range(60)]
    assert len({part_of(one, "unseen") for one in flags}) > 1


def test_names_and_keywords_are_read_from_their_sources(tmp_path: Path) -> None:
    def write(path: str, told: object) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps(told), encoding="utf-8")

    one = {
        "unified": "2600-FE0F",
        "name": "BLACK SUN",
        "short_names": ["sunny"],
        "image": "2600.png",
        "category": "x",
        "has_img_google": True,
        "has_img_twitter": True,
    }
    write("emoji-datasource-google/package/emoji.json", [one, {**one, "has_img_twitter": False}])
    write("emojilib/package/dist/emoji-en-US.json", {"☀": ["sun", "big_weather", "Hot", "晴"]})
    told = {"☀": {"tts": ["Sun"], "default": ["bright", "hot", "sun"]}}
    write("cldr-annotations-full/package/annotations/en/annotations.json", {"annotations": {"annotations": told}})
    derived = "cldr-annotations-derived-full/package/annotationsDerived/en/annotations.json"
    write(derived, {"annotationsDerived": {"annotations": {}}})
    assert read_emoji(tmp_path) == [Emoji("☀️", "sun", ("bright", "hot", "big weather", "sunny"), "2600.png", "x")]


def test_the_shipped_splits_keep_to_the_rules_of_the_known_catalogue() -> None:
    rows = by_split([Described(*row) for row in load_space().described])
    parts = [{row.emoji for row in rows[split]} for split in ("bank", "val", "test")]
    assert sum(map(len, parts)) == len(set().union(*parts)) > 1000
    assert len({row.text for row in rows["bank"]}) == len(rows["bank"])
    assert {row.emoji for row in rows["train"]} == set(load_space().items.ids.tolist())


def test_the_shipped_correction_is_the_one_fitted_on_the_shipped_bank() -> None:
    space = load_space()
    again = unhub.fit(space.items, space.descriptions("bank").vectors, method=space.correction.spec)
    assert isinstance(again, unhub.Bias) and isinstance(space.correction, unhub.Bias)
    np.testing.assert_allclose(again.bias, space.correction.bias, atol=1e-5)


def test_what_ships_is_small_and_names_its_sources() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 12e6
    told = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    assert all(path.name in told for path in FOLDER.iterdir() if path.name != "SOURCES.md")


# Words.

WORDS = Words.of(["cat", "cats", "ca", "##ts", "##t", "7", "!"], np.eye(7, dtype=np.float32))


def test_the_longest_piece_is_taken_first() -> None:
    assert WORDS.split("Cats cat, CAT!") == ["cats", "cat", "cat", "!"]
    assert WORDS.split("catts") == ["cat", "##ts"]
    assert WORDS.split("càt 7") == ["cat", "7"]
    assert WORDS.split("catx dog") == []  # an unknown part makes a word unknown


@given(text=st.text(max_size=40))
@settings(max_examples=200)
def test_pieces_put_together_are_the_words(text: str) -> None:
    words = load_space().words
    pieces = "".join(piece.removeprefix(CONTINUED) for piece in words.split(text))
    rest = iter(plain(text))
    assert all(letter in rest for letter in pieces)  # in order, with the unknown words left out


def test_rows_are_the_weighted_sums_of_pieces_and_survive_a_file(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    words = Words.of(["a", "b", "c"], vectors)
    total = vectors[0] + 2 * vectors[2]
    np.testing.assert_allclose(words.rows(["a c c"])[0], total / np.linalg.norm(total), atol=0.02)
    words.save(tmp_path / "words.safetensors")
    again = load_words(tmp_path / "words.safetensors")
    assert again.pieces == words.pieces
    np.testing.assert_array_equal(again.rows(["b"]), words.rows(["b"]))


@pytest.mark.parametrize("text", ["", "  ", "dog", "дом"])
def test_a_text_without_a_known_word_is_an_error_that_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="has no word that the demo knows; describe it in other English words"):
        WORDS.rows([text])


# Towers.


def test_the_picture_tower_starts_as_the_ridge_regression_that_normal_equations_give() -> None:
    random = np.random.default_rng(0)
    pictures, targets = random.normal(size=(40, 6)).astype(np.float32), random.normal(size=(40, 3))
    tower = picture_tower(pictures, targets, 4, 0.0)
    rows = pictures.astype(np.float64) - pictures.mean(axis=0)
    strength = 0.3 * np.trace(rows @ rows.T) / len(rows)
    weight = np.linalg.solve(rows.T @ rows + strength * np.eye(6), rows.T @ (targets - targets.mean(axis=0))).T
    np.testing.assert_allclose(tower.linear.weight.detach().numpy(), weight, atol=1e-5)
    middle = tower.linear(torch.from_numpy(pictures.mean(axis=0, keepdims=True))).detach().numpy()[0]
    np.testing.assert_allclose(middle, targets.mean(axis=0), atol=1e-5)


def test_an_exported_tower_gives_what_torch_gave() -> None:
    rows = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
    tower: Residual = text_tower(5, 7, 0.0)
    with torch.no_grad():
        tower.out.weight.normal_()
    preparation = Preparation.of(Vectors(np.arange(9), rows))
    out = tower(torch.from_numpy(preparation(rows))).detach().numpy()
    found = tower.export(preparation).encode(rows, "rows").block(0, 9)
    np.testing.assert_allclose(found, out / np.linalg.norm(out, axis=1, keepdims=True), atol=1e-5)
