"""The history: nothing counts twice, and what is there stays."""

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.watching.answered import EVEN, ITEMS, day_log, drawn
from unhub import atomic
from unhub.watching.history import read_history
from unhub.watching.periods import Period

pytestmark = pytest.mark.once

watch_module = import_module("unhub.watching.watch")  # `unhub.watch` is the function
ONE, TWO = drawn(60, EVEN, 1), drawn(70, EVEN, 2)


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_same_log_twice_changes_nothing(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    log = day_log({"2026-03-01": ONE, "2026-03-02": TWO})
    first = unhub.watch(log, items=ITEMS, history=history)
    written = history.read_bytes()
    assert [one.period for one in first.new] == ["2026-03-01", "2026-03-02"]
    shuffled = log.gather(np.random.default_rng(0).permutation(len(log)))
    again = unhub.watch(shuffled, items=ITEMS, history=history)
    assert again.new == ()
    assert history.read_bytes() == written
    assert again.periods == first.periods


def test_a_day_that_grew_gets_a_new_line_and_one_that_shrank_does_not(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    unhub.watch(day_log({"2026-03-01": ONE[:40]}), items=ITEMS, history=history)
    begun = history.read_bytes()
    grown = unhub.watch(day_log({"2026-03-01": ONE}), items=ITEMS, history=history)
    assert history.read_bytes().startswith(begun)
    assert [one["queries"] for one in lines_of(history)] == [40, 60]
    assert [one.queries for one in grown.periods] == [60]
    assert grown.notes == (
        "2026-03-01 had 40 queries in the history and now has 60: those of the log take their place, they are not "
        "added to them. Give all of a day at once.",
    )
    less = unhub.watch(day_log({"2026-03-01": ONE[:50]}), items=ITEMS, history=history)
    assert len(lines_of(history)) == 2
    assert "2026-03-01: the history counts 60 queries, the log 50; the history stays as it is." in less.notes[0]
    other = unhub.watch(day_log({"2026-03-01": TWO[:60]}), items=ITEMS, history=history)
    assert "2026-03-01 had 60 queries in the history and now has 60" in other.notes[0]
    assert unhub.watch(day_log({"2026-03-01": TWO[:60]}), items=ITEMS, history=history, k=2).notes == ()


def test_a_log_without_times_is_one_line_however_often_it_is_watched(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    for lists in (ONE, ONE, TWO, ONE):
        unhub.watch(unhub.QueryLog.of(returned=lists), items=ITEMS, history=history)
    lines = lines_of(history)
    assert [one["queries"] for one in lines] == [60, 70]
    assert [one["dated"] for one in lines] == [False, False]
    assert lines[0]["period"] == lines[0]["watched"]


def test_a_log_without_times_beside_days_is_noted(tmp_path: Path) -> None:
    history, undated = tmp_path / "history.jsonl", unhub.QueryLog.of(returned=TWO)
    unhub.watch(day_log({"2026-03-01": ONE}), items=ITEMS, history=history)
    (note,) = unhub.watch(undated, items=ITEMS, history=history).notes
    assert note.startswith("The log names no times, so that all of it is one period, that of now, beside the days")
    assert "name their column: time=NAME (--column), and remove the last line of the history" in note
    assert unhub.watch(undated, items=ITEMS, history=history).notes == ()  # nothing was added
    assert unhub.watch(undated, items=ITEMS, history=tmp_path / "other.jsonl").notes == ()


def test_a_line_is_read_as_it_was_written_and_has_plain_columns(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    found = unhub.watch(day_log({"2026-03-01": drawn(150, EVEN, 1)}), items=ITEMS, history=history)
    assert read_history(history).periods == found.periods
    (line,) = lines_of(history)
    now = found.current
    assert (line["skewness"], line["skewness_low"]) == (now.skewness.value, now.skewness.low)
    assert (line["coverage_high"], line["robin_hood_chance"]) == (now.coverage.high, now.robin_hood.chance)
    pandas = pytest.importorskip("pandas")
    table = pandas.read_json(history, lines=True)
    assert table["skewness"].tolist() == pytest.approx([now.skewness.value])


def test_a_line_whose_drift_is_no_number_is_read_without_it(tmp_path: Path) -> None:
    history, text = (
        tmp_path / "history.jsonl",
        '{"shift": NaN, "shift_limit": 0.1, "nearness": NaN, "nearness_limit": 1.4}',
    )
    first = unhub.watch(day_log({"2026-03-01": ONE}), items=ITEMS, history=history)
    history.write_text(history.read_text().replace('"drift": null', f'"drift": {text}'))
    assert "NaN" in history.read_text()
    found = unhub.watch(day_log({"2026-03-02": TWO}), items=ITEMS, history=history)
    assert found.periods[0] == first.current
    assert found.notes[0].startswith(f"{history}:1: its drift is not a number")
    history.write_text(history.read_text().replace('"skewness": ', '"skewness": NaN, "was": ', 1))
    with pytest.raises(ValueError, match=r"history\.jsonl:1: .*the number NaN is not finite"):
        unhub.watch(day_log({"2026-03-02": TWO}), items=ITEMS, history=history)


def test_a_second_writer_waits_for_the_first_and_no_line_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = tmp_path / "history.jsonl"
    one, two = (day_log({f"2026-03-0{day}": lists}) for day, lists in ((1, ONE), (2, TWO)))
    add = watch_module.append

    def meanwhile(path: Path, new: Sequence[Period]) -> None:
        """Let another writer come between what the first one reads and what it writes."""
        monkeypatch.setattr(watch_module, "append", add)
        monkeypatch.setattr(atomic, "LONGEST_WAIT", 0)
        with pytest.raises(
            ValueError, match=r"^history .*history\.jsonl is in use by another `unhub watch`; run it again"
        ):
            unhub.watch(two, items=ITEMS, history=history)
        add(path, new)

    monkeypatch.setattr(watch_module, "append", meanwhile)
    unhub.watch(one, items=ITEMS, history=history)
    assert os.listdir(tmp_path) == ["history.jsonl"]

    ending = ExitStack()
    ending.enter_context(atomic.holding(history, "history", "a test"))
    monkeypatch.setattr(atomic, "LONGEST_WAIT", 60)
    monkeypatch.setattr(atomic, "sleep", lambda _: ending.close())  # the other one ends while it is waited for
    unhub.watch(two, items=ITEMS, history=history)
    assert [line["period"] for line in lines_of(history)] == ["2026-03-01", "2026-03-02"]
    assert os.listdir(tmp_path) == ["history.jsonl"]


def test_a_file_that_is_no_history_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    log = day_log({"2026-03-01": ONE})
    for text, words in (
        ('{"a": 1}\n', "it has no key 'unhub_watch'"),
        ('{"unhub_watch": 9}\n', "written by a newer unhub"),
        ("hello\n", "is not a line of `unhub watch`"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"other\.jsonl:1: .*{words}"):
            unhub.watch(log, items=ITEMS, history=path)
        assert path.read_text() == text
    path.write_bytes(b"\x93NUMPY")
    with pytest.raises(ValueError, match=r"other\.jsonl: is not a history of `unhub watch` \('utf-8'"):
        unhub.watch(log, items=ITEMS, history=path)
    assert os.listdir(tmp_path) == ["other.jsonl"]
