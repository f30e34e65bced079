"""`unhub study`: what a parameter or the data does to the figures, as a table and a picture."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.folding import show, tell
from unhub.cli.inputs import (
    GivenPath,
    check_methods,
    check_outputs,
    read_given,
    read_named,
    read_optional,
    write_picture,
)
from unhub.cli.options import (
    BankItems,
    CompareBy,
    ExcludeSelf,
    ItemIds,
    Items,
    Json,
    OptionalRelevance,
    Overwrite,
    PictureOutput,
    QueryIds,
    Quiet,
    Seed,
    SimilarityChoice,
    Threads,
    one_argument_of,
    vectors,
    whole_number,
)
from unhub.errors import ArgumentError

PLACES = 10  # best items of each query in which returns are counted


class Which(StrEnum):
    """The names of the studies."""

    temperature = "temperature"
    k_alpha = "k-alpha"
    bank_size = "bank-size"
    bank_source = "bank-source"
    growth = "growth"
    occurrences = "occurrences"


def study(
    which: Annotated[Which, one_argument_of(Which, "STUDY", help="What to vary.")],
    items: Items,
    bank: Annotated[
        list[str],
        typer.Option(metavar="FILE", help="Past queries; bank-source takes several, each as FILE or NAME=FILE."),
    ],
    queries: Annotated[Path, vectors("Validation queries to measure with, not the test queries.")],
    relevance: OptionalRelevance = None,
    item_ids: ItemIds = None,
    query_ids: QueryIds = None,
    bank_items: BankItems = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A method to study, for example nnn:k=32,alpha=0.5; repeatable."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(help="Measure: R@1, nDCG@10, ... or skewness (default: R@1; skewness without --relevance)."),
    ] = None,
    k: Annotated[
        int | None, whole_number(1, "-k", help="Among how many best items returns are counted, for occurrences.")
    ] = None,
    exclude_self: ExcludeSelf = False,
    seeds: Annotated[int, whole_number(1, help="Number of random banks of each size, for bank-size.")] = 3,
    seed: Seed = 0,
    similarity: CompareBy = SimilarityChoice.cosine,
    output: PictureOutput = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Vary a parameter, the bank or the gallery, and show what it does."""
    from unhub import files
    from unhub.evaluation.excluding import SELF
    from unhub.evaluation.pictures import check_form
    from unhub.studies import data_studies, occurrence_study, setting_studies

    with argument("--output"):
        if output is not None:
            check_form(output)
    paths = _banks(bank, several=which is Which.bank_source)
    inputs = (items, queries, relevance, item_ids, query_ids, bank_items, *paths.values())
    check_outputs([("--output", output)], overwrite, *inputs)
    for option, given in (("--method", method), ("--bank-items", bank_items)):
        if given and which is Which.k_alpha:
            raise ArgumentError(option, "has no effect: k-alpha studies only 'nnn'", "leave it out")
    for option, value in (("--relevance", relevance), ("--measure", measure)):
        if value is not None and which is Which.occurrences:
            raise ArgumentError(option, "has no effect: occurrences are counted without labels", "leave it out")
    if k is not None and which is not Which.occurrences:
        raise ArgumentError("-k", f"has no effect on {which.value}", "leave it out")
    check_methods(method or [], "--method")
    banks = {name: read_given(path, "--bank") for name, path in paths.items()}
    with argument("--relevance"):
        answers = None if relevance is None else files.read_relevance(relevance)
    gallery, asked = read_named(items, item_ids), read_named(queries, query_ids, "--queries", "--query-ids")
    first, second = next(iter(banks.values())), read_optional(bank_items, "--bank-items")
    study_of = {
        Which.temperature: partial(
            setting_studies.study_temperature, gallery, first, asked, answers, bank_items=second, methods=method
        ),
        Which.k_alpha: partial(setting_studies.study_k_and_alpha, gallery, first, asked, answers),
        Which.bank_size: partial(
            data_studies.study_bank_size, gallery, first, asked, answers, seeds=seeds, bank_items=second, methods=method
        ),
        Which.bank_source: partial(
            data_studies.study_bank_source, gallery, banks, asked, answers, bank_items=second, methods=method
        ),
        Which.growth: partial(
            data_studies.study_growth, gallery, first, asked, answers, bank_items=second, methods=method
        ),
        Which.occurrences: partial(
            occurrence_study.study_occurrences, gallery, first, asked, bank_items=second, methods=method, k=k or PLACES
        ),
    }
    judged = {} if which is Which.occurrences else {"measure": measure}
    with progress(which.value, quiet) as advance:
        found = study_of[which](
            **judged,
            exclude=SELF if exclude_self else None,
            similarity=similarity.value,
            seed=seed,
            threads=threads,
            progress=advance,
        )
    if output is not None:
        write_picture(found.chart, output)
    if as_json:
        echo_json(found.to_dict())
    elif not quiet:
        tell(found.title, "")
        show(found.cells())
        tell(*found.sentences, *([] if output is None else [f"wrote {output}"]))


def _banks(given: list[str], several: bool) -> dict[str, Path]:
    """Return the files of banks, each by the name before its equals sign, or by that of its file."""
    if len(given) > 1 and not several:
        raise ArgumentError("--bank", f"is given {len(given)} times", "only bank-source takes several banks")
    banks: dict[str, Path] = {}
    for one in given:
        name, equals, path = one.partition("=")
        named = bool(equals) and "://" not in name and not Path(one).exists()
        file = GivenPath(path if named else one)
        name = name if named else file.stem
        if name in banks:
            remedy = f"give each a name, for example --bank first={file}"
            raise ArgumentError("--bank", f"names two banks {name!r}", remedy)
        banks[name] = file
    return banks
