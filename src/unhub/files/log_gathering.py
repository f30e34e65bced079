"""Logged queries from lines: which column is what, and the checks that need more than one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from unhub.arrays import Float32
from unhub.data.query_log import UNKNOWN, Clicks, IdLists, QueryLog, as_objects
from unhub.data.ragged import starts_from
from unhub.data.vectors import as_plain, as_texts
from unhub.errors import unknown
from unhub.files.log_values import (
    AUTO,
    TIME_UNITS,
    LoggedTime,
    TimeUnit,
    Wrong,
    as_id,
    as_id_list,
    as_place,
    as_text,
    as_time,
    as_user,
    as_vector,
    check_come,
    check_directed,
    listed,
    listed_numbers,
    shortened,
)

# The names that a column may have where the reader was told none, the first that is there.
NAMES: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "id"),
    "text": ("query", "text", "query_text"),
    "vector": ("vector", "embedding", "query_vector"),
    "time": ("time", "timestamp", "ts"),
    "returned": ("ids", "returned", "results", "hits"),
    "clicked": ("clicked", "click", "clicks"),
    "position": ("click_position", "position", "positions"),
    "variant": ("variant", "arm"),
    "user": ("user", "user_id", "session", "session_id"),
}
# What `unhub search -o hits.jsonl` writes: the id of each query, and its hits.
SEARCHED: Mapping[str, str] = {"query": "query_id", "hits": "returned"}
IN_ALL_OR_NONE = ("query_id", "text", "vector", "time")


@dataclass(frozen=True)
class LogColumns:
    """The names of the columns of a log; None stands for those of NAMES. time_unit: of times that are numbers."""

    query_id: str | None = None
    text: str | None = None
    vector: str | None = None
    time: str | None = None
    returned: str | None = None
    clicked: str | None = None
    position: str | None = None
    variant: str | None = None
    user: str | None = None
    time_unit: TimeUnit = AUTO

    def __post_init__(self) -> None:
        if self.time_unit not in TIME_UNITS:
            raise unknown("time_unit", self.time_unit, TIME_UNITS, "units")

    @classmethod
    def named(cls, columns: Mapping[str, str] | None, time_unit: TimeUnit = AUTO) -> LogColumns:
        """Return the columns of a log with names by field; raise if there is no such field."""
        for name in columns or {}:
            if name not in NAMES:
                raise unknown("columns", name, NAMES, "fields of a log")
        return cls(**(columns or {}), time_unit=time_unit)

    def found_in(self, keys: Sequence[str] | Mapping[str, object]) -> dict[str, str]:
        """Return the key of each column that a line or a head has."""
        if {*keys} == SEARCHED.keys() and not self.told:
            return {field: key for key, field in SEARCHED.items()}
        found = {}
        for field in NAMES:
            told = getattr(self, field)
            key = next((name for name in ((told,) if told else NAMES[field]) if name in keys), None)
            if key is not None:
                found[field] = key
        return found

    @property
    def wanted(self) -> str:
        """Say that none of the columns is there, or none has a value, and how one is named."""
        known = ", ".join(self.told.values() or (names[0] for names in NAMES.values()))
        return f"none of {known} is there with a value; name yours, such as text=q (--column)"

    @property
    def told(self) -> dict[str, str]:
        """The columns that were named by the caller."""
        held = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "time_unit"}
        return {field: name for field, name in held.items() if name is not None}


# A line of `unhub serve --log`; the vectors are beside it.
SERVED = LogColumns("id", time="time", returned="ids", variant="version", time_unit="s")


class Gathering:
    """Collects logged queries from lines; every line must have the columns that the first one had."""

    def __init__(self, columns: LogColumns, split_lists: bool, as_bank: bool = False, width: int | None = None) -> None:
        """split_lists: whether lists are texts, JSON or separated by spaces, as in a .csv file.

        as_bank: whether a vector of zeros is wrong, and a time to come. width: of the vectors before, if there are any.
        """
        self.columns, self.split_lists, self.as_bank = columns, split_lists, as_bank
        self._always: set[str] | None = None
        self.width, self._sets_width = width, width is None
        self._widths: Counter[int] = Counter()  # how many lines have vectors of each length, also of bad ones
        self._unit: str | None = None
        self._seen: set[str] = set()
        self.unread_users: list[object] = []  # what the lines say instead of an id
        self._clear()

    def __len__(self) -> int:
        return self._count

    def _clear(self) -> None:
        self._count = 0
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._vectors: list[Float32] = []
        self._times: list[int] = []
        self._returned: list[list[str]] = []
        self._clicked: list[list[str]] = []
        self._positions: list[list[int]] = []
        self._variants: list[str] = []
        self._users: list[str | None] = []

    def add(self, line: Mapping[str, object]) -> None:
        """Take one line, whole or not at all; Wrong says what is not as it should be."""
        keys = self.columns.found_in(line)
        values = {field: line[key] for field, key in keys.items() if _is_given(line[key])}
        if not {*values} - {"position", "variant", "user"}:
            raise Wrong(f"has the columns {', '.join(line) or 'none'}; {self.columns.wanted}")
        always = {*values} & {*IN_ALL_OR_NONE}
        if self._always is not None and always != self._always:
            odd = sorted(always ^ self._always)[0]
            raise Wrong(f"has {'a' if odd in always else 'no'} {odd}, unlike the lines before")
        query_id = as_id(values["query_id"]) if "query_id" in values else None
        text = as_text(values["text"]) if "text" in values else None
        vector = self._as_vector(values["vector"]) if "vector" in values else None
        time = self._as_time(values["time"]) if "time" in values else None
        returned = self._as_list(values.get("returned"))
        clicked = self._as_list(values.get("clicked"))
        positions = self._places(values.get("position"), clicked, returned)
        variant = values.get("variant", "")
        if isinstance(variant, float | list | dict):
            raise Wrong(f"has the variant {variant!r}; a text is required")
        user = as_user(line[keys["user"]], self.columns.user is not None) if "user" in keys else None
        self._always = always
        self._seen |= {*keys}
        self._count += 1
        if query_id is not None:
            self._ids.append(query_id)
        if text is not None:
            self._texts.append(text)
        if vector is not None:
            self.width = len(vector)
            self._vectors.append(vector)
        if time is not None:
            self._unit = self._unit or time.unit
            self._times.append(time.microseconds)
        self._returned.append(returned)
        self._clicked.append(clicked)
        self._positions.append(positions)
        self._variants.append(str(variant))
        self._users.append(user)
        if user is None and "user" in keys:
            self.unread_users.append(line[keys["user"]])

    def take(self) -> QueryLog:
        """Return what was collected since the last call."""
        always = self._always or set()
        told = np.array([one is not None for one in self._users], bool)
        log = QueryLog(
            as_plain(self._ids) if "query_id" in always else None,
            np.array(self._times, np.int64).view("datetime64[us]") if "time" in always else None,
            as_objects(self._texts) if "text" in always else None,
            np.stack(self._vectors) if "vector" in always else None,
            IdLists(*_flat(self._returned)) if "returned" in self._seen else None,
            Clicks(*_flat(self._clicked), np.array([one for some in self._positions for one in some], np.int64))
            if "clicked" in self._seen
            else None,
            np.array(self._variants, np.str_) if "variant" in self._seen else None,
            as_texts([one or "" for one in self._users]) if "user" in self._seen else None,
            told if "user" in self._seen and not told.all() else None,
        )
        self._clear()
        return log

    def missing(self) -> str | None:
        """Return a column that the caller named and that no line had, or None; None too where no line was taken."""
        if self._always is None:
            return None
        return next((name for field, name in self.columns.told.items() if field not in self._seen), None)

    @property
    def other_model(self) -> str | None:
        """Say that no line was taken since vectors have another width than those before; None if it is not so."""
        other = next((width for width in reversed(self._widths) if width != self.width), None)
        if self._always is not None or self.width is None or other is None:
            return None
        return f"has vectors of {other} numbers, the bank those of {self.width}; keep a folder for each model"

    @property
    def odd_first(self) -> str | None:
        """Say that vectors of another length than the first are more, where it sets that of a bank; else None."""
        if not self._sets_width or self.width is None:
            return None
        usual, count = self._widths.most_common(1)[0]
        if count <= self._widths[self.width]:
            return None
        return (
            f"has {count:,} vectors of {usual} numbers, but the first one, which would set the length of the bank, has "
            f"{self.width}; remove or mend that line"
        )

    def _as_time(self, value: object) -> LoggedTime:
        time = as_time(value, self.columns.time_unit)
        if self.as_bank:
            check_come(time)
        if time.unit and self._unit and time.unit != self._unit:
            raise Wrong(
                f"has the time {shortened(value)}, in {time.unit} by its size, unlike those before, in {self._unit}; "
                "if they have one unit, name it (--time-unit)"
            )
        return time

    def _as_vector(self, value: object) -> Float32:
        vector = as_vector(listed_numbers(value) if self.split_lists and isinstance(value, str) else value)
        self._widths[len(vector)] += 1
        if self.width is not None and len(vector) != self.width:
            raise Wrong(f"has a vector of {len(vector)} numbers, those before have {self.width}")
        if self.as_bank:
            check_directed(vector)
        return vector

    def _as_list(self, value: object) -> list[str]:
        return as_id_list(listed(value) if self.split_lists and isinstance(value, str) else value)

    def _places(self, value: object, clicked: Sequence[str], returned: Sequence[str]) -> list[int]:
        """Return the place of each click: as told, else found among what was returned."""
        if value is None:
            return [returned.index(one) + 1 if one in returned else UNKNOWN for one in clicked]
        given = listed(value) if self.split_lists and isinstance(value, str) else value
        told = [as_place(one) for one in (given if isinstance(given, list) else [given])]
        if len(told) != len(clicked) or min(told, default=1) < 1:
            raise Wrong(f"has the click position {value!r} for {len(clicked)} clicks; one each is required, from 1 on")
        return told


def _flat(lists: Sequence[Sequence[str]]) -> tuple[Any, Any]:
    return starts_from([len(one) for one in lists]), as_plain([one for some in lists for one in some])


def _is_given(value: object) -> bool:
    return value is not None and not (isinstance(value, str) and value == "")
