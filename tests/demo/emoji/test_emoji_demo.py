"""The demo on a small space: what it measures, shows and answers."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests import emoji_space
from unhub.demo import hubs, result_tables
from unhub.demo.emoji import set_tables
from unhub.demo.emoji.space import Descriptions, Space, Split, load_space
from unhub.demo.examples import choose_examples
from unhub.demo.finding import Answer, Finder, converse

pytestmark = pytest.mark.once

Matrix = NDArray[np.float64]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emoji_space.write_space(tmp_path_factory.mktemp("space") / "emoji")


@pytest.fixture(scope="module")
def space(folder: Path) -> Space:
    return load_space(folder)


@pytest.fixture(scope="module")
def finder(space: Space) -> Finder:
    return Finder(space, threads=1)


def unit(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def scores(here: Space, rows: Matrix) -> dict[str, Matrix]:
    """Return the similarities of some rows with every emoji, raw and corrected, from the formula."""
    assert isinstance(here.correction, unhub.Bias)
    raw = unit(rows) @ unit(here.items.block(0, len(here.items)).astype(np.float64)).T
    return {"raw": raw, "corrected": raw - here.correction.bias}


def texts_of(here: Space, split: Split) -> tuple[Descriptions, dict[str, Matrix]]:
    """Return the keywords of a split and their scores."""
    asked = here.descriptions(split, "keyword")
    return asked, scores(here, here.words.rows(asked.texts).astype(np.float64))


def ranks(matrix: Matrix, items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each row's own emoji, 1 being the first."""
    own = np.take_along_axis(matrix, items[:, None], axis=1)
    return np.asarray((matrix > own).sum(axis=1) + 1)


def best(matrix: Matrix, k: int) -> NDArray[np.int64]:
    return np.argsort(-matrix, axis=1, kind="stable")[:, :k]


def test_the_first_table_tells_how_often_one_keyword_finds_its_emoji(space: Space) -> None:
    asked, by_ranking = texts_of(space, "test")
    heads, rows = set_tables.set_cells(set_tables.measure(space, asked, threads=1))
    assert heads == ["keywords", "measure", "raw", "corrected", "change"]
    assert [row[1] for row in rows] == 3 * ["R@1", "R@5", "R@10", "MdR"]
    assert [row[0] for row in rows] == ["1", "", "", "", "3", "", "", "", "5", "", "", ""]
    raw, corrected = (ranks(matrix, asked.items) for matrix in by_ranking.values())
    for row, k in zip(rows, (1, 5, 10), strict=False):
        before, after = 100 * (raw <= k).mean(), 100 * (corrected <= k).mean()
        assert [cell.partition(" [")[0] for cell in row[2:]] == [
            f"{before:.1f}",
            f"{after:.1f}",
            f"{after - before:+z.1f}",
        ]
    assert rows[3][2].startswith(f"{np.median(raw):.1f} [")


def test_several_keywords_are_asked_as_one(space: Space) -> None:
    asked = space.descriptions("test", "keyword")
    measured = set_tables.measure(space, asked, threads=1)
    together = unit(asked.vectors.block(0, len(asked)).astype(np.float64)).reshape(-1, 5, emoji_space.DIMENSIONS)
    for ranking, matrix in scores(space, together.mean(axis=1)).items():
        found = 100 * (ranks(matrix, asked.items[::5]) == 1).mean()
        assert measured["mf", ranking, 5].values["R@1"].value == pytest.approx(found)


def test_a_change_is_called_good_or_bad_only_where_it_is_sure(space: Space) -> None:
    measured = set_tables.measure(space, space.descriptions("test", "keyword"), threads=1)
    _, rows = set_tables.set_cells(measured)
    signs = {
        (False, True): True,
        (True, False): False,
        (True, True): None,
        (False, False): None,
    }
    for row, better in zip(rows, set_tables.set_table(measured).better, strict=True):
        low, high = (float(end) for end in re.findall(r"\[(.*), (.*)\]", row[-1])[0])
        falls = row[1] == "MdR"
        wanted = signs[low < 0, high > 0] if 0 not in (low, high) else None
        assert better is (wanted if wanted is None else wanted is not falls)
    assert True in set_tables.set_table(measured).better


