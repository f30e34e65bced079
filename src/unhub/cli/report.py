"""`unhub report`: one page about a search, before and after a correction, to show to someone."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.folding import show, tell
from unhub.cli.inputs import GivenPath, check_outputs, place_of, read_named, read_optional, write_picture
from unhub.cli.options import (
    MEASURES,
    CompareBy,
    ItemIds,
    Items,
    ItemTexts,
    Json,
    Measures,
    OptionalRelevance,
    Overwrite,
    Queries,
    QueryIds,
    QueryTexts,
    Quiet,
    SavedList,
    Seed,
    SimilarityChoice,
    Threads,
    vectors,
)
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.arrays import Ids


def report(
    items: Items,
    queries: Queries,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML page to write, for example report.html.")],
    bank: Annotated[
        Path | None, vectors("Past queries, in the same formats; may be left out with --correction.")
    ] = None,
    relevance: OptionalRelevance = None,
    item_ids: ItemIds = None,
    query_ids: QueryIds = None,
    item_texts: ItemTexts = None,
    item_images: Annotated[
        Path | None,
        typer.Option(
            parser=GivenPath,
            metavar="FILE|URL",
            help="Images of the items: a folder of files named by id, a file of paths, or https://cdn/{id}.jpg.",
        ),
    ] = None,
    query_texts: QueryTexts = None,
    correction: SavedList = None,
    exclude_self: Annotated[
        bool,
        typer.Option(
            "--exclude-self", help="Leave the item with the query's own id out of its ranking; needs --correction."
        ),
    ] = False,
    figures: Annotated[Path | None, typer.Option(help="Folder for the charts, as PNG and SVG files.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    measures: Measures = MEASURES,
    similarity: CompareBy = SimilarityChoice.cosine,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a page that shows what hubs do to a search and what a correction changes; it opens offline."""
    from unhub import files
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.measures import parse_measures
    from unhub.evaluation.pictures import FORMS
    from unhub.reports.report import TITLE, check_page_name
    from unhub.reports.report import report as write_report

    if bank is None and not correction:
        problem = "is missing, and without a correction to show one is chosen on it"
        raise ArgumentError("--bank", problem, "give it, or --correction")
    if exclude_self and not correction:
        raise ArgumentError(
            "--exclude-self",
            "needs a correction to show, since no item is left out when one is chosen",
            "give --correction too",
        )
    inputs = (items, bank, queries, relevance, item_ids, query_ids, item_texts, item_images, query_texts)
    charts = [] if figures is None else _charts(figures)
    check_outputs([("--output", output), *charts], overwrite, *inputs, *(correction or ()))
    check_page_name(output)
    with argument("--measures", "measure"):
        chosen = parse_measures(measures)
    with argument("--relevance"):
        answers = None if relevance is None else files.read_relevance(relevance)
    with argument("--correction"):
        saved = [files.load(path, "correction") for path in correction or ()]
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    past = read_optional(bank, "--bank")
    with argument("--item-images"):
        pictures = None if item_images is None else files.find_pictures(place_of(item_images), gallery.ids)
    check_outputs(
        [("--output", output), *charts], True, *(one for one in (pictures or {}).values() if isinstance(one, Path))
    )
    # The page is put in place last, so that an existing page has all its charts.
    with files.replacing(output) as page, progress("report", quiet) as advance:
        made = write_report(
            gallery,
            past,
            asked,
            answers,
            path=page,
            item_texts=_texts(item_texts, gallery.ids, "--item-texts"),
            item_images=pictures,
            query_texts=_texts(query_texts, asked.ids, "--query-texts"),
            corrections=saved or None,
            measures=chosen,
            exclude=SELF if exclude_self else None,
            title=title or TITLE,
            command=shlex.join(["unhub", *sys.argv[1:]]),
            similarity=similarity.value,
            seed=seed,
            threads=threads,
            progress=advance,
        )
        if figures is not None:
            figures.mkdir(exist_ok=True)
            for picture in made.pictures:
                for form in FORMS:
                    write_picture(picture, figures / f"{picture.name}.{form}")
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


def _charts(folder: Path) -> list[tuple[str, Path]]:
    """Return the files that the charts would be written to; raise if they cannot be written into the folder."""
    from unhub import files
    from unhub.evaluation.pictures import FORMS
    from unhub.reports.report import STEMS

    if folder.is_dir():
        return [("--figures", folder / f"{stem}.{form}") for stem in STEMS for form in FORMS]
    with argument("--figures"):
        if folder.exists():
            raise NotADirectoryError(f"{folder} is a file; name a folder")
        files.check_target(folder)
    return []
