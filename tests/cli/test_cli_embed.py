"""`unhub embed` writes what the library writes, says what it skipped, and goes on after a kill."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unhub
from tests import media, tiny_encoders
from tests.command import fail, here, succeed

pytestmark = pytest.mark.once

MODEL = ("--model", "model")
TEXTS = ["a red square", "the dark circle", "blue", "a green picture", "in the bright picture"]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, images, videos and captions."""
    folder = tmp_path_factory.mktemp("given")
    tiny_encoders.write_clip(folder / "model")
    tiny_encoders.write_clip(folder / "other model", seed=1)
    media.write_images(folder / "images")
    (folder / "videos").mkdir()
    media.write_video(folder / "videos" / "one.mp4", 12)
    (folder / "captions.txt").write_text("\n".join(TEXTS))
    (folder / "lines.jsonl").write_text('{"words": "a red square"}\n')
    (folder / "captions.csv").write_text("key,caption\n" + "".join(f"k{at},{one}\n" for at, one in enumerate(TEXTS)))
    return folder


@pytest.fixture
def folder(given: Path, tmp_path: Path) -> Path:
    """Return a folder of its own with links to all that is given."""
    for path in given.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


def test_a_text_on_the_command_line_is_searched_for(folder: Path) -> None:
    for what, place in (("images", "gallery"), ("captions.txt", "captions")):
        succeed(folder, "embed", what, *MODEL, "-o", place, "--quiet")
    succeed(
        folder, "fit", "--items", "gallery", "--bank", "captions", "--method", "nnn:k=2", "-o", "g.unhub", "--quiet"
    )
    asked = ("search", "--items", "gallery", "--correction", "g.unhub", "-k", "3", "--json")
    typed = [part for one in TEXTS for part in ("--query", one)]
    found = json.loads(succeed(folder, *asked, *typed, "--encoder", "model"))
    written = json.loads(succeed(folder, *asked, "--queries", "captions"))
    assert [one["query"] for one in found] == TEXTS
    assert [[hit["id"] for hit in one["hits"]] for one in found] == [
        [hit["id"] for hit in one["hits"]] for one in written
    ]
    np.testing.assert_allclose(found[0]["hits"][0]["score"], written[0]["hits"][0]["score"], atol=1e-3)  # float16
    long = here(folder, *asked, "--query", " ".join(["red"] * 30), "--encoder", "model")
    assert long.stderr == "unhub: note: 1 of 1 texts were cut to what model reads\n"
    twice = fail(folder, *asked, "--query", "red", "--query", "red", "--encoder", "model")
    assert "--query is given twice: 'red'" in twice
    np.save(folder / "others.npy", np.random.default_rng(0).normal(size=(9, 5)))
    succeed(folder, "fit", "--items", "others.npy", "--bank", "others.npy", "-o", "o.unhub", "--quiet")
    others = ("search", "--items", "others.npy", "--correction", "o.unhub", "--query", "red", "--encoder", "model")
    assert "--encoder gives vectors of 12 dimensions, the items have 5; name the one" in fail(folder, *others)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--queries is missing; give --queries, a file of vectors, or --query, a text, with --encoder"),
        (("--query", "red"), "--encoder is missing; name the model that embeds --query"),
        (("--queries", "q", "--query", "red"), "--query and --queries both say what to search for; give one of them"),
        (("--queries", "q", "--encoder", "m"), "--encoder and --queries both say what to search for"),
    ],
)
def test_what_to_search_for_is_said_once(folder: Path, options: tuple[str, ...], told: str) -> None:
    assert told in fail(folder, "search", "--items", "gallery", "--correction", "g.unhub", *options)


def test_from_pictures_and_captions_to_a_search(folder: Path) -> None:
    told = succeed(folder, "embed", "images", *MODEL, "-o", "gallery")
    assert told.splitlines()[0].split() == ["wrote", "gallery"]
    assert "8 of 8" in told
    assert "12 dimensions, float16, of length one" in told
    assert "model (CLIPModel)" in told
    assert succeed(folder, "embed", "captions.txt", *MODEL, "-o", "captions", "--quiet") == ""
    fitted = ("fit", "--items", "gallery", "--bank", "captions", "--method", "nnn", "--set", "k=2", "-o", "g.unhub")
    succeed(folder, *fitted)
    asked = ("search", "--items", "gallery", "--correction", "g.unhub", "--queries", "captions", "-k", "3", "--json")
    hits = json.loads(succeed(folder, *asked))
    gallery, captions = unhub.read_vectors(folder / "gallery"), unhub.read_vectors(folder / "captions")
    correction = unhub.fit(gallery, captions, method="nnn:k=2")
    expected = unhub.searcher(gallery, correction).search(captions, k=3)
    assert [[hit["id"] for hit in one["hits"]] for one in hits] == expected.ids.tolist()
    assert "more/deep/print.tiff" in gallery.ids


