"""Progress: a line a minute where nobody watches, a bar at a terminal, and `progress=True` for both."""

import inspect
import io
import sys
from typing import Any

import numpy as np
import pytest

import unhub
from unhub.compute.progress import Lines, shown

pytestmark = pytest.mark.once

RANDOM = np.random.default_rng(0)
ITEMS, BANK = (RANDOM.normal(size=(count, 4)).astype(np.float32) for count in (30, 50))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_work_that_nobody_watches_says_a_line_a_minute() -> None:
    clock, lines = [0.0], list[str]()
    show = Lines("fit", lines.append, now=lambda: clock[0])
    for clock[0], done in ((1.0, 0), (59.9, 10), (60.0, 20), (119.0, 30), (121.0, 40)):
        show(done, 100)
    assert lines == ["fit: 20% after 1 minute, 4 minutes left", "fit: 40% after 2 minutes, 3 minutes left"]
    clock[0] = 240.0
    show(0, 0, "sync")
    clock[0] = 300.0
    show(99, 100)
    assert lines[2:] == ["sync: 0% after 4 minutes", "sync: 99% after 5 minutes, less than a minute left"]


def test_short_work_says_nothing_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with shown("fit") as show:
        show(1, 2)
        show(2, 2)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with shown("fit") as show:
        show(50, 100, "fit the rest")
    assert "fit the rest" in terminal.getvalue() and "50%" in terminal.getvalue()


def functions_with_progress() -> dict[str, Any]:
    """Return what a user may call with `progress`, by name."""
    public = {name: getattr(unhub, name) for name in unhub.__all__}
    public |= {"Searcher.search": unhub.Searcher.search, "Searcher.search_sets": unhub.Searcher.search_sets}
    public |= {"Plan.apply": unhub.Plan.apply}
    calls = {name: one for name, one in public.items() if inspect.isfunction(one)}
    return {name: one for name, one in calls.items() if "progress" in inspect.signature(one).parameters}


def test_every_function_that_takes_progress_takes_true() -> None:
    found = functions_with_progress()
    assert len(found) > 30
    for name, one in found.items():
        assert inspect.signature(one).parameters["progress"].annotation == "ProgressLike", name
        assert any(cell.cell_contents is one.__wrapped__ for cell in one.__closure__), name


def test_true_shows_progress_on_stderr_and_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    quiet = unhub.fit(ITEMS, BANK, "nnn:k=5")
    assert terminal.getvalue() == ""
    unhub.fit(ITEMS, BANK, "nnn:k=5", progress=False)
    assert terminal.getvalue() == ""
    shown_fit = unhub.fit(ITEMS, BANK, "nnn:k=5", progress=True)
    assert isinstance(quiet, unhub.Bias) and isinstance(shown_fit, unhub.Bias)
    np.testing.assert_array_equal(shown_fit.bias, quiet.bias)
    assert "fit" in terminal.getvalue()
    terminal.truncate(0)
    searcher = unhub.searcher(ITEMS, quiet)
    searcher.search(BANK, 3, 1.0, None, None, True)  # by position
    assert "search" in terminal.getvalue()


def test_a_bar_ends_with_the_work_also_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(ValueError, match="method"):
        unhub.fit(ITEMS, BANK, "nothing", progress=True)
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h")  # the cursor is back
