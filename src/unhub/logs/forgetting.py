"""Forgetting: a person's queries leave bank folders, logs, what a service keeps, and corrections, all or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.data.vectors import Rows, VectorsLike, as_vectors
from unhub.errors import ArgumentError, LogFileError, reading_log
from unhub.files.bank_folders import begun_files
from unhub.files.joint_change import JointChange, check_finished, finish
from unhub.files.kept_state import added_rows, find_marks, leftovers
from unhub.files.log_gathering import LogColumns
from unhub.files.log_removal import FoundLines, ToForget, find_lines
from unhub.files.log_values import user_name
from unhub.files.logs import LogReading, not_read
from unhub.given_again import sets_of
from unhub.logs.forgetting_places import ForgettingPlaces
from unhub.logs.forgetting_plan import Doubt, ForgettingPlan, kept_banks, logs_as_banks, saved_corrections
from unhub.logs.forgotten_banks import BankRefits, ItemPool, LosingBank
from unhub.logs.forgotten_rows import ForgottenRows
from unhub.logs.losing_folder import LosingFolder

BEGUN = (
    "{} holds what a first `unhub log add` left that was cut off, and no bank yet: all of that goes. The ids and users "
    "are not noted there, so forget them in the log too before it is added."
)
COMPLETED = "An earlier command that was cut off is completed now; it may have removed queries of these ids already."


@dataclass(frozen=True)
class Forgotten:
    """What `forget_queries` removed, or would remove in a dry run.

    queries: how many ids were given; missing: those that were found nowhere. removed: how many queries went, by the
    file or folder. refitted: the corrections that were fitted again. completed: whether an earlier call that was cut
    off was completed first; nobody can tell then which ids it had found, and missing is empty. dropped: versions that
    were deleted, and why they could not be fitted again. unsure: the corrections, the bank folder and the logs with
    users that are no ids, if they may still hold what was to be forgotten: for how many ids there was no vector to look
    for, among how many queries whose ids are unknown, and of how many the users are. users, missing_users: the same as
    queries and missing, of the users that were given. left: sentences, which are notes too, on what could not be looked
    in, such as files of a folder that are not read, and on other banks that hold forgotten queries.
    """

    queries: int
    missing: tuple[str, ...]
    removed: Mapping[str, int]
    refitted: tuple[str, ...]
    dry_run: bool
    notes: tuple[str, ...] = ()
    completed: bool = False
    dropped: Mapping[str, str] = field(default_factory=dict)
    unsure: Mapping[str, Doubt] = field(default_factory=dict)
    users: int = 0
    missing_users: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def all_gone(self) -> bool:
        """Whether everything was found, and nothing that was named may still hold some of it."""
        return not (self.missing or self.missing_users or self.unsure or self.left)


@shows_progress
def forget_queries(
    query_ids: Iterable[str | int] = (),
    *,
    users: Iterable[str | int] = (),
    bank: str | os.PathLike[str] | None = None,
    logs: Sequence[str | os.PathLike[str]] = (),
    corrections: Sequence[str | os.PathLike[str]] = (),
    state: str | os.PathLike[str] | None = None,
    items: VectorsLike | Sequence[VectorsLike] | None = None,
    bank_items: VectorsLike | None = None,
    other_banks: Mapping[str, VectorsLike] | None = None,
    refit: bool = False,
    drop_inactive: bool = False,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    dry_run: bool = False,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> Forgotten:
    """Remove queries, by their ids in the logs, from everything that is named, and fit corrections again without them.

    users: those whose queries are all removed, as the logs and the bank folder say who asked. A query of which one says
    so goes by that alone; of the others those go whose ids are of such a query.

    bank: a bank folder; it never takes these ids and users again. logs: files and folders, as `add_log` takes them,
    which lose these lines. state: the folder of `unhub serve --state`: its versions, their banks, and the marks.
    corrections: files, and folders of .unhub files. Name all places in one call: where rows have no id, as in the bank
    of a refit or in a correction, they are found by comparing them with the forgotten rows of the bank folder and logs.

    items: those that the corrections were fitted on, in any order, or a list of several sets, such as those before and
    after items were replaced; they are found by their contents. bank_items: those of a dual method. A correction
    that knows one of the queries is fitted again on the others, from the bank folder, logs of a service, what versions
    keep, and other_banks, by name, which are not changed themselves. If some of these are not at hand it is an error,
    unless `refit` says to fit it on the bank folder as it is then. drop_inactive: delete versions that cannot be fitted
    again and are not the active one of their folder; else they are an error.

    columns: as in `add_log`. skip_bad: leave lines in the logs whose id cannot be read; else they are an error. A
    folder that a service or another writer uses is an error too. dry_run: change nothing, and return what would go.

    All or nothing: after a kill everything is as it was, or the same call finishes.
    """
    progress = called(progress)
    ids, people = frozenset(str(one) for one in query_ids), frozenset(user_name(str(one)) for one in users)
    if not ids and not people:
        raise ArgumentError("query_ids", "is empty, and so is users", "name the queries to forget, or who asked them")
    if "" in ids:
        raise ArgumentError("query_ids", "holds an empty id", "leave it out: it names no query")
    if "" in people:
        raise ArgumentError("users", "holds an empty name", "leave it out: it names nobody")
    kept_in = None if state is None else Path(state)
    places = ForgettingPlaces(None if bank is None else Path(bank), _paths(logs), _paths(corrections), kept_in)
    reading = LogReading(LogColumns.named(columns), skip_bad)
    with places.held():
        completed = False
        for folder in places.looked_in:
            if dry_run:
                check_finished(folder)
            else:
                completed |= finish(folder)
        left = [path for folder in places.version_folders for path in leftovers(folder, places.is_of_service(folder))]
        begun = [] if places.bank is None else begun_files(places.bank)
        wanted = _to_forget(places, ids, people, reading)
        losing = None if places.counted_bank is None else LosingFolder.read(places.counted_bank, wanted)
        with reading_log():
            found = [find_lines(file, wanted, reading) for file in places.files]
            passed = dict.fromkeys(note for log in places.logs for note in not_read(log))
        if reading.bad.count and not skip_bad:
            raise LogFileError(
                f"{reading.bad.told}. Mend the log, or leave such lines in it: --skip-bad (skip_bad=True)"
            )
        rows = ForgottenRows(
            () if losing is None else losing.gone_rows, (row for lines in found for row in lines.vectors)
        )
        own = kept_banks(places.version_folders, rows)
        named = {name: as_vectors(one, "other_banks") for name, one in (other_banks or {}).items()}
        others = [LosingBank.of_rows(name, one, rows.stays_in(one)) for name, one in named.items()]
        served = logs_as_banks(places.log_folders, found)
        refits = BankRefits(
            rows,
            ItemPool([*_given_items(items), *_added(kept_in)]),
            [*(one.bank for one in own), *served, *others],
            None if losing is None else losing.as_bank(progress),
            None if losing is None else losing.logged(),
            refit,
            bank_items,
            threads,
            progress,
            drop_inactive,
        )
        marks = None if kept_in is None else find_marks(kept_in, rows.are_among)
        saved = saved_corrections(places.saved, left)
        lines = [one for one in found if len(one)]
        plan = ForgettingPlan.of(losing, lines, own, marks, saved, refits, [*begun, *left])
        banked = set() if losing is None else {*losing.gone_ids}
        unplaced = len(ids - banked - {one for lines in found for one in lines.placed})
        with_ids = [] if losing is None else losing.named()
        with_users = [] if losing is None else losing.of_known_users()
        unsure = plan.unsure(wanted, unplaced, [*with_ids, *served], with_users)
        # Of a log without the column it is noted that it does not say who asked.
        doubted = [lines for lines in found if lines.has_users and lines.strangers]
        unsure |= {str(lines.file.path): Doubt(users=lines.strangers) for lines in doubted}
        strangers = (
            people - (set() if losing is None else losing.gone_users) - {one for lines in found for one in lines.users}
        )
        if not dry_run:
            with JointChange(places.folders) as change:
                plan.write(change, progress)
                change.commit()
    missing = tuple(sorted(ids - banked - {one for lines in found for one in lines.ids}))
    refitted = tuple(str(one.saved.path) for one in plan.refitted)
    dropped = {str(path): why for path, why in plan.dropped.items()}
    told = [*([COMPLETED] if completed else []), *([BEGUN.format(places.bank)] if begun else [])]
    remains = (*passed, *_remaining(reading, found, others, wanted))
    by_ids = [
        f"{lines.file.path} does not say who asked: queries were looked for by their ids alone."
        for lines in found
        if people and lines.named and not lines.tells_users and lines.file.dimensions is None
    ]
    return Forgotten(
        len(ids),
        () if completed else missing,
        plan.removed,
        refitted,
        dry_run,
        (*told, *remains, *by_ids, *(doubt.told(path) for path, doubt in unsure.items())),
        completed,
        dropped,
        unsure,
        len(people),
        () if completed else tuple(sorted(strangers)),
        remains,
    )


def _to_forget(places: ForgettingPlaces, ids: frozenset[str], users: frozenset[str], reading: LogReading) -> ToForget:
    """Return what is to be forgotten, with the ids of the queries that are known to be of these users."""
    if not users:
        return ToForget(ids)
    theirs = ToForget(users=users)
    first = LogReading(reading.columns, skip_bad=True)  # bad lines are told when everything is looked for
    with reading_log():
        found = {one for file in places.files for one in find_lines(file, theirs, first).ids}
    if places.counted_bank is not None:
        found |= {*LosingFolder.read(places.counted_bank, theirs).gone_ids} - {""}
    return ToForget(ids, users, frozenset(found))


def _paths(given: Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    return tuple(map(Path, [given] if isinstance(given, str | os.PathLike) else given))


def _given_items(items: VectorsLike | Sequence[VectorsLike] | None) -> list[Rows]:
    return [] if items is None else [one.rows for one in sets_of(items, "items")]


def _added(state: Path | None) -> list[Rows]:
    return [] if state is None else added_rows(state)


def _remaining(
    reading: LogReading, found: Sequence[FoundLines], others: Sequence[LosingBank], wanted: ToForget
) -> Iterator[str]:
    """Say in which logs not everything could be looked for, and which banks still hold some."""
    if reading.bad.count:
        yield f"{reading.bad.count:,} lines cannot be read and are still there: {reading.bad.told}."
    for path in reading.bad.torn:
        yield f"The last line of {path} is cut off and is still there; look whether it is to be forgotten."
    for lines in found:
        if lines.looked_at and not lines.named and not lines.tells_users:
            yield f"{lines.file.path} has no ids of queries: nothing was looked for in it."
        elif lines.looked_at and not lines.named and wanted.query_ids:
            yield f"{lines.file.path} has no ids of queries: they were looked for by user alone."
        elif wanted.users and lines.file.dimensions is not None and lines.named:
            yield f"{lines.file.path} does not say who asked: nothing was looked for there by user; give the query ids."
    for one in others:
        if one.touched(len(one.before)):
            yield f"{one.name} holds forgotten queries and was not changed: make it anew."
