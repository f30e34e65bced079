"""A bank folder that follows query logs: only what is new is added, old queries go, repeats are joined and weighed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from unhub.atomic import hold_folder
from unhub.banks.repeats import NEAR, TEMPER
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.data.query_log import QueryLog
from unhub.embed.encoder import Encoder
from unhub.errors import ArgumentError, EmptyLogError, reading_log
from unhub.files.bank_folders import (
    KEY_BYTES,
    NO_TIME,
    BankManifest,
    BankSegment,
    BankSettings,
    LogSource,
    begun_files,
    is_bank_folder,
    read_bank_manifest,
    remove_unfinished,
)
from unhub.files.log_frames import LogLike, log_name
from unhub.files.log_gathering import LogColumns
from unhub.files.log_values import AUTO, TimeUnit
from unhub.files.logs import LogFile, LogReading, log_files, log_pieces, not_read
from unhub.logs.bank_plan import BankPlan, Committed, joined, kept_in, read_segments, within_window
from unhub.logs.durations import Duration, as_seconds, as_written
from unhub.logs.forgotten_keys import ForgottenKeys, key_rows
from unhub.logs.known_files import new_part
from unhub.logs.logged_again import NewFile, not_again
from unhub.logs.text_rows import TextRows, text_key

NOTHING_NEW = "{} holds no query yet."
FORGOTTEN_NOTE = "{:,} logged queries were left out: they are to be forgotten."
AGAIN_NOTE = "{:,} logged queries were left out: they are there already, by id, time and content."


@dataclass(frozen=True)
class AddedLog:
    """What `add_log` did: how many logged queries are new, how many are in the folder, and how many differ.

    files: how many were read; known: how many of them held nothing new. expired: queries outside of the window, which
    were dropped or not added. embedded: texts that the encoder had to embed. forgotten: queries that were left out, as
    `forget_queries` was told to forget them. repeated: queries that were there already, though not in this file.
    changed: whether the folder was written, as also by another half-life.
    """

    folder: Path
    files: int
    known: int
    added: int
    expired: int
    embedded: int
    queries: int
    distinct: int
    forgotten: int = 0
    repeated: int = 0
    changed: bool = True
    notes: tuple[str, ...] = ()


@shows_progress
def add_log(
    log: LogLike,
    bank: str | os.PathLike[str],
    *,
    window: Duration | None = None,
    half_life: Duration | None = None,
    encoder: str | os.PathLike[str] | Encoder | None = None,
    near: float | None = None,
    temper: float | None = None,
    columns: Mapping[str, str] | None = None,
    time_unit: TimeUnit = AUTO,
    skip_bad: bool = False,
    progress: ProgressLike = None,
) -> AddedLog:
    """Add what is new in a query log to a bank folder, which is made if it is absent, and weigh its queries anew.

    log: a path, or a table of pandas, polars or Arrow, as in `read_log`.

    `read_vectors` reads the folder as a bank: each query once, with its weight. What was added before is known by its
    content: the same file adds nothing, whatever its name, and a file that grew adds its new lines. A log without a
    query is an error where the folder would be made by it, and else adds nothing.

    Queries that are there already, by id, time and content, are left out, as of another form of the same file. Without
    ids the user counts too, where both say who asked, and this is done for a file of which nearly all are there, since
    several people may ask the same at one time.

    window: how long queries stay, such as "90d" or a timedelta. half_life: after which time a query counts half. Both
    run from the newest query of the folder, not from today. A bare number, which has no unit, is an error. near,
    temper: how repeats are joined, as in `join_repeats`. What is left out stays as it was in the folder; at first it is
    no window, no half-life, and the defaults of `join_repeats`.

    encoder: embeds the texts of a log without vectors; a text that is in the folder already is not embedded again. A
    folder keeps to one encoder and loads it by its name if none is given.

    columns: names of columns that are not found by themselves, by field, for example {"text": "q"}. time_unit and
    skip_bad are those of `read_log`. A vector of zeros, which has no direction to compare queries by, is a bad line
    too, and so are a time to come and a vector of another length than those before; a file of such vectors alone is an
    error, as of another model. The folder is changed whole or not at all; two writers at a time are an error.
    """
    progress = called(progress)
    reading = LogReading(LogColumns.named(columns, time_unit), skip_bad, as_bank=True)
    folder = Path(bank)
    with reading_log():
        found = _files_of(log, is_bank_folder(folder))
        passed = not_read(log)
    with holding(folder):
        before = read_bank_manifest(folder) if is_bank_folder(folder) else None
        settings = _settings(before, window, half_life, near, temper)
        sources = before["sources"] if before else []
        beside: list[LogSource] = []
        if before and before["encoder"] is None:
            reading.width = before["dimensions"]
        fresh, known = [], []
        with reading_log():
            for file in found:
                part = new_part(file, sources, reading.columns, beside)
                if part.torn:
                    reading.bad.torn.append(part.torn)
                if part.is_empty:
                    known.append(part.source)
                else:
                    fresh.append((file, part))
                    beside.append(part.source)
            logs = [[*log_pieces(file, reading, part.span)] for file, part in fresh]
            reading.bad.check(skip_bad)
        forgotten = ForgottenKeys.read(before)
        wanted = [[forgotten.others_in(piece) for piece in pieces] for pieces in logs]
        left_out = _total(logs) - _total(wanted)
        held = [] if before is None else read_segments(folder, before)
        texts = TextRows(before, held, encoder)
        parts = [[_segment(piece, texts) for piece in pieces if len(piece)] for pieces in wanted]
        _check_widths(folder, [*held, *chain(*parts)])
        given = [
            NewFile(joined(some), goes_on=part.span.start > 0)
            for some, (_, part) in zip(parts, fresh, strict=True)
            if some
        ]
        inside = within_window([*held, *(file.queries for file in given)], settings["window"])
        stays = not_again(held, given, inside[len(held) :])
        repeated = sum(int((~mask).sum()) for mask in stays)
        new = [one for one in kept_in([file.queries for file in given], stays) if len(one)]
        check_times([*held, *new], settings)
        if before is None and not given:
            raise EmptyLogError(f"{log_name(log)}: is a log without a query yet")
        plan = BankPlan(folder, before, settings, [*sources, *beside], texts.identity, forgotten)
        quiet = [] if _total(logs) or any(one["bytes"] for one in known) else [NOTHING_NEW.format(log_name(log))]
        unchanged = before is not None and not fresh and settings == before["settings"]
        outcome = _unchanged(plan, held) if unchanged else plan.commit(held, new, progress)
    return AddedLog(
        folder,
        files=len(found),
        known=len(known),
        added=sum(map(len, new)),
        expired=outcome.expired,
        embedded=texts.embedded,
        queries=outcome.queries,
        distinct=outcome.distinct,
        forgotten=left_out,
        repeated=repeated,
        changed=not unchanged,
        notes=(
            *reading.bad.notes,
            *passed,
            *([FORGOTTEN_NOTE.format(left_out)] if left_out else []),
            *([AGAIN_NOTE.format(repeated)] if repeated else []),
            *quiet,
        ),
    )


def _total(files: Sequence[Sequence[QueryLog]]) -> int:
    return sum(map(len, chain(*files)))


def _files_of(log: LogLike, grows: bool) -> list[LogFile]:
    """Return the files of a log; of a folder without one there are none, where there is a bank that can wait."""
    try:
        return log_files(log)
    except EmptyLogError:
        if not grows:
            raise
        return []


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold a bank folder, so that nobody else writes to it; what a first writer that was cut off left is removed."""
    if folder.exists() and not folder.is_dir():
        raise ArgumentError("bank", f"{folder} is a file", "name a folder")
    others = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    if others and not is_bank_folder(folder) and not begun_files(folder):
        raise ArgumentError("bank", f"{folder} holds files that are not of a bank folder", "name a new folder")
    lock = hold_folder(folder, "bank", "another writer")
    try:
        if not is_bank_folder(folder):
            remove_unfinished(folder)
        yield
    finally:
        os.close(lock)


