"""The report: what hubness does to a search and what a correction changes, as one page to show to someone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unhub.arrays import Kind
from unhub.atomic import replacing
from unhub.compute.progress import Steps
from unhub.compute.workers import Progress
from unhub.data.relevance import RelevanceLike, as_relevance
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import check_seed, optional
from unhub.evaluation.evaluate import DEFAULT_MEASURES, excluded_note, notes_on
from unhub.evaluation.excluding import ExcludeLike, Exclusion
from unhub.evaluation.inputs import Corrections, Setting, name_corrections
from unhub.evaluation.measures import Measure, parse_measures
from unhub.evaluation.pictures import FORMS, MARKS, Picture
from unhub.evaluation.tables import as_text
from unhub.files.container import check_replaceable
from unhub.matching import Matched
from unhub.reports import plots as charts
from unhub.reports.choice import choose
from unhub.reports.findings import Findings
from unhub.reports.labels import ByIdOrRow, Labels, Paths
from unhub.reports.provenance import facts
from unhub.reports.report_page import Page
from unhub.reports.report_tables import CHANCE, hubness_rows
from unhub.reports.sections import Shown
from unhub.reports.verdict import LEAK_NOTE, Verdict, verdict_on
from unhub.studies.data_studies import study_bank_size
from unhub.studies.settings import study_temperature
from unhub.studies.study import Study

STUDY_QUERIES, STUDY_BANK = 5_000, 20_000  # at most, of the curves of a report; the page says so where more are given
BALANCED = 10**8  # similarities of bank and items up to which the temperature of sn is studied too
TITLE = "Hubness report"
STEMS = ("occurrences", "shares", "similarities-raw", "similarities-corrected", "temperature", "bank-size")
PAGE_MARK = b'<meta name="generator" content="unhub">'  # near the beginning of every page


@dataclass(frozen=True, eq=False)
class Report:
    """What a report says: the verdict, the findings, the studies and the pictures, and the page itself."""

    verdict: Verdict
    findings: Findings
    studies: tuple[Study, ...]
    pictures: tuple[Picture, ...]
    html: str
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the verdict and the figures as JSON can hold them."""
        findings = self.findings
        return {
            "verdict": self.verdict.word,
            "sentences": list(self.verdict.sentences),
            "queries": findings.queries,
            "queries_in_bank": self.verdict.leaked,
            "items": len(findings.setting.item_ids),
            "shown": findings.shown,
            "rankings": [
                {"name": name, "hubness": hubness.to_dict(), **_measures(findings, number)}
                for number, (name, hubness) in enumerate(zip(findings.names, findings.hubness, strict=True))
            ],
            "studies": [study.to_dict() for study in self.studies],
            "notes": list(self.notes),
        }

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text: the measures and the figures of hubness of each ranking."""
        findings = self.findings
        rows = [
            [str(measure), *(str(row.values[str(measure)]) for row in findings.rows), ""]
            for measure in findings.measures
            if findings.rows
        ]
        return ["", *findings.names, CHANCE], [*rows, *hubness_rows(findings)]

    def __str__(self) -> str:
        return "\n".join([*self.verdict.sentences, "", as_text(*self.cells()), *self.notes])


def report(
    items: VectorsLike,
    bank: VectorsLike,
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
    progress: Progress | None = None,
) -> Report:
    """Measure the raw and the corrected ranking and write one HTML page about them that opens offline.

    relevance: without it the page speaks of hubness alone. item_texts, item_images (paths), query_texts: a list in the
    order of the rows, or a mapping by id. corrections: the first one is shown beside the raw ranking; by default it is
    what `tune` chooses without labels, and raw is shown alone. exclude: items that are not ranked for single queries,
    as `evaluate` takes it; `tune` cannot, so then corrections are needed. figures: a folder for the charts, as PNG and
    SVG. command: how this was called, for the page to say.
    """
    target, chosen_measures = check_replaceable(path, PAGE_MARK), parse_measures(measures)
    optional("matplotlib.figure", "plot", "a report")
    check_seed(seed)
    if figures is not None:
        _check_folder(Path(figures))
    gallery, past, asked = as_vectors(items, "items"), as_vectors(bank, "bank"), as_vectors(queries, "queries")
    known = None if relevance is None else as_relevance(relevance)
    truth = None if known is None else known.against(asked.ids, gallery.ids)
    exclusion = None if exclude is None else Exclusion.of(exclude, asked.ids, gallery.ids)
    if exclusion is not None and truth is not None:
        truth = exclusion.against(asked.ids, gallery.ids).without(truth)
    labels = Labels("item", gallery.ids, item_texts, item_images), Labels("query", asked.ids, query_texts)
    steps = Steps(progress, 4)
    leaked = _leaked(Matched.of(past, gallery, asked, similarity, threads))
    reason, advised, choosing = None, True, steps.next()
    if corrections is None:
        if exclusion is not None:
            raise ValueError(
                "exclude needs corrections to look at: what is chosen here is chosen with every item ranked"
            )
        if leaked == len(asked):
            raise ValueError(
                "queries all stand in the bank, so they can choose no correction; leave them out of the bank, ask "
                "others, or give a correction to look at"
            )
        choice = choose(gallery, past, asked, similarity, seed, threads, choosing)
        corrections, reason, advised = choice.corrections, choice.note, choice.advised
    fitted = name_corrections(corrections)
    if not fitted:
        raise ValueError("corrections is empty; give at least one, or leave it out to have one chosen")
    setting = Setting.of(asked, gallery, fitted, similarity, threads, exclude=exclusion)
    findings = Findings.of(setting, known, chosen_measures, seed, threads, steps.next())
    # Where there are labels, a curve is drawn on queries that have one.
    some = _at_most(asked if truth is None else asked.gather(truth.answered), STUDY_QUERIES, seed)
    some_bank = _at_most(past, STUDY_BANK, seed)
    methods = ("is", "sn") if len(some_bank) * len(gallery) <= BALANCED else ("is",)
    studies = (
        study_temperature(gallery, some_bank, some, known, methods=methods, exclude=exclusion, similarity=similarity,
                          seed=seed, threads=threads, progress=steps.next()),
        study_bank_size(gallery, some_bank, some, known, exclude=exclusion, similarity=similarity, seed=seed,
                        threads=threads, progress=steps.next()),
    )  # fmt: skip
    left_out: tuple[str, ...] = ()
    if truth is not None:
        unanswered, groups = len(asked) - len(truth.answered), int(truth.groups.max()) + 1
        left_out = notes_on(unanswered, truth.absent, groups, truth.unknown_items, truth.unknown_queries)
    left_out += setting.notes
    if truth is not None and truth.excluded:
        left_out += (excluded_note(truth.excluded),)
    leak = LEAK_NOTE.format(leaked=leaked, queries=len(asked)) if leaked else None
    made = {"curves": f"{len(some):,} of the queries, {len(some_bank):,} of the bank", "seed": str(seed)}
    page = Page(
        title, findings, verdict_on(findings, advised, leaked), Shown(findings, *labels, seed),
        (charts.occurrences(findings), charts.shares(findings)), charts.similarities(findings, seed), studies,
        tuple(filter(None, (leak, *left_out, reason))),
        facts({"items": gallery, "bank": past, "queries": asked}, similarity, fitted,
              {**made, **({"command": command} if command else {})}),
    )  # fmt: skip
    written = Report(page.verdict, findings, studies, page.pictures, page.to_html(), (*page.notes, *page.shown.missing))
    _write(written, target, figures)
    return written


def _leaked(matched: Matched) -> int:
    """Return how many queries stand in the bank as they are."""
    return int(np.isin(matched.hashes["queries"], matched.hashes["bank"]).sum())


def _check_folder(folder: Path) -> None:
    """Raise unless charts can be written into a folder, which may have to be made, and would replace charts alone."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"figures: {folder} is a file; name a folder")
    existing = folder if folder.is_dir() else folder.parent
    if not existing.is_dir():
        raise FileNotFoundError(f"figures: {folder} cannot be made, there is no folder {existing}; create it first")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(f"figures: no permission to write into the folder {existing}")
    for stem in STEMS if folder.is_dir() else ():
        for form, mark in MARKS.items():
            try:
                check_replaceable(folder / f"{stem}.{form}", mark)
            except (ValueError, OSError) as error:
                raise type(error)(f"figures: {error}") from None


def _write(report: Report, target: Path, figures: str | os.PathLike[str] | None) -> None:
    """Write the charts and then the page, so that a page that is there is complete."""
    if figures is not None:
        Path(figures).mkdir(exist_ok=True)
        for picture in report.pictures:
            for form in FORMS:
                picture.save(Path(figures) / f"{picture.name}.{form}")
    with replacing(target) as temporary:
        temporary.write_text(report.html, encoding="utf-8")


def _at_most(vectors: Vectors, count: int, seed: int) -> Vectors:
    """Return these vectors, or some of them drawn at random."""
    if len(vectors) <= count:
        return vectors
    return vectors.gather(np.sort(np.random.default_rng(seed).choice(len(vectors), count, replace=False)))


def _measures(findings: Findings, number: int) -> dict[str, object]:
    if not findings.rows:
        return {}
    row = findings.rows[number]
    return {
        "values": {name: one.to_dict() for name, one in row.values.items()},
        "gains": {name: one.to_dict() for name, one in row.gains.items()},
        "p_values": row.p_values,
    }
