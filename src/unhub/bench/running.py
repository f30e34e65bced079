"""A run in progress: raw, every bank with every method, what needs no bank; each case is kept when it is done."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import cast

import numpy as np

from unhub.bench.case_figures import (
    bias_of,
    chance_of_first,
    distances_of,
    further_items,
    over_repetitions,
    sparsity_of,
    why_no_bias,
    why_no_distances,
)
from unhub.bench.choosing import CHOSEN_BY, ChosenSetting, choose_settings, needs_choice, settings_of
from unhub.bench.off_protocol import official_size
from unhub.bench.problems import TEST, BenchBank, BenchProblem, BenchSource, Choosing
from unhub.bench.protocols import OWN_QUERIES, BankChoice, PaperProtocol, split_of, uses_items
from unhub.bench.result_file import CASES, CHOICES, CaseKey, ResultFile, interval_of, key_of
from unhub.bench.sources.vector_source import digest_of
from unhub.compute.progress import Steps
from unhub.compute.workers import Progress
from unhub.correction import Correction
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors
from unhub.evaluation.evaluate import evaluate, row_to_dict
from unhub.evaluation.inputs import RAW
from unhub.fitting import fit
from unhub.methods import METHODS, parse
from unhub.multi.evaluate_sets import evaluate_sets
from unhub.tuning.grid import within

MOST_PLANNED_PAIRS = 10_000_000  # queries times items, above which the methods that solve a whole batch are left out
MEETS_ITSELF = (
    "In the bank test every image meets itself, so a method with a small tau changes little or nothing: its pairs with "
    "others hardly count."
)
ONLY_RAW = "Nothing that was asked for could be run beside the raw ranking: name other methods or banks."
OF_TEXTS = "text-"  # how tasks begin in which texts ask
COMBINATIONS = ("sa", "ra", "mf", "ts-wf")  # of several captions, untrained


@dataclass(frozen=True)
class BenchSettings:
    """What is run: a protocol, methods, directions, banks by their texts (None: all there are), and seeds."""

    paper: str
    protocol: PaperProtocol
    methods: tuple[str, ...]
    directions: tuple[str, ...]
    banks: tuple[BankChoice, ...] | None
    measures: tuple[str, ...]
    seeds: int
    seed: int
    threads: int | None


@dataclass(eq=False)
class Running:
    """A run in progress: what is asked, the settings, and the file that cases go to."""

    source: BenchSource
    settings: BenchSettings
    results: ResultFile
    progress: Progress | None
    reused: int = 0
    measured: int = 0
    asked: dict[CaseKey, None] = field(default_factory=dict)  # in order, whether measured before or now
    _left_out: list[str] = field(default_factory=list)

    def run(self, notes: Sequence[str]) -> None:
        """Measure what is not measured yet; notes: on the data set."""
        self.drop_other_vectors()
        plan = {direction: self._banks(direction) for direction in self.settings.directions}
        count = sum(len(several) for several in plan.values())
        steps = Steps(self.progress, count * (len(self.settings.methods) + 1) + 5 * len(plan) + 1)
        # Of every direction before the first: cases of other vectors that come from now on are those of another run.
        self.results.made_of = {direction: self._vectors_of(direction) for direction in plan}
        for direction, several in plan.items():
            problem = self.source.problem(direction)
            inputs = digest(problem, self.settings.measures)
            self.results.drop_old(inputs, direction=direction, paper=self.settings.paper)
            # All banks first: what is missing is said before anything is measured.
            banks = list(self._made(several, direction, problem))
            self._raw(direction, problem, inputs, steps)
            if direction == self.source.data.protocol.directions[0]:
                self._left_out += why_no_bias(problem, self.source.data.groups)
            self._left_out += self._beside_chance(direction, problem, inputs)
            for given in banks:
                self._bank(direction, problem, given, inputs, steps)
            self._plans(direction, problem, inputs, steps)
            self._sets(direction, problem, inputs, steps)
        if self.only_raw:
            self._left_out.append(ONLY_RAW)
        with self.results.changing():
            known = list(dict.fromkeys([*notes, *self.results.removal(), *self.source.notes, *self._left_out]))
            self.results.content["notes"] = [*known, *self._notes_of_cases({*known})]

    @property
    def only_raw(self) -> bool:
        """Whether nothing that was asked for could be run, so that only the raw ranking of each direction is there."""
        return self.reused + self.measured == len(self.settings.directions)

    def drop_other_vectors(self) -> None:
        """Remove the cases of other vectors, or another matrix, under the same name, whatever their paper."""
        kept = {case["direction"] for case in self.results.content[CASES]}
        for direction in self.source.data.protocol.directions:
            if direction in kept:
                self.results.drop_old(self._vectors_of(direction), direction=direction)

    def _vectors_of(self, direction: str) -> str:
        """Return the hash of what is asked in a direction, which the inputs of its cases begin with."""
        problem = self.source.problem(direction)
        return digest_of(problem.items, problem.queries)

    def _notes_of_cases(self, known: set[str]) -> list[str]:
        """Return what is noted on the cases that were asked for, and not said already, by direction."""
        cases = [case for case in self.results.content[CASES] if key_of(case) in self.asked]
        said = ((case["direction"], note) for case in cases for note in case.get("notes", ()) if note not in known)
        return list(dict.fromkeys(f"{direction}: {note}" for direction, note in said))

    def _banks(self, direction: str) -> list[tuple[BankChoice, int]]:
        """Return the banks with the seeds they are drawn with; one that is not drawn has one seed.

        Banks that are asked for must be there; those of a paper are left out, with a note, where they are not.
        """
        there, asked = self.source.banks(direction), self.settings.banks
        choices: Sequence[BankChoice] | None = asked
        if asked is None:
            choices = tuple(map(BankChoice.of, self.settings.protocol.banks or there))
            absent = [one.text for one in choices if not {one.part, one.text} & {*there}]
            if absent:
                of_others = any("/" in one and BankChoice.of(one).part not in self.source.data.banks for one in absent)
                how = "; one of another data set comes by --bank-from NAME=DIR" if of_others else ""
                self._left_out.append(
                    f"Banks of the paper that are not there for {direction}: {', '.join(absent)}{how}."
                )
            choices = tuple(one for one in choices if one.text not in absent)
        choices = choices or ()
        self._left_out += self._unused(direction, there, {one.part for one in choices})
        first = self.settings.seed
        return [(one, first + more) for one in choices for more in range(self.settings.seeds if one.drawn else 1)]

    def _unused(self, direction: str, there: Sequence[str], used: Collection[str]) -> list[str]:
        """Say which banks of other data sets were given and are not run, and why."""
        data = self.source.data
        asks = "queries" if direction == data.protocol.directions[0] else "items"
        return [
            f"The bank {name} was left out for {direction}: "
            + ("name it with --banks to run it." if name in there else f"there are no vectors of its {asks}.")
            for name in data.banks
            if "/" in name and name not in used
        ]

    def _made(
        self, several: Sequence[tuple[BankChoice, int]], direction: str, problem: BenchProblem
    ) -> Iterator[tuple[BankChoice, int, BenchBank]]:
        """Yield the banks with the seeds they are drawn with; one that turns out to be all there is comes once."""
        for choice, seed in several:
            bank = self.source.bank(choice, direction, problem, seed)
            if choice.picked and bank.whole:
                all_of = f"{choice.part} has only {bank.size:,} queries for {direction}, and this would be all of them"
                self._left_out.append(f"The bank {choice.text} was left out: {all_of}.")
                continue
            if choice.drawn and not bank.random:
                if seed != self.settings.seed:
                    continue
                if choice.size is not None and bank.size < choice.size:
                    note = f"The bank {choice.text} is all {bank.size:,} queries of {choice.part} for {direction}."
                    self._left_out.append(note)
            yield choice, seed, bank

    def _raw(self, direction: str, problem: BenchProblem, inputs: str, steps: Steps) -> None:
        key = CaseKey(direction, paper=self.settings.paper)
        progress = steps.next()
        if not self._is_done(key, inputs):
            began = time.perf_counter()
            self._add(key, inputs, {"spec": RAW, **self._measured(problem, None, began, progress)})

    def _beside_chance(self, direction: str, problem: BenchProblem, inputs: str) -> list[str]:
        """Return a remark where the raw ranking of given vectors is no better than chance, as in a wrong order."""
        raw = self.results.done(CaseKey(direction, paper=self.settings.paper), inputs)
        found = (raw or {"values": {}})["values"].get(CHOSEN_BY)
        if found is None or self.results.content.get("source") == "encoder":
            return []
        chance, low = chance_of_first(problem), interval_of(found).low
        if low > chance and not math.isclose(low, chance):  # where all scores tie they differ by rounding alone
            return []
        said = f"Raw {CHOSEN_BY} for {direction} is {interval_of(found)}, and chance alone gives {chance:.2g}"
        return [f"{said}: check that the rows are in the order of the data set."]

    def _bank(
        self, direction: str, problem: BenchProblem, given: tuple[BankChoice, int, BenchBank], inputs: str, steps: Steps
    ) -> None:
        """Choose the settings of every method that is not done with this bank, then fit and measure it."""
        choice, seed, bank = given
        of_bank = f"{inputs} {digest_of(bank.queries, bank.items)}"
        kept_as = seed if bank.random else 0
        paper = self.settings.paper
        self.results.drop_old(of_bank, direction=direction, bank=choice.text, seed=kept_as, paper=paper)
        methods = list(self._methods(choice, bank))
        on = self._choosing(methods, direction, choice, seed)
        of_choice = [digest(on.problem, [CHOSEN_BY]), digest_of(on.bank.queries, on.bank.items)] if on else []
        tried = {method: self._tried(method, on, of_choice) for method in methods}
        made_of = {method: f"{of_bank} {tried[method]}".strip() for method in methods}
        fixed = {name: settings_of(name, self.settings.protocol.grids, None, bank.size)[0].spec for name in methods}
        keys = {method: CaseKey(direction, choice.text, kept_as, method, paper=paper) for method in methods}
        raw = self.results.done(CaseKey(direction, paper=paper), inputs) or {}
        has_distances = self._has_distances(problem)
        missing = {
            method: key
            for method, key in keys.items()
            if not self._is_done(key, made_of[method], None if tried[method] else fixed[method], has_distances)
        }
        chosen = self._chosen(missing, tried, on, steps)
        distances = distances_of(problem, bank, self.settings.seed) if missing and has_distances else None
        for method, key in missing.items():
            began = time.perf_counter()
            setting = chosen.get(method)
            # The bank that chose may have been larger, such as the queries of validation for those of test.
            spec = fixed[method] if setting is None else within(parse(setting.spec), bank.size).spec
            look = steps.next()
            fitted = self._fit(problem, bank, spec, look)
            about = {
                "spec": spec,
                "bank_queries": bank.size,
                "bank_items": None if bank.items is None else len(bank.items),
                "bank_official": official_size(self.results.content, direction, choice.part),
                "choice": None if setting is None or setting.tried == 1 else asdict(setting),
                "distances": distances,
            }
            measured = self._measured(problem, fitted, began)
            if choice.part == OWN_QUERIES:  # that it holds the queries is meant, and no note
                notes = [*raw.get("notes", ()), *([] if problem.exclude is None else [MEETS_ITSELF])]
            else:
                notes = [*cast("list[str]", measured["notes"]), *self.source.notes_on(choice.part)]
            self._add(key, made_of[method], {**about, **measured, "notes": notes})

    def _has_distances(self, problem: BenchProblem) -> bool:
        """Say whether a case has the earth mover's distances of its bank; note why not where the protocol has them."""
        why = why_no_distances(problem) if self.settings.protocol.distances else ""
        if why:
            self._left_out.append(why)
        return self.settings.protocol.distances and not why

    def _methods(self, choice: BankChoice, bank: BenchBank) -> Iterator[str]:
        """Yield the methods that can be fitted on a bank; what is left out is noted."""
        without = []
        for name in self.settings.methods:
            if METHODS[parse(name).name].kind == "plan" or not self.settings.protocol.has(name, choice.text):
                continue
            if uses_items(name) and bank.items is None:
                without.append(name)
            else:
                yield name
        if without:
            left = f"{', '.join(without)} {'was' if len(without) == 1 else 'were'} left out"
            self._left_out.append(f"The bank {choice.text} has no bank items, so {left}.")

    def _choosing(self, methods: Sequence[str], direction: str, choice: BankChoice, seed: int) -> Choosing | None:
        """Return what the settings of these methods are chosen on; None, with a note, where nothing can choose."""
        if not any(needs_choice(name, self.settings.protocol.grids) for name in methods):
            return None
        on = self.source.choosing(direction, choice, self.settings.protocol.chosen_on, seed)
        if on is None:
            note = f"Nothing to choose settings on with the bank {choice.text}: methods have their default parameters"
            self._left_out.append(f"{note}, unless others are given.")
        return on

    def _tried(self, method: str, on: Choosing | None, hashes: Sequence[str]) -> str:
        """Return the hashes of what the settings of a method are chosen on and out of; empty if there is no choice."""
        grids = self.settings.protocol.grids
        if on is None or not needs_choice(method, grids) or (on.bank.items is None and uses_items(method)):
            return ""
        out_of = hashlib.blake2b(repr(grids.get(method)).encode(), digest_size=8).hexdigest()
        return " ".join([*hashes, out_of])

    def _chosen(
        self, missing: dict[str, CaseKey], tried: dict[str, str], on: Choosing | None, steps: Steps
    ) -> dict[str, ChosenSetting]:
        """Return the settings chosen before on the same, and choose those of the other methods."""
        progress = steps.next()
        asked = {name: key for name, key in missing.items() if tried[name]}
        kept = {name: self.results.done(key, tried[name], CHOICES) for name, key in asked.items()}
        chosen = {
            name: ChosenSetting(one["spec"], one["part"], one["value"], one["tried"])
            for name, one in kept.items()
            if one
        }
        new = [name for name in asked if name not in chosen]
        if on is None or not new:
            return chosen
        grids = self.settings.protocol.grids
        for name, setting in choose_settings(new, grids, on, self.settings.threads, progress).items():
            self.results.add(asked[name], tried[name], asdict(setting), CHOICES)
            chosen[name] = setting
        return chosen

    def _plans(self, direction: str, problem: BenchProblem, inputs: str, steps: Steps) -> None:
        """Measure the methods that solve all queries at once and need no bank."""
        plans = [name for name in self.settings.methods if METHODS[parse(name).name].kind == "plan"]
        queries, items = problem.shape
        if plans and queries * items > MOST_PLANNED_PAIRS:
            self._left_out.append(
                f"{', '.join(plans)}: left out for {queries:,} x {items:,} pairs, which take too long."
            )
            return
        for name in plans:
            key = CaseKey(direction, method=name, paper=self.settings.paper)
            look = steps.next()
            spec = settings_of(name, self.settings.protocol.grids, None, queries)[0].spec
            of_spec = f"{inputs} {spec}"
            if self._is_done(key, of_spec):
                continue
            began = time.perf_counter()
            fitted = self._fit(problem, None, spec, look)
            measured = self._measured(problem, fitted, began)
            values = {**cast("dict[str, object]", measured["values"]), **sparsity_of(problem, fitted)}
            self._add(key, of_spec, {"spec": spec, "choice": None, **measured, "values": values})

    def _sets(self, direction: str, problem: BenchProblem, inputs: str, steps: Steps) -> None:
        """Measure several captions as one query, where the protocol does."""
        sizes = self.settings.protocol.sets
        if not sizes:
            return
        if problem.items is None or isinstance(problem.queries, Dense):
            self._left_out.append("Several captions as one query were left out: they need vectors.")
            return
        task = self.source.data.protocol.task
        if not task.startswith(OF_TEXTS):
            self._left_out.append(f"Several captions as one query were left out: {task} has no captions.")
            return
        truth = problem.relevance.against(problem.queries.ids, problem.items.ids)
        most = int(np.bincount(truth.positions).max())  # captions of one item
        if most < 2:
            if direction == self.source.data.protocol.directions[0]:
                self._left_out.append(self._single_captions())
            return
        look = steps.next()
        keys = {
            (name, size): CaseKey(direction, "", 0, name, size, self.settings.paper)
            for name in COMBINATIONS
            for size in sizes
            if size <= most
        }
        made_of = f"{inputs} drawn with seed {self.settings.seed}"
        done = [self._is_done(key, made_of) for key in keys.values()]
        if not all(done):
            self._measure_sets(problem, direction, sorted({size for _, size in keys}), made_of, look)
        for key in keys.values():
            self._left_out += (self.results.done(key, made_of) or {}).get("notes", [])

    def _measure_sets(
        self, problem: BenchProblem, direction: str, sizes: Sequence[int], made_of: str, progress: Progress | None
    ) -> None:
        """Measure every size and combination, and keep a case for each."""
        texts, items = cast("Vectors", problem.queries), cast("Vectors", problem.items)
        found = evaluate_sets(
            texts,
            items,
            problem.relevance,
            sizes,
            combine=COMBINATIONS,
            measures=self.settings.measures,
            seed=self.settings.seed,
            threads=self.settings.threads,
            progress=progress,
        )
        for row in found.rows:
            key = CaseKey(direction, "", 0, row.combination, row.size, self.settings.paper)
            areas = [one for one in found.areas if (one.combination, one.size) == (row.combination, row.size)]
            values = {name: over_repetitions(row, name) for name in row.values}
            values |= {one.name: one.value.to_dict() for one in areas}
            counts = {"asked": len(texts), "items": len(items), "targets": found.targets[row.size]}
            about = {"spec": row.combination, "values": values, "gains": {}, "spread": row.spread}
            self._add(key, made_of, {**about, **counts, "draws": found.draws.count, "notes": list(found.notes)})

    def _single_captions(self) -> str:
        """Say that items have one caption each, and which split of the data set has more."""
        data, paper = self.source.data, self.settings.paper
        usual = split_of(paper, data.name, data.split)
        other = "" if usual == data.split else f"; the split {usual}, which the paper uses, has more"
        return f"Every item has one caption here, so several cannot be one query{other}."

    def _fit(self, problem: BenchProblem, bank: BenchBank | None, spec: str, progress: Progress | None) -> Correction:
        if problem.items is None:
            scores = problem.queries if bank is None else bank.queries
            return fit(scores, method=spec, threads=self.settings.threads, progress=progress)
        return fit(
            problem.items,
            None if bank is None or isinstance(bank.queries, Dense) else bank.queries,
            spec,
            bank_items=bank.items if bank is not None and uses_items(spec) else None,
            threads=self.settings.threads,
            progress=progress,
        )

    def _measured(
        self, problem: BenchProblem, correction: Correction | None, began: float, progress: Progress | None = None
    ) -> dict[str, object]:
        """Return what is kept of one ranking: its measures, gains and hubness, the counts, the notes and the time."""
        found = evaluate(
            problem.queries,
            problem.items,
            problem.relevance,
            () if correction is None else correction,
            self.settings.measures,
            exclude=problem.exclude,
            hubness_k=self.settings.protocol.hubness_k,
            seed=self.settings.seed,
            threads=self.settings.threads,
            progress=progress,
        )
        row = row_to_dict(found.rows[-1])
        del row["name"]
        values = {**cast("dict[str, object]", row["values"]), **bias_of(problem, correction, self.settings.threads)}
        counts = {"asked": problem.shape[0], "queries": len(found.query_ids), "items": found.items}
        return {
            **row,
            "values": values,
            **counts,
            "notes": [*found.notes, *further_items(problem), *self.source.notes_on(TEST)],
            "seconds": round(time.perf_counter() - began, 3),
        }

    def _is_done(self, key: CaseKey, inputs: str, spec: str | None = None, has_distances: bool = False) -> bool:
        """Say whether a case was measured on these inputs, with these settings, and with distances if it has them."""
        self.asked[key] = None
        case = self.results.done(key, inputs)
        done = case is not None and (
            (not has_distances or bool(case.get("distances")))
            # Read, because earlier versions wrote no parameters that have their defaults.
            and (spec is None or parse(case["spec"]) == parse(spec))
        )
        if done:
            self.results.own[key] = inputs
        self.reused += done
        return done

    def _add(self, key: CaseKey, inputs: str, case: dict[str, object]) -> None:
        self.results.add(key, inputs, case)
        self.measured += 1


def digest(problem: BenchProblem, measures: Sequence[str]) -> str:
    """Return a hash of what is asked, the answers, the groups and the measures."""
    answers = hashlib.blake2b(digest_size=8)
    relevance = problem.relevance
    for array in (relevance.query_ids, relevance.item_ids, relevance.grades):
        answers.update(repr(array.tolist()).encode())
    answers.update(repr([*measures, problem.exclude, *(ids.tolist() for ids in problem.groups)]).encode())
    return f"{digest_of(problem.items, problem.queries)} {answers.hexdigest()}"
