"""Progress: several pieces of work, each with its own progress, shown as one."""

from __future__ import annotations

from unhub.compute.workers import Progress

STEP_UNITS = 1000  # how finely the progress of one step is shown


class Steps:
    """Hands each of a known number of steps a progress of its own, and shows them all as one that never goes back."""

    def __init__(self, progress: Progress | None, count: int) -> None:
        self._progress, self._count = progress, count
        self._begun = self._done = 0

    def next(self) -> Progress | None:
        """Return the progress of the next step; those before it are taken to be done."""
        before, self._begun = self._begun, self._begun + 1
        show = self._progress
        if show is None:
            return None

        def look(done: int, total: int) -> None:
            # A step may find that there is more to do.
            self._done = max(self._done, STEP_UNITS * before + STEP_UNITS * done // max(total, 1))
            show(self._done, STEP_UNITS * self._count)

        return look
