"""`unhub bench`: the whole way from a folder of one's own to a table, as a user types it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests import media, tiny_encoders
from tests.command import fail, here, succeed
from unhub.bench.result_file import read_results

pytestmark = pytest.mark.once

RUN = ("bench", "run", "folder", "--data", "mine", "--work", "W", "--threads", "1")
PARTS = {"train": 24, "val": 12, "test": 12}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a data set of the user's own without its media, and ready embeddings of it."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "ready").mkdir()
    random = np.random.default_rng(0)
    lines = ["file,text,split"]
    for part, count in PARTS.items():
        pictures = random.normal(size=(count, 6)) + 1
        np.save(tmp_path / "ready" / f"{part}-items.npy", pictures.astype(np.float32))
        texts = np.repeat(pictures, 2, axis=0) + random.normal(size=(2 * count, 6))
        np.save(tmp_path / "ready" / f"{part}-queries.npy", texts.astype(np.float32))
        for number in range(count):
            lines += [f"{part}{number}.png,a red circle {number},{part}", f"{part}{number}.png,the dark square,{part}"]
    (tmp_path / "mine" / "captions.csv").write_text("\n".join(lines))
    return tmp_path


def test_a_run_prints_every_direction_and_goes_on_with_what_is_done(folder: Path) -> None:
    command = (*RUN, "--embeddings", "ready", "--methods", "nnn:k=5,alpha=0.5,dn:lambda=0.5", "--banks", "train")
    printed = succeed(folder, *command)
    assert printed.startswith("t2i: 24 queries x 12 items\nsetting")
    assert "\ni2t: 12 queries x 24 items\nsetting" in printed
    assert "skewness@10" in printed
    assert "6 cases measured, 0 were there" in printed
    assert "0 cases measured, 6 were there" in succeed(folder, *command)
    content = json.loads(succeed(folder, *command, "--json"))
    assert [one["method"] for one in content["cases"]][:2] == ["raw", "nnn:k=5,alpha=0.5"]


def test_a_page_shows_the_run(folder: Path) -> None:
    command = (*RUN, "--embeddings", "ready", "--methods", "nnn:k=5,alpha=0.5", "--banks", "train")
    assert "Wrote bench.html." in succeed(folder, *command, "--report", "bench.html")
    page = (folder / "bench.html").read_text(encoding="utf-8")
    assert "Direction t2i" in page
    assert "nnn:<wbr>k=5,<wbr>alpha=0.5" in page
    assert "24 queries x 12 items." in page and "12 queries x 24 items." in page
    (folder / "letter.html").write_text("dear reader")
    assert "letter.html exists" in fail(folder, *command, "--report", "letter.html")
    assert (folder / "letter.html").read_text() == "dear reader"


def test_an_encoder_embeds_what_is_there_and_says_what_is_missing(folder: Path) -> None:
    tiny_encoders.write_clip(folder / "clip")
    media.write_images(folder / "pictures")
    paths = [folder / "pictures" / name for name in ("grey.png", "more/alpha.png", "more/clear palette.png")]
    for part, count in PARTS.items():
        for number in range(count - 1):
            (folder / "mine" / f"{part}{number}.png").write_bytes(paths[number % len(paths)].read_bytes())
    command = (*RUN, "--encoder", "clip", "--methods", "nnn:k=5,alpha=0.5", "--banks", "train", "--directions", "t2i")
    printed = succeed(folder, *command)
    assert "1 of 12 test items have no file and are left out." in printed
    (results,) = (folder / "W" / "results").glob("*.json")
    assert "2 queries have no answer among the items" in results.read_text()
    kept = [*(folder / "W" / "embeddings").rglob("embeddings.npy")]
    assert len(kept) == 4  # items and queries of test and train
    (model,) = (folder / "W" / "embeddings").iterdir()
    assert model.name.startswith("clip-")
    before = {path: path.stat().st_mtime_ns for path in kept}
    assert "0 cases measured, 2 were there" in succeed(folder, *command)
    assert {path: path.stat().st_mtime_ns for path in kept} == before
    # What is fetched later is embedded too; what cannot be read, and what is cut, is said with its reason.
    (folder / "mine" / "train23.png").write_bytes(paths[0].read_bytes())
    (folder / "mine" / "test11.png").write_bytes(b"no picture")
    captions = folder / "mine" / "captions.csv"
    captions.write_text(captions.read_text().replace("a red circle 0,test", f"{'a red circle ' * 20},test"))
    printed = succeed(folder, *command)
    assert "2 cases measured, 0 were there" in printed
    assert "1 of 12 test items could not be embedded and are left out, for example test11.png: " in printed
    assert "1 of 24 test queries were cut, because they are longer than the model reads." in printed


def test_with_ready_vectors_only_the_notes_on_media_are_left_out(folder: Path) -> None:
    captions = folder / "mine" / "captions.csv"
    captions.with_name("more").mkdir()
    captions.with_name("more").joinpath("captions.csv").write_bytes(captions.read_bytes())
    command = (*RUN, "--embeddings", "ready", "--methods", "cent", "--banks", "train", "--directions", "t2i", "--json")
    content = json.loads(succeed(folder, *command))
    assert any("files are missing" in note for note in unhub.datasets.load("folder", folder / "mine").notes)
    assert not [note for note in (*content["notes"], *content["data_notes"]) if "files" in note]
    assert [note for note in content["notes"] if "is there 2 times" in note]


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(folder: Path) -> None:
    command = [sys.executable, "-m", "unhub", *RUN, "--embeddings", "ready", "--banks", "train,val,test"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=-1, stderr=-1, text=True)
    until = time.monotonic() + 60
    found: list[Path] = []
    while time.monotonic() < until and not found:
        found = [path for path in folder.glob("W/results/*.json") if read_results(path)["cases"]]
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors == "unhub: stopped; run the same command again to continue\n"
    done = len(read_results(found[0])["cases"])
    printed = succeed(folder, *command[3:], "--methods", "cent", "--banks", "train")
    assert done > 1 or "1 was there" in printed


def test_a_table_is_printed_from_what_was_run(folder: Path) -> None:
    succeed(folder, *RUN, "--embeddings", "ready", "--methods", "nnn:k=5,alpha=0.5", "--banks", "train")
    printed = succeed(folder, "bench", "table", "nnn:3", "--work", "W")
    assert "have not been measured" in printed
    assert "not run" in succeed(folder, "bench", "table", "nnn:3", "--work", "W", "--all")
    assert json.loads(succeed(folder, "bench", "table", "nnn:3", "--work", "W", "--json"))["table"] == "3"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--encoder is absent; give one of --encoder, --embeddings and --matrix"),
        (("--embeddings", "ready", "--encoder", "clip"), "--encoder is given together with --embeddings; give one of"),
        (("--embeddings", "ready", "--report", "mat.pdf"), "--report is mat.pdf, but a report is an HTML page"),
        (("--embeddings", "nowhere"), "--embeddings must be a folder"),
        (("--embeddings", "ready", "--paper", "bert"), "--paper 'bert' is unknown"),
        (("--embeddings", "ready", "--banks", "far"), "--banks 'far' is unknown"),
        (("--embeddings", "ready", "--methods", "nn"), "did you mean 'nnn'"),
        (("--embeddings", "ready", "--bank-from", "coco"), "for example coco=data/coco"),
        (("--matrix", "m.npy", "--bank-matrix", "train.npy"), "for example train=similarity.npy"),
        (("--embeddings", "ready", "--bank-matrix", "train=m.npy"), "--bank-matrix is given without matrix"),
        (("--embeddings", "ready", "--split", "half"), "--split 'half' is unknown"),
        (("--matrix", "ready/test-items.npy"), "--matrix test-items.npy is 12 x 6"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in fail(folder, *RUN, *arguments)


def test_where_nothing_but_raw_could_be_run_the_answer_is_no(folder: Path) -> None:
    np.save(folder / "sims.npy", np.random.default_rng(0).normal(size=(24, 12)))
    command = (*RUN, "--matrix", "sims.npy", "--methods", "dbsn", "--directions", "t2i")
    done = here(folder, *command)
    assert (done.returncode, done.stderr) == (3, "")
    assert "Nothing that was asked for could be run" in done.stdout and "1 case measured, 0 were there" in done.stdout
    assert here(folder, *command, "--json").returncode == 3
    assert "0 cases measured, 1 was there" in here(folder, *command).stdout


def test_a_data_set_that_is_not_there_is_said(folder: Path) -> None:
    command = ("bench", "run", "flickr8k", "--data", "mine", "--work", "W", "--embeddings", "ready")
    assert "Flickr8k.token.txt" in fail(folder, *command)
    assert "did you mean 'flickr8k'" in fail(folder, "bench", "run", "flickr8", *command[3:])
    assert not (folder / "W").exists()


def test_a_rerun_prints_what_was_asked_for_and_counts_the_rest(folder: Path) -> None:
    command = (*RUN, "--embeddings", "ready", "--banks", "train", "--methods")
    succeed(folder, *command, "nnn:k=5,alpha=0.5,cent")
    printed = succeed(folder, *command, "cent", "--directions", "t2i")
    assert [line.split()[0] for line in printed.splitlines()[3:5]] == ["raw", "cent"]
    assert "i2t" not in printed
    assert "0 cases measured, 2 were there; they are in" in printed
    assert "with 4 others of earlier runs." in printed
