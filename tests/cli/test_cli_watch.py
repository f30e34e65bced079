"""`unhub watch` prints what the library returns, and its exit code is the alarm."""

import json
from pathlib import Path

import pytest

import unhub
from tests.command import fail, here, program, succeed

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [{"query": f"text {row}", "time": f"2026-03-0{1 + row % 2}", "ids": [0, 1, row]} for row in range(140)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


WATCH = ("watch", "--hits", "log.jsonl", "--items-count", "500")


def test_it_prints_what_the_library_returns(folder: Path) -> None:
    out = json.loads(succeed(folder, *WATCH, "--history", "h.jsonl", "--json"))
    found = unhub.watch(folder / "log.jsonl", items=500)
    assert out["added"] == ["2026-03-01", "2026-03-02"]
    assert out["sentences"] == list(found.sentences)
    assert out["periods"][1]["skewness"]["value"] == found.current.skewness.value
    assert json.loads(succeed(folder, *WATCH, "--history", "h.jsonl", "--json"))["added"] == []


def test_an_alarm_is_exit_code_3_and_everything_is_written(folder: Path) -> None:
    wanted = (*WATCH, "--history", "h.jsonl", "--prometheus", "w.prom", "-o", "w.html", "--max-skewness", "1.5")
    done = program(folder, *wanted)
    assert (done.returncode, done.stderr) == (3, "")
    assert "ALARM: skewness is" in done.stdout
    assert "wrote w.html" in done.stdout
    assert {one.name for one in folder.iterdir()} == {"log.jsonl", "h.jsonl", "w.prom", "w.html"}
    quiet = here(folder, *wanted, "--quiet")  # replaces what it wrote before
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (3, "", "")


def test_a_quiet_night_is_no_mistake_where_there_is_a_history(folder: Path) -> None:
    (folder / "days").mkdir()
    (folder / "empty.jsonl").touch()
    (folder / "bad.jsonl").write_text("no line\n")
    (folder / "new.jsonl").touch()
    succeed(folder, *WATCH, "--history", "h.jsonl")
    before = (folder / "h.jsonl").read_bytes()
    for log in ("days", "empty.jsonl"):
        quiet = ("watch", "--hits", log, *WATCH[3:])
        told = json.loads(succeed(folder, *quiet, "--history", "h.jsonl", "--json"))
        assert (told["added"], told["current"]) == ([], "2026-03-02")
        assert told["notes"] == ["The log holds no query yet: the history stays as it is."]
        for first in ((), ("--history", "none.jsonl"), ("--history", "new.jsonl")):
            assert "--hits" in fail(folder, *quiet, *first)
    bad = fail(folder, "watch", "--hits", "bad.jsonl", *WATCH[3:], "--history", "h.jsonl", "--skip-bad")
    assert "has no line that can be read" in bad
    assert (folder / "h.jsonl").read_bytes() == before


def test_it_says_which_days_it_shows_and_shows_as_many_as_are_asked_for(folder: Path) -> None:
    days = [f"2026-03-{day:02}" for day in range(1, 21)]
    lines = [{"query": f"{query}", "time": day, "ids": [query]} for day in days for query in range(3)]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def shown(told: str) -> list[str]:
        return [line[:10] for line in told.split("\n\n")[0].splitlines()[2:] if line[:10] in days]

    told = succeed(folder, *WATCH)
    assert shown(told) == days[-14:] and "The last 14 days of 20 are shown; --days 0 shows all.\n\n" in told
    told = succeed(folder, *WATCH, "--days", "1")
    assert shown(told) == days[-1:] and "The last day of 20 is shown; --days 0 shows all.\n\n" in told
    for wanted in ("0", "20", "99"):
        told = succeed(folder, *WATCH, "--days", wanted)
        assert shown(told) == days and "shown" not in told
    found = unhub.watch(folder / "log.jsonl", items=500)
    assert len(found.cells()[1]) == 14 and len(found.cells(0)[1]) == 20
    assert "The last 14 days of 20 are shown; cells(0) holds all." in str(found)


def test_mistakes_are_one_line_and_write_nothing(folder: Path) -> None:
    assert "--max-skewness needs the number of all items" in fail(
        folder, "watch", "--hits", "log.jsonl", "--max-skewness", "1"
    )
    assert "--min-coverage must be a share from 0 to 1" in fail(folder, *WATCH, "--min-coverage", "2")
    assert "--output is w.pdf; end it in .html" in fail(folder, *WATCH, "--history", "h.jsonl", "-o", "w.pdf")
    assert "log.jsonl is an input of this command" in fail(folder, *WATCH, "--prometheus", "log.jsonl")
    assert "is not a line of `unhub watch`" in fail(folder, *WATCH, "--history", "log.jsonl")
    assert "--bank has nothing to be compared" in _with_bank(folder)


def _with_bank(folder: Path) -> str:
    import numpy as np

    np.save(folder / "bank.npy", np.eye(4, dtype=np.float32))
    return fail(folder, *WATCH, "--bank", "bank.npy", "--history", "h.jsonl")


def test_the_help_speaks_of_its_own_options(tmp_path: Path) -> None:
    assert "How many items there are" in " ".join(succeed(tmp_path, "watch", "--help").replace("│", " ").split())
