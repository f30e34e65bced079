"""train: towers and a head from items and their captions (Wang et al. 2022); torch is imported when it is called."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unhub.compute.workers import thread_count
from unhub.data.relevance import RelevanceLike
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, optional
from unhub.files.container import unhub_version
from unhub.model import TOWERS, Model, Training
from unhub.training.settings import Rates, Settings, rates_of

if TYPE_CHECKING:
    from torch import nn

    from unhub.training.loop import Watch

Truths: TypeAlias = tuple[VectorsLike, VectorsLike, RelevanceLike]
Pair: TypeAlias = "tuple[nn.Module, nn.Module]"


def train(
    texts: VectorsLike,
    items: VectorsLike,
    relevance: RelevanceLike,
    head: str = "cg-wf",
    queries: int = 5,
    combination: bool = True,
    towers: str | Pair = "mlp",
    validation: Truths | None = None,
    seed: int = 0,
    *,
    rate: Rates | None = None,
    dimensions: int = 256,
    hidden: int = 512,
    dropout: float = 0.0,
    root: bool | None = None,
    head_rate: float | None = None,
    epochs: int = 30,
    batch: int = 48,
    warmup: float = 5 / 30,
    temperature: float = 0.05,
    weight_decay: float = 0.01,
    patience: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    device: str | None = None,
    mixed: bool | None = None,
    threads: int | None = None,
    progress: Watch | None = None,
) -> Model:
    """Train towers that bring captions close to their items, and a head that turns several queries into one.

    `relevance` says which text describes which item, by id. In each step an item comes with `queries` of its captions;
    with `combination`, with one or with `queries` of them. `towers` are `linear`, `mlp`, `none` (the vectors are in one
    space already, and only the head is trained), or a pair of modules for texts and items, which are called on batches
    of rows of any shape and trained in place. `validation` is (texts, items, relevance) of other items: the best epoch
    and the best of several rates, by default three, are chosen by R@1 on it. Without it the rate is 0.001 by default
    and the last epoch is kept. A rate whose loss or vectors stop being finite has failed, which `notes` says; it is an
    error if all fail. The other settings are those of `Settings`.

    A `checkpoint` is written after every epoch; `resume` continues from it, with the same result bit for bit on as many
    `threads`. `mixed` computes the towers in bfloat16, by default on a graphics card that has it. `progress` is called
    with a Step after every step.
    """
    torch = optional("torch", "train", "training")
    from unhub.training import prepare
    from unhub.training.checkpoints import State, open_checkpoint
    from unhub.training.loop import best_of, learn

    kind, modules = _kind_of(towers)
    if modules is not None and rate is None:
        raise ArgumentError("rate", "must be given for modules of your own", "try 3e-6 for a whole CLIP")
    rates, notes = rates_of(rate, validation is not None)
    if patience is not None and validation is None:
        raise ArgumentError("patience", "needs validation, to decide which epoch is better", "give validation data too")
    where = prepare.device_of(device)
    settings = Settings(
        head=head,
        queries=queries,
        combination=combination,
        towers=kind,
        seed=seed,
        rates=rates,
        dimensions=dimensions,
        hidden=hidden,
        dropout=dropout,
        root=root,
        head_rate=head_rate,
        epochs=epochs,
        batch=batch,
        warmup=warmup,
        temperature=temperature,
        weight_decay=weight_decay,
        patience=patience,
        mixed=prepare.mixes(where) if mixed is None else mixed,
    )
    data = prepare.read(texts, items, relevance, settings)
    judged = None if validation is None else prepare.read(*validation, settings, validation=True)
    prepare.check_alike(data, judged, kind)
    described = prepare.describe(data, judged)
    held = torch.get_num_threads()
    try:
        torch.set_num_threads(thread_count(threads))
        with prepare.own_randomness(where, settings.seed):
            network, settings = prepare.build(data, settings, modules, where)
            state, kept = State(), None
            if checkpoint is not None:
                key = {**asdict(settings), **described, "weights": prepare.shapes_of(network)}
                kept, state = open_checkpoint(Path(checkpoint), key, resume)
            weights, tried = learn(network, data, judged, settings, state, kept, progress)
            network.modules.load_state_dict(weights)
    finally:
        torch.set_num_threads(held)
    best = best_of(tried)
    assert best is not None  # else `learn` has raised
    failed = tuple(f"rate {one.rate:g} failed: {one.failed}" for one in tried if one.failed)
    left_out = (*data.notes, *(judged.notes if judged else ()))
    training = Training(
        settings={**asdict(settings), "rates": list(settings.rates)},  # for JSON
        data=described,
        versions={
            "unhub": unhub_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        tried=tuple(tried),
        rate=best.rate,
        notes=(*left_out, *prepare.sameness(data, described), *notes, *failed),
    )
    return prepare.export(network, data, settings, training)


def _kind_of(towers: str | Pair) -> tuple[str, Pair | None]:
    """Return the name of the towers, and the modules if they are the user's own."""
    refused = ArgumentError("towers", f"must be one of {', '.join(TOWERS)} or a pair of modules, got {towers!r}")
    if isinstance(towers, str):
        if towers not in TOWERS:
            raise refused
        return towers, None
    nn = optional("torch.nn", "train", "training")
    given: object = towers  # whatever a caller without types may give
    pair = tuple(given) if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(one, nn.Module) for one in pair):
        raise refused
    return "modules", (pair[0], pair[1])
