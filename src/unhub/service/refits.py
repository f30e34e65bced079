"""Refits: fit again in the background, judge as `tune` does without labels, and offer the result."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np

import unhub
from unhub.arrays import Kind
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError
from unhub.evaluation.hubness import Figures
from unhub.files.version_folders import AboutVersion
from unhub.methods import parse
from unhub.service.hub_counts import HUB_PLACES, AskedQueries, count_hubs
from unhub.service.limits import Refused
from unhub.service.version import Version
from unhub.stores.store import Store
from unhub.tuning.outcome import Tuning

State: TypeAlias = Literal["idle", "running", "offered", "failed", "cancelled"]
Json: TypeAlias = dict[str, Any]
TUNED_SHARE = 0.9  # of the progress: choosing and fitting; the rest is counting hubs
FEWEST_JUDGES = 50  # sample queries; with fewer, the bank judges itself


class RefitCancelled(Exception):
    """Raised inside a refit that nobody wants any more."""


@dataclass(frozen=True)
class RefitStatus:
    """How a refit stands: what is done of it, the version it offers, how that was judged, and what went wrong."""

    state: State = "idle"
    done: float = 0.0
    version: str | None = None
    judged: Json | None = None
    error: str | None = None


@dataclass(frozen=True, eq=False)
class RefitTask:
    """What to fit on what. bank: the queries to fit on; kept_bank: the same, if a version must keep them itself."""

    version: Version
    bank: Vectors
    kept_bank: Vectors | None
    method: str | None
    asked: AskedQueries | None
    said: str


class Refits:
    """One refit at a time. `offer` keeps a finished one and returns its name; `drop` forgets it again."""

    def __init__(
        self,
        offer: Callable[[unhub.Bias, AboutVersion, Vectors | None], str],
        drop: Callable[[str], None],
        index: str | None,
        threads: int | None,
    ) -> None:
        self._offer, self._drop, self._index, self._threads = offer, drop, index, threads
        self._lock = threading.Lock()
        self._status = RefitStatus()
        self._cancel = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def status(self) -> RefitStatus:
        with self._lock:
            return self._status

    def start(self, task: RefitTask) -> RefitStatus:
        """Begin; raise if one is running, or if a service cannot use the method."""
        methods = _methods(task.method)
        with self._lock:
            if self._status.state == "running":
                raise Refused(409, "refit", "is already running", "wait for it, or cancel it")
            if self._cancel.is_set() and self._thread is not None and self._thread.is_alive():
                raise Refused(409, "refit", "was cancelled and is still ending", "try again in a moment")
            self._status = RefitStatus("running")
            self._cancel = threading.Event()
            work = contextvars.copy_context().run
            self._thread = threading.Thread(target=work, args=(self._work, task, methods), name="refit", daemon=True)
            self._thread.start()
            return self._status

    def cancel(self) -> RefitStatus:
        """Stop a refit that runs, or drop the offer."""
        with self._lock:
            before = self._status
            if before.state == "running":
                self._cancel.set()
                self._status = replace(before, state="cancelled")
            else:
                self._status = RefitStatus()
            now = self._status
        if before.version is not None:  # not under the lock: it may wait for another change
            self._drop(before.version)
        return now

    def taken(self, name: str) -> None:
        """Note that an offer was activated."""
        with self._lock:
            if self._status.version == name:
                self._status = RefitStatus()

    def close(self) -> None:
        """Stop, and wait until it is over."""
        self._cancel.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self, task: RefitTask, methods: str | list[str]) -> None:
        cancel = self._cancel

        def tick(share: float) -> None:
            if cancel.is_set():
                raise RefitCancelled
            self._put(RefitStatus("running", share), cancel)

        try:
            tuning = self._tuned(task, methods, tick)
            best = cast("unhub.Bias", tuning.best)
            judged = {"reason": tuning.reason, "queries": tuning.judges, **self._hubness(task, best, tick)}
            about = replace(AboutVersion.now(f"Refitted on {task.said}: {best.spec}."), offered=True, judged=judged)
            if not cancel.is_set():
                name = self._offer(best, about, task.kept_bank)
                if not self._put(RefitStatus("offered", 1.0, name, judged), cancel):
                    self._drop(name)
        except RefitCancelled:
            pass
        except Exception as error:
            self._put(RefitStatus("failed", error=str(error) or type(error).__name__), cancel)

    def _tuned(self, task: RefitTask, methods: str | Sequence[str], tick: Callable[[float], None]) -> Tuning:
        version = task.version
        judges = task.asked.vectors if task.asked is not None and task.asked.source == "sample queries" else None
        items = version.gallery.items
        return unhub.tune(
            items if isinstance(items, Store) else Vectors(version.correction.ids, version.searcher.items.rows),
            task.bank,
            judges if judges is not None and len(judges) >= FEWEST_JUDGES else None,
            methods=methods,
            similarity=cast("Kind", version.correction.source.similarity),
            threads=self._threads,
            progress=lambda done, total: tick(TUNED_SHARE * done / max(total, 1)),
        )

    def _hubness(self, task: RefitTask, best: unhub.Bias, tick: Callable[[float], None]) -> Json:
        """Return the hubness of what is active and of what is offered, by the same queries and the same index."""
        if task.asked is None:
            return {}
        offered = Version.of("offered", task.version.gallery, best, None, self._index, self._threads)
        halves = {"active": (task.version, TUNED_SHARE), "offered": (offered, (1 + TUNED_SHARE) / 2)}
        figures = {name: asdict(_counted(one, task.asked, start, tick)) for name, (one, start) in halves.items()}
        return {"hubness": figures}

    def _put(self, status: RefitStatus, cancel: threading.Event) -> bool:
        """Show how it stands, unless it was cancelled meanwhile; return whether it is shown."""
        with self._lock:
            if cancel.is_set():
                return False
            self._status = status
            return True


def _methods(method: str | None) -> str | list[str]:
    """Return the methods to try: one as it is, or all."""
    if method is None:
        return "all"
    found = parse(method)
    if found.kind == "plan":
        problem = f"{method!r} is a plan: it balances a whole batch of queries, and a service answers one at a time"
        raise ArgumentError("method", problem, "name one that is one number per item, such as is or nnn")
    if found.dual or found.joint:
        raise ArgumentError("method", f"{method!r} needs bank items too", "fit it yourself, and upload it")
    if found.kind != "bias":
        raise ArgumentError("method", f"{method!r} is more than one number per item", "fit it yourself, and upload it")
    return [method]


def _counted(version: Version, asked: AskedQueries, start: float, tick: Callable[[float], None]) -> Figures:
    """Return the hubness of a version; `tick` hears of half the progress that is left for counting."""
    counts = count_hubs(version, asked, lambda done: tick(start + done * (1 - TUNED_SHARE) / 2))
    return counts.hubness("corrected", HUB_PLACES).figures


def stacked_bank(bank: Vectors, more: Vectors) -> Vectors:
    """Return the bank followed by logged queries, numbered anew: their ids may be the same."""
    both = Vectors(np.arange(len(bank)), bank.rows, bank.weights)
    return both.stack(Vectors(np.arange(len(bank), len(bank) + len(more)), more.rows, more.weights))
