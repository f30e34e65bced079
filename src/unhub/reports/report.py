"""The report: what hubness does to a search and what a correction changes, on one page to show to others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from unhub.arrays import Kind
from unhub.atomic import replacing
from unhub.compute.progress import ProgressLike, Steps, called, shows_progress
from unhub.data.relevance import RelevanceLike, as_relevance
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, check_seed, optional
from unhub.evaluation.evaluate import DEFAULT_MEASURES, excluded_note, notes_on, row_to_dict
from unhub.evaluation.excluding import ExcludeLike, Exclusion
from unhub.evaluation.inputs import Corrections, EvaluationInputs, name_corrections
from unhub.evaluation.measures import Measure, parse_measures
from unhub.evaluation.pictures import FORMS, MARKS, Picture
from unhub.evaluation.tables import Tabled
from unhub.files.container import check_replaceable
from unhub.html_tables import Table
from unhub.matching import checked_once
from unhub.reports import plots as charts
from unhub.reports.findings import Findings
from unhub.reports.labels import ByIdOrRow, Labels, Paths
from unhub.reports.provenance import facts
from unhub.reports.report_inputs import ReportInputs, given_or_chosen
from unhub.reports.report_page import Page
from unhub.reports.report_tables import CHANCE, hubness_rows
from unhub.reports.sections import Shown
from unhub.reports.verdict import LEAK_NOTE, Verdict, verdict_on
from unhub.studies.data_studies import study_bank_size
from unhub.studies.setting_studies import study_temperature
from unhub.studies.study import Study

MOST_BALANCED_SIMILARITIES = 10**8  # of bank and items: above this, the temperature of 'sn' is not studied
TITLE = "Hubness report"
STEMS = ("occurrences", "shares", "similarities-raw", "similarities-corrected", "temperature", "bank-size")
PAGE_SUFFIXES = ("", ".html", ".htm")
PAGE_MARK = b'<meta name="generator" content="unhub">'  # near the beginning of every page


@dataclass(frozen=True, eq=False)
class Report(Tabled):
    """What a report says: the verdict, the findings, the studies and the pictures, and the page itself."""

    verdict: Verdict
    findings: Findings
    studies: tuple[Study, ...]
    pictures: tuple[Picture, ...]
    html: str
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the verdict and the figures as plain values for JSON."""
        findings = self.findings
        return {
            "verdict": self.verdict.word,
            "sentences": list(self.verdict.sentences),
            "queries": findings.queries,
            "queries_in_bank": self.verdict.leaked,
            "items": len(findings.setting.item_ids),
            "shown": findings.shown,
            "rankings": [
                {"name": name, "hubness": hubness.to_dict(), **(row_to_dict(row) if row is not None else {})}
                for name, hubness, row in zip_longest(findings.names, findings.hubness, findings.rows)
            ],
            "studies": [study.to_dict() for study in self.studies],
            "notes": list(self.notes),
        }

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text: the measures and the hubness of each ranking."""
        findings = self.findings
        rows = [
            [measure.with_unit, *(str(row.values[str(measure)]) for row in findings.rows), ""]
            for measure in findings.measures
            if findings.rows
        ]
        return ["", *findings.names, CHANCE], [*rows, *hubness_rows(findings)]

    def shown(self) -> list[str | Table]:
        return [*self.verdict.sentences, "", self.cells(), *self.notes]


@shows_progress
def report(
    items: VectorsLike,
    bank: VectorsLike | None,
    queries: VectorsLike,
    relevance: RelevanceLike | None = None,
    *,
    path: str | os.PathLike[str],
    item_texts: ByIdOrRow[str] | None = None,
    item_images: Paths | None = None,
    query_texts: ByIdOrRow[str] | None = None,
    corrections: Corrections | None = None,
    measures: Sequence[str | Measure] | str = DEFAULT_MEASURES,
    exclude: ExcludeLike | None = None,
    figures: str | os.PathLike[str] | None = None,
    title: str = TITLE,
    command: str | None = None,
    similarity: Kind = "cosine",
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Report:
    """Measure the raw and the corrected ranking and write one HTML page about them that opens offline.

    bank: may be None if corrections are given; the curves over the settings are then left out. relevance: without it
    the page is about hubness only. item_texts, item_images (paths), query_texts: a list in the
    order of the rows, or a mapping by id. corrections: the first one is shown beside the raw ranking; by default it is
    the one that `tune` chooses without labels. If the only one is raw, the page shows the raw ranking alone. exclude:
    items to leave out of the ranking of each query, as in `evaluate`; `tune` cannot do that, so it needs corrections.
    figures: a folder for the charts, as PNG and SVG. command: how the report was made, to be shown on the page.
    """
    progress = called(progress)
    target, chosen = check_replaceable(path, PAGE_MARK), parse_measures(measures)
    optional("matplotlib.figure", "plot", "a report")
    check_seed(seed)
    if figures is not None:
        check_figures(Path(figures))
    gallery, asked = checked_once(items, "items"), checked_once(queries, "queries")
    past = None if bank is None else checked_once(bank, "bank")
    known = None if relevance is None else as_relevance(relevance)
    exclusion = None if exclude is None else Exclusion.of(exclude, asked.ids, gallery.ids)
    fitted = () if past is not None or corrections is None else tuple(name_corrections(corrections).values())
    inputs = ReportInputs(gallery, past, asked, known, exclusion, similarity, seed, threads, fitted)
    left_out, leaked = _left_out(inputs), inputs.leaked
    labels = Labels("item", gallery.ids, item_texts, item_images), Labels("query", asked.ids, query_texts)
    steps = Steps(progress, 4)
    shown = given_or_chosen(inputs, corrections, steps.next())
    setting = EvaluationInputs.of(asked, gallery, shown.corrections, similarity, threads, exclude=exclusion)
    findings = Findings.of(setting, known, chosen, seed, threads, steps.next())
    studies = _studies(inputs, steps)
    leak = LEAK_NOTE.format(leaked=leaked, queries=len(asked)) if leaked else None
    page = Page(
        title,
        findings,
        verdict_on(findings, shown.advised, leaked),
        Shown(findings, *labels, seed),
        (charts.occurrences(findings), charts.shares(findings)),
        charts.similarities(findings, seed),
        studies,
        tuple(filter(None, (leak, *left_out, *setting.notes, _excluded(inputs), _without_bank(inputs), shown.note))),
        facts(inputs, shown.corrections, command),
    )
    written = Report(page.verdict, findings, studies, page.pictures, page.to_html(), (*page.notes, *page.shown.missing))
    _write(written, target, figures)
    return written


def _studies(inputs: ReportInputs, steps: Steps) -> tuple[Study, ...]:
    """Return the curves over the temperature and over the size of the bank; none without a bank."""
    if inputs.study_bank is None:
        return ()
    few = len(inputs.study_bank) * len(inputs.items) <= MOST_BALANCED_SIMILARITIES
    given = (inputs.items, inputs.study_bank, inputs.study_queries, inputs.relevance)
    return (
        study_temperature(
            *given,
            methods=("is", "sn") if few else ("is",),
            exclude=inputs.exclusion,
            similarity=inputs.similarity,
            seed=inputs.seed,
            threads=inputs.threads,
            progress=steps.next(),
        ),
        study_bank_size(
            *given,
            exclude=inputs.exclusion,
            similarity=inputs.similarity,
            seed=inputs.seed,
            threads=inputs.threads,
            progress=steps.next(),
        ),
    )


def _left_out(inputs: ReportInputs) -> tuple[str, ...]:
    """Say which queries and answers are left out."""
    truth = inputs.truth
    if truth is None:
        return ()
    unanswered, groups = len(inputs.queries) - len(truth.answered), int(truth.groups.max()) + 1
    return notes_on(unanswered, truth.absent, groups, truth.unknown_items, truth.unknown_queries)


def _excluded(inputs: ReportInputs) -> str | None:
    return excluded_note(inputs.truth.excluded) if inputs.truth is not None and inputs.truth.excluded else None


def _without_bank(inputs: ReportInputs) -> str | None:
    """Say what is left out for lack of a bank."""
    if inputs.bank is not None:
        return None
    untold = [one.spec for one in inputs.fitted if one.source.bank is not None and one.source.bank_rows is None]
    told = f", and for {', '.join(untold)} not even these" if untold else ""
    return (
        "The bank was not given: the curves over the settings are left out, and of the queries that are in the bank "
        f"only those are known that equal one number for number{told}."
    )


def check_figures(folder: Path) -> None:
    """Raise unless charts can be written into a folder, which may not exist yet, and would replace only charts."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder for the charts")
    existing = folder if folder.is_dir() else folder.parent
    if not existing.is_dir():
        raise FileNotFoundError(f"{folder} cannot be made: there is no folder {existing}; create it first")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"no permission to write into the folder {existing}")
    for stem in STEMS if folder.is_dir() else ():
        for form, mark in MARKS.items():
            check_replaceable(folder / f"{stem}.{form}", mark)


def check_page_name(path: str | os.PathLike[str]) -> None:
    """Raise if a page would be written under the name of a file of another kind, such as .pdf."""
    if Path(path).suffix.lower() not in PAGE_SUFFIXES:
        raise ArgumentError("path", f"is {path}, but a report is an HTML page", "name a file that ends in .html")


def _write(report: Report, target: Path, figures: str | os.PathLike[str] | None) -> None:
    """Write the charts and then the page, so that a page that exists is complete."""
    if figures is not None:
        Path(figures).mkdir(exist_ok=True)
        for picture in report.pictures:
            for form in FORMS:
                picture.save(Path(figures) / f"{picture.name}.{form}")
    with replacing(target) as temporary:
        temporary.write_text(report.html, encoding="utf-8")
