"""Official annotation files, which are not part of the project: a test that reads them skips where they are absent."""

import os
from pathlib import Path

import pytest


def folder(name: str) -> Path:
    """Return a data set's folder in $UNHUB_DATA, or in ../shared/data beside the checkout, or skip the running test."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    found = Path(os.environ.get("UNHUB_DATA") or beside) / "annotations" / name
    if not found.is_dir():
        pytest.skip("annotations not found: set UNHUB_DATA to the folder that holds annotations/")
    return found
