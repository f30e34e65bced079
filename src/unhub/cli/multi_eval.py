"""`unhub multi eval`: how much each further description of a target helps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress
from unhub.cli.encoding import check_combinations, corrected_items, encode
from unhub.cli.errors import argument
from unhub.cli.folding import show, show_brief, tell
from unhub.cli.inputs import check_outputs, read_named, write_picture
from unhub.cli.options import (
    MEASURES,
    VECTORS,
    CompareAsFitted,
    EncodedItems,
    ItemIds,
    Items,
    Json,
    Measures,
    NoNotes,
    Overwrite,
    RelevanceFile,
    SavedList,
    Seed,
    TextIds,
    Threads,
    Trained,
    whole_number,
)
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.combine import CombinationLike
    from unhub.multi.results import SetEvaluation

DEFAULT_COMBINATIONS = ("sa", "ra")


def evaluate(
    texts: Annotated[Path, typer.Option(help=f"Texts that describe the items: {VECTORS}.")],
    items: Items,
    relevance: RelevanceFile,
    text_ids: TextIds = None,
    item_ids: ItemIds = None,
    sizes: Annotated[
        str | None, typer.Option(help="Numbers of texts to search with (default: 1,2,3,5, or those of --load-draws).")
    ] = None,
    draws: Annotated[
        int | None,
        whole_number(1, help="Number of random sets for each item and size (default: 100, or all if there are fewer)."),
    ] = None,
    combine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="How to combine the texts of a set: sa, ra, mf or ts-wf; repeatable (default: sa and ra).",
        ),
    ] = None,
    correction: SavedList = None,
    model: Trained = None,
    encoded_items: EncodedItems = False,
    measures: Measures = MEASURES,
    similarity: CompareAsFitted = None,
    seed: Seed = 0,
    save_draws: Annotated[Path | None, typer.Option(help="File to save the random sets to, for --load-draws.")] = None,
    load_draws: Annotated[Path | None, typer.Option(help="A file written by --save-draws.")] = None,
    curve: Annotated[Path | None, typer.Option(help="A .png or .svg file for the curve over the sizes.")] = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: NoNotes = False,
    as_json: Json = False,
) -> None:
    """Measure how well items are found by several texts at once, raw and corrected, with intervals and areas."""
    import unhub
    from unhub import files
    from unhub.data.draws import DEFAULT_DRAWS
    from unhub.evaluation.measures import parse_measures
    from unhub.evaluation.pictures import check_drawable

    check_combinations(combine or [])
    inputs = (texts, items, relevance, text_ids, item_ids, model, load_draws, *(correction or ()))
    with argument("--curve"):
        if curve is not None:
            check_drawable(curve)
    check_outputs([("--save-draws", save_draws), ("--curve", curve)], overwrite, *inputs)
    if load_draws is not None and draws is not None:
        raise ArgumentError("--draws", "contradicts --load-draws, which has its own sets", "give one of them")
    with argument("--measures", "measure"):
        chosen = parse_measures(measures)
    with argument("--sizes"):
        asked = None if sizes is None else _numbers(sizes)
    with argument("--relevance"):
        pairs = files.read_relevance(relevance)
    with argument("--load-draws"):
        drawn = (draws or DEFAULT_DRAWS) if load_draws is None else files.read_draws(load_draws)
    with argument("--correction"):
        saved = {str(path): files.load(path, "correction") for path in correction or ()}
    with argument("--model"):
        trained = None if model is None else files.load(model, "model")
    captions, gallery = read_named(texts, text_ids, "--texts", "--text-ids"), read_named(items, item_ids)
    combinations: list[CombinationLike] = [*(combine or DEFAULT_COMBINATIONS)]
    captions, gallery = encode(trained, captions, "texts", gallery, encoded_items)
    if trained is not None:
        combinations.append(trained)
    with corrected_items(trained is not None and not encoded_items), progress("evaluate", quiet) as advance:
        try:
            found = unhub.evaluate_sets(
                captions,
                gallery,
                pairs,
                asked,
                drawn,
                combinations,
                saved,
                chosen,
                similarity=None if similarity is None else similarity.value,
                seed=seed,
                threads=threads,
                progress=advance,
            )
        except ArgumentError as error:  # draws that were loaded are no number of draws
            raise (error.of("--load-draws") if error.name == "draws" and load_draws else error) from None
    if save_draws is not None:
        files.overwrite_draws(found.draws, save_draws)
    _print(found, {path: one.spec for path, one in saved.items()}, quiet, as_json)
    if curve is not None:  # last, so that a picture that fails costs no figures
        write_picture(found.chart, curve)


def _print(found: SetEvaluation, specs: Mapping[str, str], quiet: bool, as_json: bool) -> None:
    if as_json:
        echo_json({**found.to_dict(), "corrections": specs})
        return
    show_brief(found.cells(), len(found.measures))
    if found.areas:
        echo()
        show(found.area_cells())
    if not quiet:
        brackets = "In brackets: 95% intervals over the items, by bootstrap; sd: over repetitions of the draws."
        tell(brackets, *(f"{path} is {spec}." for path, spec in specs.items()), *found.notes)


def _numbers(text: str) -> list[int]:
    """Return whole numbers that are separated by commas."""
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise ArgumentError(
            "sizes", f"must be whole numbers separated by commas, such as 1,2,3,5, got {text!r}"
        ) from None
