"""A paper's table from what has been run: measured, published, difference and interval, line by line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from unhub.bench.off_protocol import bank_sizes, off_protocol, official_size, other_settings, same_model
from unhub.bench.protocols import PAPERS, BankChoice
from unhub.bench.published import CITED, Figure, published
from unhub.bench.result_file import CASES, bank_of, every_result, interval_of, measured_size, sizes_of
from unhub.errors import ArgumentError, unknown
from unhub.evaluation.confidence import Interval
from unhub.evaluation.tables import Tabled, counted
from unhub.html_tables import Table
from unhub.studies.seeds import Spread


@dataclass(frozen=True)
class TableLine:
    """A published figure and what was measured for it.

    measured: with its 95% interval, or over several random banks the mean with one standard deviation on either side;
    None if it has not been run. banks: over how many random banks. model: that was measured. specs: the settings that
    were used, with each bank where there are several. split, size: what it was measured on, and how many queries and
    items, if that is known. official: how many there should be. bank_size, bank_official: how many bank queries there
    were, and how many there should be. off: in which ways this is not the paper's protocol. notes: on what was
    measured. several: the settings that were run, if there is more than one, and none of them is that of the figure.
    """

    figure: Figure
    measured: Interval | None
    banks: int = 0
    model: str = ""
    specs: tuple[str, ...] = ()
    split: str = ""
    size: tuple[int, int] | None = None
    official: tuple[int, int] | None = None
    bank_size: int | None = None
    bank_official: int | None = None
    off: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    several: tuple[str, ...] = ()

    @property
    def stands_in(self) -> bool:
        """Whether another model than that of the published figure was measured."""
        return bool(self.model) and not same_model(self.figure.model, self.model)

    @property
    def settings(self) -> str:
        """The parameters that were used; all that were, where those of several banks differ."""
        return " or ".join(dict.fromkeys(spec.partition(":")[2] for spec in self.specs))

    @property
    def difference(self) -> float | None:
        """Measured minus published."""
        return None if self.measured is None else self.measured.value - self.figure.value

    @property
    def inside(self) -> bool | None:
        """Whether the published figure is within the interval of the measured one; None where they do not compare."""
        if self.measured is None or self.off or not isfinite(self.measured.low):
            return None
        return self.measured.low <= self.figure.value <= self.measured.high

    def to_dict(self) -> dict[str, object]:
        """Return the line as plain values for JSON."""
        return {
            **asdict(self.figure),
            "measured": None if self.measured is None else self.measured.to_dict(),
            "difference": self.difference,
            "inside": self.inside,
            "off_protocol": list(self.off),
            "random_banks": self.banks,
            "specs": list(self.specs),
            "measured_model": self.model,
            "measured_split": self.split,
            "measured_size": self.size,
            "official_size": self.official,
            "bank_size": self.bank_size,
            "official_bank_size": self.bank_official,
            "stands_in": self.stands_in,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False)
class BenchTable(Tabled):
    """A table of a paper; a line for each published figure, in the order of the paper.

    others: data sets of the table, each with a model that they were run by and that the table does not have. ran: what
    the work folder has, in words. papers: of what was run by models of the table, each data set and split with a paper
    by whose protocol it was; empty for the default.
    """

    paper: str
    table: str
    lines: tuple[TableLine, ...]
    others: tuple[tuple[str, str], ...] = ()
    ran: tuple[str, ...] = ()
    papers: tuple[tuple[str, str, str], ...] = ()

    @property
    def run(self) -> tuple[TableLine, ...]:
        """The lines that have been measured."""
        return tuple(one for one in self.lines if one.measured is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the columns are, and how many figures have not been measured."""
        absent = [one.figure for one in self.lines if one.measured is None]
        notes = [f"{self.paper}:{self.table} is of {CITED[self.paper]}."]
        if any(one.measured is not None and isfinite(one.measured.low) for one in self.lines):
            notes.append("In brackets: 95% interval by bootstrap over the queries; over random banks, one deviation.")
        if off := sum(bool(one.off) for one in self.run):
            lines = counted(off, "line is", "lines are")
            notes.append(
                f"{lines} off the paper's protocol, as the last column says, so no interval is compared there."
            )
        for tried in dict.fromkeys(one.several for one in self.lines if one.several):
            notes.append(f"{' and '.join(tried)} were run; a figure without settings stands beside one of them alone.")
        if any(len({*one.specs}) > 1 for one in self.run):
            notes.append("Settings with 'or' differ from one random bank to another; the figure is the mean over all.")
        if any(one.stands_in for one in self.run):
            notes.append("Where a model is 'A, by B', B was measured, and the published figures are of A.")
        if absent:
            one = absent[0]
            bank = f" with the bank {one.bank}" if one.bank else ""
            example = f"for example {one.method} {one.direction}{bank} by {one.model} on {one.data_set}"
            notes.append(f"{counted(len(absent), 'figure has', 'figures have')} not been measured, {example}.")
        for data_set, model in self.others if absent else ():
            notes.append(
                f"{data_set} was run by {model}, which is no model of this table. To put it beside the figures of one, "
                f'name that one: --model "{absent[0].model}={model}".'
            )
        if absent and not self.run:
            notes.append(f"What has been run: {', '.join(self.ran) or 'nothing'}.")
        notes += self._not_run()
        return (*notes, *dict.fromkeys(note for line in self.run for note in line.notes))

    def _not_run(self) -> list[str]:
        """Say which data sets of the table have not been run, and by which commands they are."""
        known = {one.figure.data_set for one in self.run} | {data_set for data_set, _ in self.others}
        first = {one.figure.data_set: one.figure for one in reversed(self.lines) if one.figure.data_set not in known}
        found = []
        for figure in reversed(first.values()):
            split = f" --split {figure.split}" if figure.split else ""
            command = f"unhub bench run {figure.data_set}{split} --paper {self.paper} --data DIR --work W"
            model = f'--model "{figure.model}" or another name that this table has'
            found.append(
                f"{figure.data_set} {figure.split}".strip() + f" {self._how_run(figure)}: {command}, with --encoder, "
                f"--embeddings or --matrix, and {model}."
            )
        return found

    def _how_run(self, figure: Figure) -> str:
        """Say that the data set of a figure has not been run, or how it has been instead."""
        papers = dict.fromkeys(
            paper for name, split, paper in self.papers if name == figure.data_set and figure.split in ("", split)
        )
        if not papers:
            return "has not been run"
        if self.paper in papers:
            return "has been run with other models, methods, banks or directions than those of this table"
        return f"has been run {' and '.join(f'by --paper {one}' if one else 'without --paper' for one in papers)} only"

    def cells(self, every: bool = False) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text; `every` also shows what has not been measured."""
        heads = ["data set", "model", "direction", "method", "settings", "bank", "measure"]
        heads += ["measured", "published", "difference", "measured on", "published inside"]
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
                    line.settings,
                    bank_of(figure.bank, line.bank_size, line.bank_official),
                    _measure(figure),
                    _measured(line),
                    f"{figure.value:g}{spread}",
                    "" if line.difference is None else f"{line.difference:+.2f}",
                    _measured_on(line),
                    _inside(line),
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
    lines = tuple(line for figure in figures for line in lines_of(figure, results, instead.get(figure.model)))
    matched = {*instead.values(), *(one for one in run if any(same_model(figure, one) for figure in known))}
    of_table = [one for one in results if any(_same_data(figure, one) for figure in figures)]
    others = dict.fromkeys((one["data_set"], one["model"]) for one in of_table if one["model"] not in matched)
    ran = tuple(f"{one['data_set']} {one['split']} by {one['model']}" for one in results)
    papers = dict.fromkeys(
        (one["data_set"], one["split"], case["paper"])
        for one in of_table
        if one["model"] in matched
        for case in one[CASES]
    )
    return BenchTable(paper, table, lines, tuple(others), ran, tuple(papers))


def lines_of(figure: Figure, results: Sequence[Mapping[str, Any]], model: str | None = None) -> list[TableLine]:
    """Return the line of a figure; one for each split that was run where the figure has none."""
    splits = dict.fromkeys(content["split"] for content in results)
    several = (line_of(figure, [one for one in results if one["split"] == split], model) for split in splits)
    measured = [line for line in several if line.measured is not None]
    return measured or [line_of(figure, results, model)]


def line_of(figure: Figure, results: Sequence[Mapping[str, Any]], model: str | None = None) -> TableLine:
    """Return a figure with what was measured for it by the paper's protocol, or else by the default one.

    Of these, one that is measured as in the paper comes first. model: whose runs to take; by default those of the model
    that the figure is of.
    """
    several: list[str] = []
    found: list[TableLine] = []
    for content in results:
        measured = content["model"]
        if not _same_data(figure, content) or not (measured == model if model else same_model(figure.model, measured)):
            continue
        for paper in (figure.paper, ""):
            cases = _cases_for(figure, paper, content)
            methods = dict.fromkeys(case["method"] for case in cases)
            if len(methods) > 1:
                several += methods
                continue
            if cases and not (cases[0]["bank"] and BankChoice.of(cases[0]["bank"]).drawn):
                cases = cases[-1:]  # only random banks differ from seed to seed
            values = [value for case in cases if (value := value_of(case, figure)) is not None]
            if values:
                found.append(_line(figure, cases, joined(values), len(values), content))
    return min(found, key=lambda line: bool(line.off), default=TableLine(figure, None, several=tuple(several)))


def _line(
    figure: Figure, cases: Sequence[Mapping[str, Any]], measured: Interval, banks: int, content: Mapping[str, Any]
) -> TableLine:
    """Return the line of a figure with the cases that were measured for it; more than one differ by the seed alone."""
    last, about = cases[-1], f"{content['data_set']} by {content['model']}"
    notes = [f"{about}: {note}" for note in content.get("data_notes", ())]
    notes += [f"{about}, {figure.direction}: {note}" for case in cases for note in case.get("notes", ())]
    return TableLine(
        figure,
        measured,
        banks,
        content["model"],
        tuple(case["spec"] for case in cases),
        content["split"],
        measured_size(last),
        official_size(content, figure.direction),
        last.get("bank_queries"),
        bank_sizes(last, content)[0],
        tuple(dict.fromkeys(way for case in cases for way in off_protocol(figure, case, content))),
        tuple(dict.fromkeys(notes)),
    )


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
    """Say whether the published figure is within the interval, or why they are not compared."""
    if line.off:
        return f"off protocol ({'; '.join(line.off)})"
    return {None: "", True: "yes", False: "no"}[line.inside]


def _measure(figure: Figure) -> str:
    """Return a measure; skewness with the number of places that the paper counts it over."""
    return f"skewness@{PAPERS[figure.paper].hubness_k}" if figure.measure == "skewness" else figure.measure


def _measured_on(line: TableLine) -> str:
    """Return the split that was measured and how many queries and items, beside how many there should be."""
    if line.measured is None or line.size is None:
        return line.split
    whole = "" if line.official in (None, line.size) else f" of {sizes_of(line.official)}"
    return f"{line.split} {sizes_of(line.size)}{whole}"


def _same_data(figure: Figure, content: Mapping[str, Any]) -> bool:
    return figure.data_set == content["data_set"] and figure.split in ("", content["split"])


def _cases_for(figure: Figure, paper: str, content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the cases of a figure by a protocol; if they are of several methods, none of these is the figure's.

    A figure with settings has cases of the same. One without has those with the paper's settings; else those of one
    that was named for the run; else those of its method by name.
    """
    there = [case for case in content[CASES] if case["paper"] == paper and _same_bank(figure, case)]
    named = [case for case in there if case["method"] == figure.method]
    if ":" in figure.method:
        return named or _of_first([case for case in there if case["spec"] == figure.method])
    own = [case for case in there if case["method"].startswith(f"{figure.method}:")]
    right = [case for case in (*named, *own) if not other_settings(figure, case, content)]
    one_setting = len({case["method"] for case in own}) == 1
    return _of_first(right) or (own if one_setting or not named else named)


def _of_first(cases: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the cases of the method that the first one is of."""
    return [case for case in cases if case["method"] == cases[0]["method"]]


def _same_bank(figure: Figure, case: Mapping[str, Any]) -> bool:
    """Compare direction, bank and number of queries; a raw ranking and a plan have no bank."""
    bank = figure.bank if case["bank"] else ""
    return (figure.direction, bank, figure.queries) == (case["direction"], case["bank"], case["together"])
