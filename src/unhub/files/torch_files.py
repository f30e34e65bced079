"""Reader of torch files (.pt, .pth): tensors and nothing else, so that no code in the file is run."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from unhub.data.vectors import Rows, Stacked
from unhub.errors import optional
from unhub.files.named_arrays import HeldArray, NamedArrays, pickled
from unhub.files.numpy_files import BFloat16, readable

KIND = "a torch file"
ZIP_START, PICKLE_START = b"PK\x03\x04", b"\x80"


def open_torch(path: Path) -> NamedArrays:
    """List the tensors of a file: one alone, or those of a dict or list, nested ones as `outer/inner`."""
    torch = optional("torch", "train", "reading torch files")
    tensors = dict(_tensors(torch, _load(torch, path), ""))

    def read(name: str) -> Rows:
        tensor = tensors[name].detach()
        if not held[name].is_numeric:
            raise ValueError(f"{path}: {name or 'it'} is {tensor.layout} of {tensor.dtype}, not plain real numbers")
        if tensor.dtype == torch.bfloat16:
            return Stacked([BFloat16(tensor.contiguous().view(torch.uint16).numpy())])
        return cast("Rows", tensor.numpy())

    plain = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
    whole = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    held = {
        name: HeldArray(tuple(tensor.shape), tensor.layout == torch.strided and tensor.dtype in (*plain, *whole))
        for name, tensor in tensors.items()
    }
    return NamedArrays(held, read)


def _load(torch: Any, path: Path) -> object:
    """Load a file weights-only: mapped in the form of torch 1.6 and later, read once in the older form."""
    with path.open("rb") as file:
        head = file.read(len(ZIP_START))
    in_parts, is_pickle = head == ZIP_START, head.startswith(PICKLE_START)
    try:
        with readable(path, KIND), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a pickle is of a protocol which torch would not have written
            return torch.load(path, map_location="cpu", weights_only=True, mmap=in_parts)
    except pickle.UnpicklingError:
        if in_parts or is_pickle:
            raise pickled(path, "more than tensors (numpy arrays, or objects of a program)") from None
        raise ValueError(f"{path}: truncated or not {KIND} of tensors") from None
    except AssertionError as error:  # of torch, about damaged bytes
        raise ValueError(f"{path}: truncated or not {KIND} of tensors ({error})") from None


def _tensors(torch: Any, held: object, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in dicts and lists with their names."""
    if isinstance(held, torch.Tensor):
        yield name, held
    elif isinstance(held, Mapping | list | tuple):
        for key, inside in held.items() if isinstance(held, Mapping) else enumerate(held):
            yield from _tensors(torch, inside, f"{name}/{key}" if name else str(key))
