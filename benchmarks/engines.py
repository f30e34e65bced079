"""Engines: what a correction finds in every vector engine at hand, how long it takes, and whether the limits hold.

    python benchmarks/engines.py [--engine NAME ...] [--set NAME ...] [--items 100000] [--quick] [--docs]

Each kind of collection is filled with the items of a set, a correction is deployed in both modes, and queries that
deploy has not seen are searched. The sets are looked for in $UNHUB_DATA, or in ../shared/data beside the checkout;
what is absent is left out and named. --quick takes 5,000 generated items. --docs writes the tables into
docs/stores/figures.md. With --work, what was measured of each collection is kept there, and a run that
was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import unhub
from emoji_tables import write_page
from engines_places import PLACES, Place
from engines_sets import GENERATED, REAL, EngineSet, generated, real
from engines_tables import sections_of
from unhub.arrays import Float32, Ids
from unhub.atomic import replacing
from unhub.deploying.deployment import Deployment
from unhub.search.in_store import StoreIndex, deployed_index, plain_index, similarities_of
from unhub.search.searcher import Searcher
from unhub.stores.store import Store

PAGE = Path(__file__).resolve().parents[1] / "docs" / "stores" / "figures.md"
QUICK_ITEMS = 5_000
TIMED = 200


@dataclass
class Recalls:
    """Recall of the plain and of the corrected best ten by one way to search, at the default and at a high effort."""

    way: str
    loss: float | None
    plain: list[float]
    corrected: list[float]
    deployed: float  # the corrected one with the effort that deploy chose


@dataclass
class Figures:
    """What was measured of one kind of collection, one set and one mode. Times are seconds; ratios are of medians.

    searched: corrected, as deployed, over plain, both by unhub.searcher; engine: by the engine alone, at its default
    effort. around_ms: what unhub.searcher adds to the time of a plain search.
    """

    place: str
    set: str
    mode: str
    deploy: float
    refit: float = 0.0
    layout: str = ""
    candidates: int = 0
    effort: int | None = None
    recalls: list[Recalls] = field(default_factory=list)
    plain_ms: float = 0.0
    searched: float = 0.0
    engine: float = 0.0
    around_ms: float = 0.0
    problem: str = ""

    @classmethod
    def of(cls, kept: dict[str, Any]) -> Figures:
        return cls(**{**kept, "recalls": [Recalls(**one) for one in kept["recalls"]]})


def say(line: str) -> None:
    """Tell on stderr how far the run is."""
    print(line, file=sys.stderr, flush=True)


def measure(place: Place, chosen: EngineSet, folder: Path) -> list[Figures]:
    """Make a collection, deploy into it in each mode, and search."""
    store = place.made(folder, chosen.items)
    efforts = [None, *([place.high] if place.high else [])]
    plain = {
        way.name: [chosen.recall(way.find(store, chosen.queries, 10, one), False) for one in efforts]
        for way in place.ways
    }
    found = []
    for mode in place.modes:
        try:
            found.append(
                _vectors(place, chosen, store, plain) if mode == "vectors" else _payload(place, chosen, store, plain)
            )
        except Exception as error:
            traceback.print_exc()
            found.append(Figures(place.name, chosen.name, mode, 0.0, problem=f"{type(error).__name__}: {error}"))
    return found


def _vectors(place: Place, chosen: EngineSet, store: Store, plain: dict[str, list[float]]) -> Figures:
    began = perf_counter()
    done = unhub.deploy(chosen.correction, store, "vectors", queries=chosen.sample)
    figures = Figures(place.name, chosen.name, "vectors", perf_counter() - began)
    layout = done.layout
    assert layout is not None
    about = f"{layout.form}, {layout.dimensions} to {layout.width}"
    figures.layout = f"{about}{', rotated' if layout.rotate else ''}"
    target = store.sibling(done.collection)
    asked = layout.asked(chosen.queries, np.ones(len(chosen.queries)))
    efforts = [None, *([place.high] if place.high else [])]
    figures.effort = done.effort
    for way in place.ways:
        corrected = [chosen.recall(way.find(target, asked, 10, one), True) for one in efforts]
        deployed = (
            corrected[0] if done.effort is None else chosen.recall(way.find(target, asked, 10, done.effort), True)
        )
        figures.recalls.append(Recalls(way.name, way.loss, plain[way.name], corrected, deployed))
    _time(figures, chosen, store, done)
    figures.engine = _ratio(
        lambda row: target.search(asked[row : row + 1], 10), lambda row: store.search(chosen.queries[row : row + 1], 10)
    )[0]
    return figures


def _payload(place: Place, chosen: EngineSet, store: Store, plain: dict[str, list[float]]) -> Figures:
    began = perf_counter()
    done = unhub.deploy(chosen.correction, store, "payload", queries=chosen.sample)
    figures = Figures(place.name, chosen.name, "payload", perf_counter() - began, candidates=done.candidates)
    searcher = _searcher(store, chosen, done)
    corrected = [chosen.recall(searcher.search(chosen.queries, 10).ids, True)]
    if place.high:
        corrected.append(chosen.recall(_reranked(chosen, store, done, place.high), True))
    way = place.ways[0]
    loss = None if way.loss is None else max(0.01, way.loss)
    figures.recalls.append(Recalls(way.name, loss, plain[way.name], corrected, corrected[0]))
    _time(figures, chosen, store, done)
    began = perf_counter()
    unhub.deploy(chosen.refit, store, "payload")
    figures.refit = perf_counter() - began
    return figures


def _reranked(chosen: EngineSet, store: Store, done: Deployment, effort: int) -> Ids:
    """Correct the candidates here, with a high effort, which the engines' own subtraction does not take."""
    metric = store.describe().metric
    found = store.search(chosen.queries, done.candidates, effort=max(effort, done.candidates))
    return unhub.rerank(found.ids, similarities_of(found.values, metric), chosen.correction, 10).ids


