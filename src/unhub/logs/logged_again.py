"""Queries that were logged again, as in another form of a file: known by their ids, times and contents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unhub.files.bank_folders import KEY_BYTES, NO_TIME, BankSegment

COPY_SHARE = 0.9  # of a file without ids: from this share on that is there already, it is taken for a copy

NOT_TOLD = bytes(KEY_BYTES)  # the key of a user where nothing says who asked

Key: TypeAlias = tuple[str, int, bytes]
Known: TypeAlias = defaultdict[Key, Counter[bytes]]  # how many of such queries each user asked


class NewFile(NamedTuple):
    """The new queries of a file; goes_on: whether they follow others of this file, which are in the folder."""

    queries: BankSegment
    goes_on: bool


def not_again(
    held: Sequence[BankSegment], files: Sequence[NewFile], inside: Sequence[NDArray[np.bool_]]
) -> list[NDArray[np.bool_]]:
    """Return which queries of each file are not there already: in the folder, or in a file before it.

    A query is there if one with its id, time and content is; without an id, of its user too, where both say who asked.
    Of equal ones in a file as many are new as it has more of them, and those of the same user go first. Without an id,
    several people may have asked the same at the same time, so such queries count as there only if nearly all those of
    the file are; without an id and a time, never.

    inside: which queries of each file are inside of the window. Only they are counted for that: the folder has dropped
    the others.
    """
    parts = [*held, *(one.queries for one in files)]
    suspects = _at_a_time_of_others(parts, [0] * len(held) + [*range(1, len(files) + 1)])
    known: Known = defaultdict(Counter)
    for part, mask in zip(held, suspects, strict=False):
        for _, key, user in _keys(part, mask):
            known[key][user] += 1
    new = zip(files, suspects[len(held) :], inside, strict=True)
    return [_not_among(known, one, mask, recent) for one, mask, recent in new]


def _not_among(
    known: Known, file: NewFile, suspects: NDArray[np.bool_], recent: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which queries of a file are not known, and add these to what is known."""
    queries, keys = file.queries, [*_keys(file.queries, suspects)]
    left = {key: known[key].copy() for _, key, _ in keys if key in known}  # each of them stands for one query
    again = np.zeros(len(queries), bool)
    for same_user in (True, False):  # first those of which both sides say the same of who asked
        for place, key, user in keys:
            if again[place] or key not in left:
                continue
            named = key[0] != ""  # another form of the file may spell the users otherwise
            others = left[key] if named or user == NOT_TOLD else (NOT_TOLD,)
            match = next((one for one in ((user,) if same_user else others) if left[key][one] > 0), None)
            if match is not None:
                left[key][match] -= 1
                again[place] = True
    unnamed = queries.query_ids == ""
    counted = unnamed & recent
    if file.goes_on or again[counted].sum() < COPY_SHARE * counted.sum():
        again &= ~unnamed
    for place, key, user in keys:
        known[key][user] += not again[place]
    return ~again


def _at_a_time_of_others(parts: Sequence[BankSegment], sources: Sequence[int]) -> list[NDArray[np.bool_]]:
    """Return which queries have a time that occurs in another source too, or an id and no time."""
    times = np.concatenate([np.empty(0, np.int64), *(one.times for one in parts)])
    source = np.repeat(np.array(sources, np.int64), [len(one) for one in parts])
    _, moment = np.unique(times, return_inverse=True)
    least = np.full(len(times), len(sources) + 1)
    most = np.full(len(times), -1)
    np.minimum.at(least, moment, source)
    np.maximum.at(most, moment, source)
    named = np.concatenate([np.empty(0, bool), *(one.query_ids != "" for one in parts)])
    suspects = (least != most)[moment] & (named | (times != NO_TIME))
    return np.split(suspects, np.cumsum([len(one) for one in parts])[:-1]) if parts else []


def _keys(queries: BankSegment, wanted: NDArray[np.bool_]) -> Iterator[tuple[int, Key, bytes]]:
    """Yield the places of these queries, what they are known by, and the keys of their users."""
    for place in np.flatnonzero(wanted):
        content = queries.text_keys[place]
        if not content.any():
            content = queries.rows[place] + np.float32(0)  # 0.0 and -0.0 are one
        key = str(queries.query_ids[place]), int(queries.times[place]), content.tobytes()
        yield int(place), key, queries.user_keys[place].tobytes()
