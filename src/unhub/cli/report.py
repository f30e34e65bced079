"""`unhub report`: one page about a search, before and after a correction, to show to someone."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.fit import Similarity
from unhub.cli.folding import show, tell
from unhub.cli.inputs import read_given, read_named

if TYPE_CHECKING:
    from unhub.arrays import Ids


def report(
    items: Annotated[Path, typer.Option(help="The gallery: .npy, .npz, .parquet, .safetensors or a clip folder.")],
    bank: Annotated[Path, typer.Option(help="Past queries, in the same formats.")],
    queries: Annotated[Path, typer.Option(help="The queries to look at, in the same formats.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write, for example report.html.")],
    relevance: Annotated[
        Path | None, typer.Option(help="What answers what, as `unhub eval` reads it; without it, hubness alone.")
    ] = None,
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")] = None,
    query_ids: Annotated[Path | None, typer.Option(help="Ids of the queries, likewise.")] = None,
    item_texts: Annotated[
        Path | None, typer.Option(help="Texts of the items: .txt by row; .csv, .tsv, .jsonl or .parquet with id, text.")
    ] = None,
    item_images: Annotated[
        Path | None, typer.Option(help="Pictures of the items: a folder of files named by id, or paths as texts.")
    ] = None,
    query_texts: Annotated[Path | None, typer.Option(help="Texts of the queries, as those of the items.")] = None,
    correction: Annotated[
        list[Path] | None, typer.Option(help="A file that `unhub fit` wrote; the first is shown; repeatable.")
    ] = None,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave the item with the query's own id out; needs --correction.")
    ] = False,
    figures: Annotated[Path | None, typer.Option(help="A folder for the charts, as PNG and SVG files.")] = None,
    title: Annotated[str | None, typer.Option(help="What stands at the top of the page.")] = None,
    measures: Annotated[
        str, typer.Option(help="Of R@k, P@k, MdR, MnR, GM, MRR, mAP and nDCG, the first one to judge by.")
    ] = "R@1,R@5,R@10,MdR,MnR",
    similarity: Annotated[Similarity, typer.Option(help="How vectors are compared.")] = Similarity.cosine,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn at random.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict and the figures as JSON.")] = False,
) -> None:
    """Write a page that shows what hubs do to a search and what a correction changes; it opens offline."""
    from unhub import files
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.measures import parse_measures
    from unhub.reports.report import PAGE_FILE, TITLE, check_figures
    from unhub.reports.report import report as write_report

    if exclude_self and not correction:
        raise ValueError("--exclude-self: give --correction too, since one is chosen here with every item ranked")
    with argument("--output"):
        inputs = (items, bank, queries, relevance, item_ids, query_ids, item_texts, item_images, query_texts)
        files.check_target(output, *inputs, *(correction or ()), kind=PAGE_FILE)
    with argument("--figures"):
        if figures is not None:
            check_figures(figures)
    with argument("--measures"):
        chosen = parse_measures(measures)
    with argument("--relevance"):
        answers = None if relevance is None else files.read_relevance(relevance)
    with argument("--correction"):
        saved = [files.load(path, "correction") for path in correction or ()]
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    past = read_given(bank, "--bank")
    with argument("--item-images"):
        pictures = None if item_images is None else files.find_pictures(item_images, gallery.ids)
    with progress("report", quiet) as advance:
        made = write_report(
            gallery, past, asked, answers, path=output, item_texts=_texts(item_texts, gallery.ids, "--item-texts"),
            item_images=pictures, query_texts=_texts(query_texts, asked.ids, "--query-texts"),
            corrections=saved or None, measures=chosen, exclude=SELF if exclude_self else None,
            figures=figures, title=title or TITLE, command=shlex.join(["unhub", *sys.argv[1:]]),
            similarity=similarity.value, seed=seed, threads=threads, progress=advance,
        )  # fmt: skip
    if as_json:
        echo_json({"path": str(output), **made.to_dict()})
    elif not quiet:
        tell(*made.verdict.sentences, "")
        show(made.cells())
        tell(*made.notes, f"wrote {output}")


def _texts(path: Path | None, ids: Ids, option: str) -> list[str] | None:
    from unhub import files

    with argument(option):
        return None if path is None else files.read_texts(path).where_known(ids)
