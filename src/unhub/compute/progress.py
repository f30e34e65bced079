"""Progress: show it on stderr, show that of several steps as one, and limit the time they take."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from unhub.compute.workers import Progress, Workers
from unhub.errors import ArgumentError
from unhub.kernels import name_of

STEP_UNITS = 1000  # how finely the progress of one step is shown
UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
LINE_SECONDS = 60.0  # between two lines about work that nobody watches
ProgressLike: TypeAlias = Progress | bool | None
P = ParamSpec("P")
R = TypeVar("R")


class Advance(Protocol):
    """Shows how much is done; a label replaces the previous one."""

    def __call__(self, done: int, total: int, label: str | None = None) -> None: ...


@contextmanager
def shown(label: str) -> Iterator[Advance]:
    """Yield a function of (done, total) that shows progress on stderr.

    At a terminal and in a notebook it is a bar with the time left; elsewhere a line a minute.
    """
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        yield Lines(label, lambda line: print(f"unhub: {line}", file=sys.stderr, flush=True))
        return
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TimeElapsedColumn

    columns = (*Bars.get_default_columns(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total, label=None: bars.update(task, completed=done, total=total, description=label)


class Lines:
    """Says a line a minute: how much is done, since when, and about how long the rest will take."""

    def __init__(self, label: str, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._label, self._say, self._now = label, say, now
        self._started = self._last = now()

    def __call__(self, done: int, total: int, label: str | None = None) -> None:
        moment = self._now()
        self._label = label or self._label
        if moment - self._last < LINE_SECONDS:
            return
        self._last, passed = moment, moment - self._started
        left = f", {_minutes(passed * (total - done) / done)} left" if 0 < done <= total else ""
        self._say(f"{self._label}: {done / max(total, 1):.0%} after {_minutes(passed)}{left}")


def _minutes(seconds: float) -> str:
    """Return about how long it is, in words."""
    minutes = round(seconds / 60)
    words = f"{minutes:,} minutes" if minutes != 1 else "1 minute"
    return words if minutes else "less than a minute"


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function take `progress=True`: its progress is then shown on stderr while it runs."""
    place = [*inspect.signature(function).parameters].index("progress")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = args[place] if place < len(args) else kwargs.get("progress")
        if not isinstance(given, bool):
            return function(*args, **kwargs)
        if not given:
            return _with_progress(None, *args, **kwargs)
        with shown(function.__name__.replace("_", " ")) as advance:
            return _with_progress(advance, *args, **kwargs)

    def _with_progress(advance: Advance | None, *args: P.args, **kwargs: P.kwargs) -> R:
        if place < len(args):
            return function(*args[:place], advance, *args[place + 1 :], **kwargs)  # type: ignore[arg-type]
        return function(*args, **{**kwargs, "progress": advance})  # type: ignore[arg-type]

    return call


def called(progress: ProgressLike) -> Progress | None:
    """Return the function to call, inside one that `shows_progress`, which has put it in the place of True."""
    return None if isinstance(progress, bool) else progress


class Steps:
    """Gives each of a known number of steps its own progress, and shows them all as one that never goes back."""

    def __init__(self, progress: Progress | None, count: int) -> None:
        self._progress, self._count = progress, count
        self._begun = self._done = 0

    def next(self) -> Progress | None:
        """Return the progress of the next step; the steps before it count as done."""
        before, self._begun = self._begun, self._begun + 1
        show = self._progress
        if show is None:
            return None

        def look(done: int, total: int) -> None:
            # A step may raise its total.
            self._done = max(self._done, STEP_UNITS * before + STEP_UNITS * done // max(total, 1))
            show(self._done, STEP_UNITS * self._count)

        return look


class OutOfTime(Exception):
    """Raised inside a step when the time is up."""


class Clock:
    """Gives each step its workers, which show progress over all steps and stop when the time is up."""

    def __init__(
        self,
        seconds: float | None = None,
        progress: Progress | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
        device: str | None = None,
        precision: str | None = None,
    ) -> None:
        """Check the device, before any step. Fits multiply in the precision, rankings in fp32."""
        self.limit, self.reserved = seconds, 0.0
        self._started = time.perf_counter()
        self.threads, self.memory, self._progress = threads, memory, progress
        self.ranking_kernel, self.fitting_kernel = name_of(device), name_of(device, precision)
        self._steps = Steps(progress, 1)

    @property
    def seconds(self) -> float:
        """Seconds since this clock started."""
        return time.perf_counter() - self._started

    def plan(self, steps: int) -> None:
        """Set how many steps there will be."""
        self._steps = Steps(self._progress, steps)

    def finish(self) -> None:
        """Show that all is done, even if there was less to do than planned."""
        if self._progress is not None:
            self._progress(1, 1)

    def fitters(self) -> Workers:
        """Return the workers of the next step, which fits."""
        return Workers(self.threads, self.memory, self.watch(), self.fitting_kernel)

    def rankers(self) -> Workers:
        """Return the workers of the next step, which ranks."""
        return Workers(self.threads, self.memory, self.watch(), self.ranking_kernel)

    def without_limit(self) -> Clock:
        """Return a clock for work of the same kind that is neither shown nor limited."""
        clock = Clock(threads=self.threads, memory=self.memory)
        clock.ranking_kernel, clock.fitting_kernel = self.ranking_kernel, self.fitting_kernel
        return clock

    def watch(self, limited: bool = True) -> Progress:
        """Return the progress of the next step; without `limited`, it goes on when the time is up."""
        show = self._steps.next()

        def look(done: int, total: int) -> None:
            if limited:
                self.check()
            if show is not None:
                show(done, total)

        return look

    def check(self) -> None:
        """Raise OutOfTime when only the time reserved for the end is left."""
        if self.limit is not None and self.seconds > self.limit - self.reserved:
            raise OutOfTime


def seconds_of(given: float | str | None) -> float | None:
    """Return a time in seconds from a number or a text such as '90', '90s', '10m' or '1.5h'; None means no limit."""
    if given is None:
        return None
    match = re.fullmatch(r"\s*([0-9.e+-]+)\s*(s|m|min|h|)\s*", str(given))
    try:
        seconds = float(match[1]) * UNIT_SECONDS[match[2]] if match and not isinstance(given, bool) else 0.0
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ArgumentError(
            "time",
            f"must be a number of seconds above 0, or a text with s, m or h such as '90s' or '1.5h', got {given!r}",
        )
    return seconds
