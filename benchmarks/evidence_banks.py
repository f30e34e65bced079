"""Bad banks for the evidence benchmark, made on purpose, and what `tune` without labels does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import unhub
from evidence_measure import RULES, WITH, Gain, Work, compare, tune
from evidence_sets import Case, Part
from unhub.arrays import Float32
from unhub.correction import Correction

SIZES = (50, 100, 200, 300, 600)
MOST_FAR = MOST_OF_ONE_TOPIC = 1_000  # or half of the bank
REPEATED, REPEATS = 50, 40
HEADS, DRAWN = 200, REPEATED * REPEATS
NOISE_SHARE = 0.1  # length of the noise on a query that is drawn again, as a share of the query's
FAR, OTHER_ENCODER, OTHER_CLASSES = "far", "other encoder", "other classes"

Generator = np.random.Generator


class BadBank(NamedTuple):
    """A bank, what `tune` gained with it in one round, and what it chose in each part."""

    name: str
    rule: str
    round: int
    size: int
    gain: Gain
    specs: tuple[str, ...]

    @staticmethod
    def of(kept: Sequence[Any]) -> BadBank:
        """Return a row from what JSON made of it."""
        name, rule, number, size, gain, specs = kept
        return BadBank(name, rule, number, size, Gain(*gain), tuple(specs))


def rotated(bank: Float32, generator: Generator) -> Float32:
    """Turn the bank at random, as if another model had made it."""
    turn, _ = np.linalg.qr(generator.standard_normal((bank.shape[1], bank.shape[1])))
    return bank @ turn.astype(np.float32)


def shuffled(bank: Float32, generator: Generator) -> Float32:
    """Permute the dimensions."""
    return np.ascontiguousarray(bank[:, generator.permutation(bank.shape[1])])


def duplicated(bank: Float32, generator: Generator) -> Float32:
    """Repeat a few queries many times."""
    return np.repeat(bank[_some(len(bank), REPEATED, generator)], REPEATS, axis=0)


def head_heavy(bank: Float32, generator: Generator) -> Float32:
    """Draw queries by 1 / rank, with a little noise."""
    heads = bank[_some(len(bank), HEADS, generator)]
    chance = 1 / np.arange(1, len(heads) + 1)
    drawn = heads[generator.choice(len(heads), DRAWN, p=chance / chance.sum())]
    noise = generator.standard_normal(drawn.shape).astype(np.float32)
    lengths = np.linalg.norm(drawn, axis=1, keepdims=True) / np.linalg.norm(noise, axis=1, keepdims=True)
    return np.asarray(drawn + np.float32(NOISE_SHARE) * lengths * noise, np.float32)


def one_topic(bank: Float32, generator: Generator) -> Float32:
    """Keep the queries nearest to one of them."""
    near = bank @ bank[generator.integers(len(bank))]
    return bank[np.sort(np.argsort(-near, kind="stable")[: min(MOST_OF_ONE_TOPIC, len(bank) // 2)])]


def _some(count: int, size: int, generator: Generator) -> NDArray[np.int64]:
    return generator.permutation(count)[:size]


SPOILED: Mapping[str, Callable[[Float32, Generator], Float32]] = {
    "other model": rotated,
    "shuffled": shuffled,
    "duplicated": duplicated,
    "head-heavy": head_heavy,
    "one topic": one_topic,
}
BANKS = (*(f"random {size}" for size in SIZES), FAR, OTHER_ENCODER, *SPOILED, OTHER_CLASSES)


def drawn_banks(case: Case, part: Part, seed: int) -> Iterator[tuple[str, Float32]]:
    """Yield the banks that differ with the seed."""
    least = min(len(one.bank) for one in case.parts)
    for size in SIZES:
        if size < least:
            yield f"random {size}", part.bank[unhub.sample_bank(part.bank, size, seed=seed)]
    for name, spoil in SPOILED.items():
        yield name, spoil(part.bank, np.random.default_rng(seed))


def stand_in(case: Case, cases: Sequence[Case]) -> Case | None:
    """Return a case of another set of the same width, if possible in the same direction; None if there is none.

    No two sets share an encoder, so its bank is one of another model.
    """
    width = case.parts[0].bank.shape[1]
    others = [one for one in cases if one.name != case.name and one.parts[0].bank.shape[1] == width]
    return min(others, key=lambda one: one.direction != case.direction, default=None)


def fixed_banks(case: Case, part: Part, other: Case | None) -> Iterator[tuple[str, Float32]]:
    """Yield the banks that are the same in every round."""
    size = min(MOST_FAR, len(part.bank) // 2)
    far = unhub.sample_bank(part.bank, size, "far", queries=part.queries, similarity=case.similarity)
    yield FAR, part.bank[far]
    if other is not None:
        yield OTHER_ENCODER, other.parts[0].bank
    if case.classes:
        yield OTHER_CLASSES, part.bank


def measure_banks(case: Case, other: Case | None, rounds: int, work: Work) -> list[BadBank]:
    """Tune on every bad bank, with queries and without, and measure what that changes."""
    return [row for seed in range(rounds) for row in _measure_round(case, other, seed, work)]


def _measure_round(case: Case, other: Case | None, seed: int, work: Work) -> Iterator[BadBank]:
    banks = [
        {**(dict(fixed_banks(case, part, other)) if seed == 0 else {}), **dict(drawn_banks(case, part, seed))}
        for part in case.parts
    ]
    fitted: list[dict[str, Correction]] = [{} for _ in banks]
    asked = [(name, rule) for name in BANKS if name in banks[0] for rule in RULES]
    for name, rule in asked:
        for part, some, corrections in zip(case.parts, banks, fitted, strict=True):
            corrections[f"{name}, {rule}"] = tune(case, part._replace(bank=some[name]), rule, work).best
    gains = compare(case, fitted, work).gains
    for name, rule in asked:
        both = f"{name}, {rule}"
        specs = tuple(corrections[both].spec for corrections in fitted)
        yield BadBank(name, rule, seed, len(banks[0][name]), gains[both], specs)


def worst(rows: Sequence[BadBank], rule: str = WITH) -> dict[str, BadBank]:
    """Return the worst round of each bank under a rule, by name."""
    found: dict[str, BadBank] = {}
    for row in rows:
        if row.rule == rule and (row.name not in found or row.gain.value < found[row.name].gain.value):
            found[row.name] = row
    return {name: found[name] for name in BANKS if name in found}
