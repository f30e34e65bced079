"""JSON of a file: parsed strictly, and checked against the declared types."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

WHOLE_END = 1 << 63  # whole numbers are below this


class Least(NamedTuple):
    """The smallest that a number may be, in the declaration of its type."""

    number: int


Count = Annotated[int, Least(1)]
Natural = Annotated[int, Least(0)]


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; NaN, a number too large, a repeated key and endless nesting are ValueErrors."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is not finite")
    return number


def _once(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice")
        found[key] = value
    return found


def as_declared(value: Any, declared: Any, name: str, closed: bool = False) -> Any:
    """Return a JSON value as its declared type; a value of another type is a ValueError that names it.

    The type is a TypedDict, a dataclass, or anything that those may hold. closed: an undeclared key is an error; else
    it is left out.
    """
    origin, inside = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        return _one_of(value, inside, name, closed)
    if origin is Annotated:
        number = as_declared(value, inside[0], name)
        _require(number >= inside[1].number, value, f"a number of at least {inside[1].number}", name)
        return number
    if origin is Literal:
        _require(isinstance(value, str) and value in inside, value, f"one of {', '.join(inside)}", name)
        return value
    if origin is tuple or origin is list:
        _require(isinstance(value, list), value, "a list", name)
        return origin(as_declared(one, inside[0], f"{name}[{at}]", closed) for at, one in enumerate(value))
    if origin in (dict, Mapping):
        _require(isinstance(value, dict), value, "an object", name)
        return {key: as_declared(one, inside[1], f"{name}.{key}", closed) for key, one in value.items()}
    if is_typeddict(declared) or dataclasses.is_dataclass(declared):
        return _record(value, declared, name, closed)
    return _plain(value, declared, name)


def _one_of(value: Any, kinds: Sequence[Any], name: str, closed: bool) -> Any:
    """Return a value that may be None, or one of several texts."""
    if value is None and types.NoneType in kinds:
        return None
    texts = [text for kind in kinds if get_origin(kind) is Literal for text in get_args(kind)]
    if texts:
        return as_declared(value, Literal[tuple(texts)], name)
    (kind,) = (kind for kind in kinds if kind is not types.NoneType)
    return as_declared(value, kind, name, closed)


def _record(value: Any, declared: Any, name: str, closed: bool) -> Any:
    _require(isinstance(value, dict), value, "an object", name)
    fields = get_type_hints(declared, include_extras=True)
    for field, kind in [*fields.items()]:
        if get_origin(kind) is NotRequired:
            fields[field] = get_args(kind)[0]
            if field not in value:
                del fields[field]
        elif field not in value:
            raise ValueError(f"{name} has no key {field!r}")
    for key in value:
        if closed and key not in fields:
            raise ValueError(f"{name} has a key {key!r}, which this version of unhub does not know")
    return declared(
        **{field: as_declared(value[field], kind, f"{name}.{field}", closed) for field, kind in fields.items()}
    )


PLAIN: Mapping[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number of 64 bits"),
    float: ((int, float), "a finite number"),
    str: ((str,), "a text"),
}


def _plain(value: Any, declared: Any, name: str) -> Any:
    if declared in (object, Any):
        return value
    accepted, wanted = PLAIN[declared]
    sound = type(value) in accepted and (type(value) is not int or -WHOLE_END <= value < WHOLE_END)
    _require(sound, value, wanted, name)
    return value


def _require(condition: bool, value: object, wanted: str, name: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {_short(value)}; {wanted} is required")


def _short(value: object) -> str:
    """Return a value as an error shows it: only the kind of a long one."""
    if isinstance(value, list | dict):
        return f"a list of {len(value)}" if isinstance(value, list) else "an object"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
