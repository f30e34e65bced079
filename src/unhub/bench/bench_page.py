"""The page of a run: every method, bank and direction, the settings that were chosen, and a paper's figures beside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unhub.atomic import check_target, replacing
from unhub.bench.bench_results import IN_BRACKETS, BenchRun
from unhub.bench.bench_table import BenchTable, bench_table
from unhub.bench.published import published
from unhub.files.container import check_replaceable
from unhub.html_tables import Table
from unhub.reports.markup import Child, Markup, breakable, join, table, tag
from unhub.reports.report import PAGE_MARK, check_page_name
from unhub.reports.report_page import page_of, section

ABOUT_RUN = {"data set", "model", "direction", "measured on"}  # columns of a paper's table that a run often fills alike


def check_page(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Return where a page would land; raise if it is named as none, or would replace a file that is no page of ours."""
    check_page_name(path)
    return check_target(path) if overwrite else check_replaceable(path, PAGE_MARK)


def tables_of(run: BenchRun, work: str | os.PathLike[str]) -> list[BenchTable]:
    """Return the tables of a run's paper that have figures for its data set."""
    if not run.paper:
        return []
    figures = published(run.paper, data_set=run.content["data_set"])
    return [bench_table(f"{run.paper}:{table}", work) for table in dict.fromkeys(one.table for one in figures)]


def write_page(
    run: BenchRun, path: str | os.PathLike[str], tables: Sequence[BenchTable] = (), overwrite: bool = False
) -> None:
    """Write a run as one HTML page that opens offline; tables: of papers, with what was measured."""
    target = check_page(path, overwrite)
    content = run.content
    title = f"{content['data_set']} ({content['split']}) with {content['model']}"
    sections = [
        tag("header", tag("h1", title), tag("p", _lead(), kind="lead")),
        *(_direction(run, direction) for direction in run.directions),
        *(_published(one) for one in tables if one.run),
        section("Notes", *(tag("p", note, kind="note") for note in run.notes)) if run.notes else Markup(""),
        _made(run),
    ]
    with replacing(target) as temporary:
        temporary.write_text(page_of(title, sections), encoding="utf-8")


def _lead() -> str:
    return f"No setting was chosen by figures of the part that is measured. {IN_BRACKETS}"


def _direction(run: BenchRun, direction: str) -> Markup:
    heads, rows = run.cells(direction)
    far, distances = run.distance_cells(direction)
    beside = [tag("h3", "Earth mover's distances"), _card(far, distances)] if distances else []
    return section(f"Direction {direction}", tag("p", f"{run.size(direction)}."), _card(heads, rows), *beside)


def _published(one: BenchTable) -> Markup:
    same, cells = _apart(*one.cells())
    about = [tag("p", f"{same}.")] if same else []
    notes = (tag("p", note, kind="note") for note in one.notes)
    return section(f"{one.paper}:{one.table}", *about, _card(*cells), *notes)


def _apart(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, Table]:
    """Return what is the same in every row, as text, and the table of the other columns, which is then not too wide."""
    same = {
        head: column[0] for head, *column in zip(heads, *rows, strict=True) if head in ABOUT_RUN and len({*column}) == 1
    }
    others = [place for place, head in enumerate(heads) if head not in same]
    cells = [heads[place] for place in others], [[row[place] for place in others] for row in rows]
    return "; ".join(f"{head}: {value}" for head, value in same.items()), cells


def _card(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Return a table of text; no word is broken, and what is in brackets stands below."""
    lines: list[list[Child]] = [[breakable(row[0]), *map(_cell, row[1:])] for row in rows]
    return tag("div", table([tag("span", head, kind="whole") for head in heads], lines), kind="card")


def _cell(cell: str) -> Child:
    for bracket in ("[", "("):
        value, found, rest = cell.partition(f" {bracket}")
        if found:
            parts = f"{bracket}{rest}".split("; ")
            return join(value, *(tag("span", part, kind="range") for part in parts))
    return cell


def _made(run: BenchRun) -> Markup:
    content = run.content
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in case.get("versions", {}).items()) for case in run.cases
    )
    chosen = dict.fromkeys(case["choice"]["part"] for case in run.cases if case.get("choice"))
    official = content["official"].items()
    facts = {
        "vectors": content["source"],
        "settings chosen on": ", ".join(chosen) or "nothing: every method has one setting",
        "official counts": ", ".join(f"{part} {items:,} items, {asked:,} queries" for part, (items, asked) in official),
        "versions": "; ".join(filter(None, versions)),
    }
    rows: list[list[Child]] = [[name, tag("code", value)] for name, value in facts.items() if value]
    return section("How this was made", tag("div", table([], rows, kind="facts"), kind="card"))
