"""`unhub fit`: vectors in, a saved correction out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.errors import argument
from unhub.cli.folding import save
from unhub.cli.inputs import check_methods, read_named, read_optional


class Similarity(StrEnum):
    """How vectors are compared."""

    cosine = "cosine"
    dot = "dot"


def fit(
    items: Annotated[Path, typer.Option(help="The gallery: .npy, .npz, .parquet, .safetensors or a clip folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, for example gallery.unhub.")],
    bank: Annotated[Path | None, typer.Option(help="Past queries, in the same formats.")] = None,
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")] = None,
    bank_items: Annotated[Path | None, typer.Option(help="Bank items, for the methods with two banks.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name that `unhub methods` lists; by default is.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; repeatable.")
    ] = None,
    similarity: Annotated[Similarity, typer.Option(help="How vectors are compared.")] = Similarity.cosine,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="What the kept matrix of sn and dbsn may take, for example 2GB.")
    ] = None,
    mergeable: Annotated[bool, typer.Option("--mergeable", help="Keep what `unhub merge` needs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Fit a correction on a bank of past queries and save it."""
    from unhub import files, fitting

    with argument("--output"):
        files.check_target(output, items, item_ids, bank, bank_items, kind=files.CORRECTION_FILE)
    spec = _spec(method or ["is"], settings or [])
    gallery = read_named(items, item_ids)
    past, past_items = read_optional(bank, "--bank"), read_optional(bank_items, "--bank-items")
    with progress("fit", quiet) as advance:
        correction = fitting.fit(
            gallery,
            past,
            spec,
            bank_items=past_items,
            similarity=similarity.value,
            threads=threads,
            memory=memory,
            mergeable=mergeable,
            progress=advance,
        )
    save(correction, output, quiet, as_json)


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
