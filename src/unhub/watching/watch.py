"""Watch: what production returned, day by day, beside what chance alone would give; and whether to raise an alarm."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

from unhub.arrays import Ids, Kind
from unhub.atomic import holding, replacing
from unhub.compute.progress import ProgressLike, Steps, called, shows_progress
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.query_log import NO_QUERIES, QueryLog
from unhub.data.runs import Answers, Run
from unhub.data.vectors import VectorsLike, as_vectors
from unhub.errors import ArgumentError, EmptyLogError, check_seed, check_whole, optional
from unhub.evaluation.hubness import NUMBER_UNKNOWN, as_log, gallery_of
from unhub.evaluation.pictures import FORMS, MARKS
from unhub.files.container import check_replaceable
from unhub.files.log_frames import LogLike
from unhub.files.relevance_files import read_hits
from unhub.methods.method import as_number
from unhub.reports.report import PAGE_MARK
from unhub.watching.drifting import BankSample, FromBank
from unhub.watching.history import WatchHistory, append, read_history
from unhub.watching.periods import Drift, Period, content_of, days_of, period_of
from unhub.watching.prometheus import PROMETHEUS_MARK, prometheus_text
from unhub.watching.samples import sampled
from unhub.watching.watch_page import page_of_watch, picture_of
from unhub.watching.watched import AlarmLimits, Watch

PAGE_SUFFIXES = (".html", ".htm")
NO_TIMES = (
    "The log names no times, so that all of it is one period, that of now, beside the days of the history. If it "
    "has times, name their column: time=NAME (--column), and remove the last line of the history."
)
NOTHING_NEW = "The log holds no query yet: the history stays as it is."


@shows_progress
def watch(
    hits: LogLike | QueryLog | Run,
    *,
    items: VectorsLike | Ids | int | None = None,
    correction: Correction | None = None,
    bank: VectorsLike | None = None,
    history: str | os.PathLike[str] | None = None,
    k: int = 10,
    max_skewness: float | None = None,
    min_coverage: float | None = None,
    prometheus: str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    similarity: Kind | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Watch:
    """Measure the hubness of what was returned, by day, without vectors or labels.

    hits: a query log, a run, or the path of one: a log as `read_log` reads it, a TREC run, or hits of `unhub search`. A
    log may be a table of pandas, polars or Arrow.

    items: all items, their ids or how many there are; left out, the correction names them. Without either, the items
    that were returned are taken for all, and a note says so.

    history: a .jsonl file with a line for each day, to which days that are new or fuller are added; trends are over all
    of it. If it has a day, a log without a query adds nothing; else that is an error. A log without times is one
    period. k: how many first places count.

    max_skewness: how much the skewness of the last day may exceed what chance gives. min_coverage: how many items it
    must find, as a share of what chance would find. Beyond them there is an alarm; days with under 50 different queries
    are not judged.

    bank: past queries; if the log holds vectors, says whether queries drift away from it. prometheus: a file to write
    for the textfile collector. path: an .html page, or a .png or .svg picture. similarity: how vectors are compared; as
    the correction was fitted, else by cosine.
    """
    progress = called(progress)
    check_seed(seed)
    k = check_whole(k, "k", 1)
    limits = AlarmLimits(_limit(max_skewness, "max_skewness"), _limit(min_coverage, "min_coverage"))
    gallery = gallery_of(items, correction)
    if gallery is None and limits.any:
        name = "max_skewness" if limits.max_skewness is not None else "min_coverage"
        problem = "needs the number of all items, of which the log names only those returned"
        raise ArgumentError(name, problem, "give items, or a correction that names them")
    form = None if path is None else _form(path)
    if path is not None and history is None and prometheus is None:
        _check_plots()  # else what is kept comes first, and a page that cannot be drawn after it
    if prometheus is not None:
        check_replaceable(prometheus, PROMETHEUS_MARK)
    log = _log_of(hits, may_be_empty=history is not None and bool(read_history(history).lines))
    past = None
    if bank is not None:
        known = None if correction is None else correction.source.similarity
        kind: Kind = similarity or ("cosine" if known is None or known == "given" else known)
        past = BankSample.of(as_vectors(bank, "bank"), kind, seed, threads)
    with nullcontext() if history is None else holding(history, "history", "another `unhub watch`"):
        before = WatchHistory() if history is None else read_history(history)
        new, drifts, notes = _new_periods(log, gallery, k, before, past, seed, progress)
        if history is not None and new:
            append(history, new)
    after = before.compared(drifts).grown(new)
    unknown = () if gallery is not None else (NUMBER_UNKNOWN.format(items=after.periods[-1].items),)
    found = Watch(after.periods, new, limits, (*log.notes, *unknown, *before.notes, *notes))
    if prometheus is not None:
        _write(prometheus, prometheus_text(found))
    if path is not None:
        _check_plots()
        _write(path, page_of_watch(found) if form is None else picture_of(found).to_bytes(form))
    return found


def _new_periods(
    log: QueryLog,
    gallery: Ids | int | None,
    k: int,
    before: WatchHistory,
    past: BankSample | None,
    seed: int,
    progress: Progress | None,
) -> tuple[tuple[Period, ...], dict[str, Drift], tuple[str, ...]]:
    """Return the periods of a log that the history does not know yet, how far those that it knows drifted, and notes.

    The history does not say from which bank a period drifted, so that one that is known is compared again.
    """
    if not len(log):
        return (), {}, (NOTHING_NEW,)
    days = [*days_of(log)]
    steps = Steps(progress, 2 * len(days))
    new: list[Period] = []
    drifts: dict[str, Drift] = {}
    notes: list[str] = []
    known: tuple[str, ...] = ()  # of the newest period alone: a log may hold many that were added to the bank
    for name, rows in days:
        part = log.gather(rows)
        answers = Answers.of(part, gallery, k)
        where = "" if name is None else f"{name}: "
        notes += [f"{where}{note}" for note in answers.notes]
        content = content_of(answers)
        measuring, comparing = steps.next(), steps.next()
        found = FromBank(None) if past is None else past.compared(part, answers, comparing)
        drift = found.drift
        notes += [f"{where}{note}" for note in found.notes]
        known = known if found.known is None else (f"{where}{found.known}",)
        if before.knows(name, content):
            if drift is not None:
                drifts[content] = drift
            continue
        if (there := before.day(name)) is not None:
            if there.logged > answers.traffic:
                notes.append(
                    f"{name}: the history counts {there.logged:,} queries, the log {answers.traffic:,}; the history "
                    "stays as it is. Give all of a day at once."
                )
                continue
            if there.logged < answers.traffic or (there.k, there.items) == (answers.k, answers.items):
                notes.append(
                    f"{name} had {there.logged:,} queries in the history and now has {answers.traffic:,}: those of the "
                    "log take their place, they are not added to them. Give all of a day at once."
                )
        if name is None and any(one.dated for one in before.lines):
            notes.append(NO_TIMES)
        figures = sampled(answers, seed=seed, progress=measuring)
        new.append(period_of(name, content, answers, figures, drift))
    return tuple(new), drifts, (*notes, *known)


def _log_of(hits: LogLike | QueryLog | Run, may_be_empty: bool) -> QueryLog:
    try:
        log = as_log(hits) if isinstance(hits, QueryLog | Run) else read_hits(hits)
        if not len(log) and not may_be_empty:
            raise ArgumentError("hits", "holds no query yet", "watch it again when it does")
    except EmptyLogError:
        if not may_be_empty:
            raise
        return NO_QUERIES
    return log


def _limit(value: float | None, name: str) -> float | None:
    if value is None:
        return None
    number = as_number(value)
    if number is None or not 0 <= number < float("inf"):
        raise ArgumentError(name, f"must be a finite number of at least 0, got {value!r}")
    if name == "min_coverage" and number > 1:
        raise ArgumentError(name, f"must be a share from 0 to 1, got {value!r}")
    return number


def _form(path: str | os.PathLike[str]) -> str | None:
    """Return the format of the picture that a file's name asks for, None for a page; raise if it cannot be written."""
    suffix = Path(path).suffix.lower()
    form = suffix.removeprefix(".")
    if suffix not in PAGE_SUFFIXES and form not in FORMS:
        raise ArgumentError("path", f"is {os.fspath(path)}", "end it in .html for a page, .png or .svg for a picture")
    check_replaceable(path, PAGE_MARK if suffix in PAGE_SUFFIXES else MARKS[form])
    return None if suffix in PAGE_SUFFIXES else form


def _check_plots() -> None:
    """Raise an ImportError if there is nothing to draw with."""
    optional("matplotlib.figure", "plot", "the page or picture")


def _write(path: str | os.PathLike[str], content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)
