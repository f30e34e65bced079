"""`unhub bench`: run a data set by a paper's protocol, and print a paper's table from what has been run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress
from unhub.cli.errors import NO, argument, saying_how_to_continue
from unhub.cli.folding import show, tell
from unhub.cli.options import Json, NoNotes, Overwrite, Seed, Threads, whole_number
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.bench.bench_results import BenchRun
    from unhub.datasets.dataset import DataSet

DataSetName = Annotated[str, typer.Argument(metavar="NAME", help="A data set: see `unhub datasets`.")]
DataFolder = Annotated[Path, typer.Option(help="Folder of the data set, in its official layout.")]
SplitName = Annotated[str | None, typer.Option(help="Split of the data set (default: the paper's, or its first).")]
EncoderModel = Annotated[
    str | None, typer.Option(metavar="MODEL", help="An encoder to embed with, as in `unhub embed --model`.")
]
ReadyFolder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of ready embeddings: test-items.npy, test-queries.npy, train-..."),
]
ModelName = Annotated[
    str | None, typer.Option(help="Name of the model in tables (default: that of the encoder, folder or file).")
]
BanksFrom = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=DIR", help="Another data set, whose training part is a bank, NAME/train; repeatable."),
]
EmbedDevice = Annotated[
    str | None, typer.Option(help="Device to embed on, such as cpu or cuda:1 (default: a GPU if there is one).")
]
Work = Annotated[Path, typer.Option(help="Folder for embeddings and results; it is made if it is absent.")]


def run(
    name: DataSetName,
    data: DataFolder,
    work: Work,
    split: SplitName = None,
    encoder: EncoderModel = None,
    embeddings: ReadyFolder = None,
    matrix: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A ready matrix of test similarities, queries x items.")
    ] = None,
    bank_matrix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="With --matrix: similarities of a bank, bank queries x items, for example train=FILE; repeatable.",
        ),
    ] = None,
    model: ModelName = None,
    paper: Annotated[
        str | None, typer.Option(help="Follow the protocol of a paper: qbnorm, nnn, dbsn or mqvr.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Methods to run: all, or names separated by commas, for example is,nnn:k=32,alpha=0.5.")
    ] = "all",
    directions: Annotated[str, typer.Option(help="Directions to run: both, or one, for example t2i.")] = "both",
    banks: Annotated[
        str | None,
        typer.Option(
            help="Banks, separated by commas: train, val, test (the queries at hand), train:20%, train:5000:far "
            "(default: those of the paper, or all)."
        ),
    ] = None,
    bank_from: BanksFrom = None,
    seeds: Annotated[
        int | None, whole_number(1, help="Number of random banks of each size (default: that of the paper, or 1).")
    ] = None,
    seed: Seed = 0,
    device: EmbedDevice = None,
    threads: Threads = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An .html page to write, with every figure.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: NoNotes = False,
    as_json: Json = False,
) -> None:
    """Measure every method, bank and direction of a data set; if stopped, the same command continues."""
    from unhub.bench.bench_page import check_page, tables_of, write_page
    from unhub.bench.bench_run import bench_run

    _check_one({"--encoder": encoder, "--embeddings": embeddings, "--matrix": matrix})
    if report is not None:
        with argument("--report", "path"):
            check_page(report, overwrite)
    loaded, others = _load(name, data, split, paper), _others(bank_from or ())
    matrices = dict(_named(one, "--bank-matrix", "train=similarity.npy") for one in bank_matrix or ())
    continuing = saying_how_to_continue(lambda: "run the same command again to continue")
    with continuing, progress(f"bench {name}", quiet) as advance:
        found = bench_run(
            loaded,
            work,
            encoder=encoder,
            embeddings=embeddings,
            matrix=matrix,
            bank_matrix=matrices,
            model=model,
            paper=paper,
            methods=methods,
            directions=directions,
            banks=banks,
            banks_from=others,
            seeds=seeds,
            seed=seed,
            device=device,
            threads=threads,
            progress=advance,
        )
    if report is not None:
        write_page(found, report, tables_of(found, work), overwrite)
    if as_json:
        echo_json({"path": str(found.path), **found.content})
    else:
        _show(found, report, quiet)
    if found.only_raw:
        raise typer.Exit(NO)


def _show(found: BenchRun, report: Path | None, quiet: bool) -> None:
    """Print every direction, and what was left out."""
    from unhub.bench.bench_results import IN_BRACKETS

    for title, cells in found.tables:
        echo(title)
        show(cells)
        echo()
    if not quiet:
        tell(IN_BRACKETS, *found.notes, found.counts, *([f"Wrote {report}."] if report is not None else []))


def files(
    name: DataSetName,
    data: DataFolder,
    work: Work,
    split: SplitName = None,
    encoder: EncoderModel = None,
    embeddings: ReadyFolder = None,
    model: ModelName = None,
    paper: Annotated[str | None, typer.Option(help="Take the split of a paper: qbnorm, nnn, dbsn or mqvr.")] = None,
    bank_from: BanksFrom = None,
    device: EmbedDevice = None,
    quiet: NoNotes = False,
    as_json: Json = False,
) -> None:
    """Write the vectors, texts and answers of a data set as files that every other command reads."""
    from unhub.bench.bench_files import bench_files

    _check_one({"--encoder": encoder, "--embeddings": embeddings})
    loaded, others = _load(name, data, split, paper), _others(bank_from or ())
    continuing = saying_how_to_continue(lambda: "run the same command again to continue")
    with continuing, progress(f"files of {name}", quiet) as advance:
        found = bench_files(
            loaded,
            work,
            encoder=encoder,
            embeddings=embeddings,
            model=model,
            banks_from=others,
            device=device,
            progress=advance,
        )
    if as_json:
        echo_json({"folder": str(found.folder), "files": list(found.names), "notes": list(found.notes)})
        return
    for one in found.names:
        echo(str(found.folder / one))
    if not quiet:
        tell(*found.notes)


def table(
    name: Annotated[str, typer.Argument(metavar="PAPER:TABLE", help="A table of a paper, such as nnn:1 or dbsn:A5.")],
    work: Work,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PUBLISHED=MEASURED",
            help="Put the runs of a model beside the figures of another, for example CLIP4Clip=mine; repeatable.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show also the figures that have not been measured.")] = False,
    quiet: NoNotes = False,
    as_json: Json = False,
) -> None:
    """Print a table of a paper from what has been run: measured, published, difference and interval."""
    from unhub.bench.bench_table import bench_table

    models = dict(_named(one, "--model", "CLIP4Clip=mine", "two models") for one in model or ())
    found = bench_table(name, work, models)
    if as_json:
        echo_json(found.to_dict())
        return
    if every or found.run:
        show(found.cells(every))
    if not quiet:
        tell(*found.notes)


def _check_one(sources: Mapping[str, object]) -> None:
    """Check that vectors come from one place."""
    given = [option for option, value in sources.items() if value is not None]
    if len(given) != 1:
        problem = f"is given together with {' and '.join(given[1:])}" if given else "is absent"
        *options, last = sources
        raise ArgumentError((given or options)[0], problem, f"give one of {', '.join(options)} and {last}")


def _load(name: str, folder: Path, split: str | None, paper: str | None) -> DataSet:
    """Load a data set, by the split that is given, or that of the paper, or its first."""
    from unhub import datasets
    from unhub.bench.protocols import split_of

    usual = datasets.loading.find(name).splits[0]
    return datasets.load(name, folder, split or split_of(paper, name, usual))


def _others(given: Sequence[str]) -> list[DataSet]:
    """Load the data sets that banks come from."""
    from unhub import datasets

    found = []
    for one in given:
        name, folder = _named(one, "--bank-from", "coco=data/coco")
        with argument("--bank-from", "data", "name"):
            found.append(datasets.load(name, folder))
    return found


def _named(given: str, option: str, example: str, what: str = "a name and a path") -> tuple[str, str]:
    """Return both sides of a value of the form NAME=PATH."""
    name, equals, path = given.partition("=")
    if not (name and equals and path):
        raise ArgumentError(option, f"is {given!r}", f"write {what}, for example {example}")
    return name, path
