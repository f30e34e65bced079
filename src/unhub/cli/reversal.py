"""A reversed evaluation, in which the items ask and the queries answer, told in the words of the options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unhub.cli.errors import QUOTED

if TYPE_CHECKING:
    from unhub.correction import Correction
    from unhub.data.vectors import Vectors

OTHER = {
    "an item": "a query",
    "a query": "an item",
    "items": "queries",
    "queries": "items",
    "item": "query",
    "query": "item",
}


def turned(text: str) -> str:
    """Return what the library says of its queries as said of the items of the command, and the other way round."""
    return re.sub(
        rf"{QUOTED}|(?<![\w./])(?:{'|'.join(OTHER)})(?![\w/]|\.\w)", lambda match: OTHER.get(match[0], match[0]), text
    )


@contextmanager
def turning(reverse: bool) -> Iterator[None]:
    """Blame the option that was given for what goes wrong."""
    try:
        yield
    except ValueError as error:
        if not reverse:
            raise
        raise ValueError(turned(str(error))) from error


def check_reversed(saved: Mapping[str, Correction], searched: Vectors, queries: Path, threads: int | None) -> None:
    """Check that corrections were fitted on the queries, which are searched where the items ask."""
    from unhub.matching import locate

    for path, correction in saved.items():
        try:
            locate(searched, correction, threads)
        except ValueError as error:
            raise ValueError(
                f"--correction: {path} was fitted on other rows than those of --queries, which are what --reverse "
                f"searches: fit one with `unhub fit --items {queries}` and a --bank of past items "
                f"({turned(str(error))})"
            ) from error
