"""`unhub multi train` and `unhub multi encode`: a model from captions and items, and vectors of its joint space."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, model_facts, progress, table
from unhub.cli.errors import argument, saying_how_to_continue
from unhub.cli.inputs import check_outputs, read_named, write_picture
from unhub.cli.options import (
    VECTORS,
    ItemIds,
    Json,
    Overwrite,
    Quiet,
    RelevanceFile,
    Seed,
    Threads,
    one_of,
    vectors,
    whole_number,
)
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.data.relevance import Relevance
    from unhub.data.vectors import Vectors
    from unhub.training.loop import Step


VALIDATION = "Validation"  # the part of the help that holds its options


class Heads(StrEnum):
    """The names of the heads."""

    mf = "mf"
    ts_wf = "ts-wf"
    lg_wf = "lg-wf"
    cg_wf = "cg-wf"


class Kinds(StrEnum):
    """The names of the towers."""

    mlp = "mlp"
    linear = "linear"
    none = "none"


def train(
    texts: Annotated[Path, typer.Option(help=f"Features of the captions: {VECTORS}.")],
    items: Annotated[Path, vectors("Features of the items, in the same formats.")],
    relevance: RelevanceFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, for example model.safetensors.")],
    text_ids: Annotated[Path | None, typer.Option(help="Ids of the captions: one per line, or a .npy file.")] = None,
    item_ids: ItemIds = None,
    validation_relevance: Annotated[
        Path | None,
        typer.Option(help="Pairs, to choose the learning rate and the epoch by.", rich_help_panel=VALIDATION),
    ] = None,
    validation_texts: Annotated[
        Path | None,
        typer.Option(help="Captions (default: those of --texts that the pairs name).", rich_help_panel=VALIDATION),
    ] = None,
    validation_items: Annotated[
        Path | None, vectors("Items (default: those of --items that the pairs name).", panel=VALIDATION)
    ] = None,
    head: Annotated[Heads, one_of(Heads, "--head", help="Head that combines several captions.")] = Heads.cg_wf,
    queries: Annotated[int, whole_number(1, help="Number of captions of an item in one step.")] = 5,
    combination: Annotated[bool, typer.Option(help="Train with one caption as often as with all.")] = True,
    towers: Annotated[
        Kinds, one_of(Kinds, "--towers", help="Towers that map the features into one space.")
    ] = Kinds.mlp,
    seed: Seed = 0,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            metavar="NUMBER",
            help="Peak learning rate; repeatable (default: 0.001, or the best of three by validation).",
        ),
    ] = None,
    epochs: Annotated[int, whole_number(1, help="Number of passes over the items.")] = 30,
    batch: Annotated[int, whole_number(2, help="Number of items in one step.")] = 48,
    dimensions: Annotated[int, whole_number(1, help="Number of dimensions of the joint space.")] = 256,
    hidden: Annotated[int, whole_number(1, help="Number of units in the hidden layer of an mlp.")] = 512,
    head_rate: Annotated[
        float | None,
        typer.Option(help="Peak learning rate of the head (default: 0.0001 for cg-wf, else that of the towers)."),
    ] = None,
    dropout: Annotated[float, typer.Option(help="Share of an mlp's inputs and hidden units dropped in a step.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of the optimiser.")] = 0.01,
    temperature: Annotated[float, typer.Option(help="Temperature of the loss.")] = 0.05,
    patience: Annotated[
        int | None,
        whole_number(1, help="Stop training at a rate after this many epochs without a better validation result."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to keep the state in after every epoch; never overwritten.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from --checkpoint, if it exists.")] = False,
    curve: Annotated[Path | None, typer.Option(help="A .png or .svg file for the training curve.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Device to run on, such as cpu or cuda:1 (default: a GPU if there is one).")
    ] = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train towers and a head on items with several captions each, and save the model."""
    from unhub import files, training
    from unhub.evaluation.pictures import check_drawable
    from unhub.training.curve import curve as training_curve

    inputs = (texts, items, relevance, text_ids, item_ids, validation_texts, validation_items, validation_relevance)
    with argument("--curve"):
        if curve is not None:
            check_drawable(curve)
    outputs = [("--output", output), ("--curve", curve)]
    check_outputs(outputs, overwrite, *inputs)
    # The training itself refuses to start on an existing checkpoint.
    check_outputs([*outputs, ("--checkpoint", checkpoint)], True, *inputs)
    if resume and checkpoint is None:
        raise ArgumentError("--resume", "needs a checkpoint to continue from", "give --checkpoint too")
    with argument("--relevance"):
        pairs = files.read_relevance(relevance)
    captions, gallery = read_named(texts, text_ids, "--texts", "--text-ids"), read_named(items, item_ids)
    judged = _validation(validation_relevance, validation_texts, validation_items, captions, gallery)
    with saying_how_to_continue(lambda: _how_to_continue(checkpoint)), progress("train", quiet) as advance:

        def watch(step: Step) -> None:
            recall = "" if step.recall is None else f", R@1 {step.recall:.1f}"
            advance(step.done, step.total, f"rate {step.rate:g}, epoch {step.epoch}, loss {step.loss:.3f}{recall}")

        model = training.train(
            captions,
            gallery,
            pairs,
            head.value,
            queries,
            combination,
            towers.value,
            judged,
            seed,
            rate=rate,
            dimensions=dimensions,
            hidden=hidden,
            dropout=dropout,
            head_rate=head_rate,
            epochs=epochs,
            batch=batch,
            temperature=temperature,
            weight_decay=weight_decay,
            patience=patience,
            checkpoint=checkpoint,
            resume=resume,
            device=device,
            threads=threads,
            progress=watch,
        )
    manifest = files.save_model(model, output, overwrite=True)
    if curve is not None:
        write_picture(training_curve(model), curve)
    if as_json:
        typer.echo(json.dumps({"path": str(output), **manifest}, indent=2))
    elif not quiet:
        table(("wrote", str(output)), model_facts(manifest))


