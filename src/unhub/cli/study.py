"""`unhub study`: what a parameter or the data does to the figures, as a table and a picture."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.fit import Similarity
from unhub.cli.folding import show, tell
from unhub.cli.inputs import check_methods, read_given, read_named, read_optional

if TYPE_CHECKING:
    from unhub.data.vectors import Vectors


class Which(StrEnum):
    """The studies there are."""

    temperature = "temperature"
    k_alpha = "k-alpha"
    bank_size = "bank-size"
    bank_source = "bank-source"
    growth = "growth"


def study(
    which: Annotated[Which, typer.Argument(help="What to vary.")],
    items: Annotated[Path, typer.Option(help="The gallery: .npy, .npz, .parquet, .safetensors or a clip folder.")],
    bank: Annotated[
        list[str], typer.Option(help="Past queries; for bank-source several, each a file or name=file.", metavar="FILE")
    ],
    queries: Annotated[Path, typer.Option(help="Queries to judge by: validation queries, not the test's.")],
    relevance: Annotated[
        Path | None, typer.Option(help="What answers what, as `unhub eval` reads it; without it, skewness is studied.")
    ] = None,
    item_ids: Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")] = None,
    query_ids: Annotated[Path | None, typer.Option(help="Ids of the queries, likewise.")] = None,
    bank_items: Annotated[
        Path | None, typer.Option(help="Bank items, for the methods with two banks; all of them beside every bank.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method to study, for example nnn:k=32,alpha=0.5; repeatable.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="R@1, nDCG@10, ... or skewness; R@1 by default where there is relevance.")
    ] = None,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave the item with the query's own id out of its ranking.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Random banks of each size, for bank-size.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn at random.")] = 0,
    similarity: Annotated[Similarity, typer.Option(help="How vectors are compared.")] = Similarity.cosine,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A .png or .svg file for the picture.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Vary the temperature, k and alpha, the bank or the gallery, and show what it does."""
    from unhub import files
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.pictures import PICTURE_FILES, check_form
    from unhub.studies import data_studies
    from unhub.studies import settings as studies

    with argument("--output"):
        if output is not None:
            form = check_form(output)
            inputs = (items, queries, relevance, item_ids, query_ids, bank_items)
            files.check_target(output, *inputs, kind=PICTURE_FILES[form])
    if method and which is Which.k_alpha:
        raise ValueError("--method: k-alpha is of nnn alone")
    if bank_items is not None and which is Which.k_alpha:
        raise ValueError("--bank-items: k-alpha is of nnn alone, which has one bank")
    check_methods(method or [], "--method")
    banks = _banks(bank, several=which is Which.bank_source)
    with argument("--relevance"):
        answers = None if relevance is None else files.read_relevance(relevance)
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    first, second = next(iter(banks.values())), read_optional(bank_items, "--bank-items")
    study_of = {
        Which.temperature: partial(
            studies.study_temperature, gallery, first, asked, answers, bank_items=second, methods=method
        ),
        Which.k_alpha: partial(studies.study_k_and_alpha, gallery, first, asked, answers),
        Which.bank_size: partial(
            data_studies.study_bank_size, gallery, first, asked, answers, seeds=seeds, bank_items=second, methods=method
        ),
        Which.bank_source: partial(
            data_studies.study_bank_source, gallery, banks, asked, answers, bank_items=second, methods=method
        ),
        Which.growth: partial(
            data_studies.study_growth, gallery, first, asked, answers, bank_items=second, methods=method
        ),
    }
    with progress(which.value, quiet) as advance:
        found = study_of[which](
            measure=measure,
            exclude=SELF if exclude_self else None,
            similarity=similarity.value,
            seed=seed,
            threads=threads,
            progress=advance,
        )
    if output is not None:
        found.picture(output)
    if as_json:
        echo_json(found.to_dict())
    elif not quiet:
        tell(found.title, "")
        show(found.cells())
        tell(*found.sentences, *([] if output is None else [f"wrote {output}"]))


def _banks(given: list[str], several: bool) -> dict[str, Vectors]:
    """Read banks, each by the name before its equals sign, or by that of its file."""
    if len(given) > 1 and not several:
        raise ValueError(f"--bank: one is wanted here, got {len(given)}; several are for bank-source")
    banks: dict[str, Vectors] = {}
    for one in given:
        name, equals, path = one.partition("=")
        named = bool(equals) and not Path(one).exists()
        name, file = (name, Path(path)) if named else (Path(one).stem, Path(one))
        if name in banks:
            raise ValueError(f"--bank: two banks are called {name!r}; name them, for example --bank first={file}")
        banks[name] = read_given(file, "--bank")
    return banks
