"""Kernels: multiply a tile and reduce it, behind one interface, chosen per call. One file each, one line here."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from unhub.errors import ArgumentError, optional, optional_for, unknown
from unhub.kernels.interface import Kernel


def _numpy(settings: str = "") -> Kernel:
    from unhub.kernels import plain

    return plain


def _numba(settings: str = "") -> Kernel:
    optional("numba", "fast", "the numba kernel")
    from unhub.kernels import compiled

    return compiled


@functools.cache
def _torch(settings: str) -> Kernel:
    """Return the kernel of a device, such as `cuda:1`, or `cuda:1/bf16` to multiply in bf16."""
    optional("torch", "train", "a device")
    from unhub.kernels import torch_device, torch_kernel

    device, slash, precision = settings.partition("/")
    if slash and precision != BF16:
        raise unknown("device", f"torch:{settings}", DEVICES, "devices")
    return torch_kernel.TorchKernel(torch_device.find(device), precision == BF16)


# How to load each kernel, given what follows its name and a colon: nothing is imported before it is needed.
KERNELS: Mapping[str, Callable[[str], Kernel]] = {"numpy": _numpy, "numba": _numba, "torch": _torch}

HERE = ("numpy", "numba")  # the kernels that take numpy arrays
# Devices as a user names them, and how numbers are multiplied there.
ON_TORCH, AUTO = ("cuda", "mps", "cpu"), "auto"
DEVICES = (*ON_TORCH, AUTO, *HERE)
FP32, BF16 = PRECISIONS = ("fp32", "bf16")

_preferred: ContextVar[str | None] = ContextVar("preferred kernel", default=None)


def choose(name: str | None = None) -> Kernel:
    """Return the kernel of this name, or without a name the default of this call.

    The default is what `prefer` set, else numba if it is installed and UNHUB_NO_NUMBA is not set, else numpy.
    """
    name = check_name(name) or _preferred.get()
    if name is not None:
        kind, _, settings = name.partition(":")
        return KERNELS[kind](settings)
    return _numpy() if os.environ.get("UNHUB_NO_NUMBA") else _quickest()


def choose_here(name: str | None = None) -> Kernel:
    """Return the kernel of this name if it takes numpy arrays, else the default of this call."""
    return choose(None if name is not None and name.startswith("torch:") else name)


def check_name(name: str | None) -> str | None:
    """Return the name of a kernel, or None for the default; raise an ArgumentError if it is unknown.

    A device's name, such as `cuda`, is that of torch's kernel on it.
    """
    given: object = name  # an untyped caller may give anything, such as a torch.device
    if name is None or (isinstance(given, str) and (name in HERE or name.removeprefix("torch:") not in ("", name))):
        return name
    name = str(given)
    if name.lower().partition(":")[0] == "gpu":
        remedy = "a GPU is 'cuda', or 'mps' on a Mac, and 'auto' takes what is there"
        raise ArgumentError("device", f"{name!r} is unknown", f"{remedy}; the devices are {', '.join(DEVICES)}")
    if name.partition(":")[0] not in (*ON_TORCH, AUTO) or "/" in name:
        raise unknown("device", name, DEVICES, "devices")
    return f"torch:{name}" if name != AUTO else _best_device()


def name_of(device: str | None, precision: str | None = None) -> str | None:
    """Return the name of the kernel for a device and a precision as a user gives them; None is the default kernel."""
    if precision is not None and precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS, "precisions")
    name = check_name(device)
    if name is not None and name.startswith("torch:"):
        optional_for("device", device, "torch", "train")
        name = choose(name).NAME  # a device that is not there is an error here, before any work
        return f"{name}/{BF16}" if precision == BF16 and not name.endswith(BF16) else name
    if precision == BF16:
        if device is not None:
            problem = f"is 'bf16', which needs a device of torch, and device={device!r} finds none but the processor"
            raise ArgumentError(
                "precision", problem, "leave it out, or give device='cpu' for torch's processor kernels"
            )
        raise ArgumentError("precision", "is 'bf16', which needs a device of torch", "give a device, or leave it out")
    return name


def _best_device() -> str | None:
    """Return the kernel of the fastest device that torch finds, or None where it finds only a processor."""
    try:
        optional("torch", "train", "a device")
    except ImportError:
        return None
    from unhub.kernels import torch_device

    best = torch_device.present()[0]
    return None if best == "cpu" else f"torch:{best}"


@contextmanager
def prefer(name: str | None) -> Iterator[None]:
    """Make this kernel the default of calls inside the `with` block, including their threads; None changes nothing.

    So does a device: it takes the passes over tiles, and what is not such a pass stays with the default.
    """
    name = check_name(name)
    kept = _preferred.get() if name is None or name.startswith("torch:") else name
    before = _preferred.set(kept)
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


__all__ = [
    "AUTO",
    "BF16",
    "DEVICES",
    "HERE",
    "KERNELS",
    "PRECISIONS",
    "Kernel",
    "check_name",
    "choose",
    "choose_here",
    "name_of",
    "prefer",
]
