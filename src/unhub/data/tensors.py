"""Tensors: rows of torch, or of any library with DLPack, on a processor or on a device, with or without gradients."""

from __future__ import annotations

import sys
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unhub.errors import ArgumentError, optional

# Of torch: the types whose numbers are read as they are. Of those below 16 bits, torch itself can do little.
KNOWN_TYPES = ("float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64")
HOST_DEVICE = 1  # DLPack's number of the processor's memory


class Exchangeable(Protocol):
    """An array that other libraries can read where it is, by DLPack: of torch, JAX, CuPy and others."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class TensorRows:
    """The rows of a torch tensor that numpy cannot see: on a device, or in bfloat16; read here block by block."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.shape: tuple[int, ...] = tuple(tensor.shape)
        self.dtype: np.dtype[np.generic] = np.dtype(np.float32)

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        return cast("NDArray[np.generic]", self.tensor[key].float().cpu().numpy())

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return np.asarray(self[:], dtype)

    def gather(self, positions: NDArray[np.int64]) -> Any:
        """Return the rows at these positions, in this order, as a tensor where they are."""
        torch: Any = sys.modules["torch"]
        return self.tensor[torch.from_numpy(np.ascontiguousarray(positions)).to(self.tensor.device)]

    def take_rows(self, positions: NDArray[np.int64]) -> NDArray[np.generic]:
        """Copy the rows at these positions, in this order."""
        return cast("NDArray[np.generic]", self.gather(positions).float().cpu().numpy())


def as_host(value: object, name: str) -> object:
    """Return a tensor as what numpy can read: an array that shares its memory, or TensorRows; others as they are.

    A list of tensors is one tensor, of which they are the rows.
    """
    torch: Any = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(torch, value, name)
    if torch is not None and isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor):
        return _of_torch(torch, _stacked(torch, value, name), name)
    if isinstance(value, np.ndarray | TensorRows) or not hasattr(value, "__dlpack__"):
        return value
    if cast("Any", value).__dlpack_device__()[0] == HOST_DEVICE:
        try:
            return np.from_dlpack(cast("Any", value))
        except (BufferError, RuntimeError, TypeError):  # a type that DLPack or numpy does not have, such as bfloat16
            if hasattr(value, "__array__"):
                return value
    kind = type(value).__name__
    torch = optional("torch", "train", f"{name}, a {kind} that numpy cannot read,")
    try:
        tensor = torch.from_dlpack(value)
    except (AssertionError, BufferError, RuntimeError, TypeError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        problem = f"is of type {kind}, which torch cannot read where it is ({why})"
        raise ArgumentError(name, problem, "copy it to the processor, for example with numpy.asarray") from None
    return _of_torch(torch, tensor, name)


def _stacked(torch: Any, rows: list[Any] | tuple[Any, ...], name: str) -> Any:
    try:
        with torch.no_grad():
            return torch.stack(rows)
    except (RuntimeError, TypeError) as error:
        why = str(error).strip().partition("\n")[0]
        problem = f"is a {type(rows).__name__} of tensors that cannot be stacked as rows ({why})"
        raise ArgumentError(name, problem, "give rows of one length on one device; torch.cat joins batches") from None


def _of_torch(torch: Any, tensor: Any, name: str) -> object:
    if tensor.is_nested:
        raise ArgumentError(name, "is a nested tensor, whose rows differ in length", "give rows of one length")
    if tensor.layout != torch.strided:
        raise ArgumentError(name, f"is a tensor of layout {tensor.layout}", "make it dense with to_dense()")
    tensor = tensor.detach()
    if tensor.dtype not in {getattr(torch, known) for known in KNOWN_TYPES}:
        raise ArgumentError(name, f"must hold real numbers (float16, float32 or float64), got {tensor.dtype}")
    if tensor.device.type == "meta":
        raise ArgumentError(name, "is a tensor on the device 'meta', which holds no numbers", "load it first")
    if tensor.device.type == "cpu" and tensor.dtype != torch.bfloat16:
        return tensor.resolve_neg().numpy()
    return TensorRows(tensor.contiguous())
