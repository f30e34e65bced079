"""The verdict: three sentences on how strong the hubness is, what the correction does, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from unhub.evaluation.hubness import top_items
from unhub.reports.findings import Findings

STRONG_SKEWNESS, MILD_SKEWNESS = 1.5, 0.5  # over what chance alone gives
NOT_ADVISED = "Keep the raw ranking: no correction is sure to help here. The reason is below the table."
UNLABELLED = (
    "No relevance was given, so this page cannot say whether the right items are found more often: label some queries, "
    "a few hundred if you can, and run the report again with them."
)
NOTHING_TO_COMPARE = (
    "There is nothing to compare: give a correction that changes the ranking, or give none to have one chosen."
)
LEAK_NOTE = (
    "{leaked:,} of the {queries:,} queries are also in the bank. A correction fitted on it has seen them, so its "
    "figures, and those of the curves, are better than they will be on new queries: take these queries out of the "
    "bank, fit again and run the report again."
)


@dataclass(frozen=True)
class Verdict:
    """Three sentences and a word for them: `gain`, `unsure`, `harm`, `unknown` without labels, `none` for raw alone.

    leaked: how many queries are also in the bank, which makes a correction look too good.
    """

    word: str
    sentences: tuple[str, str, str]
    leaked: int = 0

    def __str__(self) -> str:
        return " ".join(self.sentences)


def verdict_on(findings: Findings, advised: bool = True, leaked: int = 0) -> Verdict:
    """Sum up the findings.

    advised: whether `tune`, which sees no labels, advises the correction. leaked: how many queries are in the bank.
    """
    word, advice = _advice(findings, advised, leaked)
    return Verdict(word, (_hubs(findings), _effect(findings), advice), leaked)


def strength_of(skewness: float, chance: float) -> str:
    """Return a word for how strong the hubness is."""
    over = skewness - chance
    return "strong" if over >= STRONG_SKEWNESS else "mild" if over >= MILD_SKEWNESS else "slight"


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
        return f"The correction given is raw, which changes nothing, so only the raw ranking is shown{value}."
    before, after = findings.hubness[0], findings.hubness[1]
    shown = [f"{one.skewness:.2f}" for one in (before, after)]
    moves = "lowers skewness to" if after.skewness < before.skewness else "raises skewness to"
    never = f"{after.figures.anti_hubs:.1%} of the items never returned"
    hubs = f"{'leaves skewness at' if shown[0] == shown[1] else moves} {shown[1]}, with {never}"
    if not findings.rows:
        return f"The correction {findings.shown} {hubs}."
    old, new = (row.values[measure].value for row in findings.rows[:2])
    gain = findings.rows[1].gains[measure]
    unit, points = ("%", " points") if findings.measures[0].family.percent else ("", "")
    return (
        f"The correction {findings.shown} takes {measure} from {old:.2f}{unit} to {new:.2f}{unit} "
        f"({gain.value:+.2f}{points}, 95% interval {gain.brackets('+.2f')}) and {hubs}."
    )


def _advice(findings: Findings, advised: bool, leaked: int) -> tuple[str, str]:
    if findings.alone:
        return "none", NOTHING_TO_COMPARE
    seen = f"{leaked:,} of the {findings.queries:,} queries are also in the bank"
    leak = f"{seen}, so a correction fitted on it looks too good"
    asides = [leak] if leaked else []
    if not findings.rows:
        word, advice = ("unknown", UNLABELLED) if advised else ("unsure", NOT_ADVISED)
        return word, "; ".join([advice.removesuffix("."), *asides]) + "."
    if not advised:
        asides = ["tuning without labels advises against a correction", *asides]
    measure = findings.measures[0]
    gain = findings.rows[1].gains[str(measure)]
    low, high = (-gain.high, -gain.low) if measure.family.falls else (gain.low, gain.high)
    came, left = (len(queries) for queries in findings.moved())
    tally = (
        f"of {len(findings.ranks[0]):,} queries, {came:,} gained their answer {findings.reached} and {left:,} lost it"
    )
    word, advice = "unsure", "The difference may be chance, so keep the raw ranking or label more queries"
    if low > 0:
        use = "but measure it on queries that are not in the bank before you" if leaked else "so"
        word, advice = "gain", f"The gain is beyond chance, {use} use the correction"
    elif high < 0:
        word, advice = "harm", "The correction does harm here, so keep the raw ranking and look at the bank"
    return word, f"{advice}: {'; '.join([tally, *asides])}."
