"""Functions and questions as vectors, and the gain on Python's own library."""

from pathlib import Path

import numpy as np
import pytest

from tests.function_code import write_project
from tests.silence import in_silence
from unhub import kernels
from unhub.demo import hubs
from unhub.demo.functions.code_files import CodeFile, find_code
from unhub.demo.functions.function_demo import FunctionDemo, compared
from unhub.demo.functions.library import Collection, collect, questions_of, rarity
from unhub.demo.functions.opening import open_library
from unhub.demo.functions.reading import Found, FoundFunction, read_functions
from unhub.demo.words import TABLE, load_words

pytestmark = pytest.mark.once

WORDS = load_words(TABLE)


def read(folder: Path) -> Collection:
    files = find_code([str(folder)]).files
    return collect(files, read_functions(files, threads=1), WORDS)


def test_every_function_is_an_item_and_every_docstring_a_question(tmp_path: Path) -> None:
    found = read(write_project(tmp_path / "mine"))
    assert len(found.ids) == len(found.questions) == 96
    assert found.ids[0] == "mine/files.py:1" and found.names[0] == "open_file"
    assert found.questions[0] == "Open the file that is given." and found.answers[0] == (0,)
    assert (found.packages, found.copies, found.unread) == ({"mine": 96}, 0, 0)
    np.testing.assert_allclose(np.linalg.norm(found.rows, axis=1), 1, atol=1e-3)


def function(name: str, question: str, code: str) -> FoundFunction:
    asked, pieces = (np.array(WORDS.places(text), np.uint16) for text in (question, code))
    return FoundFunction(1, name, question, asked, pieces, code)


def test_copies_are_one_item_and_shared_questions_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhub.demo.functions.library.LEAST_QUESTIONS", 1)
    files = [CodeFile(name, name, 1, 1, "p") for name in ("a.py", "b.py", "c.py")]
    found: list[Found] = [
        [function("one", "open the door", "door open"), function("two", "shut the door", "door shut")],
        [function("copy", "open a door", "door open"), function("three", "shut the door", "window shut")],
        None,
    ]
    got = collect(files, found, WORDS)
    assert got.ids == ("a.py:1", "a.py:1", "b.py:1") and got.names == ("one", "two", "three")
    assert dict(zip(got.questions, got.answers, strict=True)) == {
        "open the door": (0,),
        "shut the door": (1, 2),
        "open a door": (0,),
    }
    assert (got.copies, got.unread) == (1, 1)


def test_too_little_code_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"code has 0 functions with a docstring .*; name more code; 20 are the least"):
        read(tmp_path / "empty")


def test_common_pieces_weigh_less() -> None:
    weights = rarity([np.array([0, 0, 0, 0, 0, 1], np.uint16)], 3)
    shares = np.array([6, 2, 1]) / 9
    np.testing.assert_allclose(weights, 1e-3 / (1e-3 + shares), rtol=1e-6)


def test_the_halves_share_no_question(tmp_path: Path) -> None:
    found = read(write_project(tmp_path / "mine"))
    bank, queries = (questions_of(found, half) for half in ("bank", "queries"))
    assert len(bank) == len(queries) == 48
    assert set(bank.texts) | set(queries.texts) == set(found.questions)
    for row, text in enumerate(queries.texts):
        place = found.questions.index(text)
        assert queries.meant(row) == found.answers[place]
        np.testing.assert_array_equal(queries.rows[row], found.question_rows[place])


def test_on_the_standard_library_the_gain_is_sure_and_at_least_three_points(kept_code: Path) -> None:
    with kernels.prefer("numpy"):
        opened = open_library(["stdlib"], in_silence)
        demo = FunctionDemo(opened.library, opened.code)
        first, five, ten, median = compared(demo.measure())
        found = hubs.find_hubs(opened.library, opened.library.questions("queries"))
    assert len(opened.library.items) > 3000 and opened.library.read.unread == 0
    assert first.change.value >= 3 and first.change.low > 0
    assert five.change.low > 0 and ten.change.low > 0 and median.better is True
    assert found.after is not None
    assert found.after.figures.anti_hubs < found.before.figures.anti_hubs / 2
    assert found.after.skewness < found.before.skewness / 3
