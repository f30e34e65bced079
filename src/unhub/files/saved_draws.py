"""Draws on disk: one .npz file of plain numbers and text."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unhub.atomic import replacing
from unhub.data.captions import Captions
from unhub.data.draws import Drawn, Draws
from unhub.data.ids import as_ids
from unhub.data.ragged import Positions
from unhub.files.container import DRAWS_MARK, check_replaceable
from unhub.files.numpy_files import DAMAGE, is_npy, load_arrays

FORMAT = 2
HEAD = ("text_ids", "item_ids", "caption_items", "caption_texts", "sizes", "count", "seed")
PARTS = ("items", "starts", "texts", "whole", "short")  # of each size, as `5.items`

Arrays = Mapping[str, NDArray[np.generic]]


def write_draws(draws: Draws, path: str | os.PathLike[str]) -> None:
    """Write draws to one file of any name; the old file stays until the new one is complete.

    A saved file and an empty one are replaced. Any other existing file is kept, and is an error.
    """
    check_replaceable(path)
    overwrite_draws(draws, path)


def overwrite_draws(draws: Draws, path: str | os.PathLike[str]) -> None:
    """Write draws to one file, and replace any existing one."""
    arrays: dict[str, NDArray[np.generic]] = {
        DRAWS_MARK: np.array(FORMAT),
        "text_ids": draws.text_ids,
        "item_ids": draws.item_ids,
        "caption_items": draws.captions.described,
        "caption_texts": draws.captions.texts,
        "sizes": np.array(list(draws.sizes), np.int64),
        "count": np.array(draws.count),
        "seed": np.array(draws.seed),
    }
    for size, one in draws.sizes.items():
        arrays |= {f"{size}.{part}": np.asarray(getattr(one, part)) for part in PARTS}
    with replacing(path) as temporary, temporary.open("wb") as file:
        write: Callable[..., None] = np.savez_compressed  # whose types take our arrays for its options
        write(file, **arrays)


def read_draws(path: str | os.PathLike[str]) -> Draws:
    """Read draws; a file without draws, or a damaged one, is a ValueError."""
    path = Path(path)
    arrays = {} if is_npy(path) else load_arrays(path, "a file of draws")[1]
    mark = arrays.get(DRAWS_MARK)
    if mark is None or mark.shape != () or mark.dtype.kind not in "iu":
        raise ValueError(f"{path}: holds no draws of texts")
    if int(mark) != FORMAT:
        age, remedy = ("a newer", "upgrade unhub") if int(mark) > FORMAT else ("an older", "draw again")
        raise ValueError(f"{path}: written by {age} unhub (format {int(mark)}, this one reads {FORMAT}): {remedy}")
    try:
        texts, items, caption_items, caption_texts, sizes, count, seed = (arrays[name] for name in HEAD)
        captions = _captions(caption_items, caption_texts, len(texts), len(items))
        return Draws(
            as_ids(texts, len(texts), "text_ids"),
            as_ids(items, len(items), "item_ids"),
            captions,
            {int(size): _drawn(arrays, int(size), len(texts), len(items), captions) for size in sizes},
            int(count),
            int(seed),
        )
    except DAMAGE as error:
        raise ValueError(f"{path}: damaged, its draws do not fit together ({error}); write them again") from None


def _captions(items: NDArray[np.generic], texts: NDArray[np.generic], text_count: int, item_count: int) -> Captions:
    owners, describing = _whole(items), _whole(texts)
    sound = owners.ndim == 1 and owners.shape == describing.shape and len(owners) > 0
    if not sound or not (_under(owners, item_count) and _under(describing, text_count)):
        raise ValueError("the captions")
    return Captions.paired(owners, describing)


def _drawn(arrays: Arrays, size: int, text_count: int, item_count: int, captions: Captions) -> Drawn:
    items, starts, texts, whole, short = (arrays[f"{size}.{part}"] for part in PARTS)
    sound = (
        items.shape == whole.shape
        and starts.shape == (len(items) + 1,)
        and texts.shape == (starts[-1], size)
        and (len(items) == 0 or (starts[0] == 0 and np.all(np.diff(starts) > 0)))
        and _rise(items, item_count)
        and _rise(texts, text_count)
    )
    if not sound:
        raise ValueError(f"the sets of size {size}")
    found = Drawn(_whole(starts), _whole(items), _whole(texts), whole.astype(np.bool_), int(short))
    keys = found.items[found.owners][:, None] * text_count + found.texts
    if not np.isin(keys, captions.keys(text_count)).all():
        raise ValueError(f"the sets of size {size}, which are not of an item's captions")
    return found


def _rise(positions: NDArray[np.generic], count: int) -> bool:
    """Return whether these are positions under a count, rising along the last axis."""
    numbers = _whole(positions)
    return bool(np.all(np.diff(numbers) > 0)) and _under(numbers, count)


def _under(positions: Positions, count: int) -> bool:
    return bool(np.all((positions >= 0) & (positions < count)))


def _whole(array: NDArray[np.generic]) -> Positions:
    if array.dtype.kind not in "iu":
        raise ValueError(f"positions of {array.dtype}")
    return array.astype(np.int64)
