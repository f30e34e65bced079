"""The verdict: three sentences on how bad the hubs are, what the correction does, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from unhub.evaluation.hubness import top_items
from unhub.reports.findings import Findings

# Skewness over what chance alone gives; counts that differ by chance have none.
STRONG, MILD = 1.5, 0.5
NOT_ADVISED = "Keep the raw ranking: no correction is sure to help here, for the reason told below the table."
UNLABELLED = (
    "No relevance was given, so nothing here says whether the right items are found more often: label some queries, a "
    "few hundred if you can, and run this again with them."
)
ALONE = "Nothing is compared here: give a correction that changes the ranking, or none, to have one chosen."
LEAK_NOTE = (
    "{leaked:,} of the {queries:,} queries stand in the bank as they are. A correction that is fitted on it has seen "
    "them, so its figures, those of the curves too, are better than they will be: leave these queries out of the bank, "
    "fit again and run this again."
)


@dataclass(frozen=True)
class Verdict:
    """Three sentences and a word for them: `gain`, `unsure`, `harm`, `unknown` without labels, `none` for raw alone.

    leaked: how many queries stand in the bank as they are, which flatters a correction.
    """

    word: str
    sentences: tuple[str, str, str]
    leaked: int = 0

    def __str__(self) -> str:
        return " ".join(self.sentences)


def verdict_on(findings: Findings, advised: bool = True, leaked: int = 0) -> Verdict:
    """Say what the findings come to; advised: whether hubness alone speaks for the correction.

    leaked: how many of the queries stand in the bank as they are.
    """
    word, advice = _advice(findings, advised, leaked)
    return Verdict(word, (_hubs(findings), _effect(findings), advice), leaked)


def strength_of(skewness: float, chance: float) -> str:
    """Return a word for how hubby counts are."""
    over = skewness - chance
    return "strong" if over >= STRONG else "mild" if over >= MILD else "slight"


def _hubs(findings: Findings) -> str:
    raw, chance = findings.hubness[0], findings.chance
    strength = strength_of(raw.skewness, chance.skewness)
    # 1% of few items is less than one.
    who = "the most returned item takes" if top_items(len(raw.counts)) == 1 else "1% of the items take"
    return (
        f"Hubness is {strength}: {who} {raw.figures.top_share:.1%} of all places among the first "
        f"{raw.k}, and {raw.figures.anti_hubs:.1%} of the items are never returned (skewness {raw.skewness:.2f}; "
        f"chance alone would give {chance.skewness:.2f}, {chance.top_share:.1%} of the places and "
        f"{chance.anti_hubs:.1%} never returned)."
    )


def _effect(findings: Findings) -> str:
    measure = str(findings.measures[0])
    if findings.alone:
        value = f", with {measure} at {findings.rows[0].values[measure]:.2f}" if findings.rows else ""
        return f"The correction that was given is raw, which is none, so the raw ranking stands here alone{value}."
    before, after = findings.hubness[0], findings.hubness[1]
    told = [f"{one.skewness:.2f}" for one in (before, after)]
    moves = "lowers skewness to" if after.skewness < before.skewness else "raises skewness to"
    never = f"{after.figures.anti_hubs:.1%} of the items never returned"
    hubs = f"{'leaves skewness at' if told[0] == told[1] else moves} {told[1]}, with {never}"
    if not findings.rows:
        return f"The correction {findings.shown} {hubs}."
    old, new = (row.values[measure].value for row in findings.rows[:2])
    gain = findings.rows[1].gains[measure]
    return (
        f"The correction {findings.shown} takes {measure} from {old:.2f} to {new:.2f} ({gain.value:+.2f}, 95% interval "
        f"{gain.brackets('+.2f')}) and {hubs}."
    )


def _advice(findings: Findings, advised: bool, leaked: int) -> tuple[str, str]:
    if findings.alone:
        return "none", ALONE
    leak = f"{leaked:,} of the {findings.queries:,} queries stand in the bank, which flatters a correction fitted on it"
    asides = [leak] if leaked else []
    if not findings.rows:
        word, advice = ("unknown", UNLABELLED) if advised else ("unsure", NOT_ADVISED)
        return word, "; ".join([advice.removesuffix("."), *asides]) + "."
    if not advised:
        asides = ["tune, which saw no labels, advises against a correction", *asides]
    measure = findings.measures[0]
    gain = findings.rows[1].gains[str(measure)]
    low, high = (-gain.high, -gain.low) if measure.family.falls else (gain.low, gain.high)
    came, left = (len(queries) for queries in findings.moved())
    tally = (
        f"of {len(findings.ranks[0]):,} queries {came:,} have their answer {findings.reached} that had not before, and "
        f"{left:,} no longer have it there"
    )
    word, advice = "unsure", "The difference may be chance, so keep the raw ranking or label more queries"
    if low > 0:
        use = "but measure it on queries that are not in the bank before you" if leaked else "so"
        word, advice = "gain", f"The gain is beyond chance, {use} use the correction"
    elif high < 0:
        word, advice = "harm", "It does harm here, so keep the raw ranking and look at the bank"
    return word, f"{advice}: {'; '.join([tally, *asides])}."
