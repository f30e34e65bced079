"""`unhub fit`: vectors in, a saved correction out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress, show_forecast
from unhub.cli.folding import note_other_items, save
from unhub.cli.inputs import check_methods, check_outputs, note_numbered, read_named, read_optional, read_optional_bank
from unhub.cli.options import (
    BankItems,
    BankWeights,
    CompareBy,
    Device,
    ItemIds,
    Items,
    Json,
    Memory,
    On,
    OptionalBank,
    Overwrite,
    Precision,
    Quiet,
    Seed,
    SimilarityChoice,
    Threads,
)
from unhub.errors import ArgumentError


def fit(
    items: Items,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write, for example gallery.unhub, or a folder of versions; not needed with --dry-run.",
        ),
    ] = None,
    bank: OptionalBank = None,
    bank_weights: BankWeights = None,
    item_ids: ItemIds = None,
    bank_items: BankItems = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Method to fit, as listed by `unhub methods` (default: 'is')."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; repeatable.")
    ] = None,
    similarity: CompareBy = SimilarityChoice.cosine,
    threads: Threads = None,
    memory: Memory = None,
    device: Device = None,
    precision: Precision = None,
    on: On = None,
    mergeable: Annotated[bool, typer.Option("--mergeable", help="Keep what `unhub merge` needs.")] = False,
    error: Annotated[
        float | None,
        typer.Option(help="Use as little of the bank as keeps the standard error of h below this, for example 0.002."),
    ] = None,
    seed: Seed = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what the fit will take and what would make it cheaper; fit nothing.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a correction on a bank of past queries and save it."""
    from unhub import fitting

    if dry_run and on is not None:
        raise ArgumentError("--on", "cannot be combined with --dry-run, which times this machine", "leave one out")
    if output is None and not dry_run:
        raise ArgumentError("--output", "is missing", "name the file to write, or give --dry-run, which writes none")
    check_outputs([("--output", output)], overwrite, items, item_ids, bank, bank_weights, bank_items, versions=True)
    spec = _spec(method or ["is"], settings or [])
    gallery = read_named(items, item_ids)
    note_numbered(items, item_ids, quiet)
    past, past_items = read_optional_bank(bank, bank_weights), read_optional(bank_items, "--bank-items")
    if dry_run or output is None:  # an output is missing in a dry run only
        from unhub.compute.workers import Resources
        from unhub.foreseeing import Terms, foresee
        from unhub.kernels import name_of

        resources = Resources(threads, memory, device=name_of(device, precision))
        show_forecast(
            foresee(
                gallery,
                past,
                spec,
                bank_items=past_items,
                terms=Terms(similarity.value, mergeable, error),
                resources=resources,
            ),
            as_json,
        )
        return
    with progress("fit", quiet) as advance:
        correction = fitting.fit(
            gallery,
            past,
            spec,
            bank_items=past_items,
            similarity=similarity.value,
            threads=threads,
            memory=memory,
            device=device,
            precision=precision,
            on=on,
            mergeable=mergeable,
            error=error,
            seed=seed,
            progress=advance,
        )
    note_other_items(correction, output, quiet)
    save(correction, output, quiet, as_json, f"Fitted: {correction.spec}.")


def _spec(methods: list[str], settings: list[str]) -> str:
    """Return the method with its settings as one text, `nnn:k=128,alpha=0.75`, once each option is right."""
    if len(methods) > 1:
        raise ValueError(f"--method is given {len(methods)} times; a file holds one correction, so fit each on its own")
    for setting in settings:
        if "=" not in setting:
            raise ValueError(f"--set: {setting!r} is not of the form name=value")
    method = methods[0]
    check_methods([method], "--method")
    spec = ",".join([method, *settings]) if ":" in method else ":".join([method, ",".join(settings)]).rstrip(":")
    check_methods([spec], "--set")
    return spec
