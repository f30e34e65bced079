"""Run a data set: check what is asked, find the vectors, and return the results with their table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from unhub.bench.bench_results import BenchRun
from unhub.bench.folds import FoldVectors, folds_of, folds_there, mean_cases, of_fold
from unhub.bench.given_matrix import MatrixData
from unhub.bench.off_protocol import TEMPERED
from unhub.bench.problems import TEST, BenchData, directions_of
from unhub.bench.protocols import BankChoice, methods_of, protocol_of, seeds_of
from unhub.bench.result_file import (
    CASES,
    CHOICES,
    FOLDS,
    CaseKey,
    ResultFile,
    read_results,
    result_path,
)
from unhub.bench.running import BenchSettings, Running
from unhub.bench.sources.choose_source import check_one, known_banks, source_of
from unhub.bench.sources.vector_source import VectorSource
from unhub.compute.progress import ProgressLike, Steps, called, shows_progress
from unhub.compute.workers import Progress
from unhub.datasets.dataset import DataSet
from unhub.embed.encoder import Encoder
from unhub.errors import ArgumentError, check_seed
from unhub.evaluation.measures import parse_measures
from unhub.methods import parse

IMAGE_MEASURES = ("mAP@R",)  # of images that ask for images, beside those of the papers

ANOTHER_SCALE = (
    "the similarities are on another scale than cosines, for which the settings of papers are, so no interval is "
    "compared with published figures. If you know the factor of the model, divide the matrix by it."
)


@shows_progress
def bench_run(
    data: DataSet,
    work: str | os.PathLike[str],
    *,
    encoder: str | os.PathLike[str] | Encoder | None = None,
    embeddings: str | os.PathLike[str] | None = None,
    matrix: str | os.PathLike[str] | None = None,
    bank_matrix: Mapping[str, str | os.PathLike[str]] | None = None,
    model: str | None = None,
    paper: str | None = None,
    methods: str | Sequence[str] = "all",
    directions: str | Sequence[str] = "both",
    banks: str | Sequence[str] | None = None,
    banks_from: Sequence[DataSet] = (),
    seeds: int | None = None,
    seed: int = 0,
    device: str | None = None,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> BenchRun:
    """Measure every method with every bank in every direction, and keep each case in the work folder when it is done.

    The vectors come from one of three: an encoder that embeds what the data set has, `embeddings`, a folder of ready
    ones, or `matrix`, a file of (queries, items) similarities, with `bank_matrix` for files of (bank queries, items)
    by the name of the bank. model: what tables call it; by default the name of the encoder, folder or file. paper:
    whose protocol to follow, `qbnorm`, `nnn`, `dbsn` or `mqvr`. banks: such as `train`, `test` (the queries at hand),
    `train:20%` or `train:1000:far`; by default those of the protocol, or all. banks_from: other data sets, whose
    training part is a bank by their name.
    A case that is done is not done again, unless its vectors have changed.
    """
    progress = called(progress)
    check_seed(seed)
    folder = Path(work)
    protocol = protocol_of(paper, data.name, data.split)
    of_images = IMAGE_MEASURES if data.protocol.task == "image-image" else ()
    measures = tuple(map(str, parse_measures([*protocol.measures, *data.protocol.measures, *of_images])))
    wanted = [one.strip() for one in banks.split(",")] if isinstance(banks, str) else banks
    settings = BenchSettings(
        paper or "",
        protocol,
        methods_of(methods, protocol),
        directions_of(directions, data),
        None if wanted is None else tuple(map(BankChoice.of, wanted)),
        measures,
        seeds_of(seeds, protocol),
        seed,
        threads,
    )
    known = known_banks(data, banks_from)
    sources = [name for name, given in (("encoder", encoder), ("embeddings", embeddings), ("matrix", matrix)) if given]
    check_one(sources, "encoder, embeddings and matrix")
    if bank_matrix and matrix is None:
        raise ArgumentError("bank_matrix", "is given without matrix", "give the matrix of the test queries too")
    if banks_from and matrix is not None:
        raise ArgumentError("banks_from", "is given with matrix, which needs no vectors", "give bank_matrix instead")
    vectors: VectorSource | None = None
    if matrix is not None:
        name = model or Path(os.fspath(matrix).partition("#")[0]).stem
    else:
        vectors = source_of(data, folder, encoder, embeddings, model, device)
        name = vectors.name
    # Nothing reads media files where vectors or a matrix are ready.
    notes = [note for note in data.notes if encoder or note not in data.media_notes]
    notes += [
        f"{one.name}: {note}" for one in banks_from for note in one.notes if encoder or note not in one.media_notes
    ]
    about: dict[str, object] = {
        "data_set": data.name,
        "split": data.split,
        "model": name,
        "source": sources[0],
        "task": data.protocol.task,
        "directions": list(data.protocol.directions),
        "official": {part: list(counts) for part, counts in known.counted.items()},
        "data_notes": notes,
        "notes": [],
    }
    path = result_path(folder, data.name, data.split, name)
    if matrix is not None or vectors is None:
        one_fold = [f"A matrix is of the first of {len(folds_of(data))} test parts."] if len(folds_of(data)) > 1 else []
        given = MatrixData.of(of_fold(known, TEST), cast("str", matrix), bank_matrix)
        about["scaled"] = scaled = given.is_scaled
        settings, own = _own_settings(settings, name, data.name, scaled)
        return _done(Running(given, settings, ResultFile(path, about), progress), [*notes, *one_fold, *own])
    settings, own = _own_settings(settings, name, data.name, scaled=False)
    notes += own
    folds, short = folds_there(data, vectors)
    if len(folds) < 2:
        source = BenchData(of_fold(known, TEST), vectors, progress)
        return _done(Running(source, settings, ResultFile(path, about), progress), [*notes, *short])
    return _run_folds(known, vectors, folds, settings, ResultFile(path, about), notes, progress)


def _own_settings(settings: BenchSettings, model: str, data_set: str, scaled: bool) -> tuple[BenchSettings, list[str]]:
    """Return the settings with those that the paper has for this model alone, and notes on them and on the scale."""
    protocol = settings.protocol
    of_model = protocol.scaled_for(model, data_set)
    own = {name: one for name, one in of_model.items() if name in settings.methods}
    others = [one for one in settings.methods if parse(one).name in TEMPERED and parse(one).name not in of_model]
    warned = [f"{', '.join(others)}: {ANOTHER_SCALE}"] if scaled and others else []
    if not own:
        return settings, warned
    specs = f"{' and '.join(one[0] for one in own.values())}, for similarities that the model itself multiplies"
    if scaled:
        protocol = replace(protocol, grids={**protocol.grids, **own})
        return replace(settings, protocol=protocol), [
            f"{model} has its own settings, as in the paper: {specs}.",
            *warned,
        ]
    remedy = "divide tau by the factor of the model, and name the method with it"
    return settings, [f"The paper has {model} with {specs}. Here are cosines, with the usual tau: {remedy}."]


def _done(running: Running, notes: Sequence[str]) -> BenchRun:
    running.run(notes)
    results = running.results
    counts = running.reused, running.measured
    paper, asked = running.settings.paper, tuple(running.asked)
    return BenchRun(results.path, results.content, paper, asked, *counts, running.only_raw)


def _run_folds(
    data: DataSet,
    vectors: VectorSource,
    folds: Sequence[str],
    settings: BenchSettings,
    results: ResultFile,
    notes: Sequence[str],
    progress: Progress | None,
) -> BenchRun:
    """Run every fold by itself, and write the means over them; what is chosen for the first serves all."""
    path, steps, runs = results.path, Steps(progress, 2 * len(folds)), list[BenchRun]()
    files: list[ResultFile] = []
    paths = [path.parent / FOLDS / f"{path.stem}-{fold}.json" for fold in folds]

    def running(place: int, look: Progress | None) -> Running:
        source = BenchData(of_fold(data, folds[place]), FoldVectors(vectors, folds[place]), look)
        return Running(source, settings, ResultFile(paths[place], results.content), look)

    # Means of other vectors must not outlive a run that is stopped; those of the same vectors, of any paper, must.
    removed: list[str] = []
    for place in range(len(folds)):
        one = running(place, steps.next())
        one.drop_other_vectors()
        removed += one.results.removal()
    with results.changing():
        results.content[CASES] = mean_cases(_read(paths), results.content[CASES])
    for place in range(len(folds)):
        one = running(place, steps.next())
        if runs:
            with one.results.changing():
                one.results.content[CHOICES] = runs[0].content[CHOICES]
        runs.append(_done(one, notes))
        files.append(one.results)
    for file in files:
        file.check_alone()
    every = len(folds_of(data))
    said = f"Every figure is the mean over {len(folds)} test parts" + ("" if len(folds) == every else f" of {every}")
    found = [*removed, *(note for one in runs for note in one.content["notes"])]

    def is_run(key: CaseKey) -> bool:
        return key.paper == settings.paper and key.direction in settings.directions

    with results.changing():
        results.content[CASES] = mean_cases(_read(paths), results.content[CASES], is_run)
        results.content["notes"] = list(dict.fromkeys([*found, f"{said}; intervals are of this mean."]))
    reused, measured = sum(one.reused for one in runs), sum(one.measured for one in runs)
    only_raw = all(one.only_raw for one in runs)
    return BenchRun(path, results.content, settings.paper, runs[0].asked, reused, measured, only_raw)


def _read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the results of every fold; one that has no file yet has no cases."""
    return [read_results(path) if path.is_file() else {CASES: []} for path in paths]
