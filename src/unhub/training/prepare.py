"""Before and after the loop: check the data, build towers and head, and export the model that numpy runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from unhub.arrays import unit
from unhub.data.captions import Captions
from unhub.data.fingerprint import inspect
from unhub.data.relevance import RelevanceLike, Truth, as_relevance
from unhub.data.vectors import Vectors, VectorsLike, as_vectors
from unhub.errors import ArgumentError
from unhub.model import Model, Preparation, Towers, Training
from unhub.training.heads import HEADS
from unhub.training.heads import exported as exported_head
from unhub.training.network import Data, Network
from unhub.training.rows import TrainingRows, as_rows
from unhub.training.settings import Settings
from unhub.training.towers import TOWERS, TowerSide, encoded
from unhub.training.towers import exported as exported_tower


def read(
    texts: VectorsLike, items: VectorsLike, relevance: RelevanceLike, settings: Settings, validation: bool = False
) -> Data:
    """Check texts and items and find the captions of each item; errors and notes say which data are for validation."""
    prefix = "validation_" if validation else ""
    asked, gallery = (
        _rows(rows, f"{prefix}{name}", settings.towers) for name, rows in (("texts", texts), ("items", items))
    )
    try:
        table = as_relevance(relevance)
        truth = table.against(asked.ids, gallery.ids)
    except ArgumentError as error:
        raise error.of(f"{prefix}{error.name}") from None
    captions = Captions.of(truth)
    if len(gallery if validation else captions) < 2:
        raise ArgumentError(f"{prefix}items", "must be at least two items with captions, got one")
    return Data(
        asked, gallery, captions, left_out(captions, truth, len(table), len(gallery), settings.queries, validation)
    )


def left_out(
    captions: Captions, truth: Truth, pairs: int, items: int, queries: int, validation: bool
) -> tuple[str, ...]:
    """Say how many pairs, items and captions are not used, and how many items have fewer captions than `queries`.

    In validation an item without a caption can still be returned, wrongly.
    """
    of = " of validation" if validation else ""
    lost, short = pairs - len(truth.positions), int((captions.counts < queries).sum())
    silent, stray = items - len(captions), len(truth) - len(truth.answered)
    silent_words = "are not searched for, but can be returned" if validation else "are left out"
    notes = {
        f"{lost:,} of {pairs:,} pairs{of} name a caption or an item that was not given, and are left out": lost,
        f"{silent:,} of {items:,} items{of} have no caption and {silent_words}": silent,
        f"{stray:,} of {len(truth):,} captions{of} describe no item and are left out": stray,
        f"{short:,} of {len(captions):,} items{of} have fewer than {queries} captions; all of theirs are used": short,
    }
    return tuple(note for note, count in notes.items() if count)


def _rows(rows: VectorsLike, name: str, kind: str) -> TrainingRows:
    if kind == "modules":
        return as_rows(rows, name)
    vectors = as_vectors(rows, name)
    inspect(vectors, name, "cosine" if kind == "none" else "dot")
    return TrainingRows(vectors.ids, vectors.rows)


def check_alike(data: Data, judged: Data | None, kind: str) -> None:
    """Raise if rows that must have the same shape do not."""
    shapes = {"texts": data.texts.source.shape[1:], "items": data.items.source.shape[1:]}
    if kind == "none" and shapes["texts"] != shapes["items"]:
        raise ArgumentError(
            "texts",
            f"has {shapes['texts'][0]} dimensions, the items {shapes['items'][0]}",
            "use 'linear' or 'mlp' towers, which map both into one space",
        )
    if judged is None or kind == "modules":
        return
    for name, side in (("texts", judged.texts), ("items", judged.items)):
        if side.source.shape[1:] != shapes[name]:
            raise ArgumentError(
                f"validation_{name}", f"has {side.source.shape[1]} dimensions, {name} has {shapes[name][0]}"
            )


def describe(data: Data, judged: Data | None) -> dict[str, dict[str, object]]:
    """Return the sizes and hashes of the data to train and validate on, for JSON."""
    parts = {"training": data} | ({} if judged is None else {"validation": judged})
    return {
        name: {
            "items": len(one.captions),
            "captions": len(one.captions.texts),
            "texts_hash": one.texts.digest(one.captions.texts),
            "items_hash": one.items.digest(one.captions.items if one is data else np.arange(len(one.items))),
        }
        for name, one in parts.items()
    }


def sameness(data: Data, described: Mapping[str, Mapping[str, object]]) -> tuple[str, ...]:
    """Return a note if the texts or items of validation are those trained on, by the hashes in `described`."""
    if "validation" not in described:
        return ()
    judged, trained = described["validation"], described["training"]
    return tuple(
        f"the {name} of validation are those trained on: R@1 on them says nothing about other items"
        for name, rows in (("texts", data.texts), ("items", data.items))
        if rows.held and judged[f"{name}_hash"] == trained[f"{name}_hash"]  # other rows are hashed only by their ids
    )


def shapes_of(network: Network) -> dict[str, list[int]]:
    """Return the shape of every weight by name, for JSON."""
    return {name: list(weight.shape) for name, weight in network.modules.state_dict().items()}


def build(
    data: Data, settings: Settings, modules: tuple[nn.Module, nn.Module] | None, device: torch.device
) -> tuple[Network, Settings]:
    """Return the network with its first weights, and the settings with the dimensions of the joint space."""
    used = {"text": (data.texts, np.unique(data.captions.texts)), "item": (data.items, data.captions.items)}
    if settings.towers == "none":
        settings = replace(settings, dimensions=data.texts.source.shape[1])
    sides = []
    for number, (rows, positions) in enumerate(used.values()):
        if modules is not None:
            sides.append(TowerSide(modules[number].to(device), None, device))
            continue
        tower = TOWERS[settings.towers](rows.source.shape[1], settings).to(device)
        if settings.towers == "none":
            sides.append(TowerSide(tower, unit, device))
        else:
            used_rows = Vectors(rows.ids, rows.source).gather(positions)
            sides.append(TowerSide(tower, Preparation.of(used_rows, settings.root), device))
    if modules is not None:
        widths = [
            encoded(side, TrainingRows(rows.ids[:1], rows.take(np.arange(1)))).shape[1]
            for side, (rows, _) in zip(sides, used.values(), strict=True)
        ]
        if widths[0] != widths[1]:
            raise ArgumentError(
                "towers",
                f"do not match: the text module returns {widths[0]} dimensions, the item module {widths[1]}",
                "make both return the same number",
            )
        settings = replace(settings, dimensions=widths[0])
    network = Network.of(sides[0], sides[1], HEADS[settings.head](settings.dimensions))
    if not any(weight.requires_grad for weight in network.modules.parameters()):
        raise ArgumentError("head", f"{settings.head!r} with these towers has nothing to learn", "use it untrained")
    return network, settings


def export(network: Network, data: Data, settings: Settings, training: Training) -> Model:
    """Return the model that numpy runs; towers that are the user's own modules stay with torch."""
    network.modules.eval()
    towers = [
        exported_tower(side, settings.towers, rows.source.shape[1], settings.dimensions)
        for side, rows in ((network.text, data.texts), (network.item, data.items))
    ]
    head = exported_head(network.head, settings.head, settings.dimensions)
    return Model(Towers(towers[0], towers[1]), head, training)


def device_of(name: str | None) -> torch.device:
    """Return the device of this name; by default a graphics card if there is one, else the CPU."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ArgumentError("device", f"must be one that torch can use here, got {name!r} ({error})") from None
    return device


def mixes(device: torch.device) -> bool:
    """Return whether the device computes in bfloat16 natively."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


@contextmanager
def own_randomness(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch's generators inside, and restore them afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
