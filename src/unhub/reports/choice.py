"""The corrections of a report that names none: what `tune` chooses without looking at a label."""

from __future__ import annotations

from dataclasses import dataclass

from unhub.arrays import Kind
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.vectors import Vectors
from unhub.evaluation.inputs import RAW
from unhub.fitting import fit
from unhub.tuning.spread import usual_methods
from unhub.tuning.tune import tune

SECONDS = 300.0  # at most, to choose in


@dataclass(frozen=True, eq=False)
class Choice:
    """Corrections to compare with raw, the one to show first, why it is that one, and whether it is advised."""

    corrections: list[Correction]
    reason: str
    advised: bool

    @property
    def note(self) -> str:
        """How the first correction came to be shown, for a reader."""
        if self.advised:
            return f"The correction was chosen without looking at a label. {self.reason}"
        shown = self.corrections[0].spec
        return f"tune advises against a correction; {shown} is shown for comparison. {self.reason}"


def choose(
    items: Vectors, bank: Vectors, queries: Vectors, similarity: Kind, seed: int, threads: int | None,
    progress: Progress | None,
) -> Choice:  # fmt: skip
    """Choose by the hubness that the queries see, so that labels measure what they did not choose.

    Where no correction is advised, there is still something to look at: the usual ones.
    """
    tuning = tune(
        items, bank, queries, similarity=similarity, time=SECONDS, seed=seed, threads=threads, progress=progress
    )  # fmt: skip
    _, robust = usual_methods(items, bank, similarity=similarity, seed=seed, threads=threads)
    beside = fit(items, bank, method=robust, similarity=similarity, threads=threads)
    if tuning.best.method.name == RAW:
        return Choice([beside], tuning.reason, advised=False)
    others = [beside] if tuning.best.spec != beside.spec else []
    return Choice([tuning.best, *others], tuning.reason, advised=True)
