"""Kernels: multiply a tile and reduce it, behind one interface, chosen per call. One file each, one line here."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from unhub.errors import optional, unknown
from unhub.kernels.interface import Kernel


def _numpy() -> Kernel:
    from unhub.kernels import plain

    return plain


def _numba() -> Kernel:
    optional("numba", "fast", "the numba kernel")
    from unhub.kernels import compiled

    return compiled


# How to load each kernel: nothing is imported before it is needed.
KERNELS: Mapping[str, Callable[[], Kernel]] = {"numpy": _numpy, "numba": _numba}

_preferred: ContextVar[str | None] = ContextVar("preferred kernel", default=None)


def choose(name: str | None = None) -> Kernel:
    """Return the kernel of this name, or without a name the default of this call.

    The default is what `prefer` set, else numba if it is installed and UNHUB_NO_NUMBA is not set, else numpy.
    """
    name = check_name(name) or _preferred.get()
    if name is not None:
        return KERNELS[name]()
    return _numpy() if os.environ.get("UNHUB_NO_NUMBA") else _quickest()


def check_name(name: str | None) -> str | None:
    """Return the name of a kernel, or None for the default; raise an ArgumentError if it is unknown."""
    if name is not None and name not in KERNELS:
        raise unknown("device", name, KERNELS, "devices")
    return name


@contextmanager
def prefer(name: str | None) -> Iterator[None]:
    """Make this kernel the default of calls inside the `with` block, including their threads; None changes nothing."""
    before = _preferred.set(check_name(name) or _preferred.get())
    try:
        yield
    finally:
        _preferred.reset(before)


@functools.cache
def _quickest() -> Kernel:
    """Return the compiled kernel, or the plain one if numba is not installed or does not load."""
    try:
        return _numba()
    except ImportError:
        return _numpy()


__all__ = ["KERNELS", "Kernel", "check_name", "choose", "prefer"]
