"""`unhub demo`: the functions of a small project, of this machine and of Python itself, as a command shows them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.command import fail, program, succeed
from tests.demo_terminal import Terminal
from tests.function_code import write_project
from tests.silence import in_silence
from unhub import kernels
from unhub.demo.functions.function_demo import FunctionDemo, open_demo

pytestmark = pytest.mark.once

CODE = ("--code", "mine", "--threads", "1")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is read in a folder of its own, outside the one that a command runs in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a small project in it."""
    write_project(tmp_path / "work" / "mine")
    return tmp_path / "work"


@pytest.fixture
def demo(folder: Path) -> FunctionDemo:
    with kernels.prefer("numpy"):
        return open_demo([str(folder / "mine")], in_silence, threads=1)


def test_the_command_prints_everything_and_no_prompt_or_colour_into_a_pipe(folder: Path) -> None:
    printed = succeed(folder, "demo", *CODE)
    assert "96 Python functions on this machine, of mine (96)" in printed
    assert len(re.findall(r"^(?:R@1|R@5|R@10|MdR) .*\[.*\[.*\[", printed, re.MULTILINE)) == 4
    assert len(re.findall(r"^\d\. mine/\w+\.py:\d+ \w+$", printed, re.MULTILINE)) == 5
    assert "\x1b" not in printed and "> " not in printed
    assert "Try your own: unhub demo --query" in printed
    assert os.listdir(folder) == ["mine"]
    assert succeed(folder, "demo", *CODE) == printed  # from what was kept


def test_quiet_leaves_the_figures(folder: Path) -> None:
    printed = succeed(folder, "demo", *CODE, "--quiet")
    assert "R@1" in printed and not re.search("This demo|Brackets|--query", printed)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_terminal(width: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("demo", "folding"):
        monkeypatch.setattr(f"unhub.cli.{module}.terminal_width", lambda: width)
    printed = succeed(folder, "demo", *CODE) + succeed(folder, "demo", *CODE, "--query", "open a file")
    assert max(map(cell_len, printed.splitlines())) <= width


def test_figures_and_answers_come_as_json(folder: Path, demo: FunctionDemo) -> None:
    told = json.loads(succeed(folder, "demo", *CODE, "--json"))
    assert (told["items"], told["bank"], told["queries"], told["packages"]) == (96, 48, 48, {"mine": 96})
    assert told == json.loads(json.dumps(demo.to_dict(in_silence)))
    (answer,) = json.loads(succeed(folder, "demo", *CODE, "--query", "rename a song", "--json"))
    assert answer["corrected"][0] == {**answer["corrected"][0], "name": "rename_song", "id": "mine/songs.py:29"}
    assert answer == demo.finder.find("rename a song").to_dict()


def test_several_descriptions_are_one_question(folder: Path) -> None:
    printed = succeed(folder, "demo", *CODE, "--query", "rename; a song", "--query", "sort pictures")
    assert re.search(r"raw +corrected\n.*rename_song", printed)
    assert "pictures.py" in printed and "R@1" not in printed


def test_hubs_are_counted_as_by_hand(demo: FunctionDemo) -> None:
    told = demo.to_dict(in_silence)
    library, asked = demo.library, demo.library.questions("queries")
    scores = asked.rows @ library.read.rows.T
    best = (-scores).argsort(axis=1, kind="stable")[:, :10]
    worst = told["hubs"]["worst"][0]  # type: ignore[index]
    place = library.read.ids.index(worst["id"])
    assert worst["before"] == (best == place).sum()
    for query in (*worst["no_longer_for"], *worst["still_for"]):
        row = asked.texts.index(query["text"])
        assert place in best[row] and place not in asked.meant(row)


def test_the_files_serve_the_other_commands(folder: Path, demo: FunctionDemo) -> None:
    assert "correction.unhub" in succeed(folder, "demo", *CODE, "--files", "data")
    given = ("--items", "data/items.npz", "--correction", "data/correction.unhub", "--queries", "data/queries.npz")
    told = json.loads(succeed(folder, "eval", *given, "--relevance", "data/queries.csv", "--measures", "R@1", "--json"))
    wanted = demo.measure().rows
    assert [one["values"]["R@1"]["value"] for one in told["rankings"]] == [one.values["R@1"].value for one in wanted]
    texts = ("--item-texts", "data/names.csv", "--query-texts", "data/queries_texts.csv")
    assert "mine/" in succeed(folder, "hubs", *given, *texts)


def test_the_report_names_the_functions(folder: Path) -> None:
    assert "wrote demo.html" in succeed(folder, "demo", *CODE, "--report", "demo.html", "--quiet")
    page = (folder / "demo.html").read_text(encoding="utf-8")
    assert re.search(r"mine/\w+\.py:\d+ \w+_\w+", page)


def test_mistakes_are_one_line(folder: Path) -> None:
    assert "--code 'nothing' is neither a folder nor an installed package" in fail(folder, "demo", "--code", "nothing")
    assert "--code cannot be used with the demo of emoji" in fail(folder, "demo", "emoji", "--code", "mine")
    assert "Did you mean 'emoji'" in fail(folder, "demo", "emojis")
    assert "--query ';' describes nothing; say what the function does" in fail(folder, "demo", *CODE, "--query", ";")
    (folder / "empty").mkdir()
    assert "--code has 0 functions with a docstring" in fail(folder, "demo", "--code", "empty")


def test_the_command_runs_as_a_program_on_pythons_own_library(folder: Path, kept_code: Path) -> None:
    printed = succeed(folder, "demo", "--code", "stdlib", run=program)
    assert re.search(r"of the standard library \([\d,]+\)", printed)
    assert re.search(r"^R@1 .* \+\d+\.\d \[\+", printed, re.MULTILINE)


def test_at_a_terminal_there_is_a_prompt_that_ctrl_c_ends(folder: Path) -> None:
    with Terminal(80, "--code", str(folder / "mine")) as terminal:
        printed = terminal.read_until("\n> ")
        assert "\x1b[1mYour turn" in printed and "What does the function do?" in printed
        assert max(map(cell_len, terminal.plain(printed))) <= 80
        terminal.type("rename it; a song\n")
        answered = "\n".join(terminal.plain(terminal.read_until("\n> ")))
        assert re.search(r"^  raw\s.*^  corrected\s+mine/songs.py:29 rename_song", answered, re.MULTILINE | re.DOTALL)
        assert terminal.interrupt() == 130


@pytest.mark.parametrize("after", [0.5, 2.5])
def test_ctrl_c_while_code_is_read_ends_it_cleanly(after: float, folder: Path, cache: Path) -> None:
    command = [sys.executable, "-m", "unhub", "demo", "--code", "stdlib"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors or after < 1  # while Python itself starts, it is not ours to catch
    assert printed == "" or printed.startswith("Search the functions")  # a quick machine has read it all by then
    assert not list(cache.rglob("*.tmp"))
