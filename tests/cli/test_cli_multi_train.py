"""`unhub multi train` and `unhub multi encode`: what the library returns, in files and in words."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: the extra train has it")

import unhub
from tests.captioned import Captioned, captioned
from tests.command import here
from unhub.training import train
from unhub.training.checkpoints import Checkpoint, State

pytestmark = pytest.mark.once

DATA, OTHERS = captioned(), captioned(16, seed=1)
SMALL = ("--dimensions", "16", "--hidden", "24", "--epochs", "2", "--batch", "16", "--threads", "1")
TRAIN = (
    "multi",
    "train",
    "--texts",
    "t.npy",
    "--text-ids",
    "t.txt",
    "--items",
    "i.npz",
    "--relevance",
    "map.csv",
    "-o",
    "model.safetensors",
    *SMALL,
)
JUDGED = ("--validation-texts", "vt.npz", "--validation-items", "vi.npz", "--validation-relevance", "vmap.csv")


def write_pairs(path: Path, data: Captioned) -> None:
    path.write_text("query_id,item_id\n" + "".join(f"{text},{item}\n" for text, item in data.relevance))


def write_npz(path: Path, vectors: unhub.Vectors) -> None:
    np.savez(path, vectors=vectors.block(0, len(vectors)), ids=vectors.ids)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "t.npy", DATA.texts.block(0, len(DATA.texts)))
    (tmp_path / "t.txt").write_text("\n".join(DATA.texts.ids.tolist()))
    for name, vectors in {"i": DATA.items, "vt": OTHERS.texts, "vi": OTHERS.items}.items():
        write_npz(tmp_path / f"{name}.npz", vectors)
    write_pairs(tmp_path / "map.csv", DATA)
    write_pairs(tmp_path / "vmap.csv", OTHERS)
    return tmp_path


def test_train_writes_what_the_library_trains_and_says_so(folder: Path) -> None:
    options = (
        "--head",
        "lg-wf",
        "--queries",
        "3",
        "--no-combination",
        "--towers",
        "linear",
        "--seed",
        "4",
        "--rate",
        "0.01",
        "--rate",
        "0.001",
        "--weight-decay",
        "0.1",
        "--temperature",
        "0.1",
    )
    done = here(folder, *TRAIN, *JUDGED, *options, "--patience", "1", "--curve", "curve.png")
    assert (done.returncode, done.stderr) == (0, "")
    direct = train(
        *DATA.all,
        "lg-wf",
        3,
        False,
        "linear",
        OTHERS.all,
        4,
        rate=(0.01, 0.001),
        dimensions=16,
        hidden=24,
        epochs=2,
        batch=16,
        threads=1,
        weight_decay=0.1,
        temperature=0.1,
        patience=1,
    )
    saved = unhub.load(folder / "model.safetensors", "model")
    assert saved.training == direct.training
    np.testing.assert_array_equal(saved.encode_texts(DATA.texts).rows[:], direct.encode_texts(DATA.texts).rows[:])
    assert re.search(r"model +head lg-wf, 16 dimensions", done.stdout)
    assert re.search(r"item tower +linear, 20 features, square root, standardised", done.stdout)
    assert re.search(r"trained on +40 items, 100 captions, 3 for each and step", done.stdout)
    assert re.search(r"rate 0.01 +epoch \d, loss \d\.\d+, validation R@1 \d+\.\d\d", done.stdout)
    assert "(chosen)" in done.stdout
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_validation_in_the_same_files_is_what_its_pairs_name(folder: Path) -> None:
    both = unhub.Vectors(np.array([f"v{one}" for one in OTHERS.items.ids]), OTHERS.items.rows)
    write_npz(folder / "i.npz", DATA.items.stack(both))
    named = unhub.Vectors(np.array([f"v{one}" for one in OTHERS.texts.ids]), OTHERS.texts.rows)
    write_npz(folder / "t.npz", DATA.texts.stack(named))
    (folder / "vmap.csv").write_text("query_id,item_id\n" + "".join(f"v{t},v{i}\n" for t, i in OTHERS.relevance))
    options = ("--texts", "t.npz", "--validation-relevance", "vmap.csv", "--rate", "0.01", "--json")
    arguments = [one for one in TRAIN if one not in ("--text-ids", "t.txt")]
    done = here(folder, *arguments, *options)
    printed = json.loads(done.stdout)
    assert printed["training"]["data"]["validation"]["items"] == 16
    direct = train(*DATA.all, validation=OTHERS.all, rate=0.01, dimensions=16, hidden=24, epochs=2, batch=16, threads=1)
    assert printed["training"]["tried"] == json.loads(json.dumps(direct.training.to_dict()["tried"]))
    assert printed["training"]["notes"] == [
        "16 of 56 items have no caption and are left out",
        "40 of 140 captions describe no item and are left out",
        "40 of 40 items have fewer than 5 captions; all of theirs are used",
        "16 of 16 items of validation have fewer than 5 captions; all of theirs are used",
    ]


def test_info_says_what_a_model_is(folder: Path) -> None:
    assert here(folder, *TRAIN, "--rate", "0.01", "--quiet").stdout == ""
    shown = here(folder, "info", "model.safetensors").stdout
    assert "checksum right" in shown and "head cg-wf, 16 dimensions" in shown
    printed = json.loads(here(folder, "info", "model.safetensors", "--json").stdout)
    assert (printed["what"], printed["head"]) == ("model", "cg-wf")


def test_a_stopped_training_goes_on_from_its_checkpoint(folder: Path) -> None:
    options = ("--rate", "0.01", "--checkpoint", "state", "--quiet")
    assert here(folder, *TRAIN, *options).returncode == 0
    refused = here(folder, *TRAIN, *options)
    assert refused.returncode == 2
    assert re.match(r"unhub: --checkpoint state exists; resume from it, or name another file\n", refused.stderr)
    assert here(folder, *TRAIN, *options, "--resume").returncode == 0


def test_ctrl_c_says_how_to_continue_once_there_is_a_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--rate", "0.01", "--checkpoint", "state", "--quiet")
    kept: list[Path] = []

    def write(checkpoint: Checkpoint, state: State) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(checkpoint.path)
        keep(checkpoint, state)

    keep = Checkpoint.write
    monkeypatch.setattr(Checkpoint, "write", write)
    stopped = here(folder, *TRAIN, *options)
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert stopped.stderr == "unhub: stopped; run the same command with --resume to continue from state\n"
    (folder / "state").unlink()
    assert here(folder, *TRAIN, *options).stderr == "unhub: stopped\n"


def test_encode_keeps_ids_and_needs_the_right_file(folder: Path) -> None:
    here(folder, *TRAIN, "--rate", "0.01", "--quiet")
    model = unhub.load(folder / "model.safetensors", "model")
    done = here(folder, "multi", "encode", "--model", "model.safetensors", "--items", "i.npz", "-o", "out.npz")
    assert done.stdout == "wrote out.npz: 40 items, 16 dimensions\n"
    read = unhub.read_vectors(folder / "out.npz")
    assert read.ids.tolist() == DATA.items.ids.tolist()
    np.testing.assert_array_equal(read.rows[:], model.encode_items(DATA.items).rows[:])
    encode = ("multi", "encode", "--model", "model.safetensors", "--texts", "t.npy")
    printed = json.loads(here(folder, *encode, "-o", "t_out.npy", "--json").stdout)
    assert printed == {"path": "t_out.npy", "rows": 100, "dimensions": 16}
    np.testing.assert_array_equal(np.load(folder / "t_out.npy"), model.encode_texts(DATA.texts).rows[:])
    named = here(folder, *encode, "--ids", "t.txt", "-o", "named.npy")
    assert named.stderr == (
        "unhub: --output: named.npy: a .npy file holds no ids, and these rows have some; name a .npz file\n"
    )
    kept = here(folder, *encode, "-o", "t_out.npy")
    assert kept.returncode == 2
    assert "--output: t_out.npy exists and is not a file that unhub saved; give --overwrite" in kept.stderr
    assert here(folder, *encode, "-o", "t_out.npy", "--overwrite").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*TRAIN, "--texts", "none.npy"), r"--texts: .*none\.npy"),
        ((*TRAIN, "--relevance", "t.txt"), "--relevance: "),
        ((*TRAIN, "--head", "max"), "'--head'"),
        ((*TRAIN, "--towers", "deep"), "'--towers'"),
        (
            (*TRAIN, "--towers", "none"),
            "^--texts has 12 dimensions, the items 20; use 'linear' or 'mlp' towers, which map both into one space$",
        ),
        (
            (*TRAIN, "--dimensions", "12"),
            "^--dimensions must be a multiple of 8 for the 8 attention heads of 'cg-wf', got 12$",
        ),
        (
            (*TRAIN, "--rate", "0.1", "--rate", "0.2"),
            r"^--rate must be one number without validation to choose by, got 2; give validation data too$",
        ),
        ((*TRAIN, "--rate", "-1"), "^--rate must be a number over 0, got -1"),
        (
            (*TRAIN, "--patience", "3"),
            "^--patience needs validation, to decide which epoch is better; give validation data too$",
        ),
        ((*TRAIN, "--dropout", "1"), "^--dropout must be a number of at least 0 and under 1, got 1"),
        ((*TRAIN, "--resume"), "^--resume needs a checkpoint to continue from; give --checkpoint too$"),
        (
            (*TRAIN, "--curve", "curve.gif"),
            r"^--curve: curve\.gif is not the name of a picture; end it in \.png or \.svg$",
        ),
        ((*TRAIN, "-o", "map.csv"), r"--output: map\.csv is an input of this command"),
        (
            (*TRAIN, "--checkpoint", "model.safetensors"),
            r"^--checkpoint: model\.safetensors is the file of --output too",
        ),
        ((*TRAIN, "-o", "x.svg", "--curve", "./x.svg"), r"^--curve: x\.svg is the file of --output too; name another"),
        ((*TRAIN, "--checkpoint", "x.png", "--curve", "x.png"), r"^--checkpoint: x\.png is the file of --curve too"),
        ((*TRAIN, "--checkpoint", "map.csv", "--resume"), r"^--checkpoint: map\.csv is an input of this command"),
        (
            (*TRAIN, "--rate", "1e30"),
            r"^--rate is too high: with 1e\+30 the loss is nan in epoch \d; give a lower one$",
        ),
        (
            (*TRAIN, "--validation-texts", "vt.npz"),
            "^--validation-texts needs pairs of captions and items; give --validation-relevance too$",
        ),
        ((*TRAIN, "--device", "abacus"), "^--device must be one that torch can use here, got 'abacus' "),
        ((*TRAIN, "--item-ids", "t.txt"), r"^--item-ids: t\.txt has 100 ids, 40 are needed; give one id for each$"),
        (("multi", "encode", "--model", "map.csv", "--texts", "t.npy", "-o", "x.npy"), "^--model: map.csv: truncated"),
        (("multi", "encode", "--model", "map.csv", "-o", "x.npy"), "^--texts or --items: give one of them"),
        (("multi", "encode", "--model", "m", "--texts", "t.npy", "-o", "x.txt"), r"^--output: x\.txt: vectors are wri"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    before = sorted(os.listdir(folder))
    done = here(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"unhub: [^\n]+\n", done.stderr), done.stderr
    assert re.search(words, done.stderr.removeprefix("unhub: ").rstrip("\n"))
    assert sorted(os.listdir(folder)) == before


def test_a_curve_without_matplotlib_is_refused_before_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("unhub.training.train", lambda *_, **__: pytest.fail("it trained"))
    done = here(folder, *TRAIN, "--curve", "curve.png")
    assert done.returncode == 2
    assert re.fullmatch(r"unhub: --curve: a picture needs matplotlib: .*\[plot\]'?\n", done.stderr), done.stderr


def test_a_rate_that_fails_is_a_note_of_the_model(folder: Path) -> None:
    done = here(folder, *TRAIN, *JUDGED, "--head", "mf", "--rate", "1e30", "--rate", "0.01", "--curve", "curve.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"note +rate 1e\+30 failed: the loss is nan in epoch 1", done.stdout)
    assert re.search(r"rate 0.01 +epoch \d, .*\(chosen\)", done.stdout)


def test_a_correction_is_no_model_and_a_model_no_correction(folder: Path) -> None:
    here(folder, *TRAIN, "--rate", "0.01", "--quiet")
    unhub.save(unhub.fit(DATA.items, method="raw"), folder / "raw.unhub")
    done = here(folder, "multi", "encode", "--model", "raw.unhub", "--texts", "t.npy", "-o", "x.npy")
    assert "--model: raw.unhub: is a saved correction, not a model" in done.stderr
    done = here(folder, "search", "--items", "i.npz", "--correction", "model.safetensors", "--queries", "i.npz")
    assert "--correction: model.safetensors: is a saved model, not a correction" in done.stderr
