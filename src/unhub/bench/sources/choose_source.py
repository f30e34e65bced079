"""Which source the vectors of a run come from, by what is given, and the banks that other data sets bring."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unhub.bench.sources.encoder_vectors import EncoderVectors
from unhub.bench.sources.ready_vectors import ReadyVectors
from unhub.bench.sources.vector_source import VectorSource
from unhub.datasets.dataset import DataSet
from unhub.embed.encoder import Encoder
from unhub.embed.encoder_loading import load_encoder
from unhub.errors import ArgumentError

EMBEDDINGS = "embeddings"  # folder of the work folder


def known_banks(data: DataSet, banks_from: Sequence[DataSet]) -> DataSet:
    """Return a data set with the training parts of others among its banks, and their official counts, by name."""
    for one in banks_from:
        if "train" not in one.parts:
            problem = f"has {one.name}, and its split {one.split} has no part train here"
            raise ArgumentError("banks_from", problem, "fetch its training part, or leave it out")
    others = {f"{one.name}/train": one.parts["train"] for one in banks_from}
    counted = {f"{one.name}/train": one.counted["train"] for one in banks_from if "train" in one.counted}
    return replace(data, banks={**data.banks, **others}, counted={**data.counted, **counted})


def source_of(
    data: DataSet,
    work: Path,
    encoder: str | os.PathLike[str] | Encoder | None,
    embeddings: str | os.PathLike[str] | None,
    model: str | None,
    device: str | None,
) -> VectorSource:
    """Return where the vectors come from: ready files, or an encoder whose work is kept in the work folder."""
    given = (("encoder", encoder), ("embeddings", embeddings))
    check_one([name for name, one in given if one], "encoder and embeddings")
    if embeddings is not None:
        return ReadyVectors.of(embeddings, model)
    loaded = encoder if isinstance(encoder, Encoder) else _loaded(str(encoder), device)
    return EncoderVectors(loaded, work / EMBEDDINGS, f"{data.name}-{data.split}", model or loaded.identity["name"])


def check_one(given: Sequence[str], known: str) -> None:
    """Check that vectors come from one place."""
    if len(given) != 1:
        problem = f"and others are given: {', '.join(given)}" if given else "and what could stand for it are absent"
        raise ArgumentError("encoder", problem, f"give one of {known}")


def _loaded(encoder: str, device: str | None) -> Encoder:
    """Load an encoder; here `model` is the name in tables."""
    try:
        return load_encoder(encoder, device=device)
    except ArgumentError as error:
        raise error.of("encoder") if error.name == "model" else error from None