def _searcher(store: Store, chosen: EngineSet, done: Deployment) -> Searcher:
    index: StoreIndex = deployed_index(store, chosen.correction, done.to_json())
    return Searcher(None, chosen.correction, index)


def _time(figures: Figures, chosen: EngineSet, store: Store, done: Deployment) -> None:
    corrected = _searcher(store, chosen, done)
    plain = Searcher(None, chosen.correction, plain_index(store, chosen.correction))

    def row(number: int) -> Float32:
        return chosen.queries[number : number + 1]

    def by_searcher(number: int) -> None:
        plain.search(row(number), 10, strength=0)

    figures.searched, _ = _ratio(lambda number: corrected.search(row(number), 10), by_searcher)
    times, figures.plain_ms = _ratio(by_searcher, lambda number: store.search(row(number), 10))
    figures.around_ms = (times - 1) * figures.plain_ms


def _ratio(corrected: Any, plain: Any) -> tuple[float, float]:
    """Return the ratio of the median times of single queries, asked in turn, and the plain time in milliseconds."""
    taken: dict[Any, list[float]] = {corrected: [], plain: []}
    for number in range(TIMED + 10):
        for search in (corrected, plain) if number % 2 else (plain, corrected):
            began = perf_counter()
            search(number)
            if number >= 10:  # warm by then
                taken[search].append(perf_counter() - began)
    return median(taken[corrected]) / median(taken[plain]), 1000 * median(taken[plain])


def read_sets(options: argparse.Namespace) -> tuple[list[EngineSet], list[str]]:
    """Return the sets that are asked for, and the names of those that are absent."""
    found, absent = [], []
    for name in options.set:
        one = generated(options.items) if name == GENERATED else real(name)
        if one is None:
            absent.append(name)
            say(f"{name}: left out, its files are absent; UNHUB_DATA names the folder of the sets")
        else:
            found.append(one)
    return found, absent


def kept(options: argparse.Namespace, place: Place, chosen: EngineSet) -> list[Figures]:
    """Return what was measured before, or measure it."""
    stem = f"{place.name}.{chosen.name}.{len(chosen.items)}".replace(" ", "_").replace(",", "")
    path = None if options.work is None else options.work / f"{stem}.json"
    if path is not None and path.is_file():
        return [Figures.of(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    began = perf_counter()
    with tempfile.TemporaryDirectory(prefix="unhub-engines-") as folder:
        found = measure(place, chosen, Path(folder))
    say(f"{place.name}, {chosen.name}: {perf_counter() - began:.0f} s")
    if path is not None:
        with replacing(path) as new:
            new.write_text(json.dumps([asdict(one) for one in found]), encoding="utf-8")
    return found


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    engines, sets = sorted({place.engine for place in PLACES.values()}), [*REAL, GENERATED]
    parser.add_argument("--engine", nargs="+", choices=engines, metavar="NAME", help=f"of {', '.join(engines)}")
    parser.add_argument("--set", nargs="+", choices=sets, metavar="NAME", default=sets, help=f"of {', '.join(sets)}")
    parser.add_argument("--only", default="", help="only collections with this text in their name")
    parser.add_argument("--items", type=int, default=100_000, help="how many vectors are generated")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ITEMS:,} generated items")
    parser.add_argument("--work", type=Path, help="a folder to keep what was measured in")
    parser.add_argument("--docs", type=Path, nargs="?", const=PAGE, help="write the tables into this page")
    options = parser.parse_args()
    if options.quick:
        options.items = min(options.items, QUICK_ITEMS)
    if options.work is not None:
        options.work.mkdir(parents=True, exist_ok=True)
    return options


def main() -> None:
    """Run the benchmark."""
    options = parsed()
    sets, absent = read_sets(options)
    places = [one for one in PLACES.values() if not options.engine or one.engine in options.engine]
    places = [one for one in places if options.only in one.name]
    missing = [one.name for one in places if not one.at_hand]
    for name in missing:
        say(f"{name}: left out, it is not installed")
    figures = [
        one
        for chosen in sets
        for place in places
        if place.at_hand and len(chosen.items) <= place.most
        for one in kept(options, place, chosen)
    ]
    sections = sections_of(figures, sets, [*absent, *missing])
    print("\n\n".join(map(str, sections)))
    if options.docs is not None:
        write_page(options.docs, sections)


if __name__ == "__main__":
    main()
