"""Loading a model by its name: quietly, with errors that name it, on a device that torch can use."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from unhub.embed.encoder import first_line, torch_module
from unhub.errors import ArgumentError, optional


def transformers_module() -> ModuleType:
    """Return transformers."""
    return optional("transformers", "embed", "embedding")


def transformers_version() -> tuple[int, int]:
    """Return the version of transformers."""
    major, minor, *_ = transformers_module().__version__.split(".")
    return int(major), int(minor)


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Load without messages, with download bars only on a terminal; errors name the model."""
    from safetensors import SafetensorError

    told = transformers_module().utils.logging
    before, bars = told.get_verbosity(), told.is_progress_bar_enabled()
    told.set_verbosity_error()
    if not sys.stderr.isatty():
        told.disable_progress_bar()
    hub = logging.getLogger("huggingface_hub")  # which logs every retry
    level = hub.level
    hub.setLevel(logging.ERROR)
    try:
        yield
    except ImportError as error:  # of a library, or by transformers of a model whose libraries do not load
        if reason := unfit_torchvision():
            raise ImportError(f"{name!r} cannot be loaded: {reason}") from error
        raise
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise ArgumentError("model", f"{name!r} cannot be loaded: {first_line(error)}") from error
    finally:
        hub.setLevel(level)
        told.set_verbosity(before)
        if bars:
            told.enable_progress_bar()


def unfit_torchvision() -> str:
    """Say what to do if torchvision is installed for another build of torch; empty if it is not there or can be used.

    transformers and open_clip import it where it is installed, and then their models cannot be loaded.
    """
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return ""
    except (RuntimeError, ImportError, OSError) as error:
        fault = f"torchvision does not fit the torch that is installed ({first_line(error)})"
        return f"{fault}; install torchvision from the index that torch came from"
    return ""


def choose_device(device: str | None) -> str:
    """Return the device that is asked for, by default a GPU if there is one."""
    torch = torch_module()
    if device is not None:
        try:
            return str(torch.device(device))
        except RuntimeError as error:
            raise ArgumentError(
                "device", f"must be one that torch can use here, got {device!r} ({first_line(error)})"
            ) from error
    found = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    return next((name for name, is_there in found.items() if is_there()), "cpu")


@contextmanager
def placing(device: str) -> Iterator[None]:
    """Move a model to a device; an error names the device."""
    try:
        yield
    except (RuntimeError, AssertionError) as error:
        raise ArgumentError("device", f"{device!r} cannot be used here: {first_line(error)}") from error
