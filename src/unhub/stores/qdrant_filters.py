"""Filters of Qdrant as JSON, `{"must": [{"key": "colour", "match": {"value": "red"}}]}`, for the engine in process.

The client reads this JSON itself; the engine has objects of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unhub.stores.store import filter_of

# The object of a match, by the key in its JSON.
MATCHES = {
    "value": "MatchValue",
    "text": "MatchText",
    "text_any": "MatchTextAny",
    "phrase": "MatchPhrase",
    "any": "MatchAny",
    "except": "MatchExcept",
    "except_": "MatchExcept",  # as the client's model dumps it
}
CLAUSES = ("must", "should", "must_not")


def edge_filter(module: Any, where: object) -> Any:
    """Return a filter of the engine for one of its own, one of Qdrant's client, or JSON.

    module: qdrant_edge. Raise a ValueError for what is no filter.
    """
    if isinstance(where, module.Filter):
        return where
    given = filter_of(where)
    unknown = set(given) - {*CLAUSES, "min_should"}
    if unknown:
        raise ValueError(f"a filter has must, should, must_not and min_should, not {', '.join(sorted(unknown))}")
    clauses: dict[str, Any] = {name: _conditions(module, given[name]) for name in CLAUSES if name in given}
    if "min_should" in given:
        least = given["min_should"]
        clauses["min_should"] = module.MinShould(_conditions(module, least["conditions"]), least["min_count"])
    return module.Filter(**clauses)


def _conditions(module: Any, given: object) -> list[Any]:
    return [_condition(module, one) for one in (given if isinstance(given, list | tuple) else [given])]


def _condition(module: Any, given: object) -> Any:
    if not isinstance(given, Mapping) and not hasattr(given, "model_dump"):
        return given  # an object of the engine
    one = filter_of(given)
    if "key" in one:
        return _field(module, one)
    if "has_id" in one:
        return module.HasIdCondition(set(one["has_id"]))
    if "has_vector" in one:
        return module.HasVectorCondition(one["has_vector"])
    if "nested" in one:
        return module.NestedCondition(one["nested"]["key"], edge_filter(module, one["nested"]["filter"]))
    if "is_empty" in one:
        return module.IsEmptyCondition(one["is_empty"]["key"])
    if "is_null" in one:
        return module.IsNullCondition(one["is_null"]["key"])
    return edge_filter(module, one)


def _field(module: Any, one: dict[str, Any]) -> Any:
    readers: Mapping[str, Callable[[Any, Any], Any]] = {
        "match": _match,
        "range": _range,
        "values_count": lambda module, value: module.ValuesCount(**value),
        "geo_bounding_box": lambda module, value: module.GeoBoundingBox(
            _place(module, value["top_left"]), _place(module, value["bottom_right"])
        ),
        "geo_radius": lambda module, value: module.GeoRadius(_place(module, value["center"]), value["radius"]),
        "geo_polygon": lambda module, value: module.GeoPolygon(
            _ring(module, value["exterior"]), [_ring(module, inner) for inner in value.get("interiors") or []]
        ),
        "is_empty": lambda module, value: value,
        "is_null": lambda module, value: value,
    }
    unknown = set(one) - {"key", *readers}
    if unknown:
        raise ValueError(f"a condition on a field has {', '.join(readers)}, not {', '.join(sorted(unknown))}")
    return module.FieldCondition(
        one["key"], **{name: readers[name](module, value) for name, value in one.items() if name != "key"}
    )


def _match(module: Any, given: Mapping[str, Any]) -> Any:
    ((name, value),) = given.items()
    if name not in MATCHES:
        raise ValueError(f"a match has one of {', '.join(MATCHES)}, not {name}")
    return getattr(module, MATCHES[name])(value)


def _range(module: Any, given: Mapping[str, Any]) -> Any:
    dates = any(isinstance(value, str) for value in given.values())
    return (module.RangeDateTime if dates else module.RangeFloat)(**given)


def _ring(module: Any, ring: Mapping[str, Any]) -> list[Any]:
    return [_place(module, point) for point in ring["points"]]


def _place(module: Any, point: Mapping[str, float]) -> Any:
    return module.GeoPoint(lon=point["lon"], lat=point["lat"])
