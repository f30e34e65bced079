"""Choosing without labels: whether the choice is worth taking, or raw must stay."""

from __future__ import annotations

from dataclasses import dataclass

from unhub.arrays import Float64
from unhub.banks.judging import ADVICE, FEWEST_QUERIES, BankReport
from unhub.evaluation.confidence import Interval
from unhub.tuning.popularity import Demand, Repeats

# With one of these problems, bank queries that judge a correction fitted on others of the bank are too kind to it.
HARMFUL_PROBLEMS = ("tiny", "thin")
NORMAL_95 = 1.96  # standard errors, in a 95% interval of a mean


@dataclass(frozen=True)
class Fall:
    """How J changes from raw to the chosen ranking, and what speaks against the choice.

    repeats: None if there are too few queries or items to tell. bank: the fall that bank queries see by a ranking that
    was not fitted on them. stand_ins: the fall that the items see, where they stand in for queries. demand: of a log;
    None for distinct queries.
    """

    change: Interval
    queries: int
    repeats: Repeats | None = None
    bank: Fall | None = None
    stand_ins: Fall | None = None
    demand: Demand | None = None

    @staticmethod
    def between(raw: Float64, chosen: Float64) -> Fall:
        """Compare the costs of the same queries."""
        differences = chosen - raw
        value = float(differences.mean())
        error = float(differences.std(ddof=1)) / len(differences) ** 0.5 if len(differences) > 1 else float("inf")
        ends = (value - NORMAL_95 * error, value + NORMAL_95 * error)
        return Fall(Interval(value, *ends), len(differences))

    @property
    def sure(self) -> bool:
        """Whether J certainly falls, for enough queries: by these alone, or because they agree with the bank.

        In a good space most queries find their item already, so that a few hundred see too small a fall to be certain
        of it, while bank queries, which have no item of their own in the gallery, see it clearly.
        """
        agrees = self.change.value < 0 and self.bank is not None and self.bank.sure
        return self.queries >= FEWEST_QUERIES and (self.change.high < 0 or agrees)

    @property
    def harms_items(self) -> bool:
        """Whether J certainly rises for items that stand in for queries."""
        return self.stand_ins is not None and self.stand_ins.change.low > 0

    @property
    def popular(self) -> bool:
        """Whether some items are asked for far more often than others, which makes them look like hubs."""
        return bool((self.repeats and self.repeats.uneven) or (self.demand and self.demand.uneven))

    @property
    def worthwhile(self) -> bool:
        return self.sure and self.repeats is not None and not self.popular and not self.harms_items


def objection(report: BankReport) -> str | None:
    """Return why no correction should be fitted on a bank that only its own queries judge; None if it is fit."""
    found = [problem for problem in report.problems if problem in HARMFUL_PROBLEMS]
    if not found:
        return None
    return " ".join([ADVICE[found[0]], *(f"It is also {other}." for other in found[1:])])
