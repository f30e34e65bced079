"""`unhub embed`: images, texts and videos to a folder of vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, progress, table
from unhub.cli.errors import argument, saying_how_to_go_on
from unhub.evaluation.tables import visible

if TYPE_CHECKING:
    from unhub.embed.embed import Embedded

SHOWN = 20  # skipped inputs that are listed; the manifest has all


class Inputs(StrEnum):
    """What is embedded."""

    auto = "auto"
    images = "images"
    texts = "texts"
    videos = "videos"


class Precision(StrEnum):
    """What the model computes in."""

    auto = "auto"
    half = "half"
    full = "full"


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder of images or videos, a .txt file of lines, or a .csv, .tsv, .jsonl, .parquet table."
        ),
    ],
    model: Annotated[str, typer.Option(help="A dual encoder of transformers: its name on the hub, or its folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write, for example gallery.")],
    kind: Annotated[Inputs, typer.Option(help="What is embedded; auto goes by the names of the files.")] = Inputs.auto,
    column: Annotated[str | None, typer.Option(help="The column of a table that holds the texts; else `text`.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="The column of a table that holds their ids; else they are numbered from 0.")
    ] = None,
    frames: Annotated[int | None, typer.Option(min=1, help="How many frames of a video to look at; else 8.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="How many are put through the model at a time.")] = 32,
    device: Annotated[
        str | None, typer.Option(help="Where the model runs, such as cpu or cuda:1; else a GPU where there is one.")
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="Compute in float16 (half) or float32 (full); auto is half on a GPU.")
    ] = Precision.auto,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many files are opened at a time; as many as there are cores.")
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Begin anew, and replace what --output holds; a restart that was stopped goes on."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors and one line of warning.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Embed images, texts or videos; stopped at any moment, the same command goes on where it was."""
    from unhub.embed.embed import embed_images, embed_texts, embed_videos
    from unhub.embed.inputs import kind_of
    from unhub.embed.output import check_output
    from unhub.embed.pictures import FRAMES

    with argument("--output"):
        check_output(output, source)
    chosen = kind_of(source) if kind is Inputs.auto else kind.value
    _refuse({"--column": column, "--id-column": id_column}, "texts", chosen)
    _refuse({"--frames": frames}, "videos", chosen)
    calls = {
        "images": partial(embed_images, source),
        "texts": partial(embed_texts, source, column=column, id_column=id_column),
        "videos": partial(embed_videos, source, frames=frames or FRAMES),
    }
    with saying_how_to_go_on(lambda: "the same command goes on where it was"), progress("embed", quiet) as advance:
        made = calls[chosen](
            model=model, output=output, batch=batch, device=device, precision=precision.value, threads=threads,
            restart=restart, progress=advance,
        )  # fmt: skip
    if as_json:
        typer.echo(json.dumps({"path": str(output), "already": made.already, **made.manifest}, indent=2))
    elif not quiet:
        table(("complete already" if made.already else "wrote", str(output)), _facts(made))
    _warn(made, brief=quiet or as_json)


def _refuse(options: Mapping[str, object], wanted: str, chosen: str) -> None:
    """Refuse options that would have no effect."""
    for name, value in options.items():
        if value is not None and chosen != wanted:
            raise ValueError(f"{name}: is for {wanted}; these are {chosen}")


def _facts(made: Embedded) -> list[tuple[str, str]]:
    """Return what was written, as (name, value) for people."""
    manifest = made.manifest
    cut = "1 text" if made.truncated == 1 else f"{made.truncated:,} texts"
    rows = [
        (manifest["kind"], f"{manifest['rows']:,} of {manifest['inputs']['count']:,}"),
        ("vectors", f"{manifest['dimensions']} dimensions, {manifest['dtype']}, of length one"),
        ("model", f"{manifest['model']['name']} ({manifest['model']['type']})"),
        ("truncated", f"{cut}, to {manifest['settings'].get('longest')} tokens"),
    ]
    return [row for row in rows if made.truncated or row[0] != "truncated"]


def _warn(made: Embedded, brief: bool) -> None:
    """Say on stderr what has no vector, and why."""
    from unhub.files.embedded import MANIFEST

    skipped = made.skipped
    if not skipped:
        return
    told = f"{len(skipped):,} of {made.manifest['inputs']['count']:,} {made.manifest['kind']} were skipped"
    echo(f"unhub: warning: {told}; the reasons are in {made.path.name}/{MANIFEST}", err=True)
    if brief:
        return
    for one in skipped[:SHOWN]:
        echo(f"  {visible(str(one['id']))}: {visible(one['reason'])}", err=True)
    if len(skipped) > SHOWN:
        typer.echo(f"  and {len(skipped) - SHOWN:,} more", err=True)
