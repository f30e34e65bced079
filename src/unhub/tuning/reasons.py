"""Reasons: why a setting was chosen or none was, in sentences that a person can act on."""

from __future__ import annotations

from unhub.banks.judging import FEWEST_QUERIES
from unhub.compute.progress import Clock
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import Measure
from unhub.tuning.labelled import FEWEST_GROUPS, FOLDS, Choice
from unhub.tuning.popularity import MOST_ALIKE
from unhub.tuning.trials import Trials
from unhub.tuning.unlabelled import HubnessChange

UNEVENNESS = "Robin Hood"  # the index by which rankings are compared without labels
BANK_ADVICE = (
    "There are few hubs, or this bank does not show them: label some queries, or collect a bank that is larger or more "
    "like them."
)


def by_labels(winner: str, choice: Choice, measure: Measure, groups: int, trials: Trials) -> str:
    """Say what labelled queries chose."""
    tried = f"{len(trials.methods) - 1:,} settings"
    if choice.sure and choice.winner:
        return (
            f"{winner} is the best of {tried} by {measure}: choosing on {FOLDS - 1} in {FOLDS} of the labelled queries "
            f"changed it by {choice.gain:+.2f} on the others.{_left_out(trials)}"
        )
    if groups < FEWEST_GROUPS:
        why = f"the labels are of {groups} items only, and {FEWEST_GROUPS} are the least to tell a gain from chance"
    elif choice.winner == 0:
        why = "none does better"
    else:
        why = f"the best, {winner}, changed {measure} by {choice.gain:+.2f} on queries that did not choose it"
    return (
        f"No gain over raw is sure: of {tried}, {why}. Label more queries, or collect a bank that is larger or more "
        f"like them.{_left_out(trials)}"
    )


def by_hubness(winner: str, seen: HubnessChange, trials: Trials, by_queries: bool) -> str:
    """Say what hubness chose, as bank queries or real ones see it."""
    whose = "the queries" if by_queries else "bank queries it was not fitted on"
    tried = f"{len(trials.methods) - 1:,} settings"
    moved = f"{100 * seen.change.value:+.1f} [{100 * seen.change.low:+.1f}, {100 * seen.change.high:+.1f}]"
    if seen.worthwhile:
        closing = "" if by_queries else " Only queries can tell whether the bank resembles them: give some, or labels."
        return (
            f"{winner} is the weakest of {tried} that returns the items about as evenly as any: the share of places "
            f"that would have to move changes by {moved} points for {whose}. This takes every item to be wanted about "
            f"equally often: if some are far more popular, choose by labels.{closing}{_left_out(trials)}"
        )
    if winner == RAW:
        why, remedy = "none returns the items more evenly", BANK_ADVICE
    elif seen.falls:
        why = (
            f"{winner} does best, but the most returned items are asked for by queries that are alike (their cosine is "
            f"{seen.alike:.2f} in the mean, and {MOST_ALIKE} the most that hubs have), so that they may be popular and "
            "no hubs, and a correction would push right answers down"
        )
        remedy = "Labels can tell: give relevance with the queries."
    elif seen.too_few:
        least = f", and {FEWEST_QUERIES} are the least" if seen.queries < FEWEST_QUERIES else ""
        why = (
            f"{winner} does best, and with it the share of places that would have to move changes by {moved} points "
            f"for {whose}, which are too few queries for this many items to be sure ({seen.queries:,}{least})"
        )
        remedy = "Give more queries, or label some." if by_queries else "Collect a larger bank, or label some queries."
    else:
        why = (
            f"{winner} does best, and with it the share of places that would have to move changes by no more than "
            f"{moved} points for {whose}"
        )
        remedy = BANK_ADVICE
    return f"No gain over raw is sure: of {tried}, {why}. {remedy}{_left_out(trials)}"


def too_short(clock: Clock) -> str:
    """Say that the time was too short for anything."""
    return f"No setting could be tried in {clock.limit:g} seconds: give more time, a smaller bank, or fewer queries."


def _left_out(trials: Trials) -> str:
    return f" There was no time for {len(trials.left_out)} more settings." if trials.left_out else ""
