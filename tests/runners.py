"""A runner without a cluster: jobs and kept objects go through pickle, as to other machines, and run here."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from unhub.compute.machines import ON_CLUSTER
from unhub.compute.workers import Job, Tick, one_blas_thread

T = TypeVar("T")


def ignore(amount: int) -> None:
    """Take no note of progress."""


class Pickled:
    """Runs jobs here, one after the other, from copies that went through pickle, as if on one-thread machines."""

    note = f"{ON_CLUSTER}from pickles"

    def __init__(self, slots: int) -> None:
        self.slots, self.machines = slots, [1] * slots
        self.jobs = 0  # that ran so far

    def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
        self.jobs += len(jobs)
        with one_blas_thread():  # as on threads: with more, BLAS splits a product elsewhere and rounds otherwise
            found = [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(job))(ignore))) for job in jobs]
        tick(sum(job.size for job in jobs))
        return found

    @contextmanager
    def keep(self, makers: Sequence[Callable[[], object]], tick: Tick) -> Iterator["KeptHere"]:
        yield KeptHere(makers)


class KeptHere:
    """Objects made from pickles. With `forgetful`, each is lost after it was asked, and made anew."""

    forgetful = False

    def __init__(self, makers: Sequence[Callable[[], object]]) -> None:
        self._makers = [pickle.dumps(maker) for maker in makers]
        self._kept = [pickle.loads(maker)() for maker in self._makers]

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        answers = [getattr(one, method)(*arguments) for one in self._kept]
        if self.forgetful:
            self._kept = [pickle.loads(maker)() for maker in self._makers]
        return answers