def _how_to_continue(checkpoint: Path | None) -> str:
    """Return how to continue a training that was stopped; nothing if no epoch of it was kept."""
    kept = checkpoint is not None and checkpoint.exists()
    return f"run the same command with --resume to continue from {checkpoint}" if kept else ""


def _validation(
    relevance: Path | None, texts: Path | None, items: Path | None, captions: Vectors, gallery: Vectors
) -> tuple[Vectors, Vectors, Relevance] | None:
    """Read what to validate on; without files of their own, captions and items are those that the pairs name."""
    from unhub import files

    if relevance is None:
        for option, path in (("--validation-texts", texts), ("--validation-items", items)):
            if path is not None:
                raise ArgumentError(option, "needs pairs of captions and items", "give --validation-relevance too")
        return None
    with argument("--validation-relevance"):
        pairs = files.read_relevance(relevance)
    asked = captions if texts is None else read_named(texts, None, "--validation-texts")
    among = gallery if items is None else read_named(items, None, "--validation-items")
    with argument("--validation-relevance"):
        truth = pairs.against(asked.ids, among.ids)
    if texts is None:
        asked = asked.gather(truth.answered)
    if items is None:
        import numpy as np

        among = among.gather(np.unique(truth.positions))
    return asked, among, pairs


def encode(
    model: Annotated[Path, typer.Option(help="A file written by `unhub multi train`.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A .npz file for vectors and ids, or a .npy file if the ids are 0, 1, ..."),
    ],
    texts: Annotated[Path | None, typer.Option(help=f"Features of texts: {VECTORS}.")] = None,
    items: Annotated[Path | None, vectors("Features of items, in the same formats.")] = None,
    ids: Annotated[Path | None, typer.Option(help="Ids of the rows: one per line, or a .npy file.")] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Map texts or items into the joint space of a model, for the other commands; needs no torch."""
    from unhub import files

    source, option = (texts, "--texts") if items is None else (items, "--items")
    if source is None or (texts is not None and items is not None):
        raise ValueError("--texts or --items: give one of them, the rows to encode")
    with argument("--output"):
        write = files.vector_writer(output)
    check_outputs([("--output", output)], overwrite, model, source, ids)
    with argument("--model"):
        loaded = files.load(model, "model")
    rows = read_named(source, ids, option, "--ids")
    encoded = loaded.encode_texts(rows) if items is None else loaded.encode_items(rows)
    with argument("--output"):
        write(encoded, output)
    wrote = {"path": str(output), "rows": len(encoded), "dimensions": encoded.dimensions}
    if as_json:
        typer.echo(json.dumps(wrote, indent=2))
    elif not quiet:
        echo(f"wrote {output}: {len(encoded):,} {option[2:]}, {encoded.dimensions} dimensions")
