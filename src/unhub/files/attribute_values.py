"""Values of attributes as SQLite holds them: integers of 64 bits, float64 and texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

PLAIN_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")  # not 007
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
FLOAT_DIGITS = 15  # decimals with no more differ in float64 too

Value = float | int | str | None


@dataclass(frozen=True)
class Attribute:
    """A column: a number, a text or None for each item.

    refused: why its numbers cannot be compared, and what to do; such a column may be there if no filter asks for it.
    """

    values: Sequence[Value]
    is_number: bool
    refused: tuple[str, str] | None = None


def of_texts(texts: Sequence[str | None]) -> Attribute:
    """Return numbers where all texts are plain ones that SQLite can hold; an empty text among numbers is no value."""
    filled = [text for text in texts if text]
    others = [text for text in filled if not _is_number(text)]
    if others or not filled:
        mostly = len(others) < len(filled) / 2
        beyond = ", beyond 64 bits," if others and PLAIN_NUMBER.fullmatch(others[0]) else ""
        refused = (f"have {others[0]!r}{beyond} among them", "leave such cells empty") if others and mostly else None
        return Attribute(texts, is_number=False, refused=refused)
    return Attribute([_number(text) if text else None for text in texts], is_number=True)


def of_values(values: Sequence[Any]) -> Attribute:
    """Return the values of a column with a type: decimals are numbers, times texts, and texts as in `of_texts`."""
    if any(isinstance(one, Decimal) for one in values):
        return _of_decimals(values)
    held = [_held(one) for one in values]
    if any(isinstance(one, int) and not SMALLEST <= one <= LARGEST for one in held):
        held = [None if one is None else str(one) for one in held]
    texts = [one for one in held if one is None or isinstance(one, str)]
    return of_texts(texts) if len(texts) == len(held) else Attribute(held, is_number=True)


def _of_decimals(values: Sequence[Decimal | None]) -> Attribute:
    whole = [one is not None and one == one.to_integral_value() and SMALLEST <= one <= LARGEST for one in values]
    pairs = [*zip(values, whole, strict=True)]
    held = [None if one is None else int(one) if is_whole else float(one) for one, is_whole in pairs]
    long = next(
        (one for one, is_whole in pairs if one is not None and not is_whole and _digits(one) > FLOAT_DIGITS), None
    )
    refused = (
        (f"have {long}, and only {FLOAT_DIGITS} digits are compared", "round them, or store texts") if long else None
    )
    return Attribute(held, is_number=True, refused=refused)


def _digits(number: Decimal) -> int:
    return len("".join(map(str, number.as_tuple().digits)).rstrip("0"))


def _is_number(text: str) -> bool:
    return bool(PLAIN_NUMBER.fullmatch(text)) and (not _is_integer(text) or fits(text))


def _is_integer(text: str) -> bool:
    return not {*".eE"} & {*text}


def fits(integer: str) -> bool:
    """Return whether a plain integer has no more than 64 bits."""
    return len(integer) <= len(str(SMALLEST)) and SMALLEST <= int(integer) <= LARGEST


def _number(text: str) -> float | int:
    return int(text) if _is_integer(text) else float(text)


def _held(value: Any) -> Value:
    """Return a value as SQLite holds it: times as its own functions write them, which is in UTC if there is a zone."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ")
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
