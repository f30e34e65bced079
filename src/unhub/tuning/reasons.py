"""Reasons: why a setting was chosen, or none was, and what to do next."""

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
INDEX = f"the {UNEVENNESS} index (the share of places to change until every item is returned equally often)"
BANK_ADVICE = (
    "Either there are few hubs, or this bank does not show them: label some queries, or collect a bank that is larger "
    "or closer to the queries."
)


def by_labels(winner: str, choice: Choice, measure: Measure, groups: int, trials: Trials) -> str:
    """Say what was chosen by labelled queries, and why."""
    tried = f"{len(trials.methods) - 1:,} settings"
    if choice.sure and choice.winner:
        return (
            f"{winner} is the best of {tried} by {measure}: a setting chosen on {FOLDS - 1} in {FOLDS} of the "
            f"labelled queries changed it by {choice.gain:+.2f} on the others.{_left_out(trials)}"
        )
    if groups < FEWEST_GROUPS:
        why = (
            f"the labels cover only {groups} items, and at least {FEWEST_GROUPS} are needed to tell a gain from chance"
        )
    elif choice.winner == 0:
        why = "none does better"
    else:
        why = f"the best, {winner}, changed {measure} by {choice.gain:+.2f} on queries that had no part in the choice"
    return (
        f"No sure gain over raw among {tried}: {why}. Label more queries, or collect a bank that is larger or closer "
        f"to the queries.{_left_out(trials)}"
    )


def by_hubness(winner: str, seen: HubnessChange, trials: Trials, by_queries: bool) -> str:
    """Say what was chosen by hubness, as seen by bank queries or by real ones."""
    whose = "the queries" if by_queries else "bank queries it was not fitted on"
    tried = f"{len(trials.methods) - 1:,} settings"
    moved = f"{100 * seen.change.value:+.1f} [{100 * seen.change.low:+.1f}, {100 * seen.change.high:+.1f}]"
    if seen.worthwhile:
        closing = "" if by_queries else " Only queries can show whether the bank resembles them: give some, or labels."
        return (
            f"Of {tried}, {winner} is the weakest correction that returns the items about as evenly as any: {INDEX} "
            f"changes by {moved} points for {whose}. This assumes that all items are wanted about "
            f"equally often: if some are far more popular, choose by labels.{closing}{_left_out(trials)}"
        )
    if winner == RAW:
        why, remedy = "none returns the items more evenly", BANK_ADVICE
    elif seen.falls:
        why = (
            f"{winner} does best, but the items returned most are asked for by similar queries (mean cosine "
            f"{seen.alike:.2f}; for hubs it is at most {MOST_ALIKE}), so they may be popular rather than hubs, and a "
            "correction would push right answers down"
        )
        remedy = "Labels can tell: give relevance with the queries."
    elif seen.too_few:
        least = f" (at least {FEWEST_QUERIES} are needed)" if seen.queries < FEWEST_QUERIES else ""
        why = (
            f"{winner} does best, and {INDEX} changes by {moved} points for {whose}, but {seen.queries:,} queries "
            f"are too few to be sure with this many items{least}"
        )
        remedy = "Give more queries, or label some." if by_queries else "Collect a larger bank, or label some queries."
    else:
        why = f"{winner} does best, but {INDEX} changes by {moved} points for {whose}, which is too little to matter"
        remedy = BANK_ADVICE
    return f"No sure gain over raw among {tried}: {why}. {remedy}{_left_out(trials)}"


def too_short(clock: Clock) -> str:
    """Say that the time was too short to try any setting."""
    return f"No setting could be tried in {clock.limit:g} seconds: give more time, a smaller bank, or fewer queries."


def _left_out(trials: Trials) -> str:
    return f" There was no time for {len(trials.left_out)} more settings." if trials.left_out else ""
