"""Reasons: why a setting was chosen, or none was, and what to do next."""

from __future__ import annotations

from unhub.banks.judging import FEWEST_QUERIES
from unhub.compute.progress import Clock
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import Measure
from unhub.evaluation.tables import counted
from unhub.tuning.labelled import FOLDS, Choice
from unhub.tuning.popularity import FEWEST_COMPARED
from unhub.tuning.trials import Trials
from unhub.tuning.unlabelled import Fall

TRANSPORT = "transport cost"  # what rankings are compared by without labels
COST = f"the {TRANSPORT} (the mean over queries of the best corrected score)"
BANK_ADVICE = (
    "Either there are few hubs, or this bank does not show them: label some queries, or collect a bank that is larger "
    "or closer to the queries."
)


def by_labels(winner: str, choice: Choice, measure: Measure, trials: Trials) -> str:
    """Say what was chosen with labelled queries, and why."""
    tried = _count(trials)
    if choice.sure and choice.winner and choice.by_labels:
        return (
            f"{winner} is the best of {tried} by {measure}: a setting chosen on {FOLDS - 1} in {FOLDS} of the "
            f"labelled queries changed it by {choice.gain:+.2f} on the others.{_left_out(trials)}"
        )
    if choice.sure and choice.winner:
        return (
            f"{winner} was chosen from {tried} without the labels, by {COST}, and they agree: {measure} changes by "
            f"{choice.gain:+.2f}. A setting chosen on {FOLDS - 1} in {FOLDS} of the labelled queries changed it by "
            f"{choice.of_folds:+.2f} on the others.{_left_out(trials)}"
        )
    if choice.winner == 0:
        why = "none does better"
    else:
        why = f"the best, {winner}, changed {measure} by {choice.gain:+.2f} on queries that had no part in the choice"
    return (
        f"No sure gain over raw among {tried}: {why}. Label more queries, or collect a bank that is larger or closer "
        f"to the queries.{_left_out(trials)}"
    )


def by_transport(winner: str, fall: Fall, trials: Trials, by_queries: bool) -> str:
    """Say what was chosen without labels, judged by bank queries or by real ones."""
    whose = "the queries" if by_queries else "bank queries it was not fitted on"
    tried, moved = _count(trials), format(fall.change, "+.3g")
    if fall.worthwhile:
        also = "" if fall.bank is None else f", and by {fall.bank.change:+.3g} for bank queries it was not fitted on"
        closing = "" if by_queries else " Only queries can show whether the bank resembles them: give some, or labels."
        return (
            f"Of {tried}, {winner} is in the midst of those that lower {COST} about as much as any: it changes by "
            f"{moved} for {whose}{also}. This assumes that all items are wanted about equally often: if some are "
            f"far more popular, choose by labels.{closing}{_left_out(trials)}"
        )
    if fall.queries < FEWEST_QUERIES:
        why = f"{fall.queries:,} queries are too few to be sure (at least {FEWEST_QUERIES} are needed)"
        remedy = "Give more queries, or label some." if by_queries else "Collect a larger bank, or label some queries."
    elif winner == RAW:
        why, remedy = f"none lowers {COST} for {whose}", BANK_ADVICE
    elif fall.sure and fall.stand_ins is not None and fall.harms_items:
        why = (
            f"{winner} does best, but the bank is of the items' own kind, and for the items as queries {COST} changes "
            f"by {fall.stand_ins.change:+.3g}"
        )
        remedy = "Give queries, or a bank that resembles them more."
    elif fall.sure and fall.repeats is None:
        why = (
            f"{winner} does best, but with fewer than {FEWEST_COMPARED} items or queries popular items cannot be told "
            "from hubs"
        )
        remedy = "Labels can tell: give relevance with the queries."
    elif fall.sure and fall.demand is not None and fall.demand.uneven:
        why = (
            f"{winner} does best, but what is asked most often asks for the items that most queries ask for "
            f"(correlation {fall.demand.correlation:.2f} over {fall.demand.items:,} items), so these may be popular "
            "rather than hubs, and a correction would push right answers down"
        )
        remedy = "Labels can tell: give relevance with the queries."
    elif fall.sure and fall.repeats is not None:
        why = (
            f"{winner} does best, but {100 * fall.repeats.share:.0f}% of the queries ask for the same as another one, "
            f"and at most {100 * fall.repeats.most:.0f}% would if all items were wanted equally often; so the items "
            "returned most may be popular rather than hubs, and a correction would push right answers down"
        )
        remedy = "Labels can tell: give relevance with the queries."
    else:
        why = f"{winner} does best, but {COST} changes by {moved} for {whose}, which may be chance"
        remedy = BANK_ADVICE
    return f"No sure gain over raw among {tried}: {why}. {remedy}{_left_out(trials)}"


def too_short(clock: Clock) -> str:
    """Say that the time was too short to try any setting."""
    return f"No setting could be tried in {clock.limit:g} seconds: give more time, a smaller bank, or fewer queries."


def _count(trials: Trials) -> str:
    return counted(len(trials.tried) - 1, "setting", "settings")


def _left_out(trials: Trials) -> str:
    return f" There was no time for {len(trials.left_out)} more settings." if trials.left_out else ""
