"""`unhub bank`: is this bank any good?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.fit import Similarity
from unhub.cli.folding import show_words, tell
from unhub.cli.inputs import read_given, read_optional


def bank(
    items: Annotated[Path, typer.Option(help="The gallery: .npy, .npz, .parquet, .safetensors or a clip folder.")],
    bank: Annotated[Path, typer.Option(help="Past queries, in the same formats.")],
    queries: Annotated[Path | None, typer.Option(help="Queries such as are to come, to compare the bank with.")] = None,
    similarity: Annotated[Similarity, typer.Option(help="How vectors are compared.")] = Similarity.cosine,
    seed: Annotated[int, typer.Option(min=0, help="Of the random samples.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict alone, and no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures and the verdict as JSON.")] = False,
) -> None:
    """Say whether a bank is good: its size, coverage, distance to queries and items, repeats, and what to do."""
    from unhub.banks.judging import judge_bank

    gallery, past = read_given(items, "--items"), read_given(bank, "--bank")
    asked = read_optional(queries, "--queries")
    with progress("bank", quiet) as advance:
        report = judge_bank(
            gallery, past, asked, similarity=similarity.value, seed=seed, threads=threads, progress=advance
        )
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    elif quiet:
        typer.echo(report.verdict)
    else:
        show_words((("figure", "value", "what it means"), report.cells()))
        tell(*report.notes, f"{report.verdict}: {report.conclusion}")
