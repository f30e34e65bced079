"""`unhub eval`: how well the answers are found, raw and with corrections, side by side."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.folding import show, show_brief, tell
from unhub.cli.inputs import (
    check_methods,
    check_outputs,
    read_named,
    read_optional,
    refuse,
)
from unhub.cli.logged import read_runs
from unhub.cli.options import (
    MEASURES,
    BankItems,
    Columns,
    CompareAsFitted,
    Device,
    ExcludeSelf,
    ItemIds,
    Json,
    Measures,
    NoNotes,
    NumberedTimes,
    On,
    OptionalBank,
    OptionalItems,
    OptionalQueries,
    OptionalRelevance,
    Overwrite,
    QueryIds,
    SavedList,
    SkipBad,
    Threads,
    TimeUnitChoice,
    whole_number,
)
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.arrays import Kind
    from unhub.correction import Correction
    from unhub.data.query_log import QueryLog
    from unhub.data.relevance import Relevance
    from unhub.data.vectors import Vectors
    from unhub.evaluation.evaluate import Evaluation

DEFAULT_METHOD = "is"  # to fit on a bank, as in `unhub fit`
DEFAULT_SEEDS = 3  # random parts of the bank, if only their size is given
CLICKED = (
    "The labels are clicks. People can only click what they were shown, so they favour the ranking of the log; what "
    "another ranking finds is compared without doubt only by an A/B test (`unhub ab`)."
)
REVERSED = "with --reverse, --queries are searched and --items ask"
REVERSED_ROLES = {"items": "--queries", "queries": "--items"}


def evaluate(
    items: OptionalItems = None,
    queries: OptionalQueries = None,
    relevance: OptionalRelevance = None,
    item_ids: ItemIds = None,
    query_ids: QueryIds = None,
    correction: SavedList = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A method to fit on --bank, for example nnn:k=32,alpha=0.5; repeatable (default with --bank: 'is').",
        ),
    ] = None,
    bank: OptionalBank = None,
    bank_items: BankItems = None,
    bank_size: Annotated[
        int | None, whole_number(1, help="Fit on random parts of the bank with this many queries.")
    ] = None,
    seeds: Annotated[
        int | None,
        whole_number(2, help="Number of random parts (default: 3); without --bank-size each is half of the bank."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A TREC run of another system, or a query log; repeatable."),
    ] = None,
    column: Columns = None,
    time_unit: NumberedTimes = TimeUnitChoice.auto,
    skip_bad: SkipBad = False,
    measures: Measures = MEASURES,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Search the queries with the items; --bank then holds past items.")
    ] = False,
    exclude_self: ExcludeSelf = False,
    similarity: CompareAsFitted = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv file for the rank of each query's best answer.")
    ] = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    device: Device = None,
    on: On = None,
    quiet: NoNotes = False,
    as_json: Json = False,
) -> None:
    """Measure how well queries find their answers, raw and corrected, with intervals and gains over raw."""
    import unhub
    from unhub import files
    from unhub.evaluation.evaluate import Evaluation
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.inputs import name_corrections
    from unhub.evaluation.measures import parse_measures
    from unhub.studies.seeds import OverSeeds, over_seeds

    for name, given in (("--items", items), ("--queries", queries)):
        if given is None:
            alone = "; of a log alone, `unhub hubs --hits` counts what was returned, and `unhub ab` compares by clicks"
            raise ArgumentError(name, "is missing", f"give it, as vectors{alone if run else ''}")
    assert items is not None and queries is not None
    parts = {"--bank-size": bank_size, "--seeds": seeds}
    refuse({"--bank-items": bank_items}, "there is no --method to fit", not method)
    refuse(parts, "there is no --bank to draw from", bank is None)
    drawn = seeds is not None or bank_size is not None
    refuse({"--device": device, "--on": on}, "parts of the bank are fitted without it", drawn)
    if bank is not None:
        method = method or [DEFAULT_METHOD]
    inputs = (items, queries, relevance, item_ids, query_ids, bank, bank_items, *(correction or ()), *(run or ()))
    check_outputs([("--output", output)], overwrite, *inputs)
    check_methods(method or [], "--method")
    with argument("--measures", "measure"):
        chosen = parse_measures(measures)
    with argument("--correction"):
        saved = {str(path): files.load(path, "correction") for path in correction or ()}
    runs, logs = read_runs(run or (), column, time_unit.value, skip_bad)
    answers, clicked = _labels(relevance, logs)
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    past, past_items = read_optional(bank, "--bank"), read_optional(bank_items, "--bank-items")
    if past is not None and bank_size is not None and bank_size > len(past):
        raise ArgumentError("--bank-size", f"is {bank_size:,}, the bank has {len(past):,} queries", "give fewer")
    halved = past is not None and seeds is not None and bank_size is None
    size = max(1, len(past) // 2) if past is not None and halved else bank_size
    if reverse:
        gallery, asked, answers = asked, gallery, answers.reversed()
        _check_reversed(saved, gallery, queries, threads)
    corrections = dict(saved)
    exclude = SELF if exclude_self else None
    kind: Kind | None = None if similarity is None else similarity.value
    shown: Evaluation | OverSeeds
    if past is not None and size is not None:
        with _naming_roles(reverse), progress("evaluate", quiet) as advance:
            shown = over_seeds(
                asked,
                gallery,
                answers,
                past,
                method or [],
                size,
                seeds or DEFAULT_SEEDS,
                chosen,
                bank_items=past_items,
                corrections=corrections,
                runs=runs,
                exclude=exclude,
                similarity=kind,
                threads=threads,
                progress=advance,
            )
        evaluation = shown.evaluation
    else:
        if method:
            with _naming_roles(reverse), progress("fit", quiet) as advance:
                fitted = unhub.fit(
                    gallery,
                    past,
                    method=method,
                    bank_items=past_items,
                    similarity=kind or "cosine",
                    threads=threads,
                    device=device,
                    on=on,
                    progress=advance,
                )
            corrections |= name_corrections(fitted)
        with _naming_roles(reverse), progress("evaluate", quiet) as advance:
            shown = evaluation = unhub.evaluate(
                asked,
                gallery,
                answers,
                corrections,
                chosen,
                runs=runs,
                exclude=exclude,
                similarity=kind,
                threads=threads,
                device=device,
                on=on,
                progress=advance,
            )
    if output is not None:
        with files.replacing(output) as temporary:
            _write_ranks(evaluation, temporary)
    specs = {path: one.spec for path, one in saved.items()}
    if as_json:
        echo_json({**shown.to_dict(), "corrections": specs, **({"labels": [*clicked]} if clicked else {})})
        return
    if isinstance(shown, Evaluation):
        show_brief(shown.cells(), len(chosen))
    else:
        show(shown.cells())
    if not quiet:
        brackets = ["In brackets: 95% intervals, by bootstrap."] if isinstance(shown, Evaluation) else []
        marked = [f"* is the best by {chosen[0]}."] if len(shown.rows) > 1 else []
        names = [f"{path} is {spec}." for path, spec in specs.items()]
        half = [f"--bank-size is not given: {size:,} queries are half of the bank."] if halved else []
        roles = [f"{REVERSED.capitalize()}: below, items are what is searched."] if reverse and shown.notes else []
        read = [note for log in logs for note in log.notes]
        tell(" ".join(brackets + marked), *names, *half, *roles, *clicked, *read, *shown.notes)


def _labels(relevance: Path | None, logs: Sequence[QueryLog]) -> tuple[Relevance, Sequence[str]]:
    """Return which items answer which query, as a file says or else as the clicks of the runs do, and notes on that."""
    from unhub import files
    from unhub.data.query_log import join_logs
    from unhub.logs.clicks import clicks_to_relevance

    if relevance is not None:
        with argument("--relevance"):
            return files.read_relevance(relevance), ()
    clicked = [log for log in logs if log.clicked is not None and log.query_ids is not None]
    if not clicked:
        problem = "is missing, and no --run is a query log with query ids and clicks"
        raise ArgumentError("--relevance", problem, "say which items answer which query")
    labels = clicks_to_relevance(join_logs([replace(log, notes=()) for log in clicked]))
    return labels.relevance, (CLICKED, *labels.notes)


@contextmanager
def _naming_roles(reverse: bool) -> Iterator[None]:
    """With --reverse, name the option that holds what an error calls items or queries."""
    try:
        yield
    except ValueError as error:
        if not reverse:
            raise
        if isinstance(error, ArgumentError) and error.name in REVERSED_ROLES:
            raise error.of(f"{REVERSED_ROLES[error.name]} (with --reverse, the {error.name})") from error
        if isinstance(error, ArgumentError):
            raise
        raise ValueError(f"{REVERSED}: {error}") from error


def _check_reversed(saved: Mapping[str, Correction], searched: Vectors, queries: Path, threads: int | None) -> None:
    """Check that corrections were fitted on the queries, which are searched when the items ask."""
    from unhub.matching import locate

    for path, correction in saved.items():
        try:
            locate(searched, correction, threads)
        except ValueError as error:
            raise ValueError(
                f"--correction: {path} was not fitted on --queries, which --reverse searches; fit one with "
                f"`unhub fit --items {queries}` and a --bank of past items ({error})"
            ) from error


def _write_ranks(evaluation: Evaluation, path: Path) -> None:
    """Write a line for each answered query: its id, and the rank of its best answer under each ranking."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:  # for ids that are not UTF-8
        writer = csv.writer(file)
        writer.writerow(["query_id", *(row.name for row in evaluation.rows)])
        writer.writerows(
            [query, *(f"{rank:.12g}" for rank in ranks)]
            for query, ranks in zip(evaluation.query_ids.tolist(), evaluation.ranks.T.tolist(), strict=True)
        )
