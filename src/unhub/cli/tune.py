"""`unhub tune`: which method and setting to use, or none; the chosen correction is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.errors import argument
from unhub.cli.fit import Similarity
from unhub.cli.folding import show, tell
from unhub.cli.inputs import read_given, read_named, read_optional


def tune(
    items: Annotated[Path, typer.Option(help="The gallery: .npy, .npz, .parquet, .safetensors or a clip folder.")],
    bank: Annotated[Path, typer.Option(help="Past queries, in the same formats.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, for example best.unhub.")],
    queries: Annotated[
        Path | None,
        typer.Option(help="Queries to choose by; without --relevance, to see if the bank is like them."),
    ] = None,
    relevance: Annotated[
        Path | None,
        typer.Option(help="What answers them: .csv, .tsv, .jsonl or .parquet with query_id, item_id; TREC qrels."),
    ] = None,
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")] = None,
    query_ids: Annotated[Path | None, typer.Option(help="Ids of the queries, likewise.")] = None,
    bank_items: Annotated[Path | None, typer.Option(help="Bank items, to try the methods with two banks too.")] = None,
    methods: Annotated[
        str, typer.Option(help="What to try: all, or names with commas, for example is,nnn; nnn:k=32,alpha=0.5.")
    ] = "all",
    measure: Annotated[str, typer.Option(help="What to choose by where there is --relevance.")] = "R@1",
    similarity: Annotated[Similarity, typer.Option(help="How vectors are compared.")] = Similarity.cosine,
    time: Annotated[str | None, typer.Option(help="The time it may take, for example 90s or 10m.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random halves and folds.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="What the kept matrix of sn and dbsn may take, for example 2GB.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that was tried as JSON.")] = False,
) -> None:
    """Try many methods and settings, choose one by labels or without them, or none if no gain is sure, and save it."""
    from unhub import files
    from unhub.evaluation.measures import parse_measure
    from unhub.tuning.grid import name_methods
    from unhub.tuning.tune import tune as choose

    inputs = (items, item_ids, bank, bank_items, queries, query_ids, relevance)
    with argument("--output"):
        files.check_target(output, *inputs, kind=files.CORRECTION_FILE)
    if query_ids is not None and queries is None:
        raise ValueError("--query-ids: there are no --queries that they could name")
    with argument("--methods"):
        name_methods(methods, dual=bank_items is not None)
    with argument("--measure"):
        parse_measure(measure)
    with argument("--relevance"):
        answers = None if relevance is None else files.read_relevance(relevance)
    gallery, past = read_named(items, item_ids), read_given(bank, "--bank")
    past_items = read_optional(bank_items, "--bank-items")
    asked = None if queries is None else read_named(queries, query_ids, "--queries", "--query-ids")
    with progress("tune", quiet) as advance:
        tuning = choose(
            gallery, past, asked, answers, bank_items=past_items, methods=methods, measure=measure,
            similarity=similarity.value, time=time, seed=seed, threads=threads, memory=memory, progress=advance,
        )  # fmt: skip
    if tuning.out_of_time:  # and not a mistake: a faster machine would have had the time
        raise TimeoutError(f"--time: {tuning.reason} Nothing was written to {output}.")
    files.save(tuning.best, output)
    if as_json:
        typer.echo(json.dumps({"path": str(output), **tuning.to_dict()}, indent=2))
    elif not quiet:
        if tuning.table:
            show(tuning.cells())
        tell(tuning.reason, *tuning.notes, f"Wrote {tuning.best.spec} to {output}.")
