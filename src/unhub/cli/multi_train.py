"""`unhub multi train` and `unhub multi encode`: a model from captions and items, and vectors of its joint space."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, model_facts, progress, table
from unhub.cli.errors import argument, saying_how_to_go_on
from unhub.cli.inputs import check_outputs, read_named

if TYPE_CHECKING:
    from unhub.data.relevance import Relevance
    from unhub.data.vectors import Vectors
    from unhub.training.loop import Step

VECTORS = ".npy, .npz, .parquet, .safetensors or a folder"


class Heads(StrEnum):
    """The heads there are."""

    mf = "mf"
    ts_wf = "ts-wf"
    lg_wf = "lg-wf"
    cg_wf = "cg-wf"


class Kinds(StrEnum):
    """The towers there are."""

    mlp = "mlp"
    linear = "linear"
    none = "none"


def train(
    texts: Annotated[Path, typer.Option(help=f"Features of the captions: {VECTORS}.")],
    items: Annotated[Path, typer.Option(help="Features of the items, in the same formats.")],
    relevance: Annotated[
        Path, typer.Option(help="What describes what: .csv, .tsv, .jsonl or .parquet with query_id, item_id; qrels.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, for example model.safetensors.")],
    text_ids: Annotated[Path | None, typer.Option(help="Ids of the captions: one per line, or a .npy file.")] = None,
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items, likewise.")] = None,
    validation_relevance: Annotated[
        Path | None, typer.Option(help="Pairs to choose the rate and the epoch by, of other items.")
    ] = None,
    validation_texts: Annotated[
        Path | None, typer.Option(help="Their captions; without it --texts, those that the pairs name.")
    ] = None,
    validation_items: Annotated[
        Path | None, typer.Option(help="Their items; without it --items, those that the pairs name.")
    ] = None,
    head: Annotated[Heads, typer.Option(help="How several queries are weighed.")] = Heads.cg_wf,
    queries: Annotated[int, typer.Option(min=1, help="Captions of an item in one step.")] = 5,
    combination: Annotated[bool, typer.Option(help="Train with one caption too, as often as with all.")] = True,
    towers: Annotated[Kinds, typer.Option(help="What brings the features into one space.")] = Kinds.mlp,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn at random.")] = 0,
    rate: Annotated[
        list[float] | None, typer.Option(help="The peak learning rate; several are compared on validation.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the items.")] = 30,
    batch: Annotated[int, typer.Option(min=2, help="Items in one step.")] = 48,
    dimensions: Annotated[int, typer.Option(min=1, help="Of the joint space.")] = 256,
    hidden: Annotated[int, typer.Option(min=1, help="Units of the hidden layer of mlp.")] = 512,
    head_rate: Annotated[
        float | None,
        typer.Option(help="The most that the head's own weights learn at; 0.0001 for cg-wf, else as the towers."),
    ] = None,
    dropout: Annotated[float, typer.Option(help="Share of an mlp's inputs and hidden units left out in a step.")] = 0.0,
    weight_decay: Annotated[float, typer.Option(help="Of the optimiser.")] = 0.01,
    temperature: Annotated[float, typer.Option(help="What similarities are divided by in the loss.")] = 0.05,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Give a rate up after so many epochs without a better validation.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A file to keep the state in, after every epoch.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from --checkpoint, if it is there.")] = False,
    curve: Annotated[Path | None, typer.Option(help="A .png or .svg file for the training curve.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ...; a graphics card where there is one.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was trained as JSON.")] = False,
) -> None:
    """Train towers and a head on items with several captions each, and save the model."""
    from unhub import files, training
    from unhub.evaluation.pictures import check_drawable

    inputs = (texts, items, relevance, text_ids, item_ids, validation_texts, validation_items, validation_relevance)
    with argument("--curve"):
        picture = None if curve is None else check_drawable(curve)
    # What a checkpoint is, the training itself looks at.
    outputs = {"--output": (output, files.MODEL_FILE), "--checkpoint": (checkpoint, None), "--curve": (curve, picture)}
    check_outputs(outputs, *inputs)
    if resume and checkpoint is None:
        raise ValueError("--resume: there is no --checkpoint to go on from")
    with argument("--relevance"):
        pairs = files.read_relevance(relevance)
    captions, gallery = read_named(texts, text_ids, "--texts", "--text-ids"), read_named(items, item_ids)
    judged = _validation(validation_relevance, validation_texts, validation_items, captions, gallery)
    with saying_how_to_go_on(lambda: _how_to_go_on(checkpoint)), progress("train", quiet) as advance:

        def watch(step: Step) -> None:
            if advance is not None:
                recall = "" if step.recall is None else f", R@1 {step.recall:.1f}"
                label = f"rate {step.rate:g}, epoch {step.epoch}, loss {step.loss:.3f}{recall}"
                advance(step.done, step.total, label)

        model = training.train(
            captions, gallery, pairs, head.value, queries, combination, towers.value, judged, seed, rate=rate,
            dimensions=dimensions, hidden=hidden, dropout=dropout, head_rate=head_rate, epochs=epochs, batch=batch,
            temperature=temperature, weight_decay=weight_decay, patience=patience, checkpoint=checkpoint, resume=resume,
            device=device, threads=threads, progress=watch,
        )  # fmt: skip
    manifest = files.save_model(model, output)
    if curve is not None:
        training.draw_curve(model, curve)
    if as_json:
        typer.echo(json.dumps({"path": str(output), **manifest}, indent=2))
    elif not quiet:
        table(("wrote", str(output)), model_facts(manifest))


def _how_to_go_on(checkpoint: Path | None) -> str:
    """Return what goes on with a training that was stopped; nothing where no epoch of it was kept."""
    kept = checkpoint is not None and checkpoint.exists()
    return f"the same command with --resume goes on from {checkpoint}" if kept else ""


def _validation(
    relevance: Path | None, texts: Path | None, items: Path | None, captions: Vectors, gallery: Vectors
) -> tuple[Vectors, Vectors, Relevance] | None:
    """Read what to validate on; captions and items that have no file of their own are those the pairs name."""
    from unhub import files

    if relevance is None:
        for option, path in (("--validation-texts", texts), ("--validation-items", items)):
            if path is not None:
                raise ValueError(f"{option}: there is no --validation-relevance that says what describes what")
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
    model: Annotated[Path, typer.Option(help="A file that `unhub multi train` wrote.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .npz file for vectors and ids, or .npy where ids are 0, 1, ...")
    ],
    texts: Annotated[Path | None, typer.Option(help=f"Features of texts: {VECTORS}.")] = None,
    items: Annotated[Path | None, typer.Option(help="Features of items, in the same formats.")] = None,
    ids: Annotated[Path | None, typer.Option(help="Ids of the rows: one per line, or a .npy file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Bring texts or items into the joint space of a model; every other command reads the result. Needs no torch."""
    from unhub import files

    source, option = (texts, "--texts") if items is None else (items, "--items")
    if source is None or (texts is not None and items is not None):
        raise ValueError("--texts or --items: give one of them, the rows to encode")
    with argument("--output"):
        form = files.vector_file(output)
        files.check_target(output, model, source, ids, kind=form.kind)
    with argument("--model"):
        loaded = files.load(model, "model")
    rows = read_named(source, ids, option, "--ids")
    encoded = loaded.encode_texts(rows) if items is None else loaded.encode_items(rows)
    with argument("--output"):
        form.write(encoded, output)
    wrote = {"path": str(output), "rows": len(encoded), "dimensions": encoded.dimensions}
    if as_json:
        typer.echo(json.dumps(wrote, indent=2))
    elif not quiet:
        echo(f"wrote {output}: {len(encoded):,} {option[2:]}, {encoded.dimensions} dimensions")
