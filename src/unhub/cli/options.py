"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from unhub.cli.inputs import GivenPath
from unhub.errors import nearest_name

VECTORS = ".npy, .npz, .parquet, .safetensors, a folder, a pattern of names, s3://, gs://, https://, or a store"
TABLES = ".csv, .tsv, .jsonl or .parquet"
MEASURES = "R@1,R@5,R@10,MdR,MnR"


def one_of(choices: type[StrEnum], *names: str, help: str) -> Any:
    """Return an option that takes one of these choices; a wrong one is answered with the nearest."""
    return typer.Option(*names, parser=_parser(choices), metavar=_metavar(choices), help=help)


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


def vectors(help: str, *names: str) -> Any:
    """Return an option that takes a file, a folder, or the address of a store."""
    return typer.Option(*names, parser=GivenPath, metavar="FILE", help=help)


class SimilarityChoice(StrEnum):
    """How vectors are compared."""

    cosine = "cosine"
    dot = "dot"


# The sets of vectors.
Items: TypeAlias = Annotated[Path, vectors(f"The gallery: {VECTORS}.")]
Bank: TypeAlias = Annotated[Path, vectors("Past queries, in the same formats.")]
OptionalBank: TypeAlias = Annotated[Path | None, vectors("Past queries, in the same formats.")]
BankItems: TypeAlias = Annotated[Path | None, vectors("Bank items, in the same formats, for methods that use them.")]
Queries: TypeAlias = Annotated[Path, vectors("The queries, in the same formats.")]
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
Saved: TypeAlias = Annotated[Path, typer.Option("--correction", help="A file written by `unhub fit`.")]
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
    str | None, typer.Option(metavar="FILTER", help="Filter in the language of the engine, if the items are a store.")
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
Output: TypeAlias = Annotated[Path, typer.Option("--output", "-o", help="File to write, for example gallery.unhub.")]
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
