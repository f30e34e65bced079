"""What reaches a terminal: no character of an id that it would obey, and none that it does not have."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests import command
from tests.command import BANK, ITEMS
from unhub.cli import main
from unhub.evaluation.tables import as_text
from unhub.html_tables import visible

pytestmark = pytest.mark.once

WICKED = "é中\x1b[31m\r\n\x9b2J\u202e\u2028=x"
NAMES = [f"{WICKED}{row}" for row in range(40)]
SETS = ("--items", "items.npy", "--bank", "bank.npy")
ASKED = ("--items", "items.npy", "--item-ids", "names.npy", "--queries", "queries.npy", "--correction", "fitted.unhub")
COMMANDS = {
    "fit": ("fit", *SETS, "-o", "out.unhub"),
    "info": ("info", "fitted.unhub"),
    "methods": ("methods",),
    "datasets": ("datasets",),
    "search": ("search", *ASKED),
    "hubs": ("hubs", *ASKED, "--item-texts", "texts.csv"),
    "eval": ("eval", *ASKED, "--relevance", "truth.csv"),
    "bank": ("bank", *SETS),
    "tune": ("tune", *SETS, "--methods", "csls", "--allow-raw", "-o", "best.unhub"),
    "study": ("study", "temperature", *SETS, "--queries", "queries.npy"),
    "report": ("report", *SETS, "--queries", "queries.npy", "-o", "page.html", "--overwrite"),
    "remove": ("remove", "--correction", "fitted.unhub", "--ids", "gone.npy", "-o", "less.unhub"),
    "multi search": ("multi", "search", *ASKED, "--sets", "sets.csv"),
    "multi eval": ("multi", "eval", "--texts", "bank.npy", "--items", "items.npy", "--relevance", "pairs.csv"),
    "demo": ("demo", "emoji", "--query", "birthday cake"),
    "help": ("fit", "--help"),
    "a mistake": ("info", "中\x1b.unhub"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = command.write_inputs(tmp_path_factory.mktemp("terminal"))
    np.save(folder / "names.npy", np.array(NAMES))
    np.save(folder / "gone.npy", np.array(NAMES[:2]))
    unhub.save(unhub.fit(unhub.Vectors(np.array(NAMES), ITEMS), BANK, method="nnn", k=5), folder / "fitted.unhub")
    tables: dict[str, list[tuple[object, object]]] = {
        "truth": [("query_id", "item_id"), *((row, NAMES[row]) for row in range(3))],
        "texts": [("id", "text"), *((name, f"text {WICKED}") for name in NAMES)],
        "pairs": [("query_id", "item_id"), *((row, row % 40) for row in range(90))],
        "sets": [("set_id", "query_id"), (WICKED, 0), (WICKED, 1)],
    }
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
    return folder


class Terminal(io.TextIOWrapper):
    """A stream that keeps what is written to it, in an encoding, and may say that it is a terminal."""

    def __init__(self, encoding: str, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding, "strict")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        held = self.buffer
        assert isinstance(held, io.BytesIO)
        return held.getvalue().decode(self.encoding)


def shown(folder: Path, stdout: Terminal, *arguments: str) -> tuple[int, str, str]:
    """Run a command and return its exit code and what came on stdout and stderr."""
    stderr = Terminal(stdout.encoding)
    stderr.reconfigure(errors="backslashreplace")  # as Python has it
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setattr(sys, "argv", ["unhub", *arguments])
        patch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((200, 24)))
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr), pytest.raises(SystemExit) as stop:
            main()
    assert isinstance(stop.value.code, int)
    return stop.value.code, stdout.text(), stderr.text()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_character_that_the_terminal_lacks_never_makes_a_command_fail(folder: Path, name: str, encoding: str) -> None:
    code, printed, errors = shown(folder, Terminal(encoding), *COMMANDS[name])
    if name == "a mistake":
        assert (code, printed) == (2, "") and "\\u4e2d\\x1b.unhub" in errors
        return
    assert (code, errors) == (0, "")
    assert "\\u2500" not in printed and printed.strip()
    if name in ("search", "hubs"):
        assert ("\\xe9\\u4e2d" if encoding == "ascii" else "é\\u4e2d") in printed
    if name == "search":
        _, rule, *rows = printed.splitlines()
        assert set(rule) == {"-", " "} and len(rule) == max(map(len, rows))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_terminal_gets_no_character_that_it_would_obey(folder: Path, name: str, more: tuple[str, ...]) -> None:
    if more and name == "help":
        more = ()
    stdout = Terminal("utf-8", terminal=name not in ("demo", "help"))  # which are in bold there
    _, printed, errors = shown(folder, stdout, *COMMANDS[name], *more)
    for text in (printed, errors):
        assert all(visible(line) == line for line in text.split("\n")), text
    if name == "search":
        if more:
            ids = {hit["id"] for row in json.loads(printed) for hit in row["hits"]}
            assert ids <= set(NAMES)
        else:
            assert "é中\\x1b[31m\\r\\n\\x9b2J\\u202e\\u2028=x" in printed


def test_json_can_be_read_in_every_encoding(folder: Path) -> None:
    for encoding in ("utf-8", "cp1252", "ascii"):
        _, printed, _ = shown(folder, Terminal(encoding), *COMMANDS["search"], "--json")
        assert {hit["id"] for row in json.loads(printed) for hit in row["hits"]} <= set(NAMES)


def test_a_csv_file_has_ids_as_they_are_and_a_terminal_has_them_in_view(folder: Path) -> None:
    for stdout in (Terminal("utf-8"), None):
        more = ("--format", "csv") if stdout else ("-o", "hits.csv", "--overwrite")
        _, printed, _ = shown(folder, stdout or Terminal("utf-8"), *COMMANDS["search"], *more)
        held = printed if stdout else (folder / "hits.csv").read_bytes().decode()
        rows = list(csv.DictReader(io.StringIO(held, newline="")))
        assert len(rows) == 30 and {row["id"] for row in rows} <= set(NAMES)
    _, printed, _ = shown(folder, Terminal("utf-8", terminal=True), *COMMANDS["search"], "--format", "csv")
    assert len(printed.splitlines()) == 31 and "\\x1b[31m\\r\\n" in printed and "\x1b" not in printed


def test_csv_that_the_encoding_cannot_hold_is_refused_and_not_changed(folder: Path) -> None:
    code, printed, errors = shown(folder, Terminal("cp1252"), *COMMANDS["search"], "--format", "csv")
    assert (code, printed) == (2, "")  # a part would look like a whole
    assert errors.startswith(
        "unhub: --format csv in cp1252 has no '\\u4e2d', which is part of an id; write to a file with -o"
    )


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_program_in_another_encoding_says_what_it_wrote(folder: Path, encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unhub", *COMMANDS["fit"]],
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode(encoding).splitlines()[1].startswith("-----")


def test_cells_are_as_wide_as_they_are_shown() -> None:
    assert as_text(("id", "n"), [("a\x1bb", "1"), ("é", "2")]).splitlines() == [
        "id      n",
        "──────  ─",
        "a\\x1bb  1",
        "é       2",
    ]


@pytest.mark.parametrize("harmless", ["naïve 中文 👩‍👩‍👧", "C:\\new", "עברית\u200f", "a\u00a0b"])
def test_what_a_terminal_shows_stays_as_it_is(harmless: str) -> None:
    assert visible(harmless) == harmless
