"""What the repeats of a query log should count: the measurements behind the defaults of `join_repeats`.

    python benchmarks/repeats.py FOLDER [--log 50000] [--draws 5] [--near | --tune]

FOLDER holds flickr8k/ and code/, or one of them, as benchmarks/evidence_sets.py reads them. A log of past queries is
drawn by Zipf's law, its repeats are joined with the weight count ** temper, and R@1 is measured on two kinds of
queries: new ones, each once, and the traffic, in which queries come as often as in the law of the log. With `--near`,
every repeat is worded or rounded a little differently, and the limit from which queries are joined varies too. With
`--tune`, logs are judged with a fresh day of themselves, and the gain that `tune` finds on a log is compared with that
on its distinct queries; of other items, the traffic is the mean over draws of which new query is popular.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import evidence_sets
import unhub
from evidence_sets import Part
from unhub.arrays import Float32, Float64, unit
from unhub.banks.repeats import NEAR
from unhub.correction import Correction
from unhub.data.vectors import VectorsLike
from unhub.evaluation.tables import as_text

TEMPERS = (0.0, 0.25, 0.5, 0.75, 1.0)
NEARS = (1.0, 0.999, 0.99, 0.97, 0.95, 0.9)
EXPONENT = 1.1  # of Zipf's law
DAY = 2_000  # queries of a day at most
POPULAR = 200  # draws of which new query is popular
METHODS = {
    "flickr8k": ["sn:tau=0.05", "is:tau=0.05", "nnn:k={k},alpha=0.5", "csls:k=10", "dis:tau=0.05"],
    "code": ["sn:tau=0.02", "is:tau=0.03", "nnn:k={k},alpha=0.5", "csls:k=10", "dis:tau=0.03"],
}
K = 32
OTHER_ITEMS, SAME_ITEMS = "the log asks for other items", "half of the log asks for these items"


class Log(NamedTuple):
    """A drawn log and the queries that are measured, by row of the queries of a set.

    day: a further part of the same log. new: queries that are not in the log, each once. traffic: queries of the log,
    and shares: of each in what is asked.
    """

    rows: Float32
    day: Float32
    new: NDArray[np.int64]
    traffic: NDArray[np.int64]
    shares: Float64


def zipf(count: int) -> Float64:
    """Return the share of each rank, (count,)."""
    shares: Float64 = np.arange(1, count + 1.0) ** -EXPONENT
    return np.asarray(shares / shares.sum())


def drawn(part: Part, size: int, setting: str, seed: int) -> Log:
    """Draw a log; which query is asked how often is drawn too."""
    chance = np.random.default_rng(seed)
    asked = np.asarray(part.queries.rows[:], np.float32)
    mixed = chance.permutation(len(asked))
    half = len(asked) // 2
    known = np.sort(mixed[:half])
    pool = part.bank
    if setting == SAME_ITEMS:
        some = chance.choice(len(part.bank), min(len(part.bank), half), replace=False)
        pool = np.concatenate([asked[known], part.bank[some]])
    shares = zipf(len(pool))[chance.permutation(len(pool))]
    rows = pool[chance.choice(len(pool), size, p=shares)]
    day = pool[chance.choice(len(pool), min(DAY, size), p=shares)]
    if setting == SAME_ITEMS:
        return Log(rows, day, np.sort(mixed[half:]), known, shares[:half] / shares[:half].sum())
    # Who asks how often has nothing to do with the log here, so that the traffic is expected to gain what the new
    # queries gain; one draw of it would only add chance.
    every = np.arange(len(asked))
    drawn_shares = zipf(len(asked))[np.stack([chance.permutation(every) for _ in range(POPULAR)])]
    return Log(rows, day, every, every, drawn_shares.mean(axis=0))


def recalls(part: Part, log: Log, corrections: Sequence[Correction], threads: int) -> Float64:
    """Return R@1 of raw and of each correction, on the new queries and on the traffic, (rankings, 2)."""
    found = unhub.evaluate(
        part.queries,
        part.items,
        part.relevance,
        list(corrections),
        ["R@1"],
        hubness_k=None,
        resamples=1,
        threads=threads,
    )
    hits = 100.0 * (found.ranks < 1.5)
    places = {query: place for place, query in enumerate(found.query_ids.tolist())}
    new, traffic = ([places[query] for query in part.queries.ids[rows].tolist()] for rows in (log.new, log.traffic))
    return np.stack([hits[:, new].mean(axis=1), hits[:, traffic] @ log.shares], axis=1)


def tempered(part: Part, log: Log, methods: Sequence[str], threads: int) -> Float64:
    """Return R@1 by temper, (2, tempers, methods and raw); raw is the last."""
    corrections: list[Correction] = []
    counted = unhub.join_repeats(log.rows, temper=1, threads=threads)
    assert counted.weights is not None
    for temper in TEMPERS:
        bank = counted.weighing(counted.weights**temper)  # as join_repeats with this temper
        corrections += unhub.fit(part.items, bank, method=list(methods), threads=threads)
    found = recalls(part, log, corrections, threads)
    raw, others = found[0], found[1:].T.reshape(2, len(TEMPERS), len(methods))
    return np.concatenate([others, np.broadcast_to(raw[:, None, None], (2, len(TEMPERS), 1))], axis=2)


def neared(part: Part, log: Log, methods: Sequence[str], threads: int, noise: float) -> tuple[Float64, list[str]]:
    """Return R@1 by the limit from which queries are joined, as `tempered`, and how many queries remain."""
    chance = np.random.default_rng(0)
    rows = unit(log.rows) + np.float32(noise) * unit(chance.standard_normal(log.rows.shape, dtype=np.float32))
    corrections: list[Correction] = []
    sizes = []
    for near in NEARS:
        bank = unhub.join_repeats(rows, near=near, threads=threads)
        sizes.append(f"{len(bank):,}")
        corrections += unhub.fit(part.items, bank, method=list(methods), threads=threads)
    found = recalls(part, log, corrections, threads)
    return found[1:].T.reshape(2, len(NEARS), len(methods)), sizes


def cells(values: Float64, first: int = 0) -> list[str]:
    """Return the mean over draws for each row, and its difference from row `first` with a 95% interval.

    values: (draws, rows).
    """
    apart = changes(values - values[:, first : first + 1])
    means = values.mean(axis=0)
    return [
        f"{mean:.2f}" if row == first else f"{mean:.2f} ({change})"
        for row, (mean, change) in enumerate(zip(means, apart, strict=True))
    ]


def changes(apart: Float64) -> list[str]:
    """Return the mean over draws with a 95% interval; apart: (draws, rows)."""
    error = 1.96 * apart.std(axis=0, ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else np.full(apart.shape[1], np.nan)
    return [f"{mean:+.2f} ± {half:.2f}" for mean, half in zip(apart.mean(axis=0), error, strict=True)]


def sets(folder: Path) -> Iterator[tuple[str, Part]]:
    """Yield the sets at hand: text to image, and docstring to function."""
    if (folder / "flickr8k").is_dir():
        for space in ("ridge", "vse_holdout"):
            case = next(evidence_sets.flickr8k(space, folder))
            yield f"flickr8k {space}", case.parts[0]
    if (folder / "code").is_dir():
        yield "code", next(evidence_sets.code(folder)).parts[0]


def methods_of(name: str, bank: int) -> list[str]:
    """Return the specs for a set."""
    return [spec.format(k=min(K, bank)) for spec in METHODS[name.split()[0]]]


def print_tempers(name: str, part: Part, arguments: argparse.Namespace) -> dict[str, Float64]:
    """Print the tables of a set, and return for each setting the differences from temper 0, (draws, 2, tempers)."""
    apart = {}
    for setting in (OTHER_ITEMS, SAME_ITEMS):
        found, distinct = [], []
        for seed in range(arguments.draws):
            log = drawn(part, arguments.log, setting, seed)
            distinct.append(len(np.unique(log.rows, axis=0)))
            found.append(tempered(part, log, methods_of(name, distinct[-1]), arguments.threads))
        values = np.array(found)
        heads = ["temper", *methods_of(name, min(distinct))]
        print(
            f"{name}: {setting}; {arguments.log:,} queries, {np.mean(distinct):,.0f} distinct, {arguments.draws} draws"
        )
        for kind, title in enumerate(("new queries", "the traffic")[: 1 + (setting == SAME_ITEMS)]):
            raw = values[:, kind, 0, -1].mean()
            columns = [cells(values[:, kind, :, method]) for method in range(len(heads) - 1)]
            lines = [[f"{temper:g}", *row] for temper, row in zip(TEMPERS, zip(*columns, strict=True), strict=True)]
            print(f"R@1 of {title} (raw {raw:.2f}; in brackets the change from temper 0)\n{as_text(heads, lines)}\n")
        apart[setting] = (values[..., :-1] - values[:, :, :1, :-1]).mean(axis=3)
    return apart


def print_nears(name: str, part: Part, arguments: argparse.Namespace) -> None:
    """Print what the limit from which queries are joined does, with the default temper."""
    for noise, words in ((0.02, "cosine about 0.9998, as by rounding to 8 bits"), (0.1, "cosine about 0.995")):
        found = []
        for seed in range(arguments.draws):
            log = drawn(part, arguments.near_log, SAME_ITEMS, seed)
            values, sizes = neared(part, log, methods_of(name, K), arguments.threads, noise)
            found.append(values)
        every = np.array(found).mean(axis=3)
        columns = [cells(every[:, kind], NEARS.index(NEAR)) for kind in range(2)]
        lines = [[f"{near:g}", *row] for near, *row in zip(NEARS, sizes, *columns, strict=True)]
        print(f"{name}: {arguments.near_log:,} queries, each repeat with noise ({words}); mean over the methods")
        print(f"{as_text(['near', 'joined', 'R@1 of new queries', 'R@1 of the traffic'], lines)}\n")


def print_tuned(name: str, part: Part, arguments: argparse.Namespace) -> None:
    """Print what `judge_bank` says of a log, and what `tune` gains on it, as it is, joined and on distinct queries."""
    for setting in (OTHER_ITEMS, SAME_ITEMS):
        for seed in range(arguments.draws):
            log = drawn(part, arguments.log, setting, seed)
            banks: dict[str, VectorsLike] = {
                "distinct": np.unique(log.rows, axis=0),
                "as it is": log.rows,
                "joined": unhub.join_repeats(log.rows, threads=arguments.threads),
            }
            reports = {
                form: unhub.judge_bank(part.items, bank, log.day, distances=False, threads=arguments.threads)
                for form, bank in banks.items()
            }
            verdicts = [f"{form} {report.verdict}" for form, report in reports.items()]
            lines = []
            for judged_by, queries in (("the bank", None), ("a day", log.day)):
                tuned = [
                    unhub.tune(part.items, bank, queries, threads=arguments.threads).best for bank in banks.values()
                ]
                found = recalls(part, log, [one for one in tuned if one.spec != "raw"], arguments.threads)
                raw, others = found[0], iter(found[1:] - found[0])
                gains = [np.zeros(2) if one.spec == "raw" else next(others) for one in tuned]
                for form, one, gain in zip(banks, tuned, gains, strict=True):
                    shown = [f"{gain[kind]:+.2f} ({gain[kind] / gains[0][kind]:.2f})" for kind in range(2)]
                    lines.append([judged_by, form, one.spec, *shown])
            heads = ["judged by", "log", "chosen", "new queries", "the traffic"]
            print(
                f"{name}: {setting}, draw {seed}; gain in R@1 over raw (in brackets, the share of the gain on distinct)"
            )
            print(f"raw {raw[0]:.2f}; judge_bank with a day of the same log: {', '.join(verdicts)}")
            print(f"{as_text(heads, lines)}\n")


def main() -> None:
    """Print the tables of every set, then the means over all of them."""
    parser = argparse.ArgumentParser(description="What the repeats of a query log should count.")
    parser.add_argument("folder", type=Path, help="the folder that holds flickr8k/ and code/")
    parser.add_argument("--log", type=int, default=50_000, help="queries in a log")
    parser.add_argument("--draws", type=int, default=5, help="logs that are drawn")
    parser.add_argument("--near", action="store_true", help="vary the limit from which queries are joined")
    parser.add_argument(
        "--tune",
        action="store_true",
        help="judge logs, and compare what tune gains on them and on their distinct queries",
    )
    parser.add_argument("--near-log", type=int, default=8_000, help="queries in a log with --near")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    every: dict[str, list[Float64]] = {OTHER_ITEMS: [], SAME_ITEMS: []}
    for name, part in sets(arguments.folder):
        if arguments.near or arguments.tune:
            (print_nears if arguments.near else print_tuned)(name, part, arguments)
            continue
        for setting, apart in print_tempers(name, part, arguments).items():
            every[setting].append(apart)
    for setting, found in every.items():
        if found:
            means = np.mean(found, axis=0)
            kinds = ("new queries", "the traffic")[: 1 + (setting == SAME_ITEMS)]
            columns = [changes(means[:, kind]) for kind in range(len(kinds))]
            lines = [[f"{temper:g}", *row] for temper, *row in zip(TEMPERS, *columns, strict=True)]
            print(f"Change of R@1 from temper 0, mean over sets and methods: {setting}")
            print(f"{as_text(['temper', *kinds], lines)}\n")


if __name__ == "__main__":
    main()
