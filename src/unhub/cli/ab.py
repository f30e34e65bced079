"""`unhub ab`: raw against corrected by what people clicked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import echo_json
from unhub.cli.errors import argument
from unhub.cli.folding import show, tell
from unhub.cli.inputs import read_gallery
from unhub.cli.logged import read_logged
from unhub.cli.options import (
    Columns,
    ItemIds,
    ItemsCount,
    Json,
    NumberedTimes,
    OptionalItems,
    Seed,
    SkipBad,
    TimeUnitChoice,
    whole_number,
)
from unhub.errors import ArgumentError


def ab(
    hits: Annotated[
        Path, typer.Option(metavar="LOG", help="A query log with clicks, and the variant that answered each query.")
    ],
    correction: Annotated[Path | None, typer.Option(help="A file written by `unhub fit`; it names the items.")] = None,
    items: OptionalItems = None,
    item_ids: ItemIds = None,
    items_count: ItemsCount = None,
    column: Columns = None,
    time_unit: NumberedTimes = TimeUnitChoice.auto,
    skip_bad: SkipBad = False,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="The variant to compare with (default: raw, else the first).")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME=WEIGHT,...", help="How queries were meant to be split (default: equally)."),
    ] = None,
    k: Annotated[int, whole_number(1, "-k", help="Number of first places that count for hubness.")] = 10,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare the variants of an A/B test by clicks, and say whether the difference is certain."""
    from unhub import files
    from unhub.watching.ab_test import ab_test

    with argument("--correction"):
        fitted = None if correction is None else files.load(correction, "correction")
    gallery = read_gallery(items, item_ids, items_count, fitted)
    log = read_logged(hits, column, time_unit.value, skip_bad)
    weights = None if split is None else _weights(split)
    found = ab_test(log, items=gallery, correction=fitted, baseline=baseline, split=weights, k=k, seed=seed)
    if as_json:
        echo_json(found.to_dict())
        return
    show(found.cells())
    tell("", *found.sentences, *found.notes)
    about = f"; hubness in samples of {found.size:,} different queries" if found.size else ""
    tell(f"In brackets: 95% intervals, by bootstrap over {found.by}{about}.")


def _weights(given: str) -> dict[str, float]:
    """Parse `raw=1,corrected=3`."""
    found = {}
    for part in given.split(","):
        name, equals, weight = part.partition("=")
        try:
            found[name] = float(weight)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ArgumentError(
                "--split", f"must be NAME=WEIGHT,NAME=WEIGHT, got {given!r}", "such as raw=1,corrected=1"
            )
    return found
