"""`unhub demo emoji`: what it prints, at what width, what it writes, and its prompt at a terminal."""

import json
import os
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

import unhub
from tests import emoji_space
from tests.command import fail, succeed
from tests.demo_terminal import Terminal
from unhub.demo import hubs, result_tables
from unhub.demo.emoji import emoji_demo, set_tables, space
from unhub.demo.emoji.space import Space, load_space
from unhub.demo.examples import choose_examples
from unhub.demo.finding import Finder

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emoji_space.write_space(tmp_path_factory.mktemp("space") / "emoji")


@pytest.fixture(scope="module")
def here(folder: Path) -> Space:
    return load_space(folder)


@pytest.fixture(scope="module")
def finder(here: Space) -> Finder:
    return Finder(here, threads=1)


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the command show the small space."""
    monkeypatch.setattr(space, "load_space", lambda: load_space(folder))
    monkeypatch.setattr(emoji_demo, "FOLDER", folder)


@pytest.mark.usefixtures("small")
def test_the_command_prints_the_tables_and_no_prompt_or_colour_into_a_pipe(tmp_path: Path, here: Space) -> None:
    printed = succeed(tmp_path, "demo", "emoji", "--threads", "1")
    asked = here.descriptions("test", "keyword")
    for heads, rows in (
        set_tables.set_cells(set_tables.measure(here, asked)),
        result_tables.hubness_cells(hubs.find_hubs(here, asked), "keyword", "keywords", "emoji"),
    ):
        for row in (heads, *rows):
            assert re.search(r"\s+".join(map(re.escape, filter(None, row))), printed), row
    assert "\x1b" not in printed and "> " not in printed
    assert "sun ☀️" in printed and "unhub demo emoji --query" in printed
    assert len(re.findall(r", meaning ", printed)) == 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("width", [60, 80, 140])
def test_nothing_is_wider_than_the_terminal(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("demo", "folding"):
        monkeypatch.setattr(f"unhub.cli.{module}.terminal_width", lambda: width)
    printed = succeed(tmp_path, "demo", "emoji") + succeed(tmp_path, "demo", "emoji", "--query", "dog1; dog2; dog3 qqq")
    assert max(map(cell_len, printed.splitlines())) <= width
    assert ("[" in re.findall(r"R@1 .*", printed)[0].partition("+")[0]) is (width == 140)  # the intervals of the values


@pytest.mark.usefixtures("small")
def test_quiet_leaves_the_figures(tmp_path: Path) -> None:
    printed = succeed(tmp_path, "demo", "emoji", "--quiet")
    assert "R@1" in printed and "sun ☀️" in printed
    assert not re.search(r"never shown|brackets|--query", printed)


@pytest.mark.usefixtures("small")
def test_the_command_prints_everything_as_json(tmp_path: Path, finder: Finder, here: Space) -> None:
    told = json.loads(succeed(tmp_path, "demo", "emoji", "--json"))
    asked = here.descriptions("test", "keyword")
    assert told["sets"] == json.loads(json.dumps(set_tables.measure(here, asked).to_dict()))
    assert told["examples"] == choose_examples(finder, here.descriptions("val", "keyword")).to_dict()
    assert [one["name"] for one in told["hubs"]["worst"][:2]] == ["sun", "hedgehog"]
    assert told["hubs"]["before"]["skewness"] > told["hubs"]["after"]["skewness"]
    assert (told["items"], told["queries"]) == (24, 120)


@pytest.mark.usefixtures("small")
def test_queries_are_answered_and_nothing_else(tmp_path: Path, finder: Finder) -> None:
    printed = succeed(tmp_path, "demo", "emoji", "--query", "dog1; dog2", "--query", "owl1 qqq")
    assert printed.count("corrected") == 2 and "R@1" not in printed
    assert "does not know: qqq" in printed
    for hit in finder.find("dog1; dog2").corrected:
        assert hit.id in printed and hit.name in printed
    told = json.loads(succeed(tmp_path, "demo", "emoji", "--query", "dog1; dog2", "--query", "owl1 qqq", "--json"))
    assert told == [finder.find("dog1; dog2").to_dict(), finder.find("owl1 qqq").to_dict()]
    assert told[1]["unknown_words"] == ["qqq"]


@pytest.mark.usefixtures("small")
def test_mistakes_are_one_line(tmp_path: Path) -> None:
    assert "--query 'qqq' has no word that the demo knows; describe it" in fail(
        tmp_path, "demo", "emoji", "--query", "qqq"
    )
    assert "--report cannot be used together with --query" in fail(
        tmp_path, "demo", "emoji", "--query", "dog1", "--report", "a.html"
    )
    assert "--files cannot be used together with --report" in fail(
        tmp_path, "demo", "emoji", "--files", "a", "--report", "a.html"
    )
    assert "--report is a.pdf, but a report is an HTML page; name a file that ends in .html" in fail(
        tmp_path, "demo", "emoji", "--report", "a.pdf"
    )
    assert "--report: cannot write" in fail(tmp_path, "demo", "emoji", "--report", "nowhere/a.html")
    assert "--files: cannot write" in fail(tmp_path, "demo", "emoji", "--files", "nowhere/a")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert "--files: full is not empty" in fail(tmp_path, "demo", "emoji", "--files", "full")
    assert "--files: full/mine.txt is a file" in fail(tmp_path, "demo", "emoji", "--files", "full/mine.txt")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("there", [False, True])
def test_the_files_serve_the_other_commands(there: bool, tmp_path: Path, folder: Path, here: Space) -> None:
    if there:
        (tmp_path / "data").mkdir()
    printed = succeed(tmp_path, "demo", "emoji", "--files", "data")
    assert all(name in printed for name in os.listdir(folder))
    assert os.listdir(tmp_path) == ["data"]
    given = ("--items", "data/items.npz", "--correction", "data/correction.unhub", "--queries", "data/test.npz")
    evaluation = json.loads(
        succeed(tmp_path, "eval", *given, "--relevance", "data/test.csv", "--measures", "R@1", "--json")
    )
    asked = here.descriptions("test")
    wanted = unhub.evaluate(asked.vectors, here.items, asked.relevance, [here.correction], "R@1")
    assert [one["values"] for one in evaluation["rankings"]] == [
        {"R@1": row.values["R@1"].to_dict()} for row in wanted.rows
    ]
    texts = ("--item-texts", "data/names.csv", "--query-texts", "data/test_texts.csv")
    assert "☀️  sun" in succeed(tmp_path, "hubs", *given, *texts)
    assert len(succeed(tmp_path, "search", *given, "-k", "2", "--quiet").splitlines()) == 2 + 2 * len(asked)


@pytest.mark.usefixtures("small")
def test_the_report_shows_the_emoji(tmp_path: Path) -> None:
    assert "wrote demo.html" in succeed(tmp_path, "demo", "emoji", "--report", "demo.html", "--quiet")
    page = (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert "☀️ sun" in page and "🦔\N{VARIATION SELECTOR-16} hedgehog" in page
    assert "unhub demo emoji --report demo.html" in page


def test_at_a_terminal_there_is_colour_and_a_prompt_that_ctrl_c_ends() -> None:
    with Terminal(60, "emoji") as terminal:
        printed = terminal.read_until("\n> ")
        assert "\x1b[1mYour turn" in printed
        assert max(map(cell_len, terminal.plain(printed))) <= 60
        terminal.type("birthday cake; candles\n")
        answered = terminal.read_until("\n> ")
        assert re.search(r"^raw  .*^corrected  .*\N{BIRTHDAY CAKE}", answered, re.MULTILINE | re.DOTALL)
        assert terminal.interrupt() == 130
