"""Read the query logs that options name, as other options say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unhub.cli.errors import argument
from unhub.cli.inputs import refuse
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.data.query_log import QueryLog
    from unhub.data.runs import Run
    from unhub.files.log_values import TimeUnit


def read_logged(
    path: Path, column: Sequence[str] | None, time_unit: TimeUnit, skip_bad: bool, option: str = "--hits"
) -> QueryLog:
    """Read what was returned, from a query log, a TREC run or hits of `unhub search`."""
    from unhub import files

    columns = columns_in(column)
    with argument(option):
        is_log = files.is_log(path)
    if not is_log:
        refuse_log_options(column, time_unit, skip_bad, f"{path} is no query log")
    with argument(option):
        return files.read_hits(path, columns=columns, time_unit=time_unit, skip_bad=skip_bad)


def refuse_log_options(column: Sequence[str] | None, time_unit: TimeUnit, skip_bad: bool, why: str) -> None:
    """Refuse the options that say how a log is read, where there is none."""
    given = {"--column": column or None, "--time-unit": None if time_unit == "auto" else time_unit}
    refuse({**given, "--skip-bad": skip_bad or None}, why)


def columns_in(given: Sequence[str] | None) -> dict[str, str]:
    """Return the columns of a log that were named, by field."""
    from unhub.files.log_gathering import LogColumns

    named = {}
    for one in given or ():
        field, equals, name = one.partition("=")
        if not equals or not name:
            raise ArgumentError("--column", f"must be FIELD=NAME, got {one!r}", "write it as text=q")
        named[field] = name
    with argument("--column", "columns"):
        LogColumns.named(named)
    return named


def read_runs(
    paths: Sequence[Path], column: Sequence[str] | None, time_unit: TimeUnit, skip_bad: bool
) -> tuple[dict[str, Run], list[QueryLog]]:
    """Read the runs of --run, and return the query logs among them too."""
    from unhub import files

    runs: dict[str, Run] = {}
    logs: list[QueryLog] = []
    with argument("--run"):
        are_logs = [files.is_log(path) for path in paths]
    if not any(are_logs):
        refuse_log_options(column, time_unit, skip_bad, "no --run is a query log")
    for path, is_log in zip(paths, are_logs, strict=True):
        if is_log:
            logs.append(read_logged(path, column, time_unit, skip_bad, "--run"))
        with argument("--run"):
            runs[str(path)] = _run_of(logs[-1], path) if is_log else files.read_run(path)
    return runs, logs


def _run_of(log: QueryLog, path: Path) -> Run:
    from unhub.data.runs import Run

    try:
        return Run.of_log(log)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
