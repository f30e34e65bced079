"""Durations as people write them: 90d, 12h."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TypeAlias

from unhub.errors import ArgumentError

Duration: TypeAlias = str | timedelta

UNIT_SECONDS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
WRITTEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhdw])\s*")


def as_seconds(duration: Duration, name: str) -> float:
    """Return the seconds of a text such as "90d" (s, m, h, d, w) or of a timedelta; a bare number has no unit."""
    seconds = math.nan
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        found = WRITTEN.fullmatch(duration)
        seconds = float(found[1]) * UNIT_SECONDS[found[2]] if found else math.nan
    if not 0 < seconds < math.inf:
        raise ArgumentError(name, f"must be a duration above 0, got {duration!r}", "write it as 90d, 12h or 30m")
    return seconds


def as_written(seconds: float) -> str:
    """Return a duration as people write it, in the largest unit that leaves no fraction."""
    for unit in ("d", "h", "m"):
        if seconds % UNIT_SECONDS[unit] == 0:
            return f"{seconds / UNIT_SECONDS[unit]:g}{unit}"
    return f"{seconds:g}s"
