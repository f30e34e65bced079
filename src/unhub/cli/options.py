"""Options that several commands share, each declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from unhub.cli.inputs import GivenPath, address_in, place_of
from unhub.errors import ArgumentError, nearest_name

VECTORS = ".npy, .npz, .parquet, .arrow, .safetensors, a folder, a pattern of names, s3://, gs://, https://, or a store"
TABLES = ".csv, .tsv, .jsonl or .parquet"
WIDEST_CHOICES = len("[cosine|dot]")
MEASURES = "R@1,R@5,R@10,MdR,MnR"


def one_of(choices: type[StrEnum], *names: str, help: str) -> Any:
    """Return an option that takes one of these choices; a wrong one is answered with the nearest."""
    metavar = _metavar(choices)
    if len(metavar) > WIDEST_CHOICES:  # else 80 columns would cut the names of other options
        metavar, help = "NAME", f"{help} One of {', '.join(choices)}."
    return typer.Option(*names, parser=_parser(choices), metavar=metavar, help=help)


def one_argument_of(choices: type[StrEnum], metavar: str, help: str) -> Any:
    """Return an argument that takes one of these choices; a wrong one is answered with the nearest."""
    return typer.Argument(parser=_parser(choices), metavar=metavar, help=help)


def whole_number(least: int, *names: str, help: str) -> Any:
    """Return an option that takes a whole number of at least `least`."""
    return typer.Option(*names, parser=_whole_parser(least), metavar="NUMBER", help=help)


class OutOfRange(typer.BadParameter):
    """A number that an option refuses; its message is the rest of a sentence that begins with the option."""

    def format_message(self) -> str:
        return f"{self.param.opts[0]} {self.message}" if self.param else self.message


def _whole_parser(least: int) -> Callable[[str | int], int]:
    def parse(given: str | int) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if number < least:
            raise OutOfRange(f"must be a whole number of at least {least}, got {given}")
        return number

    return parse


def _parser(choices: type[StrEnum]) -> Callable[[str], StrEnum]:
    names = [str(one) for one in choices]

    def parse(text: str) -> StrEnum:
        if text in names:
            return choices(text)
        near = nearest_name(text, names)
        known = f"{text!r} is not one of {', '.join(map(repr, names))}."
        raise typer.BadParameter(f"{known} Did you mean {near!r}?" if near else known)

    return parse


def _metavar(choices: type[StrEnum]) -> str:
    return f"[{'|'.join(choices)}]"


def vectors(help: str, *names: str, panel: str | None = None) -> Any:
    """Return an option that takes a file, a folder, or the address of a store; panel: the part of the help it is in."""
    return typer.Option(*names, parser=GivenPath, metavar="FILE", help=help, rich_help_panel=panel)


class SimilarityChoice(StrEnum):
    """How vectors are compared."""

    cosine = "cosine"
    dot = "dot"


class TimeUnitChoice(StrEnum):
    """Units of times that are numbers since 1970."""

    auto = "auto"
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


# The sets of vectors.
Items: TypeAlias = Annotated[Path, vectors(f"The gallery: {VECTORS}.")]
Bank: TypeAlias = Annotated[Path, vectors("Past queries, in the same formats.")]
OptionalBank: TypeAlias = Annotated[Path | None, vectors("Past queries, in the same formats.")]
BankWeights: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="How often each bank query counts: one number per line, or a .npy file (default: once)."),
]
BankItems: TypeAlias = Annotated[Path | None, vectors("Bank items, in the same formats, for methods that use them.")]
Queries: TypeAlias = Annotated[Path, vectors("The queries, in the same formats.")]
OptionalItems: TypeAlias = Annotated[Path | None, vectors(f"The gallery: {VECTORS}.")]
OptionalQueries: TypeAlias = Annotated[Path | None, vectors("The queries, in the same formats.")]
Logged: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--hits",
        metavar="LOG",
        help="What was returned, instead of vectors: a query log, a TREC run, or hits of `unhub search -o`.",
    ),
]
ItemsCount: TypeAlias = Annotated[int | None, whole_number(1, help="How many items there are, if only hits are given.")]
ItemIds: TypeAlias = Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")]
QueryIds: TypeAlias = Annotated[Path | None, typer.Option(help="Ids of the queries: one per line, or a .npy file.")]
TextIds: TypeAlias = Annotated[Path | None, typer.Option(help="Ids of the texts: one per line, or a .npy file.")]

# What goes with them.
RelevanceFile: TypeAlias = Annotated[
    Path, typer.Option(help=f"Which items answer which query: {TABLES} with query_id and item_id, or TREC qrels.")
]
OptionalRelevance: TypeAlias = Annotated[
    Path | None,
    typer.Option(help=f"Which items answer which query: {TABLES} with query_id and item_id, or TREC qrels."),
]
ItemTexts: TypeAlias = Annotated[
    Path | None, typer.Option(help=f"Texts of the items: .txt, one line per row, or {TABLES} with id and text.")
]
QueryTexts: TypeAlias = Annotated[
    Path | None, typer.Option(help=f"Texts of the queries: .txt, one line per row, or {TABLES} with id and text.")
]
Saved: TypeAlias = Annotated[
    Path, typer.Option("--correction", help="A file written by `unhub fit`, or a folder of versions: the active one.")
]
SavedList: TypeAlias = Annotated[
    list[Path] | None, typer.Option("--correction", metavar="FILE", help="A file written by `unhub fit`; repeatable.")
]
Trained: TypeAlias = Annotated[
    Path | None,
    typer.Option("--model", help="A file written by `unhub multi train`; it encodes the texts and the items."),
]
EncodedItems: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--encoded-items",
        help="The items were written by `unhub multi encode`; needed for a correction with --model.",
    ),
]

# How a query log is read.
Columns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="FIELD=NAME", help="The name of a column of a log, such as text=q; repeatable."),
]
NumberedTimes: TypeAlias = Annotated[
    TimeUnitChoice,
    one_of(TimeUnitChoice, "--time-unit", help="Unit of times in a log that are numbers (auto: by their size)."),
]
SkipBad: TypeAlias = Annotated[bool, typer.Option("--skip-bad", help="Leave out lines of a log that cannot be read.")]

# How it is done.
CompareBy: TypeAlias = Annotated[
    SimilarityChoice, one_of(SimilarityChoice, "--similarity", help="Similarity of the vectors.")
]
CompareAsFitted: TypeAlias = Annotated[
    SimilarityChoice | None,
    one_of(
        SimilarityChoice,
        "--similarity",
        help="Similarity of the vectors (default: that of --correction, else cosine).",
    ),
]
Measures: TypeAlias = Annotated[
    str, typer.Option(help="Measures, the most important first: R@k, P@k, MdR, MnR, GM, MRR, mAP, mAP@R, nDCG@k.")
]
ExcludeSelf: TypeAlias = Annotated[
    bool, typer.Option("--exclude-self", help="Leave the item with the query's own id out of its ranking.")
]
Strength: TypeAlias = Annotated[
    float, typer.Option(help="How much of the correction to apply, from 0 (none) to 1 (all).")
]
Index: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Index: exact, torch:DEVICE, faiss:FACTORY (default: exact; a store is searched in its engine)."),
]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILTER", help="Filter by --attributes, in SQL; in the language of the engine, of a store."),
]
AttributesFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--attributes", metavar="FILE", help=f"Attributes of the items for --where: {TABLES} with id."),
]
Seed: TypeAlias = Annotated[int, whole_number(0, help="Random seed.")]
Threads: TypeAlias = Annotated[int | None, whole_number(1, help="Threads to use (default: all cores).")]
Device: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Device of torch that computes: cuda, cuda:1, mps, cpu, or auto (default: unhub's own kernels)."),
]
On: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        help="Machines that compute: ray for the Ray cluster at hand, else a local one, or ray://HOST:PORT.",
    ),
]
Precision: TypeAlias = Annotated[
    str | None, typer.Option(help="How --device multiplies: fp32 or bf16 (default: fp32).")
]
Memory: TypeAlias = Annotated[
    str | None, typer.Option(help="Memory limit for the matrix that 'sn' and 'dbsn' keep, for example 2GB.")
]

# What comes out.
Output: TypeAlias = Annotated[
    Path, typer.Option("--output", "-o", help="File to write, for example gallery.unhub, or a folder of versions.")
]
HitsOutput: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write the hits to instead of stdout.")
]
PictureOutput: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", help="A .png or .svg file for the picture.")
]
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace a file that unhub did not save; an input is never replaced.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
NoNotes: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Show no progress and no notes.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# Added to every command that has --items.
VectorColumn: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of the vectors, if --items is a table (default: embedding).")
]
IdColumn: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of the ids, if --items is a table (default: id).")
]
ITEMS = "items"


def with_columns(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that takes the names of columns too, if it has --items; else the command as it is.

    They are a short form of `--items items.parquet#vector=clip,id=key`, which every option of vectors takes.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters = dict(signature.parameters)
    if ITEMS not in parameters or GivenPath not in _parsers(parameters[ITEMS].annotation):
        return command

    @functools.wraps(command)
    def run(*, vector_column: str | None = None, id_column: str | None = None, **given: Any) -> Any:
        held = given[ITEMS]
        if isinstance(held, list):  # of an option that may be repeated
            given[ITEMS] = [_naming_columns(one, vector_column, id_column) for one in held]
        else:
            given[ITEMS] = _naming_columns(held, vector_column, id_column)
        return command(**given)

    several: list[inspect.Parameter] = []
    for parameter in parameters.values():
        several.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        if parameter.name == ITEMS:
            several += [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
                for name, kind in (("vector_column", VectorColumn), ("id_column", IdColumn))
            ]
    run.__signature__ = signature.replace(parameters=several)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {one.name: one.annotation for one in several}
    return run


def _parsers(annotation: Any) -> list[object]:
    return [getattr(one, "parser", None) for one in getattr(annotation, "__metadata__", ())]


def _naming_columns(items: Path | None, vector: str | None, id_column: str | None) -> Path | None:
    """Return the path with the names of its columns behind it."""
    columns = {name: value for name, value in (("vector", vector), ("id", id_column)) if value is not None}
    if not columns:
        return items
    option = "--vector-column" if vector is not None else "--id-column"
    if items is None:
        raise ArgumentError(option, "names a column of --items", "give --items too")
    if address_in(items) is not None:
        raise ArgumentError(option, "goes with a file", "the address of a store names its columns itself")
    from unhub.files.named_arrays import split_name

    place = place_of(items)
    if split_name(place)[1] is not None:
        raise ArgumentError(option, f"is given, and --items is {place}", "name the columns in one of the two")
    return GivenPath(f"{place}#{','.join(f'{name}={value}' for name, value in columns.items())}")
