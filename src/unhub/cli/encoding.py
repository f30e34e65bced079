"""A model on the command line: it encodes texts that are typed, and vectors unless `unhub multi encode` already did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from unhub.cli.display import echo
from unhub.cli.errors import argument
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.correction import Correction
    from unhub.data.vectors import Vectors
    from unhub.model import Model


def encode_texts(texts: Sequence[str], encoder: str, fitted: Correction, quiet: bool) -> Vectors:
    """Return the vectors of texts that were typed, by the encoder of this name; the ids are the texts."""
    import numpy as np

    from unhub.data.vectors import Vectors
    from unhub.embed.encoder_loading import load_encoder

    twice = next((one for at, one in enumerate(texts) if one in texts[:at]), None)
    if twice is not None or not all(one.strip() for one in texts):
        problem = "is empty" if twice is None else f"is given twice: {twice!r}"
        raise ArgumentError("--query", problem, "give each text once")
    with argument("--encoder", "model"):
        model = load_encoder(encoder)
        rows = model.texts(texts)
        wanted = fitted.source.dimensions
        if wanted is not None and rows.shape[1] != wanted:
            problem = f"gives vectors of {rows.shape[1]} dimensions, the items have {wanted}"
            raise ArgumentError("--encoder", problem, "name the one that the items were embedded with")
        long = 0 if quiet else model.count_long(texts)
    if long:
        echo(f"unhub: note: {long} of {len(texts)} texts were cut to what {encoder} reads", err=True)
    return Vectors(np.array(texts), rows)


def check_combinations(names: Iterable[str]) -> None:
    """Refuse trained heads by name: their weights are in a file."""
    from unhub.combine import COMBINATIONS
    from unhub.model.head_forward import HEADS

    for name in names:
        if name in HEADS and name not in COMBINATIONS:
            raise ArgumentError(
                "--combine",
                f"{name!r} is a head with trained weights",
                f"give --model, a file written by `unhub multi train --head {name}`",
            )


def encode(
    model: Model | None, texts: Vectors, name: str, items: Vectors, encoded_items: bool
) -> tuple[Vectors, Vectors]:
    """Return texts and items in the space of the model, if there is one; errors call the texts `name`."""
    if model is None:
        if encoded_items:
            raise ArgumentError("--encoded-items", "needs the model that encoded them", "give --model too")
        return texts, items
    encoded = model.towers.text.encode(texts, name)
    if not encoded_items:
        return encoded, model.encode_items(items)
    if items.dimensions != model.dimensions:
        raise ArgumentError(
            "--items",
            f"has {items.dimensions} dimensions, the space of --model {model.dimensions}",
            "give what `unhub multi encode` wrote, or leave out --encoded-items",
        )
    return encoded, items


@contextmanager
def corrected_items(encoded_here: bool) -> Iterator[None]:
    """Say what to do if items that were encoded here are not exactly those that a correction was fitted on."""
    from unhub.matching import OtherContents

    try:
        yield
    except OtherContents as error:
        if not encoded_here:
            raise
        raise ValueError(
            "--model: encoding rounds differently from run to run, and a correction fits only the rows it was fitted "
            f"on; give those rows, as `unhub multi encode` wrote them, with --encoded-items ({error})"
        ) from error
