"""Methods: how hubs are found and corrected. One file per idea, one line here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from unhub.errors import ArgumentError, nearest_name, unknown
from unhub.methods.dual_bank import DualDynamicInvertedSoftmax, DualInvertedSoftmax
from unhub.methods.global_rank import GloballyCorrected
from unhub.methods.inverted_softmax import DynamicInvertedSoftmax, InvertedSoftmax, Raw
from unhub.methods.method import Method, Value, as_number, refused
from unhub.methods.neighbour_mean import (
    Centring,
    CrossDomainLocalScaling,
    DistributionNormalisation,
    NearestNeighbourNormalisation,
)
from unhub.methods.plans import Assignment, SmoothTransport, Transport
from unhub.methods.sinkhorn_bias import DualBankSinkhorn, Sinkhorn

METHODS: Mapping[str, type[Method]] = {
    method.name: method
    for method in (
        Raw,
        InvertedSoftmax,
        DynamicInvertedSoftmax,
        CrossDomainLocalScaling,
        GloballyCorrected,
        NearestNeighbourNormalisation,
        DualInvertedSoftmax,
        DualDynamicInvertedSoftmax,
        DistributionNormalisation,
        Centring,
        Sinkhorn,
        DualBankSinkhorn,
        Transport,
        SmoothTransport,
        Assignment,
    )
}


def parse(spec: str, parameters: Mapping[str, Value] | None = None) -> Method:
    """Return the method of a spec such as `nnn:k=128,alpha=0.75`, with further parameters from a mapping."""
    if not isinstance(spec, str):
        raise ArgumentError("method", f"must be a text such as 'nnn:k=128', got {spec!r}")
    name, _, text = spec.strip().partition(":")
    if name not in METHODS:
        raise unknown("method", name, METHODS, "methods")
    given: dict[str, Value] = {}
    for pair in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ArgumentError("method", f"{spec!r} holds {pair!r}, which is not of the form name=value")
        _add(given, key.strip(), as_value(value.strip()), name)
    for key, more in (parameters or {}).items():
        _add(given, key, as_value(more) if isinstance(more, str) else more, name)
    return _build(METHODS[name], given)


def _add(given: dict[str, Value], key: str, value: Value, name: str) -> None:
    if key in given:
        raise ArgumentError("method", f"{name!r} has {key} twice", "give it once")
    given[key] = value


def _build(method: type[Method], given: Mapping[str, Value]) -> Method:
    fields = {one.name for one in dataclasses.fields(method)}
    spelled = {typed: ours for ours, typed in method.spellings.items()}
    known = [*method.parameters(), *method.aliases]
    values: dict[str, Value] = {}
    for key, value in given.items():
        ours = method.aliases.get(key) or spelled.get(key, key)
        if key not in known or ours not in fields:
            near = nearest_name(key, known)
            takes = f"it takes {', '.join(known) or 'none'}"
            remedy = f"did you mean {near!r}? {takes}" if near else takes
            raise ArgumentError("method", f"{method.name!r} has no parameter {key!r}", remedy)
        if ours in values:
            both = " and ".join(
                sorted([key, *(other for other in given if other != key and method.aliases.get(other, other) == ours)])
            )
            raise ArgumentError(
                "method", f"{method.name!r} has {both}, two names of the same parameter", "give one of them"
            )
        values[ours] = _reciprocal(method, key, value) if key in method.aliases else value
    return method(**values)


def _reciprocal(method: type[Method], key: str, value: Value) -> float:
    number = as_number(value)
    if number is None or not 0 < number < math.inf:
        raise refused(method, key, "a finite number above 0", value)
    return 1 / number


def as_value(text: str) -> Value:
    """Read a parameter's value: a whole number, a number, or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


__all__ = ["METHODS", "Method", "parse"]
