"""The history: a file of JSON lines, one for each period, that only grows and counts nothing twice."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypedDict

from unhub.atomic import check_target, replacing
from unhub.data.ids import read_lines
from unhub.files.declared import Natural, as_declared, parse_json
from unhub.watching.periods import Drift, Period
from unhub.watching.samples import WATCHED

FORMAT = 1
PARTS = ("low", "high", "chance")  # of a range, beside its value
NAN_DRIFT = re.compile(r'"drift": \{[^{}]*\bNaN\b[^{}]*\}')  # what vectors of zeros once left


class LineHead(TypedDict):
    """What every line has beside the period: the version of the format."""

    unhub_watch: Natural


@dataclass(frozen=True)
class WatchHistory:
    """The lines of a history, in the order of the file. A later line of a day stands in place of an earlier one.

    notes: what of a line cannot be used, in sentences.
    """

    lines: tuple[Period, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def periods(self) -> tuple[Period, ...]:
        """The line that counts of each period, in order of time."""
        return tuple(sorted({one.period: one for one in self.lines}.values(), key=lambda one: one.period))

    def knows(self, name: str | None, content: str) -> bool:
        """Return whether this content was watched before, of a log with times for the same day."""
        return any(
            one.content == content and (not one.dated if name is None else one.period == name) for one in self.lines
        )

    def day(self, name: str | None) -> Period | None:
        """Return the line that counts of a day, None if there is none."""
        return next((one for one in self.periods if one.dated and one.period == name), None)

    def grown(self, new: Sequence[Period]) -> WatchHistory:
        """Return the history with more lines."""
        return replace(self, lines=(*self.lines, *new))

    def compared(self, drifts: Mapping[str, Drift]) -> WatchHistory:
        """Return the history with these drifts, by the content of the periods; they are not kept."""
        return replace(self, lines=tuple(replace(one, drift=drifts.get(one.content, one.drift)) for one in self.lines))


def read_history(path: str | os.PathLike[str]) -> WatchHistory:
    """Read a history; a file that is absent or empty is one without lines."""
    target = check_target(path)
    if not target.exists() or not target.stat().st_size:
        return WatchHistory()
    try:
        lines = read_lines(target)
    except UnicodeDecodeError as error:
        raise ValueError(f"{target}: is not a history of `unhub watch` ({error})") from None
    notes: list[str] = []
    found = tuple(_parsed(target, number, line, notes) for number, line in enumerate(lines, start=1) if line)
    return WatchHistory(found, tuple(notes))


def append(path: str | os.PathLike[str], new: Sequence[Period]) -> None:
    """Add lines to a history, all or none; what is there stays as it is, byte for byte."""
    target = check_target(path)
    before = target.read_bytes() if target.exists() else b""
    ended = before if not before or before.endswith(b"\n") else before + b"\n"
    lines = "".join(json.dumps(_flat(one), allow_nan=False) + "\n" for one in new)
    with replacing(path) as temporary:
        temporary.write_bytes(ended + lines.encode())


def _flat(one: Period) -> dict[str, object]:
    """Return a period as a line: each range as four numbers, so that a table of the lines has plain columns."""
    told: dict[str, object] = {"unhub_watch": FORMAT}
    for name, value in asdict(one).items():
        if name in WATCHED:
            told |= {name if part == "value" else f"{name}_{part}": number for part, number in value.items()}
        else:
            told[name] = value
    return told


def _nested(told: dict[str, object]) -> dict[str, object]:
    """Return a line with its ranges put together again."""
    parts = {name: {"value": name} | {part: f"{name}_{part}" for part in PARTS} for name in WATCHED}
    return told | {name: {part: told[key] for part, key in keys.items() if key in told} for name, keys in parts.items()}


def _parsed(path: Path, number: int, line: str, notes: list[str]) -> Period:
    """Return the period of a line; add a note for what it holds that cannot be used."""
    try:
        sound = NAN_DRIFT.sub('"drift": null', line)
        if sound != line:
            notes.append(
                f"{path}:{number}: its drift is not a number, as an earlier unhub wrote it for vectors of zeros; it is "
                'left out. Write "drift": null there to end this note.'
            )
        told = parse_json(sound)
        head: LineHead = as_declared(told, LineHead, "it")
        if head["unhub_watch"] > FORMAT:
            newer = f"(format {head['unhub_watch']}, this one reads up to {FORMAT})"
            raise ValueError(f"written by a newer unhub {newer}: upgrade unhub")
        found: Period = as_declared(_nested(told), Period, "it")
    except ValueError as error:
        raise ValueError(f"{path}:{number}: is not a line of `unhub watch` ({error})") from None
    return found
