"""`unhub embed`: images, texts, videos and sounds to a folder of vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, progress, table
from unhub.cli.errors import argument, saying_how_to_continue
from unhub.cli.options import Json, one_of, whole_number
from unhub.errors import ArgumentError
from unhub.html_tables import visible

if TYPE_CHECKING:
    from unhub.embed.embed import Embedded

SHOWN_SKIPS = 20  # skipped inputs that are listed; the manifest has all


class Inputs(StrEnum):
    """What is embedded."""

    auto = "auto"
    images = "images"
    texts = "texts"
    videos = "videos"
    sounds = "sounds"


class Precision(StrEnum):
    """What the model computes in."""

    auto = "auto"
    half = "half"
    full = "full"


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of images, videos or sounds, a .txt file of lines, or a .csv, .tsv, .jsonl, .parquet table.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(help="An encoder: its name on the Hugging Face Hub, its folder, or open_clip:MODEL/WEIGHTS."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write, for example gallery.")],
    kind: Annotated[Inputs, one_of(Inputs, "--kind", help="What to embed; auto goes by the file names.")] = Inputs.auto,
    column: Annotated[
        str | None, typer.Option(help="Column of the table that holds the texts (default: text).")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of the table that holds the ids (default: rows are numbered from 0).")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="A .txt file of lines such as: a photo of a {}. Each text is put into all; the mean counts."),
    ] = None,
    frames: Annotated[
        int | None, whole_number(1, help="Number of frames to take from each video (default: 8).")
    ] = None,
    batch: Annotated[int, whole_number(1, help="Number of inputs to embed at a time.")] = 32,
    device: Annotated[
        str | None, typer.Option(help="Device to run on, such as cpu or cuda:1 (default: a GPU if there is one).")
    ] = None,
    precision: Annotated[
        Precision,
        one_of(Precision, "--precision", help="Compute in float16 (half) or float32 (full); auto is half on a GPU."),
    ] = Precision.auto,
    threads: Annotated[
        int | None, whole_number(1, help="Number of files to open at a time (default: all cores).")
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            "--overwrite",
            help="Start again and replace what --output holds; if stopped, the same command continues.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing but errors, and one line if inputs were skipped.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Embed images, texts, videos or sounds into a folder of vectors; if stopped, the same command continues."""
    from unhub.embed.embed import embed_images, embed_sounds, embed_texts, embed_videos
    from unhub.embed.media import FRAMES
    from unhub.embed.output import check_output
    from unhub.embed.sources import kind_of

    with argument("--output"):
        check_output(output, source)
    chosen = kind_of(source) if kind is Inputs.auto else kind.value
    _refuse({"--column": column, "--id-column": id_column, "--prompts": prompts}, "texts", chosen)
    _refuse({"--frames": frames}, "videos", chosen)
    calls = {
        "images": partial(embed_images, source),
        "texts": partial(embed_texts, source, column=column, id_column=id_column, prompts=prompts),
        "videos": partial(embed_videos, source, frames=frames or FRAMES),
        "sounds": partial(embed_sounds, source),
    }
    with saying_how_to_continue(lambda: "run the same command again to continue"), progress("embed", quiet) as advance:
        made = calls[chosen](
            model=model,
            output=output,
            batch=batch,
            device=device,
            precision=precision.value,
            threads=threads,
            restart=restart,
            progress=advance,
        )
    if as_json:
        typer.echo(json.dumps({"path": str(output), "already": made.already, **made.manifest}, indent=2))
    elif not quiet:
        table(("complete already" if made.already else "wrote", str(output)), _facts(made))
    _warn(made, brief=quiet or as_json)


def _refuse(options: Mapping[str, object], wanted: str, chosen: str) -> None:
    """Refuse options that would have no effect."""
    for name, value in options.items():
        if value is not None and chosen != wanted:
            raise ArgumentError(name, f"is for {wanted}, and these are {chosen}", "leave it out")


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
    for one in skipped[:SHOWN_SKIPS]:
        echo(f"  {visible(str(one['id']))}: {visible(one['reason'])}", err=True)
    if len(skipped) > SHOWN_SKIPS:
        typer.echo(f"  and {len(skipped) - SHOWN_SKIPS:,} more", err=True)
