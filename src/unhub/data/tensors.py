"""Tensors: rows of torch, or of any library with DLPack, on a processor or on a device, with or without gradients."""

from __future__ import annotations

import sys
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unhub.errors import ArgumentError, optional

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
    """Return a tensor as what numpy can read: an array that shares its memory, or TensorRows; others as they are."""
    torch: Any = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(torch, value, name)
    if isinstance(value, np.ndarray | TensorRows) or not hasattr(value, "__dlpack__"):
        return value
    if cast("Any", value).__dlpack_device__()[0] == HOST_DEVICE:
        try:
            return np.from_dlpack(cast("Any", value))
        except (BufferError, RuntimeError, TypeError):  # a type that DLPack or numpy does not have, such as bfloat16
            if hasattr(value, "__array__"):
                return value
    torch = optional("torch", "train", f"{name}, a {type(value).__name__} that numpy cannot read,")
    return _of_torch(torch, torch.from_dlpack(value), name)


def _of_torch(torch: Any, tensor: Any, name: str) -> object:
    if tensor.layout != torch.strided:
        raise ArgumentError(name, f"is a tensor of layout {tensor.layout}", "make it dense with to_dense()")
    tensor = tensor.detach()
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise ArgumentError(name, f"must hold real numbers (float16, float32 or float64), got {tensor.dtype}")
    if tensor.device.type == "meta":
        raise ArgumentError(name, "is a tensor on the device 'meta', which holds no numbers", "load it first")
    if tensor.device.type == "cpu" and tensor.dtype != torch.bfloat16:
        return tensor.resolve_neg().numpy()
    return TensorRows(tensor.contiguous())
