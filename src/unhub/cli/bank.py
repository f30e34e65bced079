"""`unhub bank`: is this bank any good?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.errors import NO
from unhub.cli.folding import show_words, tell
from unhub.cli.inputs import read_bank, read_named, read_optional
from unhub.cli.options import (
    Bank,
    BankWeights,
    CompareBy,
    ItemIds,
    Items,
    Json,
    Seed,
    SimilarityChoice,
    Threads,
    vectors,
)


def bank(
    items: Items,
    bank: Bank,
    item_ids: ItemIds = None,
    bank_weights: BankWeights = None,
    queries: Annotated[Path | None, vectors("Queries like the ones you expect, to compare the bank with.")] = None,
    similarity: CompareBy = SimilarityChoice.cosine,
    seed: Seed = 0,
    threads: Threads = None,
    strict: Annotated[bool, typer.Option("--strict", help="End with exit code 3 if the bank has a problem.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the verdict, and no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Judge a bank by its size, coverage, repeats and distance to queries and items, and say what to do."""
    from unhub.banks.judging import judge_bank

    gallery, past = read_named(items, item_ids), read_bank(bank, bank_weights)
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
    if strict and report.problems:
        raise typer.Exit(NO)
