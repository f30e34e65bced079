"""Official lists with ready embeddings and with a published matrix, against known figures; skips without the data."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.flickr8k import folder
from unhub.bench.bench_run import bench_run

pytestmark = pytest.mark.once

# R@1, R@10 and skewness of captions that ask for images, bank = the images that no space was fitted on.
REFERENCE = {
    "raw": (12.88, 47.64, 1.97),
    "is:tau=0.05": (19.64, 59.58, 0.31),
    "nnn:k=128,alpha=0.75": (19.40, 59.26, 0.85),
}


def test_the_official_lists_with_ready_embeddings_give_the_figures_of_the_reference(tmp_path: Path) -> None:
    data = folder()
    if data is None or not (data.parent / "annotations" / "Flickr8k").is_dir():
        pytest.skip("flickr8k embeddings not found: set UNHUB_DATA to the folder that holds flickr8k/ and annotations/")
    meta = json.loads((data / "meta.json").read_text(encoding="utf-8"))
    images, owners = np.array(meta["image_ids"]), np.array(meta["caption_image"])
    unseen = np.isin(meta["split"], ("bank", "val", "test"))
    ready = tmp_path / "ridge"
    ready.mkdir()
    for name, suffix, ids, kept in (
        ("items", "img", images, unseen),
        ("queries", "txt", np.array(meta["caption_ids"]), unseen[owners]),
    ):
        np.save(ready / f"{name}.npy", np.load(data / f"ridge_{suffix}.npy")[kept])
        (ready / f"{name}-ids.txt").write_text("\n".join(ids[kept]))
    official = unhub.datasets.load("flickr8k", data.parent / "annotations" / "Flickr8k")
    methods = [name for name in REFERENCE if name != "raw"]
    run = bench_run(official, tmp_path / "work", embeddings=ready, methods=methods, banks="train", directions="t2i")
    assert "4,000 of 6,000 train items have no vector in items.npy and are left out." in run.notes
    for case in run.cases:
        figures = [case["values"][name]["value"] for name in ("R@1", "R@10")]
        assert (*figures, case["hubness"]["skewness"]) == pytest.approx(REFERENCE[case["method"]], abs=0.006)
        assert case.get("bank_queries") in (None, 10_000)


def test_a_published_matrix_gives_the_figures_that_are_known_of_it(tmp_path: Path) -> None:
    data = Path(os.environ.get("UNHUB_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
    matrix, lists = data / "msrvtt" / "cap4video_video_similarity.npy", data / "annotations" / "MSR-VTT"
    if not matrix.is_file() or not lists.is_dir():
        pytest.skip("annotations not found: set UNHUB_DATA to the folder that holds annotations/ and msrvtt/")
    official = unhub.datasets.load("msrvtt", lists, "1k-A")
    methods = "is:tau=0.009,csls:k=10,sn:tau=0.009"
    run = bench_run(official, tmp_path, matrix=matrix, methods=methods, directions="t2v")
    found = {case["method"]: case["values"]["R@1"]["value"] for case in run.cases}
    known = {"raw": 48.0, "is:tau=0.009": 52.2, "csls:k=10": 49.7, "sn:tau=0.009": 54.2}
    assert found == pytest.approx(known, abs=0.15)
