"""The files of a data set: vectors, texts and answers, as every other command reads them, for pictures and studies."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unhub.atomic import replacing
from unhub.bench.folds import FoldVectors, folds_there, of_fold
from unhub.bench.problems import TEST, BenchData
from unhub.bench.protocols import OWN_QUERIES, BankChoice
from unhub.bench.result_file import stem_of
from unhub.bench.sources.choose_source import known_banks, source_of
from unhub.compute.progress import ProgressLike, called, shows_progress
from unhub.data.relevance import Relevance
from unhub.data.vectors import Vectors
from unhub.datasets.dataset import DataSet, Side
from unhub.embed.encoder import Encoder
from unhub.files.writers import write_npz

FILES = "files"  # folder of the work folder


@dataclass(frozen=True)
class BenchFiles:
    """The files that were written into `folder`, by name, and notes on what has no vector."""

    folder: Path
    names: tuple[str, ...]
    notes: tuple[str, ...]


@shows_progress
def bench_files(
    data: DataSet,
    work: str | os.PathLike[str],
    *,
    encoder: str | os.PathLike[str] | Encoder | None = None,
    embeddings: str | os.PathLike[str] | None = None,
    model: str | None = None,
    banks_from: Sequence[DataSet] = (),
    device: str | None = None,
    progress: ProgressLike = None,
) -> BenchFiles:
    """Write the vectors of test and of every bank with their ids, the texts, and each part's answers by direction.

    The arguments are those of `bench_run`; what an encoder has embedded for a run is not embedded again. A bank's items
    are written too, where there are vectors of them. Of a test of several parts, every part is written. Files of an
    earlier call are replaced.
    """
    progress = called(progress)
    vectors = source_of(data, Path(work), encoder, embeddings, model, device)
    folder = Path(work) / FILES / stem_of(data.name, data.split, vectors.name)
    folder.mkdir(parents=True, exist_ok=True)
    known, directions = known_banks(data, banks_from), data.protocol.directions
    source = BenchData(of_fold(known, TEST), vectors, progress)
    problem = source.problem(directions[0])
    parts = {TEST: (problem.queries, problem.items)}
    folds, notes = folds_there(data, vectors)
    for fold in folds[1:]:
        other = BenchData(of_fold(known, fold), FoldVectors(vectors, fold), progress)
        asked = other.problem(directions[0])
        parts[fold] = (asked.queries, asked.items)
        notes += other.notes
    there = source.banks(directions[0])
    lacking = [name for name in known.banks if "/" in name and name not in there]
    notes += [f"The bank {name} was not written: there are no vectors of its queries." for name in lacking]
    for name in there:
        if name != OWN_QUERIES:
            bank = source.bank(BankChoice.of(name), directions[0], problem, 0)
            parts[name] = (bank.queries, bank.items)
    names = []
    for name, sides in parts.items():
        held = known.parts.get(name) or known.banks[name]
        for which, rows, side in zip(("queries", "items"), sides, (held.queries, held.items), strict=True):
            if isinstance(rows, Vectors):
                stem = f"{name.replace('/', '-')}-{which}"
                write_npz(rows, folder / f"{stem}.npz")
                names += [f"{stem}.npz", *_describe(folder / f"{stem}-texts.csv", side)]
        if held.relevance is not None and name in known.parts:
            for direction in directions:
                answers = held.relevance if direction == directions[0] else held.relevance.reversed()
                names.append(_answers(folder / f"{name}-truth-{direction}.csv", answers))
    return BenchFiles(folder, tuple(names), (*source.notes, *notes))


def _describe(path: Path, side: Side) -> list[str]:
    """Write the texts of a side, the first of each thing; media have none."""
    if side.texts is None:
        return []
    texts = (several[0] for several in side.texts)
    return [_table(path, ("id", "text"), zip(side.ids.tolist(), texts, strict=True))]


def _answers(path: Path, relevance: Relevance) -> str:
    pairs = zip(relevance.query_ids.tolist(), relevance.item_ids.tolist(), strict=True)
    return _table(path, ("query_id", "item_id"), pairs)


def _table(path: Path, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a .csv file whole, and return its name."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *rows])
    return path.name
