"""What the evidence benchmark measures: the gain in R@1 of every method, of `tune`, and of the best with labels."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import unhub
from evidence_sets import SEED, Case, Part
from unhub.arrays import Float64
from unhub.compute.workers import Progress, Resources
from unhub.correction import Correction
from unhub.data.vectors import as_vectors
from unhub.evaluation.confidence import RESAMPLES, Resamples
from unhub.evaluation.excluding import SELF
from unhub.evaluation.hubness import hubness_of
from unhub.evaluation.inputs import RAW, EvaluationInputs
from unhub.evaluation.measures import Measure
from unhub.evaluation.ranked import Ranked
from unhub.methods import METHODS, Method, parse
from unhub.tuning.grid import within
from unhub.tuning.sight import temperatures

MEASURE = Measure("R", 1)
HUBNESS_K = 10
WITHOUT, WITH = "without queries", "with queries"
RULES = (WITHOUT, WITH)  # how `tune` is called; the queries have no labels
DEFAULTS = ("is", "csls", "nnn", "dn", "cent", "sn", "dis", "dualis", "dbsn")  # at the defaults of their papers
BY_SIGHT = "sn by sight"  # with nothing chosen: the temperature at which a bank query sees 40 items, strength 0.75
COLUMNS = (*DEFAULTS, BY_SIGHT)
ITEMS_SEEN, STRENGTH = 40.0, 0.75
TAUS = (0.01, 0.02, 0.03, 0.05, 0.1)
LABELLED = (  # the best of these on the test queries themselves is the labelled best
    *(f"nnn:k={k},alpha={alpha}" for k, alpha in itertools.product((8, 32, 128), (0.5, 0.75, 1.0))),
    *(f"{name}:tau={tau}" for name, tau in itertools.product(("is", "sn"), TAUS)),
)


class Work(NamedTuple):
    """The number of threads, of resamples for an interval, and what shows the progress."""

    threads: int | None = None
    resamples: int = RESAMPLES
    progress: Progress | None = None


class Gain(NamedTuple):
    """A change in R@1 with its paired 95% interval and its standard error."""

    value: float
    low: float
    high: float
    error: float

    def __str__(self) -> str:
        return f"{signed(self.value)} [{signed(self.low)}, {signed(self.high)}]"

    @property
    def harms(self) -> bool:
        """Whether the change is below zero by more than two standard errors."""
        return self.value < -2 * self.error


def signed(value: float) -> str:
    """Return a change in points as text; what rounds to nothing has no minus."""
    return f"{round(value, 1) + 0.0:+.1f}"


class Compared(NamedTuple):
    """R@1 of raw and its skewness, the mean over the parts, and the gains of the corrections by name."""

    recall: float
    skewness: float
    gains: dict[str, Gain]


class Tuned(NamedTuple):
    """What `tune` gained, and what it chose and said in each part."""

    gain: Gain
    specs: tuple[str, ...]
    reasons: tuple[str, ...]


class Figures(NamedTuple):
    """The figures of a case; `labelled` has the gain of every setting."""

    name: str
    direction: str
    queries: int
    items: int
    bank: int
    recall: float
    skewness: float
    methods: dict[str, Gain]
    tuned: dict[str, Tuned]
    labelled: dict[str, Gain]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.direction}"

    @property
    def best(self) -> str:
        """The setting with the largest gain on the test queries; the first of equal ones."""
        return max(self.labelled, key=lambda spec: self.labelled[spec].value)

    def share(self, rule: str) -> float | None:
        """Return the gain of `tune` as a share of the labelled best's; None if nothing is to be gained."""
        most = self.labelled[self.best].value
        return self.tuned[rule].gain.value / most if most > 0 and rule in self.tuned else None

    @staticmethod
    def of(kept: Mapping[str, Any]) -> Figures:
        """Return figures from what JSON made of them."""
        tuned = {
            rule: Tuned(Gain(*gain), tuple(specs), tuple(reasons))
            for rule, (gain, specs, reasons) in kept["tuned"].items()
        }
        gains = {part: {name: Gain(*one) for name, one in kept[part].items()} for part in ("methods", "labelled")}
        return Figures(**{**kept, **gains, "tuned": tuned})