def test_hubs_are_what_the_keywords_show_most_often(space: Space) -> None:
    asked, by_ranking = texts_of(space, "test")
    found = hubs.find_hubs(space, asked, threads=1)
    top = {ranking: best(matrix, 10) for ranking, matrix in by_ranking.items()}
    counts = {ranking: np.bincount(one.ravel(), minlength=len(space.items)) for ranking, one in top.items()}
    assert {space.items.ids[one.hub.position].item() for one in hubs.hub_queries(found, asked)[:2]} == set(
        emoji_space.HUBS
    )
    for one in hubs.hub_queries(found, asked):
        place = one.hub.position
        assert (one.hub.before, one.hub.after) == (counts["raw"][place], counts["corrected"][place])
        assert 1 <= len(one.freed) + len(one.kept) <= hubs.SHOWN_QUERIES
        for query in (*one.freed, *one.kept):
            assert asked.items[query] != place
            assert place in top["raw"][query]
            assert (place in top["corrected"][query]) is (query in one.kept)
    _, rows = result_tables.hubness_cells(found, "keyword", "keywords", "emoji")
    _, largest, never, moved = (row[1:] for row in rows)
    assert largest == [str(one.max()) for one in counts.values()]
    assert never == [f"{(one == 0).mean():.1%}" for one in counts.values()]
    assert moved == [f"{np.abs(one - one.mean()).sum() / (2 * one.sum()):.1%}" for one in counts.values()]


def test_examples_follow_the_rule(finder: Finder, space: Space) -> None:
    asked, by_ranking = texts_of(space, "val")
    raw, corrected = (ranks(matrix, asked.items) for matrix in by_ranking.values())
    chosen = choose_examples(finder, asked)
    assert (chosen.nearer, chosen.further) == ((corrected < raw).sum(), (corrected > raw).sum())
    assert chosen.nearer + chosen.further + chosen.same == len(asked)
    gains = 1 / corrected - 1 / raw
    order = sorted(range(len(asked)), key=lambda row: (-gains[row], asked.texts[row]))
    wanted: list[int] = []
    for row in order:
        if len(wanted) < 4 and gains[row] > 0 and asked.items[row] not in asked.items[wanted]:
            wanted.append(row)
    lost: list[int] = []
    for row in sorted(range(len(asked)), key=lambda row: (gains[row], asked.texts[row])):
        if len(lost) < 2 and gains[row] < 0 and asked.items[row] not in asked.items[lost]:
            lost.append(row)
    assert len(wanted) == 4 and len(lost) == 2
    assert [one.answer.text for one in chosen.shown] == [asked.texts[row] for row in (*wanted, *lost)]
    for one, row in zip(chosen.shown, (*wanted, *lost), strict=True):
        assert (one.raw_rank, one.corrected_rank) == (raw[row], corrected[row])
        shown = [hit.id for hit in one.answer.corrected]
        assert space.items.ids[best(by_ranking["corrected"][row : row + 1], 8)[0]].tolist() == shown


@pytest.mark.parametrize("text", ["dog1", "dog1; cat2 ;owl3", "dog1 cat2"])
def test_descriptions_find_what_is_nearest_to_their_mean(text: str, finder: Finder, space: Space) -> None:
    answer = finder.find(text)
    parts = [one.strip() for one in text.split(";")]
    assert list(answer.descriptions) == parts
    rows = space.words.rows(parts).astype(np.float64)
    for ranking, matrix in scores(space, unit(rows).mean(axis=0, keepdims=True)).items():
        hits = answer.rankings[ranking]
        assert [hit.id for hit in hits] == space.items.ids[best(matrix, 8)[0]].tolist()
        assert [hit.name for hit in hits] == [emoji_space.NAMES[hit.id] for hit in hits]
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(matrix[0])[::-1][:8], atol=1e-5)


def test_words_that_are_not_known_are_told(finder: Finder) -> None:
    assert finder.find("Dog1 qqq").unknown == ("qqq",)
    assert finder.find("dog1").unknown == ()
    with pytest.raises(ValueError, match=r"query 'qqq' has no word that the demo knows; .* other English words"):
        finder.find("dog1; qqq")
    with pytest.raises(ValueError, match="describes nothing"):
        finder.find(" ; ;")


def talk(finder: Finder, *lines: str) -> tuple[list[Answer], list[str], int]:
    """Return what a conversation shows and says, and how many lines it left unread."""
    typed: Iterator[str] = iter(lines)
    shown: list[Answer] = []
    said: list[str] = []

    def read() -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    converse(finder, read, shown.append, said.append)
    return shown, said, len(list(typed))


def test_a_conversation_answers_until_an_empty_line(finder: Finder) -> None:
    shown, said, unread = talk(finder, "dog1", "qqq", "cat1; cat2", "  ", "owl1")
    assert [one.text for one in shown] == ["dog1", "cat1; cat2"]
    assert len(said) == 1 and said[0].startswith("query 'qqq' has no word that the demo knows")
    assert unread == 1


def test_a_conversation_ends_where_nothing_more_comes(finder: Finder) -> None:
    shown, said, _ = talk(finder, "dog1")
    assert len(shown) == 1
    assert said == [""]
