"""The benchmark of repeats, on a tiny set of the form of the real one: every table is printed."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.test_benchmarks import run

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a Flickr8k of 60 pictures with three captions each, in two spaces."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "flickr8k").mkdir()
    images = random.normal(size=(60, 16))
    owner = np.repeat(np.arange(60), 3)
    for space in ("ridge", "vse_holdout"):
        np.save(folder / "flickr8k" / f"{space}_img.npy", images)
        np.save(folder / "flickr8k" / f"{space}_txt.npy", images[owner] + 0.8 * random.normal(size=(180, 16)))
    meta = {"split": ["test"] * 30 + ["bank"] * 30, "caption_image": owner.tolist()}
    (folder / "flickr8k" / "meta.json").write_text(json.dumps(meta))
    return folder


@pytest.mark.parametrize("option", ["", "--near", "--tune"])
def test_every_table_is_printed(data: Path, tmp_path: Path, option: str) -> None:
    draws = "1" if option == "--tune" else "2"
    small = ("--log", "600", "--near-log", "300", "--draws", draws, "--threads", "1")
    lines = run(tmp_path, "repeats.py", str(data), *small, *filter(None, [option])).splitlines()
    firsts = [line.split()[0] for line in lines if line.split()]
    if option == "":
        # Two spaces: new queries twice, the traffic once; then the means of both settings.
        assert firsts.count("temper") == 2 * 3 + 2 and firsts.count("0.25") == 2 * 3 + 2
    elif option == "--near":
        assert firsts.count("near") == 4 and firsts.count("0.999") == 4
    else:
        assert sum(line.startswith("flickr8k") for line in lines) == 2 * 2
        judged = [line for line in lines if "judge_bank" in line]
        assert len(judged) == 2 * 2 and all(", joined " in line for line in judged)
        assert sum("joined" in line for line in lines if line not in judged) == 2 * 2 * 2
