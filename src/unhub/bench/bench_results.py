"""The results of a data set with one model, and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unhub.bench.off_protocol import bank_sizes, official_size
from unhub.bench.protocols import BankChoice
from unhub.bench.result_file import ABOUT, CASES, CaseKey, bank_of, interval_of, key_of, measured_size, sizes_of
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import parse_measures
from unhub.evaluation.tables import Tabled, counted
from unhub.html_tables import Table

IN_BRACKETS = "In square brackets: 95% intervals, by bootstrap over the queries; gains are over raw, paired."
DISTANCES = {
    "bank_items": "bank to items",
    "bank_both": "bank to items and bank items",
    "bank_queries": "bank to queries",
    "queries_items": "queries to items",
    "halves": "queries to queries",
}


@dataclass(frozen=True, eq=False)
class BenchRun(Tabled):
    """The results of a data set with one model, as they are in `path`.

    asked: the cases that this run was asked for, which its tables show. reused: how many of them were there before.
    measured: how many are new. only_raw: nothing that was asked for could be run beside the raw ranking.
    """

    path: Path
    content: dict[str, Any]
    paper: str
    asked: tuple[CaseKey, ...]
    reused: int
    measured: int
    only_raw: bool = False

    def __repr__(self) -> str:
        about = " ".join(str(self.content[name]) for name in ABOUT)
        return f"<BenchRun: {about}, {counted(len(self.asked), 'case', 'cases')} in {self.path}>"

    @property
    def cases(self) -> list[dict[str, Any]]:
        """Every method, bank and direction by this protocol, with its measures, intervals and gains over raw."""
        return [case for case in self.content[CASES] if case["paper"] == self.paper]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, and why."""
        return tuple(self.content["notes"])

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions that were asked for."""
        return tuple(dict.fromkeys(key.direction for key in self.asked))

    @property
    def counts(self) -> str:
        """How many cases were measured now and before, and where they are."""
        measured = f"{counted(self.measured, 'case', 'cases')} measured"
        counts = f"{measured}, {counted(self.reused, 'was', 'were')} there; they are in {self.path}"
        others = len(self.content[CASES]) - len(self.asked)
        return f"{counts}, with {counted(others, 'other', 'others')} of earlier runs." if others else f"{counts}."

    @property
    def tables(self) -> list[tuple[str, Table]]:
        """The tables of each direction, with their titles."""
        found: list[tuple[str, Table]] = []
        for direction in self.directions:
            found.append((f"{direction}: {self.size(direction)}", self.cells(direction)))
            distances = self.distance_cells(direction)
            if distances[1]:
                found.append((f"{direction}, earth mover's distances", distances))
        return found

    def shown(self) -> list[str | Table]:
        return [*(part for titled in self.tables for part in (*titled, "")), IN_BRACKETS, *self.notes, self.counts]

    def size(self, direction: str) -> str:
        """Return how many queries and items were measured in a direction, beside how many there should be."""
        queries, items = measured_size(self.raw(direction)) or (0, 0)
        official = official_size(self.content, direction)
        whole = "" if official in (None, (queries, items)) else f" of {sizes_of(official)}"
        return f"{counted(queries, 'query', 'queries')} x {counted(items, 'item', 'items')}{whole}"

    def raw(self, direction: str) -> dict[str, Any]:
        """Return the case of the raw ranking in a direction."""
        return next(one for one in self.cases if (one["direction"], one["method"]) == (direction, RAW))

    def distance_cells(self, direction: str) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text of the earth mover's distances of each bank; no rows without any."""
        heads = ["bank", *DISTANCES.values(), "rows"]
        found = {
            (case["bank"], case["seed"]): case["distances"] for case in self._asked(direction) if case.get("distances")
        }
        return heads, [_distance_line(bank, seed, one) for (bank, seed), one in found.items()]

    def cells(self, direction: str) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text for a direction: measures, the gain by the first one, skewness."""
        cases = self._asked(direction)
        measures = list(self.raw(direction)["values"])
        first = parse_measures(measures[0])[0]
        area = f" of {first}"
        areas = [area] if any(_area(case, area) for case in cases) else []
        heads = ["setting", "bank", *measures, *(f"AUC{one}" for one in areas), first.gain, _skewness(cases)]
        return heads, [self._line(case, measures, areas) for case in cases]

    def _asked(self, direction: str) -> list[dict[str, Any]]:
        """Return the cases of a direction that this run was asked for."""
        return [case for case in self.cases if case["direction"] == direction and key_of(case) in self.asked]

    def _line(self, case: Mapping[str, Any], measures: Sequence[str], areas: Sequence[str]) -> list[str]:
        """Return a case as text; an interval for the first measure and for the gain alone, to keep the table narrow."""
        values, gain = case["values"], case["gains"].get(measures[0])
        together = f" ({case['together']} queries)" if case["together"] > 1 else ""
        seed = case["seed"] if BankChoice.of(case["bank"] or "none").drawn else None
        hubness = case.get("hubness")
        return [
            f"{case['spec']}{together}",
            bank_of(case["bank"], case.get("bank_queries"), bank_sizes(case, self.content)[0], seed),
            *(str(interval_of(values[name])) if name == measures[0] else _number(values, name) for name in measures),
            *(_area(case, one) for one in areas),
            f"{interval_of(gain):+.2f}" if gain else "",
            f"{hubness['skewness']:.2f}" if hubness else "",
        ]


def _skewness(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return the head of the column of skewness, with the number of places that it is counted over."""
    places = dict.fromkeys(case["hubness"]["k"] for case in cases if case.get("hubness"))
    return f"skewness@{'/'.join(map(str, places))}" if places else "skewness"


def _distance_line(bank: str, seed: int, found: Mapping[str, Any]) -> list[str]:
    """Return the distances of a bank as text, and of how many rows of each set they are."""
    drawn = f" (seed {seed})" if BankChoice.of(bank).drawn else ""
    values = ("" if found[name] is None else f"{found[name]:.3f}" for name in DISTANCES)
    return [f"{bank}{drawn}", *values, f"{found['rows']:,}"]


def _area(case: Mapping[str, Any], ending: str) -> str:
    """Return the area under the curve from one query to those of a case, where it has one."""
    name = f"AUC_{case['together']}{ending}"
    return str(interval_of(case["values"][name])) if name in case["values"] else ""


def _number(values: Mapping[str, Any], name: str) -> str:
    return f"{values[name]['value']:.2f}" if name in values else ""
