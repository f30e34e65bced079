"""`unhub multi eval`: what several descriptions of one target bring, against their number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress
from unhub.cli.encoding import EncodedItems, check_combinations, corrected_items, encode
from unhub.cli.errors import argument
from unhub.cli.fit import Similarity
from unhub.cli.folding import show, show_brief, tell
from unhub.cli.inputs import check_outputs, read_named
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.combine import CombinationLike
    from unhub.multi.results import SetEvaluation

COMBINE = ("sa", "ra")  # where none is named


def evaluate(
    texts: Annotated[
        Path, typer.Option(help="What describes the items: .npy, .npz, .parquet, .safetensors or a folder.")
    ],
    items: Annotated[Path, typer.Option(help="The gallery, in the same formats.")],
    relevance: Annotated[
        Path, typer.Option(help="What describes what: .csv, .tsv, .jsonl or .parquet with query_id, item_id; qrels.")
    ],
    text_ids: Annotated[Path | None, typer.Option(help="Ids of the texts: one per line, or a .npy file.")] = None,
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items, likewise.")] = None,
    sizes: Annotated[
        str | None, typer.Option(help="How many texts to ask with: 1,2,3,5 by default, or those of --load-draws.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Random sets of each item and size, 100 by default; all if no more.")
    ] = None,
    combine: Annotated[
        list[str] | None,
        typer.Option(help="How sets are made one: sa, ra, mf, ts-wf; repeatable; else sa and ra."),
    ] = None,
    correction: Annotated[list[Path] | None, typer.Option(help="A file that `unhub fit` wrote; repeatable.")] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A file that `unhub multi train` wrote: it encodes texts and items, its head joins in."),
    ] = None,
    encoded_items: EncodedItems = False,
    measures: Annotated[
        str, typer.Option(help="Of R@k, P@k, MdR, MnR, GM, MRR, mAP and nDCG, the first one to compare by.")
    ] = "R@1,R@5,R@10,MdR,MnR",
    similarity: Annotated[
        Similarity | None, typer.Option(help="How vectors are compared; as in the fit of --correction, else cosine.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws and the intervals.")] = 0,
    save_draws: Annotated[Path | None, typer.Option(help="A file for the sets, to ask with them again.")] = None,
    load_draws: Annotated[Path | None, typer.Option(help="A file that --save-draws wrote.")] = None,
    curve: Annotated[Path | None, typer.Option(help="A .png or .svg file for the curve over the sizes.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress and no notes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> None:
    """Measure how well items are found by several texts at once, raw and corrected, with intervals and areas."""
    import unhub
    from unhub import files
    from unhub.data.draws import DRAWS
    from unhub.evaluation.measures import parse_measures
    from unhub.evaluation.pictures import check_drawable

    check_combinations(combine or [])
    inputs = (texts, items, relevance, text_ids, item_ids, model, load_draws, *(correction or ()))
    with argument("--curve"):
        picture = None if curve is None else check_drawable(curve)
    check_outputs({"--save-draws": (save_draws, files.DRAWS_FILE), "--curve": (curve, picture)}, *inputs)
    if load_draws is not None and draws is not None:
        raise ValueError("--draws: the sets are those of --load-draws; give one of them")
    with argument("--measures"):
        chosen = parse_measures(measures)
    with argument("--sizes"):
        asked = None if sizes is None else _numbers(sizes)
    with argument("--relevance"):
        pairs = files.read_relevance(relevance)
    with argument("--load-draws"):
        drawn = (draws or DRAWS) if load_draws is None else files.read_draws(load_draws)
    with argument("--correction"):
        saved = {str(path): files.load(path, "correction") for path in correction or ()}
    with argument("--model"):
        trained = None if model is None else files.load(model, "model")
    captions, gallery = read_named(texts, text_ids, "--texts", "--text-ids"), read_named(items, item_ids)
    combinations: list[CombinationLike] = [*(combine or COMBINE)]
    captions, gallery = encode(trained, captions, "texts", gallery, encoded_items)
    if trained is not None:
        combinations.append(trained)
    with corrected_items(trained is not None and not encoded_items), progress("evaluate", quiet) as advance:
        try:
            found = unhub.evaluate_sets(
                captions, gallery, pairs, asked, drawn, combinations, saved, chosen,
                similarity=None if similarity is None else similarity.value, seed=seed, threads=threads,
                progress=advance,
            )  # fmt: skip
        except ArgumentError as error:  # draws that were loaded are no number of draws
            raise (error.of("--load-draws") if error.name == "draws" and load_draws else error) from None
    if save_draws is not None:
        files.write_draws(found.draws, save_draws)
    _print(found, {path: one.spec for path, one in saved.items()}, quiet, as_json)
    if curve is not None:  # last, so that a picture that fails costs no figures
        found.picture(curve)


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
    """Return whole numbers between commas."""
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise ValueError(f"whole numbers between commas are wanted, such as 1,2,3,5, got {text!r}") from None
