"""A model on the command line: it encodes texts, and items unless `unhub multi encode` did so before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from unhub.data.vectors import Vectors
    from unhub.model import Model

EncodedItems: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--encoded-items",
        help="The items are what `unhub multi encode` wrote; the way to use a correction with --model.",
    ),
]


def check_combinations(names: Iterable[str]) -> None:
    """Refuse heads that are trained by name: their weights are in a file."""
    from unhub.combine import COMBINATIONS
    from unhub.model.heads import HEADS

    for name in names:
        if name in HEADS and name not in COMBINATIONS:
            raise ValueError(
                f"--combine: {name} is a head with trained weights; give the file of `unhub multi train --head {name}` "
                "with --model"
            )


def encode(
    model: Model | None, texts: Vectors, name: str, items: Vectors, encoded_items: bool
) -> tuple[Vectors, Vectors]:
    """Return texts and items in the space of the model, if there is one; errors call the texts `name`."""
    if model is None:
        if encoded_items:
            raise ValueError("--encoded-items: there is no --model in whose space they are")
        return texts, items
    encoded = model.towers.text.encode(texts, name)
    if not encoded_items:
        return encoded, model.encode_items(items)
    if items.dimensions != model.dimensions:
        raise ValueError(
            f"--encoded-items: the items have {items.dimensions} dimensions, the space of --model {model.dimensions}; "
            "give what `unhub multi encode` wrote"
        )
    return encoded, items


@contextmanager
def corrected_items(encoded_here: bool) -> Iterator[None]:
    """Say what to do where items that were encoded here are not, to the last bit, those a correction was fitted on."""
    from unhub.matching import OtherContents

    try:
        yield
    except OtherContents as error:
        if not encoded_here:
            raise
        raise ValueError(
            f"--model: encoding rounds a little differently from run to run, and a correction knows its very items: "
            f"give the rows that it was fitted on, which `unhub multi encode` wrote, with --encoded-items ({error})"
        ) from error