def compare(case: Case, fitted: Sequence[Mapping[str, Correction]], work: Work) -> Compared:
    """Rank the queries of every part by its corrections, by name, and pool the queries.

    For one part, the values and intervals are those of `unhub.evaluate`.
    """
    names = list(fitted[0])
    values: list[Float64] = []
    groups: list[NDArray[np.int64]] = []
    skewness, counted = [], 0
    for part, corrections in zip(case.parts, fitted, strict=True):
        exclude = SELF if case.among_items else None
        inputs = EvaluationInputs.of(
            part.queries, part.items, corrections, case.similarity, work.threads, exclude=exclude
        )
        truth = inputs.truth(part.relevance)
        best = min(HUBNESS_K, len(part.items) - 1)
        ranked = Ranked.of(inputs, Resources(work.threads, progress=work.progress), truth, best=best)
        rows = {name: MEASURE.values(places) for name, places in zip(ranked.names, ranked.places, strict=True)}
        values.append(np.stack([rows.get(name, rows[RAW]) for name in (RAW, *names)]))  # a correction may be raw
        groups.append(truth.groups[truth.answered] + counted)
        counted = int(groups[-1].max()) + 1
        skewness.append(hubness_of(ranked.placed[0], inputs.item_ids).skewness)
    pooled, drawn = np.concatenate(values, axis=1), Resamples(np.concatenate(groups), work.resamples, SEED)
    means = drawn.summaries([MEASURE], [pooled[None]])[0]
    gains = {}
    for number, name in enumerate(names, start=1):
        apart = means[:, number] - means[:, 0]
        whole = drawn.interval(float(pooled[number].mean() - pooled[0].mean()), apart)
        gains[name] = Gain(whole.value, whole.low, whole.high, float(apart.std()))
    return Compared(float(pooled[0].mean()), float(np.mean(skewness)), gains)


def fit_all(case: Case, part: Part, specs: Sequence[str], work: Work) -> dict[str, Correction]:
    """Fit settings by spec, with k limited to the size of the bank."""
    methods: list[str | Method] = [within(parse(spec), len(part.bank)) for spec in specs]
    fitted = unhub.fit(
        part.items,
        part.bank,
        method=methods,
        bank_items=part.bank_items,
        similarity=case.similarity,
        threads=work.threads,
        progress=work.progress,
    )
    return dict(zip(specs, fitted, strict=True))


def fits(name: str, case: Case) -> bool:
    """Say whether a method has the sets that it needs."""
    return all(part.bank_items is not None for part in case.parts) or not (METHODS[name].dual or METHODS[name].joint)


def by_sight(case: Case, part: Part, work: Work) -> Correction:
    """Fit `sn` at a temperature that the bank alone gives, at three quarters of its strength."""
    items, bank = as_vectors(part.items, "items"), as_vectors(part.bank, "bank")
    (tau,) = temperatures(items, bank, [min(ITEMS_SEEN, len(items) / 2)], case.similarity, SEED, work.threads)
    return unhub.fit(
        part.items,
        part.bank,
        f"sn:tau={tau:.3g},strength={STRENGTH}",
        similarity=case.similarity,
        threads=work.threads,
    )


def tune(case: Case, part: Part, rule: str, work: Work) -> unhub.Tuning:
    """Choose a correction without labels."""
    options: dict[str, Any] = {"exclude": SELF} if case.among_items and rule == WITH else {}
    return unhub.tune(
        part.items,
        part.bank,
        part.queries if rule == WITH else None,
        similarity=case.similarity,
        seed=SEED,
        threads=work.threads,
        progress=work.progress,
        **options,
    )


def measure(case: Case, work: Work) -> Figures:
    """Measure every method, `tune`, and the settings for the labelled best, on the same queries."""
    defaults = {name: parse(name).spec for name in DEFAULTS if fits(name, case)}
    labelled = {spec: parse(spec).spec for spec in LABELLED}
    specs = list(dict.fromkeys([*defaults.values(), *labelled.values()]))
    fitted = [fit_all(case, part, specs, work) for part in case.parts]
    tunings = {rule: [tune(case, part, rule, work) for part in case.parts] for rule in RULES}
    for number, corrections in enumerate(fitted):
        corrections.update({rule: tunings[rule][number].best for rule in tunings})
        corrections[BY_SIGHT] = by_sight(case, case.parts[number], work)
    compared = compare(case, fitted, work)
    return Figures(
        case.name,
        case.direction,
        sum(len(part.queries) for part in case.parts),
        max(len(part.items) for part in case.parts),
        max(len(part.bank) for part in case.parts),
        compared.recall,
        compared.skewness,
        {name: compared.gains[spec] for name, spec in {**defaults, BY_SIGHT: BY_SIGHT}.items()},
        {
            rule: Tuned(compared.gains[rule], tuple(one.best.spec for one in some), tuple(one.reason for one in some))
            for rule, some in tunings.items()
        },
        {spec: compared.gains[full] for spec, full in labelled.items()},
    )