def test_the_command_writes_what_the_library_writes(folder: Path) -> None:
    encoder = unhub.load_encoder(folder / "model")
    column = ("--column", "caption", "--id-column", "key")
    for source, options, library in (
        ("images", ("--batch", "3", "--threads", "1"), unhub.embed_images(folder / "images", encoder, folder / "a")),
        (
            "captions.csv",
            column,
            unhub.embed_texts(folder / "captions.csv", encoder, folder / "b", column="caption", id_column="key"),
        ),
        (
            "videos",
            ("--frames", "3", "--device", "cpu", "--precision", "full"),
            unhub.embed_videos(folder / "videos", encoder, folder / "c", frames=3),
        ),
    ):
        output = f"out of {source}"
        told = json.loads(succeed(folder, "embed", source, *MODEL, "-o", output, "--json", *options))
        for name in ("path", "created", "source", "already"):
            del told[name]
        expected = {name: value for name, value in library.manifest.items() if name in told}
        assert {**told, "model": None} == {**expected, "model": None}
        made = unhub.read_vectors(folder / output)
        assert made.ids.tolist() == library.vectors.ids.tolist()
        np.testing.assert_allclose(
            made.rows[:].astype(np.float64), library.vectors.rows[:].astype(np.float64), atol=1e-3
        )


def test_skipped_inputs_are_a_warning_and_a_list(folder: Path) -> None:
    (folder / "some").mkdir()
    Image.new("RGB", (9, 9), "red").save(folder / "some" / "good.png")
    for number in range(22):
        (folder / "some" / f"bad {number:02}.png").write_text("not a picture")
    done = here(folder, "embed", "some", *MODEL, "-o", "gallery")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[0] == "unhub: warning: 22 of 23 images were skipped; the reasons are in gallery/manifest.json"
    assert lines[1].startswith("  bad 00.png: cannot identify image file")
    assert lines[21:] == ["  and 2 more"]
    for flag in ("--quiet", "--json"):
        done = here(folder, "embed", "some", *MODEL, "-o", "gallery", flag)
        assert (done.returncode, done.stderr.splitlines()) == (0, lines[:1])
    (folder / "some" / "good.png").unlink()
    assert "none of 22 images could be embedded" in fail(folder, "embed", "some", *MODEL, "-o", "other")


def test_long_texts_are_said_to_be_cut(folder: Path) -> None:
    (folder / "long.txt").write_text("red\n" + "red " * 40)
    assert "1 text, to 12 tokens" in succeed(folder, "embed", "long.txt", *MODEL, "-o", "captions")


