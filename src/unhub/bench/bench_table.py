"""A paper's table from what has been run: measured, published, difference and interval, line by line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from unhub.bench.problems import TEST
from unhub.bench.protocols import PAPERS, BankChoice
from unhub.bench.published import CITED, Figure, published
from unhub.bench.result_file import CASES, every_result, interval_of
from unhub.errors import ArgumentError, unknown
from unhub.evaluation.confidence import Interval
from unhub.evaluation.tables import Tabled, counted
from unhub.html_tables import Table
from unhub.studies.seeds import Spread

# What a paper calls a model that can be had under another name.
SAME_MODELS: Mapping[str, tuple[str, ...]] = {
    "openai/clip-vit-base-patch32": ("CLIP", "zs CLIP", "CLIP ViT-B/32", "zs CLIP ViT-B/32"),
    "openai/clip-vit-large-patch14-336": ("zs CLIP ViT-L/14@336px",),
    "laion/clap-htsat-unfused": ("zs CLAP",),
    "vinid/plip": ("zs PLIP",),
    "google/siglip-base-patch16-224": ("SigLIP",),
    "facebook/dino-vits16": ("DINO",),
}


@dataclass(frozen=True)
class TableLine:
    """A published figure and what was measured for it.

    measured: with its 95% interval, or over several random banks the mean with one standard deviation on either side;
    None if it has not been run. banks: over how many random banks. spec: the settings that were used. split, size:
    what it was measured on, and how many queries and items, if that is known. official: how many there should be.
    model: that was measured.
    """

    figure: Figure
    measured: Interval | None
    banks: int = 0
    spec: str = ""
    model: str = ""
    split: str = ""
    size: tuple[int, int] | None = None
    official: tuple[int, int] | None = None

    @property
    def stands_in(self) -> bool:
        """Whether another model than that of the published figure was measured."""
        return bool(self.model) and not _same_model(self.figure.model, self.model)

    @property
    def partial(self) -> bool:
        """Whether other counts of queries and items were measured than the official ones."""
        return self.size is not None and self.official is not None and self.size != self.official

    @property
    def difference(self) -> float | None:
        """Measured minus published."""
        return None if self.measured is None else self.measured.value - self.figure.value

    @property
    def inside(self) -> bool:
        """Whether the published figure is within the interval of the measured one."""
        return self.measured is not None and self.measured.low <= self.figure.value <= self.measured.high

    def to_dict(self) -> dict[str, object]:
        """Return the line as plain values for JSON."""
        return {
            **asdict(self.figure),
            "measured": None if self.measured is None else self.measured.to_dict(),
            "difference": self.difference,
            "inside": self.inside,
            "random_banks": self.banks,
            "spec": self.spec,
            "measured_model": self.model,
            "measured_split": self.split,
            "measured_size": self.size,
            "official_size": self.official,
            "partial": self.partial,
            "stands_in": self.stands_in,
        }


@dataclass(frozen=True, eq=False)
class BenchTable(Tabled):
    """A table of a paper; a line for each published figure, in the order of the paper.

    others: data sets of the table, each with a model that they were run by and that the table does not have.
    """

    paper: str
    table: str
    lines: tuple[TableLine, ...]
    others: tuple[tuple[str, str], ...] = ()

    @property
    def run(self) -> tuple[TableLine, ...]:
        """The lines that have been measured."""
        return tuple(one for one in self.lines if one.measured is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the columns are, and how many figures have not been measured."""
        absent = [one.figure for one in self.lines if one.measured is None]
        notes = [f"{self.paper}:{self.table} is of {CITED[self.paper]}."]
        if self.run:
            notes.append("In brackets: 95% interval by bootstrap over the queries; over random banks, one deviation.")
        if partial := sum(one.partial for one in self.run):
            lines = counted(partial, "line is", "lines are")
            notes.append(f"{lines} of other queries and items than the official split, so not of the published ones.")
        if any(one.stands_in for one in self.run):
            notes.append("Where a model is 'A, by B', B was measured, and the published figures are of A.")
        if absent:
            one = absent[0]
            bank = f" with the bank {one.bank}" if one.bank else ""
            example = f"for example {one.method}{bank} by {one.model} on {one.data_set}"
            notes.append(f"{counted(len(absent), 'figure has', 'figures have')} not been measured, {example}.")
        for data_set, model in self.others if absent else ():
            notes.append(
                f"{data_set} was run by {model}, which is no model of this table. To put it beside the figures of one, "
                f'name that one: --model "{absent[0].model}={model}".'
            )
        return tuple(notes)

    def cells(self, every: bool = False) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text; `every` also shows what has not been measured."""
        heads = ["data set", "model", "direction", "method", "bank", "measure", "measured", "published", "difference"]
        heads += ["published inside", "measured on"]
        rows = []
        for line in self.lines if every else self.run:
            figure = line.figure
            together = f" ({figure.queries} queries)" if figure.queries > 1 else ""
            spread = "" if figure.spread is None else f" ± {figure.spread:g}"
            rows.append(
                [
                    f"{figure.data_set} {figure.split}".strip(),
                    f"{figure.model}, by {line.model}" if line.stands_in else figure.model,
                    figure.direction,
                    f"{figure.method}{together}",
                    figure.bank,
                    figure.measure,
                    _measured(line),
                    f"{figure.value:g}{spread}",
                    "" if line.difference is None else f"{line.difference:+.2f}",
                    _inside(line),
                    _measured_on(line),
                ]
            )
        return heads, rows

    def to_dict(self) -> dict[str, object]:
        """Return every line as plain values for JSON."""
        return {
            "paper": self.paper,
            "table": self.table,
            "lines": [one.to_dict() for one in self.lines],
            "notes": list(self.notes),
        }

    def shown(self) -> list[str | Table]:
        return [self.cells(), *self.notes]


def bench_table(name: str, work: str | os.PathLike[str], model: Mapping[str, str] | None = None) -> BenchTable:
    """Return a table of a paper, such as `nnn:1`, `dbsn:A5` or `mqvr:fig6b`, with what `bench_run` has measured.

    model: for a model of the table, another one whose runs are to stand beside its figures.
    """
    paper, colon, table = name.partition(":")
    if not colon or not paper or not table:
        remedy = f"write PAPER:TABLE, for example nnn:1; the papers are {', '.join(CITED)}"
        raise ArgumentError("table", f"{name!r} names no table", remedy)
    figures = published(paper, table)
    results, instead = list(every_result(Path(work))), dict(model or {})
    known, run = (dict.fromkeys(one.model for one in figures), dict.fromkeys(one["model"] for one in results))
    for printed, measured in instead.items():
        if printed not in known:
            raise unknown("model", printed, known, f"models of {name}")
        if measured not in run:
            raise unknown("model", measured, run, "models that have been run")
    lines = tuple(line_of(figure, results, instead.get(figure.model)) for figure in figures)
    of_table = dict.fromkeys(one.data_set for one in figures)
    matched = {*instead.values(), *(one for one in run if any(_same_model(figure, one) for figure in known))}
    others = [(one["data_set"], one["model"]) for one in results if one["data_set"] in of_table]
    return BenchTable(paper, table, lines, tuple(one for one in dict.fromkeys(others) if one[1] not in matched))


def line_of(figure: Figure, results: Sequence[Mapping[str, Any]], model: str | None = None) -> TableLine:
    """Return a figure with what was measured for it by the paper's protocol, or else by the default one.

    model: whose runs to take; by default those of the model that the figure is of.
    """
    for content in results:
        measured = content["model"]
        if not _same_data(figure, content) or not (measured == model if model else _same_model(figure.model, measured)):
            continue
        for paper in (figure.paper, ""):
            cases = [case for case in content[CASES] if case["paper"] == paper and _same_case(figure, case)]
            if cases and not (cases[0]["bank"] and BankChoice.of(cases[0]["bank"]).drawn):
                cases = cases[-1:]  # only random banks differ from seed to seed
            values = [value for case in cases if (value := value_of(case, figure)) is not None]
            if values:
                last = cases[-1]
                size = (last["asked"], last["items"]) if "asked" in last else None
                return TableLine(
                    figure,
                    joined(values),
                    len(values),
                    last["spec"],
                    measured,
                    content["split"],
                    size,
                    _official(content, figure.direction),
                )
    return TableLine(figure, None)


def value_of(case: Mapping[str, Any], figure: Figure) -> Interval | None:
    """Return the measure of a figure: of the ranking with its interval, or of its hubness, which has none."""
    if figure.measure in case["values"]:
        return interval_of(case["values"][figure.measure])
    hubness = case.get("hubness") or {}
    name, _, places = figure.measure.partition("@")
    if name not in hubness or hubness["k"] != int(places or PAPERS[figure.paper].hubness_k):
        return None
    return Interval(float(hubness[name]), -inf, inf)


def joined(values: Sequence[Interval]) -> Interval:
    """Return a single value as it is, several as their mean and one standard deviation on either side."""
    if len(values) == 1:
        return values[0]
    spread = Spread.of([one.value for one in values])
    apart = spread.deviation or 0.0
    return Interval(spread.mean, spread.mean - apart, spread.mean + apart)


def _measured(line: TableLine) -> str:
    """Return the measured value, with its interval if there is one."""
    if line.measured is None:
        return "not run"
    return str(line.measured) if isfinite(line.measured.low) else f"{line.measured.value:.2f}"


def _inside(line: TableLine) -> str:
    """Say whether the published figure is within the interval; nothing without one, or for other queries or models."""
    if line.measured is None or line.partial or line.stands_in or not isfinite(line.measured.low):
        return ""
    return "yes" if line.inside else "no"


def _measured_on(line: TableLine) -> str:
    """Return the split that was measured and how many queries and items, beside how many there should be."""
    if line.measured is None or line.size is None:
        return line.split
    whole = f" of {_size(line.official)}" if line.partial and line.official else ""
    return f"{line.split} {_size(line.size)}{whole}"


def _size(counts: tuple[int, int]) -> str:
    return f"{counts[0]:,} x {counts[1]:,}"


def _official(content: Mapping[str, Any], direction: str) -> tuple[int, int] | None:
    """Return how many queries and items the official test part has in a direction."""
    counts, directions = content.get("official", {}).get(TEST), content.get("directions")
    if not counts or not directions:
        return None
    items, queries = counts
    return (queries, items) if direction == directions[0] else (items, queries)


def _same_data(figure: Figure, content: Mapping[str, Any]) -> bool:
    return figure.data_set == content["data_set"] and figure.split in ("", content["split"])


def _same_model(figure: str, measured: str) -> bool:
    return figure == measured or figure in SAME_MODELS.get(measured, ())


def _same_case(figure: Figure, case: Mapping[str, Any]) -> bool:
    """Compare direction, bank, method and number of queries; a raw ranking and a plan have no bank."""
    named = figure.method in (case["method"], case["spec"])
    bank = figure.bank if case["bank"] else ""
    return named and (figure.direction, bank, figure.queries) == (case["direction"], case["bank"], case["together"])
