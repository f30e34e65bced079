"""Several descriptions of one target on real data: the table and the curves of Wang et al. 2022, for Flickr8k.

    python benchmarks/multi_query.py run [FOLDER] --work DIRECTORY [--picture docs/multi/multi_study.png]
    python benchmarks/multi_query.py recipes [FOLDER] --work DIRECTORY

FOLDER holds Flickr8k features; by default it is the folder that tests/flickr8k.py uses. `run` trains on `train`,
chooses learning rates, epochs and corrections on `val`, writes what it chose to DIRECTORY/chosen.json, and only then
reads `test`, once. Three seeds. Models stay in DIRECTORY, so a stopped run continues. `recipes` shows how the recipe
was chosen, also on `val`.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

import unhub
from multi_models import KINDS, RATES, RECIPE, Split, flickr8k, path_of, read_split, train_one
from multi_tables import as_markdown, comparisons, curves, draw, table
from unhub.arrays import Float64
from unhub.combine import CombinationLike
from unhub.correction import Correction
from unhub.evaluation.tables import as_text
from unhub.model import Model

SIZES = (1, 2, 3, 4, 5)
MEASURES = ("R@1", "R@5", "R@10", "MdR", "MnR")
CORRECTIONS = (
    "nnn:k=16,alpha=0.25",
    "nnn:k=32,alpha=0.5",
    "nnn:k=32,alpha=0.75",
    "nnn:k=32,alpha=1.0",
    "nnn:k=128,alpha=0.5",
    "nnn:k=128,alpha=0.75",
    "nnn:k=128,alpha=1.0",
    "csls:k=10",
    "is:tau=0.03",
    "is:tau=0.05",
    "is:tau=0.1",
    "sn:tau=0.03",
    "sn:tau=0.05",
    "sn:tau=0.1",
    "dn:lambda=0.5",
)
STRENGTHS = (0.5, 0.75, 1.0, 1.5, 2.0)  # a mean of several queries is shorter than one query, so the same h weighs more


class Chosen(NamedTuple):
    """A correction and how much of it."""

    method: str
    strength: float


class Row(NamedTuple):
    """A row of the table: a kind of model, a way to combine (None: the model's own head), a number of queries."""

    kind: str
    combine: str | None
    size: int


ROWS: Mapping[str, Row] = {
    "Baseline, 1 query": Row("1 query", "sa", 1),
    "RA": Row("1 query", "ra", 5),
    "SA": Row("1 query", "sa", 5),
    "MF": Row("MF", None, 5),
    "TS-WF": Row("TS-WF", None, 5),
    "LG-WF": Row("LG-WF", None, 5),
    "CG-WF": Row("CG-WF", None, 5),
    "Cmb (MF), 1 query": Row("Cmb (MF)", None, 1),
    "Cmb (MF), 5 queries": Row("Cmb (MF)", None, 5),
    "MF, 1 query": Row("MF", None, 1),
    "MF of 2, 5 queries": Row("MF, 2 queries", None, 5),
    "MF of 3, 5 queries": Row("MF, 3 queries", None, 5),
}
RECIPES = [
    {**RECIPE, **change}
    for change in (
        {},
        {"batch": 48},
        {"batch": 128},
        {"dropout": 0.3},
        {"dropout": 0.7},
        {"hidden": 1024},
        {"weight_decay": 0.1},
        {"epochs": 60},
    )
]


class Encoded(NamedTuple):
    """A split in the joint space of a model."""

    texts: unhub.Vectors
    items: unhub.Vectors


def encode(model: Model, split: Split) -> Encoded:
    """Bring a split into the joint space."""
    return Encoded(model.encode_texts(split.texts), model.encode_items(split.items))


def head_of(row: Row, model: Model) -> CombinationLike:
    """Return how a row combines queries."""
    return model if row.combine is None else row.combine


def found_first(
    here: Encoded, split: Split, how: CombinationLike, correction: Correction, strength: float, size: int
) -> Float64:
    """Return for each image the share of its sets of `size` captions that find it first, (images,)."""
    sets = split.captions[:, list(itertools.combinations(range(split.captions.shape[1]), size))]
    rows = here.texts.block(0, len(here.texts))[sets.reshape(-1, size)]
    hits = unhub.searcher(here.items, correction).search_sets(list(rows), k=1, combine=how, strength=strength)
    return np.asarray((hits.ids.reshape(sets.shape[:2]) == split.items.ids[:, None]).mean(axis=1))


def choose_corrections(work: Path, val: Split, bank: Split) -> dict[str, Chosen]:
    """Return for each row the correction with the highest R@1 on val, or raw, fitted on the captions of `bank`."""
    chosen = {}
    for kind in KINDS:
        model = unhub.load(path_of(work, kind, 0), "model")
        here, past = encode(model, val), model.encode_texts(bank.texts)
        fitted = {one.spec: one for one in unhub.fit(here.items, past, method=list(CORRECTIONS))}
        for name, row in ROWS.items():
            if row.kind != kind:
                continue
            found: dict[Chosen, float] = {}
            for strength in STRENGTHS:
                result = unhub.evaluate_sets(
                    here.texts,
                    here.items,
                    val.relevance,
                    [row.size],
                    combine={"it": head_of(row, model)},
                    correction=fitted,
                    measures=["R@1"],
                    strength=strength,
                    resamples=1,
                )
                found |= {Chosen(one.ranking, strength): one.values["R@1"].value for one in result.rows}
            chosen[name] = max(found, key=lambda one: found[one])
    return chosen


def report(work: Path, test: Split, bank: Split, chosen: Mapping[str, Chosen], seeds: int) -> list[dict[str, object]]:
    """Measure every row on test, raw and corrected, for every seed."""
    measured: list[dict[str, object]] = []
    for kind, seed in itertools.product(KINDS, range(seeds)):
        model = unhub.load(path_of(work, kind, seed), "model")
        here, past = encode(model, test), model.encode_texts(bank.texts)
        raw = unhub.fit(here.items, method="raw")
        for name, row in ROWS.items():
            if row.kind != kind:
                continue
            how, (method, strength) = head_of(row, model), chosen[name]
            fitted = unhub.fit(here.items, past, method=method)
            result = unhub.evaluate_sets(
                here.texts,
                here.items,
                test.relevance,
                SIZES,
                combine={"it": how},
                correction={"corrected": fitted},
                measures=list(MEASURES),
                strength=strength,
                resamples=1,
            )
            for ranking, correction in (("raw", raw), ("corrected", fitted)):
                found = {size: result["it", ranking, size].values for size in SIZES}
                measured.append(
                    {
                        "row": name,
                        "seed": seed,
                        "ranking": ranking,
                        **{measure: found[row.size][measure].value for measure in MEASURES},
                        **{f"AUC_{size}": result.area("it", ranking, size).value.value for size in (3, 5)},
                        "curve": [found[size]["R@1"].value for size in SIZES],
                        "first": found_first(here, test, how, correction, strength, row.size).tolist(),
                    }
                )
    return measured


def written_choice(path: Path, content: Mapping[str, object]) -> dict[str, Chosen] | None:
    """Return the corrections saved before for the same models; None if there are none."""
    if not path.exists():
        return None
    written = json.loads(path.read_text(encoding="utf-8"))
    corrections = written.pop("corrections")
    if written != content:
        raise ValueError(f"{path} is of other models ({written}); name another directory")
    return {row: Chosen(*one) for row, one in corrections.items()}


def run(
    folder: Path,
    work: Path,
    seeds: int,
    processes: int,
    picture: Path | None,
    tried: tuple[float, ...],
    recipe: dict[str, float],
) -> None:
    """Train, choose, save the choice, and report on test."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        first = [pool.submit(train_one, folder, work, kind, 0, tried, recipe) for kind in KINDS]
        rates = {}
        for job in first:
            kind, _, rate, recall = job.result()
            rates[kind] = rate
            print(f"{kind}: rate {rate:g}, R@1 {recall:.2f} on val", flush=True)
        others = itertools.product(KINDS, range(1, seeds))
        for job in [pool.submit(train_one, folder, work, kind, seed, (rates[kind],), recipe) for kind, seed in others]:
            job.result()
    bank = read_split(folder, "bank")
    content: dict[str, object] = {"recipe": recipe, "rates": rates, "seeds": seeds}
    chosen = written_choice(work / "chosen.json", content)
    if chosen is None:
        chosen = choose_corrections(work, read_split(folder, "val"), bank)
        (work / "chosen.json").write_text(json.dumps({**content, "corrections": chosen}, indent=2))
    measured = report(work, read_split(folder, "test"), bank, chosen, seeds)
    (work / "results.json").write_text(json.dumps(measured))
    for ranking in ("raw", "corrected"):
        print(f"\n{ranking}\n\n{as_markdown(*table(measured, ROWS, ranking, chosen))}")
    print(f"\n{as_markdown(*comparisons(measured))}\n\n{as_markdown(*curves(measured))}")
    if picture is not None:
        draw(measured, picture)


def show_recipes(folder: Path, work: Path, processes: int) -> None:
    """Print the results of recipes on val: R@1 of one query trained on one, and of five trained on five."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        jobs = {}
        for number, recipe in enumerate(RECIPES):
            place = work / f"recipe {number}"
            place.mkdir(exist_ok=True)
            jobs[number] = [
                pool.submit(train_one, folder, place, kind, 0, (3e-3,), recipe) for kind in ("1 query", "MF")
            ]
        rows = [
            [
                ", ".join(f"{name} {value:g}" for name, value in recipe.items()),
                *(f"{job.result()[3]:.2f}" for job in jobs[number]),
            ]
            for number, recipe in enumerate(RECIPES)
        ]
    print(as_text(("recipe", "1 query", "MF, 5 queries"), rows))


def main() -> None:
    """Run the study, or show the recipes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "recipes"))
    parser.add_argument("folder", type=Path, nargs="?", default=flickr8k(), help="the flickr8k folder")
    parser.add_argument("--work", type=Path, required=True, help="a directory for models and results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="models trained at a time, with one thread each")
    parser.add_argument("--epochs", type=int, default=int(RECIPE["epochs"]))
    parser.add_argument("--rate", type=float, action="append", help="a learning rate to try; repeatable")
    parser.add_argument("--picture", type=Path, help="a .png or .svg file for the curves")
    options = parser.parse_args()
    options.work.mkdir(exist_ok=True)
    if options.what == "recipes":
        show_recipes(options.folder, options.work, options.processes)
    else:
        recipe = {**RECIPE, "epochs": options.epochs}
        tried = tuple(options.rate or RATES)
        run(options.folder, options.work, options.seeds, options.processes, options.picture, tried, recipe)


if __name__ == "__main__":
    main()
