"""Run a data set: check what is asked, find the vectors, and return the results with their table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unhub.bench.encoder_vectors import EncoderVectors
from unhub.bench.given_matrix import MatrixData
from unhub.bench.problems import BenchData, BenchSource, directions_of
from unhub.bench.protocols import BankChoice, methods_of, protocol_of, seeds_of
from unhub.bench.ready_vectors import ReadyVectors
from unhub.bench.result_file import CASES, EMBEDDINGS, ResultFile, interval_of, result_path
from unhub.bench.running import BenchSettings, Running
from unhub.compute.workers import Progress
from unhub.datasets.dataset import DataSet
from unhub.embed.encoder import Encoder
from unhub.embed.encoder_loading import load_encoder
from unhub.errors import ArgumentError, check_seed
from unhub.evaluation.inputs import RAW
from unhub.evaluation.measures import parse_measures

IMAGE_MEASURES = ("mAP@R",)  # of images that ask for images, beside those of the papers


@dataclass(frozen=True, eq=False)
class BenchRun:
    """The results of a data set with one model, as they are in `path`.

    reused: how many cases were there before. measured: how many are new.
    """

    path: Path
    content: dict[str, Any]
    paper: str
    reused: int
    measured: int

    @property
    def cases(self) -> list[dict[str, Any]]:
        """Every method, bank and direction by this protocol, with its measures, intervals and gains over raw."""
        return [case for case in self.content[CASES] if case["paper"] == self.paper]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, and why."""
        return tuple(self.content["notes"])

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions that were measured."""
        return tuple(dict.fromkeys(case["direction"] for case in self.cases))

    def raw(self, direction: str) -> dict[str, Any]:
        """Return the case of the raw ranking in a direction."""
        return next(one for one in self.cases if (one["direction"], one["method"]) == (direction, RAW))

    def cells(self, direction: str) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text for a direction: measures, the gain by the first one, skewness."""
        cases = [case for case in self.cases if case["direction"] == direction]
        measures = list(self.raw(direction)["values"])
        first = parse_measures(measures[0])[0]
        heads = ["setting", "bank", *measures, first.gain, "skewness"]
        return heads, [_line(case, measures) for case in cases]


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
    progress: Progress | None = None,
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
    check_seed(seed)
    folder = Path(work)
    protocol = protocol_of(paper, data.name, data.split)
    of_images = IMAGE_MEASURES if data.protocol.task == "image-image" else ()
    measures = tuple(map(str, parse_measures([*protocol.measures, *data.protocol.measures, *of_images])))
    wanted = banks.split(",") if isinstance(banks, str) else banks
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
    others = {f"{one.name}/train": one.parts["train"] for one in banks_from if "train" in one.parts}
    known = replace(data, banks={**data.banks, **others})
    sources = [name for name, given in (("encoder", encoder), ("embeddings", embeddings), ("matrix", matrix)) if given]
    if len(sources) != 1:
        raise ArgumentError(
            "encoder",
            "embeddings and matrix are all absent" if not sources else f"and others are given: {', '.join(sources)}",
            "give one of encoder, embeddings and matrix",
        )
    if bank_matrix and matrix is None:
        raise ArgumentError("bank_matrix", "is given without matrix", "give the matrix of the test queries too")
    source: BenchSource
    if matrix is not None:
        source, name = (
            MatrixData.of(known, matrix, bank_matrix),
            model or Path(os.fspath(matrix).partition("#")[0]).stem,
        )
    elif embeddings is not None:
        found = ReadyVectors.of(embeddings, model)
        source, name = BenchData(known, found, progress), found.name
    else:
        loaded = encoder if isinstance(encoder, Encoder) else load_encoder(str(encoder), device=device)
        name = model or loaded.identity["name"]
        place = folder / EMBEDDINGS
        source = BenchData(known, EncoderVectors(loaded, place, f"{data.name}-{data.split}", name), progress)
    about = {
        "data_set": data.name,
        "split": data.split,
        "model": name,
        "source": sources[0],
        "task": data.protocol.task,
        "directions": list(data.protocol.directions),
        "official": {part: list(counts) for part, counts in data.counted.items()},
        "data_notes": list(data.notes),
        "notes": [],
    }
    results = ResultFile(result_path(folder, data.name, data.split, name), about)
    running = Running(source, settings, results, progress)
    # Nothing reads media files where vectors or a matrix are ready.
    running.run([note for note in data.notes if encoder or note not in data.media_notes])
    return BenchRun(results.path, results.content, settings.paper, running.reused, running.measured)


def _line(case: Mapping[str, Any], measures: Sequence[str]) -> list[str]:
    """Return a case as text; an interval for the first measure and for the gain alone, to keep the table narrow."""
    values, gain = case["values"], case["gains"].get(measures[0])
    together = f" ({case['together']} queries)" if case["together"] > 1 else ""
    drawn = f" (seed {case['seed']})" if BankChoice.of(case["bank"] or "none").drawn else ""
    hubness = case.get("hubness")
    return [
        f"{case['spec']}{together}",
        f"{case['bank']}{drawn}",
        *(str(interval_of(values[name])) if name == measures[0] else _number(values, name) for name in measures),
        f"{interval_of(gain):+.2f}" if gain else "",
        f"{hubness['skewness']:.2f}" if hubness else "",
    ]


def _number(values: Mapping[str, Any], name: str) -> str:
    return f"{values[name]['value']:.2f}" if name in values else ""
