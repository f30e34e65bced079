"""The file for Prometheus' textfile collector: the last period as gauges."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from unhub.watching.periods import Drift, Period, Range
from unhub.watching.samples import WATCHED
from unhub.watching.watched import Watch

PREFIX = "unhub_watch"
PROMETHEUS_MARK = f"# HELP {PREFIX}_".encode()  # what a file of ours begins with

Samples: TypeAlias = Mapping[tuple[tuple[str, str], ...], float]  # by labels


def prometheus_text(watch: Watch) -> bytes:
    """Return the gauges of the current period in Prometheus' text format."""
    one = watch.current
    gauges: dict[str, tuple[str, Samples]] = {
        "figure": ("Hubness of what was returned, its 95% interval, and what chance would give", _figures(one)),
        "limit": ("Limits beyond which there is an alarm", _limits(watch)),
        "queries": (
            "Queries of the period: different ones, and with repeats",
            {(("counted", "different"),): one.queries, (("counted", "logged"),): one.logged},
        ),
        "items": ("Items, all and those that were returned", _items(one)),
        "alarm": ("1 if a figure is beyond its limit", {(): float(bool(watch.alarms))}),
        "judged": ("1 if the period has enough queries to judge", {(): float(one.judged)}),
        "period_timestamp_seconds": ("When the period began", {(): _seconds(one.period)}),
    }
    if one.drift is not None:
        gauges["drift"] = (
            "How far the queries are from the bank, and above which limit that is far",
            _drift(one.drift),
        )
    lines = []
    for name, (about, samples) in gauges.items():
        if samples:
            lines += [f"# HELP {PREFIX}_{name} {about}", f"# TYPE {PREFIX}_{name} gauge"]
            lines += [f"{PREFIX}_{name}{_labels(labels)} {float(value)!r}" for labels, value in samples.items()]
    return ("\n".join(lines) + "\n").encode()


def _figures(one: Period) -> Samples:
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for name in WATCHED:
        ranged: Range = getattr(one, name)
        levels = {"observed": ranged.value, "low": ranged.low, "high": ranged.high, "chance": ranged.chance}
        found |= {(("figure", name), ("level", level)): value for level, value in levels.items() if value is not None}
    found[(("figure", "largest"), ("level", "observed"))] = one.largest
    found[(("figure", "largest"), ("level", "chance"))] = one.largest_chance
    found[(("figure", "traffic_skewness"), ("level", "observed"))] = one.traffic_skewness
    found[(("figure", "traffic_skewness"), ("level", "chance"))] = one.traffic_skewness_chance
    return found


def _limits(watch: Watch) -> Samples:
    limits = {
        "max_skewness_over_chance": watch.limits.max_skewness,
        "min_coverage_of_chance": watch.limits.min_coverage,
    }
    return {(("limit", name),): value for name, value in limits.items() if value is not None}


def _items(one: Period) -> Samples:
    known: Samples = {(("counted", "all"),): one.items} if one.items_known else {}
    return {**known, (("counted", "returned"),): one.returned}


def _drift(one: Drift) -> Samples:
    levels: dict[str, dict[str, float | None]] = {
        "shift": {"observed": one.shift, "limit": one.shift_limit},
        "nearness": {"observed": one.nearness, "limit": one.nearness_limit},
    }
    return {
        (("figure", figure), ("level", level)): value
        for figure, both in levels.items()
        for level, value in both.items()
        if value is not None
    }


def _seconds(period: str) -> float:
    moment = datetime.fromisoformat(period)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""
