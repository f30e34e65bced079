"""Devices of torch: find one by name, know what it has free, and bring rows there."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unhub.errors import ArgumentError
from unhub.kernels.interface import Limits

KINDS = ("cuda", "mps", "cpu")
# What a tile takes on an accelerator, where memory allows it; a multiply of this size keeps the largest ones busy.
TILE_ENTRIES = 64 << 20
TILE_SHARE = 8  # a tile, its copies and masks take this much of the free memory at most, as one part in so many
STATE_SHARE = 4  # items with their running values, in the same way
MOST_COLUMNS = 5808  # float32 can hold the sum of that many powers, as on the host
MOST_SHORT_COLUMNS = 2048  # the same where bf16 lets a cosine be a little above 1
# On a processor, tiles are wider than on the host: torch finds the largest scores of long rows in less time.
CPU_TILE_ROWS, CPU_TILE_ENTRIES, CPU_STATE_BYTES = 2560, 2560 * 5808, 64 << 20
CPU_THREADS = 1 << 10  # as many as the caller has
ACCELERATOR_THREADS = 2  # one prepares and copies its rows while the device computes for the other
FULL_TEXTS = ("out of memory", "can't allocate memory")  # torch has no class of error for it on every device
NAME = re.compile("([a-z]+)(?::(0|[1-9][0-9]*))?")

_CPU_LOCK = threading.Lock()
_cpu_lanes = 0
_cpu_threads = 1


def find(name: str) -> torch.device:
    """Return the device of this name; raise an ArgumentError if it is unknown or not there."""
    here, named = present(), NAME.fullmatch(name)
    kind, number = named.groups() if named else ("", None)
    if kind not in KINDS:
        raise ArgumentError("device", f"{name!r} is unknown", f"write it as one of {', '.join(KINDS)}, or as cuda:1")
    if kind not in here:
        raise ArgumentError("device", f"{name!r} is not there: torch finds no {kind}", f"here is {', '.join(here)}")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if int(number or 0) >= count:
        raise ArgumentError("device", f"{name!r} is not there: torch finds {count} of {kind}", "they count from 0")
    return torch.device(name)


def present() -> list[str]:
    """Return the kinds of devices that torch finds, the fastest first."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [kind for kind in KINDS if there[kind]]


def limits_of(device: torch.device, short: bool) -> Limits:
    """Return what a device takes at a time, by the memory that it has free now."""
    columns = MOST_SHORT_COLUMNS if short else MOST_COLUMNS
    free = free_memory(device)
    if device.type == "cpu":
        return Limits(CPU_TILE_ROWS, CPU_TILE_ENTRIES, columns, CPU_STATE_BYTES, CPU_THREADS, free)
    share = free // ACCELERATOR_THREADS
    entries = max(columns, min(TILE_ENTRIES, share // (4 * TILE_SHARE)))
    return Limits(max(1, entries // columns), entries, columns, share // STATE_SHARE, ACCELERATOR_THREADS, free)


def free_memory(device: torch.device) -> int:
    """Return how many bytes a device has free, counting what torch holds in reserve; for the processor a large number.

    The processor's memory is watched by the callers, which know their limits.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + unused)
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return 1 << 62


def upload(array: Any, device: torch.device) -> torch.Tensor:
    """Return an array, or a tensor, on a device; what is there already is not copied.

    Where the device has it, the copy goes through pinned memory, so that it does not wait for the processor.
    """
    if isinstance(array, torch.Tensor):
        return array.detach().to(device)
    tensor = torch.from_numpy(array if array.flags.writeable else _as_writeable(array))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class _Alias:
    """The memory of a read-only array under the name of a writeable one; it keeps the array alive."""

    def __init__(self, array: NDArray[np.generic]) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _as_writeable(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return a view that torch takes without a warning, for example of a mapped file; nobody writes to it."""
    return np.asarray(_Alias(array))


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a device has no memory left."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in FULL_TEXTS)


@contextmanager
def lane(device: torch.device) -> Iterator[None]:
    """Let this thread compute on a device: without gradients, and next to other threads.

    On CUDA a thread has a stream of its own, so that one copies while another computes; it waits for what was queued
    before, and the work is done when the lane ends. On the processor each thread computes alone.
    """
    with torch.no_grad():
        if device.type == "cuda":
            stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                yield
            stream.synchronize()
        elif device.type == "cpu":
            with _one_thread():
                yield
        else:
            yield


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread in this one, since we run our own; the last to leave restores what others find."""
    global _cpu_lanes, _cpu_threads
    with _CPU_LOCK:
        if _cpu_lanes == 0:
            _cpu_threads = torch.get_num_threads()
        _cpu_lanes += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _CPU_LOCK:
            _cpu_lanes -= 1
            if _cpu_lanes == 0:
                torch.set_num_threads(_cpu_threads)
