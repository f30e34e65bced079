"""Choosing settings: the best of each method's grid on validation, or on a part of train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from unhub.bench.problems import Choosing
from unhub.compute.progress import Clock
from unhub.compute.workers import Progress
from unhub.data.copies import Copies
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors
from unhub.evaluation.confidence import summaries
from unhub.evaluation.excluding import Exclusion
from unhub.evaluation.measures import parse_measure
from unhub.matching import Matched
from unhub.methods import Method, parse
from unhub.tuning.candidates import FittingSets, count_steps
from unhub.tuning.grid import ITEMS_SEEN, DataScale, candidates, within
from unhub.tuning.sight import temperatures
from unhub.tuning.spread import spread
from unhub.tuning.trials import Round, TrialQueries, try_all

CHOSEN_BY = "R@1"
LIKE = {"dualdis": "dualis"}  # methods that `tune` has no grid for, and others with the same parameters


@dataclass(frozen=True)
class ChosenSetting:
    """The best setting of a method: its value by R@1 on the part it was chosen on, out of how many that were tried.

    part: in words; empty if there was only one setting, or nothing to choose on.
    """

    spec: str
    part: str = ""
    value: float | None = None
    tried: int = 1


def settings_of(name: str, grids: Mapping[str, Sequence[str]], scale: DataScale | None, bank_size: int) -> list[Method]:
    """Return the settings of a method to try: a spec with parameters as it is, a name over its grid.

    scale: what the grid of `tune` depends on; None takes what needs no choice: a grid of one setting, or the defaults.
    A k above the size of the bank is cut.
    """
    if ":" in name:
        specs = [parse(name)]
    elif name in grids and (scale is not None or len(grids[name]) == 1):
        specs = [parse(spec) for spec in grids[name]]
    elif scale is not None and name in LIKE:
        specs = [parse(one.spec.replace(LIKE[name], name, 1)) for one in candidates([LIKE[name]], scale)]
    else:
        specs = [parse(name)] if scale is None else candidates([name], scale)
    return list(dict.fromkeys(within(filled(one), bank_size) for one in specs))


def filled(method: Method) -> Method:
    """Return a method with every parameter that has a default, also one that a fit would take by itself."""
    defaults = {name: value for name, value in method.parameters().items() if value is not None}
    return parse(method.name, {**defaults, **method.values})


def needs_choice(name: str, grids: Mapping[str, Sequence[str]]) -> bool:
    """Say whether a method has more than one setting to try."""
    return ":" not in name and (len(grids[name]) > 1 if name in grids else bool(parse(name).parameters()))


def choose_settings(
    names: Sequence[str],
    grids: Mapping[str, Sequence[str]],
    on: Choosing,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, ChosenSetting]:
    """Fit every setting of these methods and return the best of each by R@1; the first of equal ones."""
    problem, bank, measure = on.problem, on.bank, parse_measure(CHOSEN_BY)
    if isinstance(problem.queries, Dense) or isinstance(bank.queries, Dense):
        raise TypeError("settings are chosen on vectors")  # a bug, not a user's mistake
    matched = Matched.of(bank.queries, problem.items, problem.queries, "cosine", threads, bank.items)
    items, queries = cast("Vectors", matched.items), cast("Vectors", matched.queries)
    sets = FittingSets(items, matched.bank, matched.bank_items, "cosine", Copies.among(items, matched.hashes["items"]))
    exclusion = None if problem.exclude is None else Exclusion.of(problem.exclude, queries.ids, items.ids)
    truth = problem.relevance.against(queries.ids, items.ids)
    if exclusion is not None:
        truth = exclusion.against(queries.ids, items.ids).without(truth)
    judges = queries.gather(truth.answered)
    left_out = None if exclusion is None else exclusion.against(judges.ids, items.ids)
    scale = DataScale(
        spread(items, matched.bank, threads=threads),
        len(matched.bank),
        len(items),
        bank.items is not None,
        tuple(temperatures(items, matched.bank, ITEMS_SEEN, "cosine", threads=threads)),
    )
    settings = {name: settings_of(name, grids, scale, len(matched.bank)) for name in names}
    every = list(dict.fromkeys(one for several in settings.values() for one in several))
    clock = Clock(None, progress, threads)
    clock.plan(count_steps(every) + 2)
    trials = try_all(
        every, [Round(sets, TrialQueries(judges, truth.gather(truth.answered), measure, left_out))], clock, refits=0
    )
    values = summaries(measure, trials.values)
    of_method = {one.method: float(value) for one, value in zip(trials.tried, values, strict=True)}
    chosen = {}
    for name, several in settings.items():
        tried = [(one, of_method[one.resolve(sets.similarities)[0]]) for one in several]
        best = int(np.argmax([value for _, value in tried]))
        chosen[name] = ChosenSetting(tried[best][0].spec, on.part, tried[best][1], len(tried))
    return chosen