def test_mistakes_are_one_line_that_names_the_option(folder: Path) -> None:
    texts = ("embed", "captions.txt", *MODEL, "-o", "captions")
    assert fail(folder, *texts, "--column", "text") == (
        "--column is 'text', but only a table has columns: .csv, .tsv, .jsonl, .parquet"
    )
    for source, found in (
        ("captions.csv", "has columns ['key', 'caption']"),
        ("lines.jsonl", "line 1 has keys ['words']"),
    ):
        assert fail(folder, "embed", source, *MODEL, "-o", "captions") == (
            f"--column must name the column that holds the texts: {source}: {found}; `text` is required"
        )
    said = fail(folder, "embed", "captions.csv", *MODEL, "-o", "captions", "--column", "caption", "--id-column", "no")
    assert said == (
        "--id-column must name the column that holds the ids: captions.csv: has columns ['key', 'caption']; "
        "`no` is required"
    )
    assert fail(folder, "embed", "images", "--kind", "texts", *MODEL, "-o", "captions") == (
        "images: texts are read from .txt, .csv, .tsv, .jsonl, .parquet files, not from a folder"
    )
    assert fail(folder, *texts, "--frames", "3") == "--frames is for videos, and these are texts; leave it out"
    said = fail(folder, *texts, "--device", "toaster")
    assert said.startswith("--device must be one that torch can use here, got 'toaster' (")
    said = fail(folder, "embed", "images", "--model", "nothing", "-o", "x")
    assert said.startswith("--model 'nothing' cannot be loaded: ")
    assert fail(folder, "embed", "nowhere", *MODEL, "-o", "x") == "No such file or directory: nowhere"
    assert fail(folder, "embed", "model/config.json", *MODEL, "-o", "x") == (
        "--kind is needed, since the name model/config.json does not say what it holds; give images, texts, videos or "
        "sounds"
    )
    said = fail(folder, "embed", "images", *MODEL, "-o", "captions.txt")
    assert re.fullmatch(r"--output: \S+captions\.txt is a file; name a folder to write", said)
    assert succeed(folder, *texts).startswith("wrote  ")
    assert succeed(folder, *texts).startswith("complete already  captions\n")
    assert json.loads(succeed(folder, *texts, "--json"))["already"] is True
    other = ("embed", "captions.txt", "--model", "other model", "-o", "captions")
    said = fail(folder, *other)
    assert said.startswith("--output ")
    assert said.endswith("captions was made with another model (model); name another output, or restart to begin again")
    before = (folder / "captions" / "embeddings.npy").read_bytes()
    succeed(folder, *other, "--restart")
    assert (folder / "captions" / "embeddings.npy").read_bytes() != before
    succeed(folder, *texts, "--overwrite")  # which is the same
    assert (folder / "captions" / "embeddings.npy").read_bytes() == before


def test_ctrl_c_says_that_the_same_command_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhub.embed.embed.batches", interrupt)
    done = here(folder, "embed", "captions.txt", *MODEL, "-o", "captions")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "unhub: stopped; run the same command again to continue\n"


def interrupt(*given: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_killed_command_goes_on_where_it_was(folder: Path) -> None:
    (folder / "many").mkdir()
    for number in range(150):
        Image.fromarray(media.colours(number)).save(folder / "many" / f"{number:03}.png")
    embed = ("embed", "many", *MODEL, "--batch", "1", "--device", "cpu")
    child = subprocess.Popen([sys.executable, "-m", "unhub", *embed, "-o", "gallery"], cwd=folder)
    journal = folder / "gallery.unfinished" / "journal.jsonl"
    while child.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 5):
        time.sleep(0.005)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert not (folder / "gallery").exists()
    assert 5 <= journal.read_bytes().count(b"\n") < 150
    succeed(folder, *embed, "-o", "gallery")
    succeed(folder, *embed, "-o", "whole")
    for name in ("embeddings.npy", "ids.json"):
        assert (folder / "gallery" / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_sounds_and_prompts_are_embedded_as_the_library_does(folder: Path) -> None:
    clap = tiny_encoders.write_clap(folder / "clap")
    (folder / "sounds").mkdir()
    waves = media.tones(1.5, 16_000, channels=2)
    media.write_sound(folder / "sounds" / "one.flac", waves, 16_000, "flac")
    told = succeed(folder, "embed", "sounds", "--model", "clap", "-o", "heard")
    assert "1 of 1" in told and "clap (ClapModel)" in told
    expected = unhub.load_encoder(clap, device="cpu").sounds([folder / "sounds" / "one.flac"])
    np.testing.assert_allclose(unhub.read_vectors(folder / "heard").block(0, 1), expected, atol=1e-3)
    (folder / "prompts.txt").write_text("a picture with {}\n{} in blue\n")
    succeed(folder, "embed", "captions.txt", *MODEL, "--prompts", "prompts.txt", "-o", "classes")
    made = unhub.embed_texts(TEXTS, folder / "model", folder / "same", prompts=folder / "prompts.txt")
    np.testing.assert_array_equal(unhub.read_vectors(folder / "classes").rows[:], made.vectors.rows[:])
    said = fail(folder, "embed", "sounds", "--model", "clap", "--prompts", "prompts.txt", "-o", "out")
    assert "--prompts is for texts, and these are sounds" in said
    (folder / "bad.txt").write_text("no gap\n")
    said = fail(folder, "embed", "captions.txt", *MODEL, "--prompts", "bad.txt", "-o", "out")
    assert "--prompts must each have {} once, where the text goes, got 'no gap'" in said
