"""Values of logged queries: ids, times, vectors and lists as people write them, checked one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from math import isnan
from time import time as clock
from typing import Final, Literal, NamedTuple, TypeAlias, get_args
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32

TimeUnit: TypeAlias = Literal["auto", "s", "ms", "us", "ns"]

AUTO: Final = "auto"
TIME_UNITS: Sequence[TimeUnit] = get_args(TimeUnit)
# How many microseconds a unit is, as a fraction; D is that of dates.
MICROSECONDS: Mapping[str, tuple[int, int]] = {
    "D": (86_400_000_000, 1),
    "s": (1_000_000, 1),
    "ms": (1_000, 1),
    "us": (1, 1),
    "ns": (1, 1_000),
}
# A number below is in this unit; in seconds 1e11 is the year 5138, and in milliseconds March 1973.
BEYOND: Mapping[str, float] = {"s": 1e11, "ms": 1e14, "us": 1e17}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME = 253_402_300_800_000_000  # the year 10000, in microseconds
CLOCK_SECONDS = 86_400  # how far the clocks of other machines may go ahead
EXACT_FLOATS = 1 << 53  # from here on a float stands for several integers
LARGEST = LAST_TIME * 1_000  # of numbers that are times in any unit
WHOLE_FLOAT = re.compile(r"-?[1-9][0-9]{0,15}\.0|0\.0")


class Wrong(ValueError):
    """A line that is not a logged query; the text says why."""


def as_id(value: object) -> str:
    """Return an id, a whole number or a text that is not empty, as text."""
    if (type(value) is int and -(1 << 63) <= value < 1 << 63) or isinstance(value, UUID):
        return str(value)
    if isinstance(value, str) and value and not value.endswith("\0") and is_unicode(value):
        return value
    raise Wrong(f"has the id {shortened(value)}; an integer or a string that is not empty is required")


def as_user(value: object, told: bool) -> str | None:
    """Return who asked: "" for nobody; None for what is no id, where nobody told that the column is of users.

    A whole float is an integer: pandas makes floats of all integers of a column as soon as one is missing, and writes
    them to .csv files as 7.0.
    """
    if value is None or (isinstance(value, str) and value == ""):
        return ""
    if isinstance(value, float):
        if isnan(value):
            return ""
        if value.is_integer() and abs(value) < EXACT_FLOATS:
            value = int(value)
    try:
        return user_name(as_id(value))
    except Wrong:
        if told:
            raise
        return None


def user_name(text: str) -> str:
    """Return the name of a user as logs and whoever forgets it spell it: 7.0 is 7."""
    return text.removesuffix(".0") if WHOLE_FLOAT.fullmatch(text) else text


def as_id_list(value: object) -> list[str]:
    """Return ids of items: of a list of ids, of objects with an `id`, or one id."""
    if value is None:
        return []
    if not isinstance(value, list):
        value = [value]
    return [as_id(one.get("id") if isinstance(one, dict) else one) for one in value]


def as_text(value: object) -> str:
    """Return the text of a query."""
    if not isinstance(value, str) or not is_unicode(value):
        raise Wrong(f"has the text {shortened(value)}; a text of Unicode characters is required")
    return value


def as_vector(value: object) -> Float32:
    """Return a vector of finite numbers as float32."""
    if isinstance(value, list) and value and {*map(type, value)} <= {int, float}:
        value = np.array(value, np.float64)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "fiu" or not len(value):
        raise Wrong(f"has the vector {shortened(value)}; a list of numbers is required")
    with np.errstate(over="ignore"):
        vector: NDArray[np.float32] = value.astype(np.float32)
    if not np.isfinite(vector).all():
        raise Wrong("has a vector with a number that is not finite in float32")
    return vector


def check_directed(vector: Float32) -> None:
    """Raise if a vector has no direction, by which the queries of a bank are compared."""
    if not vector.any():
        raise Wrong("has a vector of zeros, which has no direction")


def check_come(time: LoggedTime) -> None:
    """Raise if a time is of days to come: the ages in a bank run from its newest query."""
    if time.microseconds > (clock() + CLOCK_SECONDS) * 1e6:
        day = np.datetime64(time.microseconds, "us").astype("datetime64[D]")
        raise Wrong(f"has a time of {day}, which is to come; mend it, or name the unit of all times (--time-unit)")


def logged_vector(value: object) -> Float32 | None:
    """Return the vector of a line of any form, None if it has none that can be read."""
    try:
        return as_vector(listed_numbers(value) if isinstance(value, str) else value)
    except Wrong:
        return None


class LoggedTime(NamedTuple):
    """A time in microseconds since 1970; unit: in which it was told, if that was seen by its size, else None."""

    microseconds: int
    unit: str | None = None


def as_time(value: object, unit: TimeUnit = AUTO) -> LoggedTime:
    """Return a time: ISO 8601 (UTC where it names no zone), a number since 1970, or what a column of times holds.

    The unit of a number is seen by its size where none is told; 0 is the same in all of them.
    """
    if isinstance(value, str):
        value = _parsed_time(value)
    seen = None
    if isinstance(value, datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    elif isinstance(value, np.datetime64):
        micros = _in_microseconds(int(value.astype(np.int64)), np.datetime_data(value.dtype)[0])
    elif not isinstance(value, int | float | Decimal) or isinstance(value, bool) or not -LARGEST < value < LARGEST:
        raise Wrong(f"has the time {shortened(value)}; ISO 8601 or a number is required")
    else:
        seen = _likely_unit(value) if unit == AUTO and value else None
        micros = _in_microseconds(value, seen or ("s" if unit == AUTO else unit))
    if not 0 <= micros < LAST_TIME:
        raise Wrong(f"has the time {shortened(value)}, which is outside of the years 1970 to 9999")
    return LoggedTime(micros, seen)


def _parsed_time(text: str) -> float | datetime:
    for parse in (int, float, datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    raise Wrong(f"has the time {shortened(text)}; ISO 8601 or a number is required")


def _likely_unit(number: float | Decimal) -> str:
    return next((unit for unit, beyond in BEYOND.items() if number < beyond), "ns")


def _in_microseconds(number: float | Decimal, unit: str) -> int:
    times, by = MICROSECONDS[unit]
    return round(number * times) // by


def listed(text: str) -> object:
    """Return a list of a .csv file: JSON, or texts separated by spaces."""
    if not text.lstrip().startswith("["):
        return text.split()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"has the list {shortened(text)}, which is not JSON ({error})") from None


def listed_numbers(text: str) -> object:
    """Return a vector of a .csv file: JSON, or numbers separated by spaces."""
    if text.lstrip().startswith("["):
        return listed(text)
    try:
        return [float(part) for part in text.split()]
    except ValueError:
        return text


def as_place(value: object) -> int:
    """Return the place of a click."""
    if type(value) is int:
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    raise Wrong(f"has the click position {shortened(value)}; a whole number is required")


def is_unicode(text: str) -> bool:
    """Return whether a text can be written; JSON and damaged files may hold halves of characters."""
    return not any("\ud800" <= one <= "\udfff" for one in text) if not text.isascii() else True


def shortened(value: object) -> str:
    """Return a value as an error shows it."""
    text = str(value) if isinstance(value, np.datetime64) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
