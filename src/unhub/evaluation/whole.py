"""Whole numbers that a user gives: checked at the door, where the argument still has its name."""

from __future__ import annotations

from numbers import Integral


def check_whole(value: int, name: str, least: int, why: str = "") -> int:
    """Return a number as an int; raise unless it is whole and large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}{why}, got {value!r}")
    return int(value)


def check_seed(seed: int) -> int:
    """Return a seed as an int; raise unless numpy takes it."""
    return check_whole(seed, "seed", 0)