def _settings(
    before: BankManifest | None,
    window: Duration | None,
    half_life: Duration | None,
    near: float | None,
    temper: float | None,
) -> BankSettings:
    settings: BankSettings = (
        before["settings"] if before else {"window": None, "half_life": None, "near": NEAR, "temper": TEMPER}
    )
    settings = {**settings}
    if window is not None:
        settings["window"] = as_seconds(window, "window")
    if half_life is not None:
        settings["half_life"] = as_seconds(half_life, "half_life")
    if near is not None:
        settings["near"] = float(near)
    if temper is not None:
        settings["temper"] = float(temper)
    return settings


def _segment(log: QueryLog, texts: TextRows) -> BankSegment:
    count = len(log)
    keys = np.zeros((count, KEY_BYTES), np.uint8)
    if log.vectors is not None:
        texts.of_vectors()
        rows = np.array(log.vectors[:], np.float32)
    elif log.texts is not None:
        asked = [str(one) for one in log.texts]
        keys = np.array([[*text_key(one)] for one in asked], np.uint8)
        rows = texts.rows(asked, keys)
    else:
        raise ArgumentError("log", "has neither vectors nor texts of queries", "name the column, or log them")
    times = np.full(count, NO_TIME) if log.times is None else log.times.view(np.int64).copy()
    names = np.zeros(count, "U1") if log.query_ids is None else log.query_ids.astype(np.str_)
    users = np.zeros((count, KEY_BYTES), np.uint8)
    if log.users is not None:
        users[log.says_who] = key_rows(log.users[log.says_who].tolist())
    return BankSegment(rows, times, names, keys, users)


def _check_widths(folder: Path, segments: Sequence[BankSegment]) -> None:
    widths = {one.rows.shape[1] for one in segments}
    if len(widths) > 1:
        raise ArgumentError(
            "log", f"has vectors of other dimensions than {folder}: {sorted(widths)}", "keep a folder for each model"
        )


def _unchanged(plan: BankPlan, held: Sequence[BankSegment]) -> Committed:
    from unhub.files.readers import read_vectors

    total = sum(map(len, held))
    return Committed(total, len(read_vectors(plan.folder)) if total else 0, 0)


def check_times(segments: Sequence[BankSegment], settings: BankSettings) -> None:
    """Raise if ages matter and a query has no time."""
    for name in ("window", "half_life"):
        seconds = settings[name]
        if seconds is not None and any((one.times == NO_TIME).any() for one in segments):
            raise ArgumentError(
                name, f"is {as_written(seconds)}, and the log has queries without a time", "leave it out, or log times"
            )
