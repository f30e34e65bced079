"""`unhub eval`: how well the answers are found, raw and with corrections, side by side."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.atomic import file_kind
from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.fit import Similarity
from unhub.cli.folding import show, show_brief, tell
from unhub.cli.inputs import check_methods, read_named, read_optional
from unhub.cli.reversal import check_reversed, turned, turning

SEEDS = 3  # random parts of the bank, where their size is given alone

if TYPE_CHECKING:
    from unhub.arrays import Kind
    from unhub.evaluation.evaluate import Evaluation

# The first line under the head: an id, perhaps in quotes, and numbers.
RANKS = rb'("([^"]|"")*"|[^",\r\n]*)(,[0-9.e+]+|,inf|,nan)+\r?\n'
RANKS_FILE = file_kind("a file of ranks", rb"query_id,raw(,[^\r\n]*)?\r?\n" + RANKS)


def evaluate(
    items: Annotated[Path, typer.Option(help="The gallery: .npy, .npz, .parquet, .safetensors or a clip folder.")],
    queries: Annotated[Path, typer.Option(help="The queries, in the same formats.")],
    relevance: Annotated[
        Path, typer.Option(help="What answers what: .csv, .tsv, .jsonl or .parquet with query_id, item_id; TREC qrels.")
    ],
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")] = None,
    query_ids: Annotated[Path | None, typer.Option(help="Ids of the queries, likewise.")] = None,
    correction: Annotated[list[Path] | None, typer.Option(help="A file that `unhub fit` wrote; repeatable.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method to fit on --bank, for example nnn:k=32,alpha=0.5; repeatable.")
    ] = None,
    bank: Annotated[Path | None, typer.Option(help="Past queries, to fit the methods on.")] = None,
    bank_items: Annotated[Path | None, typer.Option(help="Bank items, for the methods with two banks.")] = None,
    bank_size: Annotated[
        int | None, typer.Option(min=1, help="Fit on random parts of the bank, of so many queries.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=2, help="How many random parts to draw, 3 by default; without --bank-size halves.")
    ] = None,
    run: Annotated[list[Path] | None, typer.Option(help="A TREC run of another system; repeatable.")] = None,
    measures: Annotated[
        str, typer.Option(help="Of R@k, P@k, MdR, MnR, GM, MRR, mAP and nDCG, the first one to choose by.")
    ] = "R@1,R@5,R@10,MdR,MnR",
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The items ask and the queries answer; the bank is then of past items.")
    ] = False,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave the item with the query's own id out of its ranking.")
    ] = False,
    similarity: Annotated[
        Similarity | None, typer.Option(help="How vectors are compared; as in the fit of --correction, else cosine.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv file for the rank of each query's best answer.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress and no notes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
) -> None:
    """Measure how well queries find their answers: raw first, the best marked, gains over raw with intervals."""
    import unhub
    from unhub import files
    from unhub.evaluation.evaluate import Evaluation
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.inputs import name_corrections
    from unhub.evaluation.measures import parse_measures
    from unhub.studies.seeds import OverSeeds, over_seeds

    parts = {"--bank-size": bank_size, "--seeds": seeds}
    _refuse({"--bank": bank, "--bank-items": bank_items, **parts}, not method, "there is no --method to fit")
    _refuse(parts, bank is None, "there is no --bank to draw from")
    with argument("--output"):
        if output is not None:
            inputs = (items, queries, relevance, item_ids, query_ids, bank, bank_items)
            files.check_target(output, *inputs, *(correction or ()), *(run or ()), kind=RANKS_FILE)
    check_methods(method or [], "--method")
    with argument("--measures"):
        chosen = parse_measures(measures)
    with argument("--relevance"):
        answers = files.read_relevance(relevance)
    with argument("--correction"):
        saved = {str(path): files.load(path, "correction") for path in correction or ()}
    with argument("--run"):
        runs = {str(path): files.read_run(path) for path in run or ()}
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    past, past_items = read_optional(bank, "--bank"), read_optional(bank_items, "--bank-items")
    if past is not None and bank_size is not None and bank_size > len(past):
        raise ValueError(f"--bank-size: {bank_size:,} is more than the {len(past):,} queries of the bank")
    halved = past is not None and seeds is not None and bank_size is None
    size = max(1, len(past) // 2) if past is not None and halved else bank_size
    if reverse:
        gallery, asked, answers = asked, gallery, answers.reversed()
        check_reversed(saved, gallery, queries, threads)
    corrections = dict(saved)
    exclude = SELF if exclude_self else None
    kind: Kind | None = None if similarity is None else similarity.value
    shown: Evaluation | OverSeeds
    if past is not None and size is not None:
        with turning(reverse), progress("evaluate", quiet) as advance:
            shown = over_seeds(
                asked, gallery, answers, past, method or [], size, seeds or SEEDS, chosen, bank_items=past_items,
                corrections=corrections, runs=runs, exclude=exclude, similarity=kind, threads=threads,
                progress=advance,
            )  # fmt: skip
        evaluation = shown.evaluation
    else:
        if method:
            with turning(reverse), progress("fit", quiet) as advance:
                fitted = unhub.fit(
                    gallery, past, method=method, bank_items=past_items, similarity=kind or "cosine", threads=threads,
                    progress=advance,
                )  # fmt: skip
            corrections |= name_corrections(fitted)
        with turning(reverse), progress("evaluate", quiet) as advance:
            shown = evaluation = unhub.evaluate(
                asked, gallery, answers, corrections, chosen, runs=runs, exclude=exclude, similarity=kind,
                threads=threads, progress=advance,
            )  # fmt: skip
    if output is not None:
        with files.replacing(output, RANKS_FILE) as temporary:
            _write_ranks(evaluation, temporary)
    specs = {path: one.spec for path, one in saved.items()}
    if as_json:
        echo_json({**shown.to_dict(), "corrections": specs})
        return
    if isinstance(shown, Evaluation):
        show_brief(shown.cells(), len(chosen))
    else:
        show(shown.cells())
    if not quiet:
        brackets = ["In brackets: 95% intervals, by bootstrap."] if isinstance(shown, Evaluation) else []
        marked = [f"* is the best by {chosen[0]}."] if len(shown.rows) > 1 else []
        names = [f"{path} is {spec}." for path, spec in specs.items()]
        half = [f"--bank-size is not given: {size:,} queries are half of the bank."] if halved else []
        notes = [turned(note) if reverse else note for note in shown.notes]
        tell(" ".join(brackets + marked), *names, *half, *notes)


def _refuse(options: Mapping[str, object], where: bool, why: str) -> None:
    """Refuse options that would have no effect."""
    for name, value in options.items():
        if where and value is not None:
            raise ValueError(f"{name}: {why}")


def _write_ranks(evaluation: Evaluation, path: Path) -> None:
    """Write a line for each answered query: its id, and the rank of its best answer under each ranking."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:  # of an id that is not UTF-8
        writer = csv.writer(file)
        writer.writerow(["query_id", *(row.name for row in evaluation.rows)])
        writer.writerows(
            [query, *(f"{rank:.12g}" for rank in ranks)]
            for query, ranks in zip(evaluation.query_ids.tolist(), evaluation.ranks.T.tolist(), strict=True)
        )
