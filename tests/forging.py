"""Saved files with other contents and a checksum that is right for them, as another program could write them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from unhub.files import container

Tensors = dict[str, NDArray[np.generic]]
Edit = Callable[[dict[str, Any], Tensors], object]


def forge(source: Path, target: Path, edit: Edit) -> Path:
    """Copy a saved file with its manifest and its tensors changed."""
    with safe_open(source, framework="numpy") as opened:
        manifest = json.loads(opened.metadata()["unhub"])
    tensors = load_file(source)
    edit(manifest, tensors)
    return write(target, json.dumps(manifest), tensors)


def write(target: Path, manifest: str, tensors: Tensors) -> Path:
    """Write a file of this manifest, whatever it says, and these tensors."""
    save_file(tensors, target, {"unhub": manifest, "checksum": container.checksum(manifest, tensors)})
    return target
