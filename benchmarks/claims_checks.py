"""The papers' claims that can be checked on any set of captioned images: each is a difference with an interval."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

import unhub
from unhub.atomic import replacing
from unhub.bench.bench_results import BenchRun
from unhub.bench.choosing import choose_settings
from unhub.bench.problems import BenchBank, BenchData, BenchProblem
from unhub.bench.protocols import BankChoice
from unhub.bench.result_file import interval_of
from unhub.compute.workers import Resources
from unhub.correction import Correction
from unhub.data.vectors import Vectors
from unhub.evaluation.confidence import Interval
from unhub.evaluation.inputs import EvaluationInputs
from unhub.evaluation.measures import Measure
from unhub.evaluation.ranked import Ranked
from unhub.methods import METHODS, parse
from unhub.tuning.grid import within
from unhub.tuning.labelled import gains

MEASURE = Measure("R", 1)
SEEDS = (0, 1, 2)
BANK, OWN = "train", "test"
PUBLISHED_IS, PUBLISHED_DIS = "is:tau=0.05", "dis:tau=0.05,k=1"  # of Bogolin et al. 2022, beta = 20
FAR = ("far", "adversarial")  # ways to draw a bad bank
FAR_SHARE = 0.1  # of the bank
THIN_SHARES = (0.01, 0.03, 0.1)
SMALL_SHARE, LARGE_SHARE = 0.01, 0.3  # of the bank, whose sizes are compared with the whole
MORE, NO_LESS, HARM = "more", "no less", "harm"
NOT_ASKED = "not asked"


class NotRun(KeyError):
    """A method that was not run, so that nothing can be said of it."""


class Answer(NamedTuple):
    """A difference in one case, and whether it agrees with the claim: "yes", "no" or "not certain"."""

    difference: Interval
    agrees: str

    def __str__(self) -> str:
        low, high = self.difference.low, self.difference.high
        known = isfinite(low) and isfinite(high)
        value = f"{self.difference.value:+.2f} [{low:+.2f}, {high:+.2f}]" if known else f"{self.difference.value:+g}"
        return f"{value} {self.agrees}"


class Claim(NamedTuple):
    """A claim in words, the paper it is of, and its answer in each case."""

    text: str
    paper: str
    answers: Mapping[str, Answer]

    @property
    def summary(self) -> str:
        """Say in how many cases it holds."""
        words = [one.agrees for one in self.answers.values()]
        if len(set(words)) == 1:
            return {"yes": "agrees", "no": "does not agree"}.get(words[0], "not certain")
        counts = {word: words.count(word) for word in ("yes", "no", "not certain")}
        return ", ".join(f"{word} in {count}" for word, count in counts.items() if count)


def judged(difference: Interval, wanted: str) -> Answer:
    """Return whether a difference agrees with what a claim wants of it.

    more: it must be above 0 for certain, harm: below. no less: it must be 0 or more, certain or not.
    """
    above, below = difference.low > 0, difference.high < 0
    yes, no = (below, above) if wanted == HARM else (above, below)
    yes = difference.value >= 0 if wanted == NO_LESS else yes
    return Answer(difference, "yes" if yes else "no" if no else "not certain")


@dataclass(frozen=True, eq=False)
class Subject:
    """One space in one direction: what was run, its vectors, and the settings that were chosen on validation."""

    run: BenchRun
    data: BenchData
    direction: str
    threads: int | None

    @property
    def problem(self) -> BenchProblem:
        return self.data.problem(self.direction)

    def spec(self, method: str, bank: str) -> str:
        """Return the setting of a method that was chosen for a bank."""
        return str(self._case(method, bank)["spec"])

    def gain(self, method: str, bank: str) -> Interval:
        """Return the gain of a method over raw, as the run measured it."""
        return interval_of(self._case(method, bank)["gains"][str(MEASURE)])

    def _case(self, method: str, bank: str) -> Mapping[str, Any]:
        keys = {"direction": self.direction, "method": method, "bank": bank}
        for case in self.run.cases:
            if keys.items() <= case.items():
                return case
        raise NotRun(method)

    def bank(self, text: str, seed: int = 0) -> BenchBank:
        """Return a bank by its text."""
        return self.data.bank(BankChoice.of(text), self.direction, self.problem, seed)

    def part(self, share: float, how: str = "random") -> str:
        """Return the text of a share of the bank, by its size."""
        return f"{BANK}:{max(1, round(share * self.bank(BANK).size))}:{how}"

    def fit(self, spec: str, bank: BenchBank) -> Correction:
        """Fit a setting on a bank; k is cut to its size."""
        method = within(parse(spec), bank.size)
        uses_items = METHODS[method.name].dual or METHODS[method.name].joint
        items = cast("Vectors", self.problem.items)
        targets = bank.items if uses_items else None
        return unhub.fit(items, cast("Vectors", bank.queries), method.spec, bank_items=targets, threads=self.threads)

    def chosen(self, methods: Sequence[str], bank: str, seed: int) -> dict[str, str]:
        """Return the settings of methods that validation chooses for a bank."""
        on = self.data.choosing(self.direction, BankChoice.of(bank), "val", seed)
        if on is None:
            return {method: parse(method).spec for method in methods}
        found = choose_settings(methods, {}, on, self.threads)
        return {method: setting.spec for method, setting in found.items()}

    def differences(self, pairs: Sequence[tuple[Correction | None, Correction | None]]) -> Interval:
        """Return the mean over pairs of R@1 of the second minus the first, paired by query; None is raw."""
        problem = self.problem
        every = [one for pair in pairs for one in pair if one is not None]
        named = {str(number): one for number, one in enumerate(every)}
        inputs = EvaluationInputs.of(problem.queries, problem.items, named, "cosine", self.threads)
        truth = inputs.truth(problem.relevance)
        values = Ranked.of(inputs, Resources(self.threads), truth).values(MEASURE)
        places = iter(range(1, len(every) + 1))
        rows = [[0 if one is None else next(places) for one in pair] for pair in pairs]
        means = [values[:, [row[side] for row in rows]].mean(axis=1) for side in (0, 1)]
        (difference,) = gains(np.stack(means, axis=1), MEASURE, truth.groups[truth.answered], 0)
        return difference


Check = Callable[[Subject], Answer]


def gain_of(method: str, bank: str, wanted: str = MORE) -> Check:
    """Check that a method gains with a bank, or does no harm."""
    return lambda one: judged(one.gain(method, bank), wanted)


def bad_bank(spec: str, how: str, wanted: str) -> Check:
    """Check what a bad bank of a tenth of the size does to the published setting of a method."""
    return lambda one: judged(one.differences([(None, one.fit(spec, one.bank(one.part(FAR_SHARE, how))))]), wanted)


def against(better: str, other: str, bank: str) -> Check:
    """Compare two methods on one bank, each at the setting that validation chose."""

    def check(one: Subject) -> Answer:
        held = one.bank(bank)
        pair = [one.fit(one.spec(method, bank), held) for method in (other, better)]
        return judged(one.differences([(pair[0], pair[1])]), NO_LESS)

    return check


def on_thin_banks(share: float) -> Check:
    """Compare dbsn with sn on three small random banks, each at the setting that validation chooses for the bank."""

    def check(one: Subject) -> Answer:
        pairs: list[tuple[Correction | None, Correction | None]] = []
        for seed in SEEDS:
            text = one.part(share)
            held, specs = one.bank(text, seed), one.chosen(["sn", "dbsn"], text, seed)
            pairs.append((one.fit(specs["sn"], held), one.fit(specs["dbsn"], held)))
        return judged(one.differences(pairs), NO_LESS)

    return check


def whole_against(share: float, method: str, wanted: str) -> Check:
    """Compare the whole bank with three random parts of it, at the setting that validation chose for the whole."""

    def check(one: Subject) -> Answer:
        spec = one.spec(method, BANK)
        whole = one.fit(spec, one.bank(BANK))
        parts = [one.fit(spec, one.bank(one.part(share), seed)) for seed in SEEDS]
        pairs: list[tuple[Correction | None, Correction | None]] = [(part, whole) for part in parts]
        found = one.differences(pairs)
        return judged(found if wanted == MORE else Interval(-found.value, -found.high, -found.low), wanted)

    return check


def five_queries(one: Subject) -> Answer:
    """Compare five captions as one query with one; the interval is as wide as both together."""
    problem = one.problem
    if one.direction != one.run.directions[0]:
        return Answer(Interval(0.0, -inf, inf), NOT_ASKED)
    found = unhub.evaluate_sets(
        cast("Vectors", problem.queries),
        cast("Vectors", problem.items),
        problem.relevance,
        [1, 5],
        combine="sa",
        measures=[MEASURE],
        threads=one.threads,
    )
    alone, five = (found["sa", "raw", size].values[str(MEASURE)] for size in (1, 5))
    return judged(Interval(five.value - alone.value, five.low - alone.high, five.high - alone.low), MORE)


def fewer_hubs(method: str, bank: str) -> Check:
    """Check that kurtosis, mean deviation and the largest count among first answers all fall; shows the largest."""

    def check(one: Subject) -> Answer:
        problem, fitted = one.problem, one.fit(one.spec(method, bank), one.bank(bank))
        given = (cast("Vectors", problem.queries), cast("Vectors", problem.items))
        before, after = (unhub.hubness(*given, which, k=1, threads=one.threads).figures for which in (None, fitted))
        names = ("kurtosis", "mean_deviation", "largest")
        falls = all(getattr(after, name) < getattr(before, name) for name in names)
        return Answer(Interval(float(after.largest - before.largest), -inf, inf), "yes" if falls else "no")

    return check


CLAIMS: tuple[tuple[str, str, Check], ...] = (
    ("`is` finds more than raw, with training queries as the bank", "qbnorm", gain_of("is", BANK)),
    ("`dis` does no harm, with training queries as the bank", "qbnorm", gain_of("dis", BANK, NO_LESS)),
    ("`dis` does no harm with an adversarial bank", "qbnorm", bad_bank(PUBLISHED_DIS, "adversarial", NO_LESS)),
    ("`dis` does no harm with a bank that is far off", "qbnorm", bad_bank(PUBLISHED_DIS, "far", NO_LESS)),
    ("`is` does harm with an adversarial bank", "qbnorm", bad_bank(PUBLISHED_IS, "adversarial", HARM)),
    ("`is` does harm with a bank that is far off", "qbnorm", bad_bank(PUBLISHED_IS, "far", HARM)),
    ("the whole bank is better than 1% of it, `is`", "qbnorm", whole_against(SMALL_SHARE, "is", MORE)),
    ("30% of the bank does as well as the whole, `is`", "qbnorm", whole_against(LARGE_SHARE, "is", NO_LESS)),
    ("`nnn` finds more than raw", "nnn", gain_of("nnn", BANK)),
    ("`nnn` finds no less than `dualis`", "nnn", against("nnn", "dualis", BANK)),
    ("`nnn` finds no less than `dn`", "nnn", against("nnn", "dn", BANK)),
    ("`dualdis` finds no less than `dualis`", "nnn", against("dualdis", "dualis", BANK)),
    ("`nnn` with 20% of the bank does as well as with all", "nnn", whole_against(0.2, "nnn", NO_LESS)),
    ("`nnn` lowers kurtosis, mean deviation and the largest count (shown)", "nnn", fewer_hubs("nnn", BANK)),
    ("`sn` finds no less than `is`, with the queries at hand", "dbsn", against("sn", "is", OWN)),
    ("`sn` finds no less than `csls`, with the queries at hand", "dbsn", against("sn", "csls", OWN)),
    ("`dbsn` finds no less than `sn`, whole bank", "dbsn", against("dbsn", "sn", BANK)),
    *(
        (f"`dbsn` finds no less than `sn` on {share:.0%} of the bank", "dbsn", on_thin_banks(share))
        for share in THIN_SHARES
    ),
    ("five captions find more than one", "mqvr", five_queries),
)


class KeptAnswers:
    """Answers that were found before, in a file; one is found again if its vectors have changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held: dict[str, list[Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def answer(self, text: str, name: str, one: Subject, check: Check) -> Answer:
        """Return an answer, and write it down if it is new."""
        key = f"{text} | {name} | {one.run.raw(one.direction)['inputs']}"
        if key not in self.held:
            try:
                found = check(one)
            except NotRun:
                return Answer(Interval(0.0, -inf, inf), NOT_ASKED)
            self.held[key] = [*found.difference.to_dict().values(), found.agrees]
            with replacing(self.path) as new:
                new.write_text(json.dumps(self.held, indent=1), encoding="utf-8")
        value, low, high, agrees = self.held[key]
        return Answer(interval_of({"value": value, "low": low, "high": high}), agrees)


def check_claims(subjects: Mapping[str, Subject], kept: KeptAnswers, say: Callable[[str], None]) -> list[Claim]:
    """Check every claim in every case."""
    claims = []
    for text, paper, check in CLAIMS:
        answers = {name: kept.answer(text, name, one, check) for name, one in subjects.items()}
        asked = {name: one for name, one in answers.items() if one.agrees != NOT_ASKED}
        if asked:
            claims.append(Claim(text, paper, asked))
            say(f"{text}: {claims[-1].summary}")
    return claims
