"""`unhub multi eval` and `unhub multi search` print what the library returns, and say what is wrong in one line."""

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.command import ITEMS, NAMES, fail, here, program, succeed, write_fitted, write_inputs
from unhub.cli.multi_eval import DEFAULT_COMBINATIONS
from unhub.cli.multi_eval import evaluate as eval_command
from unhub.data.draws import DEFAULT_DRAWS, DEFAULT_SIZES
from unhub.evaluation.evaluate import DEFAULT_MEASURES
from unhub.evaluation.pictures import Picture
from unhub.files import read_sets
from unhub.model import Head, Model, Preparation, Tower, Towers
from unhub.multi.evaluate_sets import evaluate_sets

pytestmark = pytest.mark.once

OWNERS = np.repeat(np.arange(40), [1 + item % 4 for item in range(40)])
TEXTS = (ITEMS[OWNERS] + np.random.default_rng(2).normal(size=(len(OWNERS), 8))).astype(np.float32)
TEXT_NAMES = [f"text {row}" for row in range(len(OWNERS))]
TRUTH = {text: NAMES[item] for text, item in zip(TEXT_NAMES, OWNERS.tolist(), strict=True)}
GALLERY = unhub.Vectors(np.array(NAMES), ITEMS)
CAPTIONS = unhub.Vectors(np.array(TEXT_NAMES), TEXTS)
# The columns are set_id, query_id: sets of two, one and three, the first one not in a row.
SETS = [("b", "text 3"), ("a", "text 1"), ("b", "text 4"), ("c", "text 9"), ("c", "text 2"), ("c", "text 9")]

GIVEN = ("--items", "items.npy", "--item-ids", "names.txt")
EVAL = ("multi", "eval", "--texts", "texts.npy", "--text-ids", "texts.txt", *GIVEN, "--relevance", "truth.csv")
ASKED = ("--queries", "texts.npy", "--query-ids", "texts.txt", "--sets", "sets.csv")
SEARCH = ("multi", "search", *GIVEN, *ASKED, "--correction", "fitted.unhub")


def write_rows(path: Path, heads: tuple[str, str], rows: list[tuple[str, str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([heads, *rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items, texts, which describes what, sets of them and a correction."""
    path = write_fitted(write_inputs(tmp_path_factory.mktemp("multi")))
    np.save(path / "texts.npy", TEXTS)
    np.save(path / "wide.npy", np.ones((len(TEXTS), 9), np.float32))
    (path / "texts.txt").write_text("\n".join(TEXT_NAMES))
    write_rows(path / "truth.csv", ("query_id", "item_id"), [*TRUTH.items()])
    write_rows(path / "sets.csv", ("set_id", "query_id"), SETS)
    write_rows(path / "strange.csv", ("set_id", "query_id"), [("a", "text 1"), ("a", "no text")])
    write_rows(path / "wrong.csv", ("set", "query_id"), SETS)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    """A model with towers that change the rows, beside a correction fitted on what they make of the items."""
    rng = np.random.default_rng(5)
    weights = [{"linear.weight": rng.normal(size=(4, 8)), "linear.bias": rng.normal(size=4)} for _ in range(2)]
    text, item = (
        Tower("linear", 8, 4, {name: one.astype(np.float32) for name, one in arrays.items()}, Preparation.of(GALLERY))
        for arrays in weights
    )
    made = Model(Towers(text, item), Head("ts-wf", 4))
    unhub.save(made, folder / "model.safetensors")
    past = made.encode_texts(np.load(folder / "bank.npy"))
    unhub.save(unhub.fit(made.encode_items(GALLERY), past, method="nnn:k=5"), folder / "encoded.unhub")
    return made


@pytest.fixture(scope="module")
def apart(folder: Path, model: Model) -> Path:
    """The items as the model encodes them one by one, which rounds otherwise, beside a correction fitted on them."""
    one_by_one = np.concatenate([model.encode_items(row[None]).block(0, 1) for row in ITEMS])
    together = model.encode_items(ITEMS).block(0, len(ITEMS))
    assert np.any(one_by_one != together), "the same to the last bit shows nothing"
    np.testing.assert_allclose(one_by_one, together, atol=1e-6)
    np.save(folder / "apart.npy", one_by_one)
    items, past = unhub.Vectors(GALLERY.ids, one_by_one), model.encode_texts(np.load(folder / "bank.npy"))
    unhub.save(unhub.fit(items, past, method="nnn:k=5"), folder / "apart.unhub")
    return folder / "apart.npy"


# eval


def test_eval_prints_the_numbers_of_the_library(folder: Path) -> None:
    options = ("--sizes", "1,3", "--combine", "mf", "--combine", "ra", "--correction", "fitted.unhub", "--seed", "3")
    printed = json.loads(succeed(folder, *EVAL, *options, "--draws", "2", "--measures", "R@1,MdR", "--json"))
    saved = unhub.load(folder / "fitted.unhub")
    direct = evaluate_sets(
        CAPTIONS, GALLERY, TRUTH, (1, 3), 2, ["mf", "ra"], {"fitted.unhub": saved}, "R@1,MdR", seed=3
    )
    assert printed.pop("corrections") == {"fitted.unhub": saved.spec}
    assert printed == json.loads(json.dumps(direct.to_dict()))
    assert printed["sizes"] == [{"size": 1, "targets": 40, "left_out": 0}, {"size": 3, "targets": 20, "left_out": 20}]


def test_eval_prints_tables_and_notes(folder: Path) -> None:
    printed = succeed(folder, *EVAL, "--sizes", "1,2", "--correction", "fitted.unhub", run=program)
    saved = {"fitted.unhub": unhub.load(folder / "fitted.unhub")}
    direct = evaluate_sets(CAPTIONS, GALLERY, TRUTH, (1, 2), correction=saved)
    tables, _, _ = str(direct).rpartition("\n" + "\n".join(direct.notes))
    legend = "In brackets: 95% intervals over the items, by bootstrap; sd: over repetitions of the draws."
    notes = "\n".join(("fitted.unhub is nnn:k=5,alpha=0.75.", *direct.notes))
    assert printed == f"{tables}\n{legend}\n{notes}\n"
    quiet = succeed(folder, *EVAL, "--sizes", "1,2", "--correction", "fitted.unhub", "--quiet")
    assert quiet == f"{tables}\n"


def test_on_a_narrow_terminal_one_interval_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhub.cli.folding.terminal_width", lambda: 80)
    shown = succeed(folder, *EVAL, "--sizes", "1,2")
    assert max(map(len, shown.splitlines())) <= 80
    heads = [re.split("  +", line)[1:] for line in shown.splitlines() if line.startswith(("sets  ", "area  "))]
    assert heads == [[*DEFAULT_MEASURES, "R@1 interval", "sd of R@1"], ["over sa"], ["AUC_2 of R@1"]]


def test_a_single_query_is_compared_with_no_combination(folder: Path) -> None:
    assert "over sa" not in succeed(folder, *EVAL, "--sizes", "1").splitlines()[0]
    assert "over sa" in succeed(folder, *EVAL, "--sizes", "2").splitlines()[0]


def test_the_defaults_of_eval_are_those_of_the_library(folder: Path) -> None:
    assert eval_command.__defaults__ is not None and ",".join(DEFAULT_MEASURES) in eval_command.__defaults__
    printed = json.loads(succeed(folder, *EVAL, "--json"))
    direct = evaluate_sets(CAPTIONS, GALLERY, TRUTH, DEFAULT_SIZES, DEFAULT_DRAWS, DEFAULT_COMBINATIONS)
    assert printed == json.loads(json.dumps({**direct.to_dict(), "corrections": {}}))
    assert direct.to_dict() == evaluate_sets(CAPTIONS, GALLERY, TRUTH).to_dict()


def test_eval_asks_again_with_saved_draws(folder: Path) -> None:
    save = ("--save-draws", "some.draws", "--curve", "curve.png")
    first = succeed(folder, *EVAL, "--sizes", "2,3", "--draws", "2", "--seed", "7", "--json", *save)
    again = succeed(folder, *EVAL, "--load-draws", "some.draws", "--seed", "7", "--json")
    assert first == again
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    three = json.loads(succeed(folder, *EVAL, "--load-draws", "some.draws", "--sizes", "3", "--json"))
    assert [one["size"] for one in three["sizes"]] == [3]


def test_eval_with_a_model_encodes_first_and_adds_its_head(folder: Path, model: Model) -> None:
    options = ("--model", "model.safetensors", "--correction", "encoded.unhub", "--combine", "sa", "--sizes", "2")
    printed = json.loads(succeed(folder, *EVAL, *options, "--json"))
    saved = {"encoded.unhub": unhub.load(folder / "encoded.unhub")}
    texts, items = model.encode_texts(CAPTIONS), model.encode_items(GALLERY)
    direct = evaluate_sets(texts, items, TRUTH, (2,), combine=["sa", model], correction=saved)
    del printed["corrections"]
    assert printed == json.loads(json.dumps(direct.to_dict()))
    assert printed["combinations"] == ["sa", "ts-wf"]


def test_eval_takes_items_that_were_encoded_before(folder: Path, model: Model, apart: Path) -> None:
    given = ("--model", "model.safetensors", "--correction", "apart.unhub", "--sizes", "1,2", "--json")
    line = fail(folder, *EVAL, *given)
    assert line.startswith("--model: encoding rounds differently") and "with --encoded-items" in line
    encoded = [one if one != "items.npy" else apart.name for one in EVAL]
    printed = json.loads(succeed(folder, *encoded, *given, "--encoded-items"))
    saved = {"apart.unhub": unhub.load(folder / "apart.unhub")}
    items = unhub.Vectors(GALLERY.ids, np.load(apart))
    direct = evaluate_sets(
        model.encode_texts(CAPTIONS), items, TRUTH, (1, 2), combine=[*DEFAULT_COMBINATIONS, model], correction=saved
    )
    del printed["corrections"]
    assert printed == json.loads(json.dumps(direct.to_dict()))


def test_encoded_items_are_of_the_space_of_a_model(folder: Path, model: Model) -> None:
    for command in (EVAL, SEARCH):
        line = fail(folder, *command, "--encoded-items")
        assert line == "--encoded-items needs the model that encoded them; give --model too"
        line = fail(folder, *command, "--encoded-items", "--model", "model.safetensors")
        assert line.startswith(
            "--items has 8 dimensions, the space of --model 4; "
            "give what `unhub multi encode` wrote, or leave out --encoded-items"
        )


def test_a_curve_that_cannot_be_drawn_costs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as absent:
        absent.setitem(sys.modules, "matplotlib.figure", None)
        line = fail(folder, *EVAL, "--curve", "late.png", "--save-draws", "late.draws")
    assert line.startswith("--curve: a picture needs matplotlib: ")

    def fail_to_draw(self: Picture, form: str) -> bytes:
        raise OSError("the disk is full")

    monkeypatch.setattr(Picture, "to_bytes", fail_to_draw)
    done = here(folder, *EVAL, "--sizes", "2", "--curve", "late.png", "--save-draws", "late.draws", "--json")
    assert (done.returncode, done.stderr) == (1, "unhub: cannot write late.png: the disk is full\n")
    assert json.loads(done.stdout)["items"] == 40
    assert [*unhub.read_draws(folder / "late.draws").sizes] == [2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--save-draws", "one.png", "--curve", "./one.png"), "--curve: one.png is the file of --save-draws too"),
        (("--sizes", "1;2"), "--sizes must be whole numbers separated by commas, such as 1,2,3,5, got '1;2'"),
        (("--sizes", "0"), "--sizes must be a whole number of at least 1, got 0"),
        (("--sizes", "9"), "--sizes is 9 or more, but no item has more than 4 texts; give a smaller size"),
        (
            ("--combine", "max"),
            "--combine 'max' is unknown; the combinations, besides a trained model, are sa, ra, mf, ts-wf",
        ),
        (("--measures", "nope"), "--measures 'nope' is unknown; the measures are R@k, GM, MdR"),
        (("--relevance", "sets.csv"), "has columns ['set_id', 'query_id']; `item_id` is required"),
        (("--correction", "items.npy"), "--correction: items.npy: truncated"),
        (("--model", "fitted.unhub"), "--model: fitted.unhub"),
        (("--load-draws", "items.npy"), "--load-draws: items.npy: holds no draws"),
        (("--load-draws", "none"), "--load-draws: "),
        (("--draws", "0"), "--draws must be a whole number of at least 1, got 0"),
        (("--curve", "curve.jpg"), "--curve: curve.jpg is not the name of a picture; end it in .png or .svg"),
        (("--curve", "nowhere/curve.png"), "--curve: cannot write nowhere/curve.png: there is no folder"),
        (("--save-draws", "truth.csv"), "--save-draws: truth.csv is an input of this command"),
        (("--text-ids", "names.txt"), "--text-ids: names.txt has 40 ids, 100 are needed; give one id for each"),
        (
            ("--texts", "bank.npy", "--text-ids", "texts.txt"),
            "--text-ids: texts.txt has 100 ids, 90 are needed; give one id for each",
        ),
    ],
)
def test_a_mistake_in_eval_is_one_line(folder: Path, change: tuple[str, ...], words: str) -> None:
    given = dict(zip(EVAL[2::2], EVAL[3::2], strict=True)) | dict(zip(change[::2], change[1::2], strict=True))
    assert words in fail(folder, "multi", "eval", *(one for pair in given.items() for one in pair))


def test_draws_of_other_captions_are_refused(folder: Path) -> None:
    succeed(folder, *EVAL, "--sizes", "1", "--save-draws", "stale.draws", "--quiet")
    moved = TRUTH | {TEXT_NAMES[2]: NAMES[0]}
    write_rows(folder / "moved.csv", ("query_id", "item_id"), [*moved.items()])
    changed = [one if one != "truth.csv" else "moved.csv" for one in EVAL]
    line = fail(folder, *changed, "--load-draws", "stale.draws")
    assert line == (
        f"--load-draws differs from the relevance in 2 pairs: text {TEXT_NAMES[2]!r} did not describe item "
        f"{NAMES[0]!r} "
        "and now does; draw again, or give the relevance of the draws"
    )


def test_draws_are_either_loaded_or_made(folder: Path) -> None:
    line = fail(folder, *EVAL, "--draws", "3", "--load-draws", "some.draws")
    assert line == "--draws contradicts --load-draws, which has its own sets; give one of them"


# search


def rows_of(*names: str) -> np.ndarray:
    return TEXTS[[TEXT_NAMES.index(name) for name in names]]


@pytest.mark.parametrize("name", ["sa", "ra", "mf", "ts-wf"])
def test_search_prints_the_hits_of_the_library(folder: Path, name: str) -> None:
    printed = json.loads(succeed(folder, *SEARCH, "--combine", name, "-k", "4", "--format", "json"))
    searcher = unhub.searcher(GALLERY, unhub.load(folder / "fitted.unhub"))
    sets = [rows_of("text 3", "text 4"), rows_of("text 1"), rows_of("text 9", "text 2", "text 9")]
    ids, scores = searcher.search_sets(sets, k=4, combine=name)
    assert [one["set"] for one in printed] == ["b", "a", "c"]
    assert [[hit["id"] for hit in one["hits"]] for one in printed] == ids.tolist()
    np.testing.assert_allclose([[hit["score"] for hit in one["hits"]] for one in printed], scores, rtol=1e-6)


def test_search_writes_every_format(folder: Path) -> None:
    table = succeed(folder, *SEARCH, "-k", "2", run=program)
    assert table.splitlines()[0].split() == ["set", "place", "score", "item"]
    assert len(table.splitlines()) == 2 + 3 * 2
    assert succeed(folder, *SEARCH, "-k", "2", "-o", "hits.npz") == "wrote hits.npz: the hits of 3 sets\n"
    with np.load(folder / "hits.npz") as hits:
        assert hits["sets"].tolist() == ["b", "a", "c"] and hits["ids"].shape == hits["scores"].shape == (3, 2)
    whole = succeed(folder, *SEARCH, "-k", "2", "--strength", "0", "--index", "faiss:Flat", "--json")
    assert json.loads(whole)[0]["set"] == "b"


def test_search_with_a_model_encodes_first_and_combines_by_its_head(folder: Path, model: Model) -> None:
    given = ("multi", "search", *GIVEN, *ASKED, "--correction", "encoded.unhub", "--model", "model.safetensors")
    searcher = unhub.searcher(model.encode_items(GALLERY), unhub.load(folder / "encoded.unhub"))
    texts = model.encode_texts(CAPTIONS).block(0, len(CAPTIONS))
    sets = [texts[[3, 4]], texts[[1]], texts[[9, 2, 9]]]
    for options, how in (((), model), (("--combine", "sa"), "sa")):
        printed = json.loads(succeed(folder, *given, *options, "-k", "5", "--json"))
        expected = searcher.search_sets(sets, k=5, combine=how).ids.tolist()
        assert [[hit["id"] for hit in one["hits"]] for one in printed] == expected


def test_search_takes_items_that_were_encoded_before(folder: Path, model: Model, apart: Path) -> None:
    given = ("--item-ids", "names.txt", *ASKED, "--correction", "apart.unhub", "--model", "model.safetensors")
    line = fail(folder, "multi", "search", "--items", "items.npy", *given)
    assert line.startswith("--model: encoding rounds differently") and "with --encoded-items" in line
    printed = json.loads(
        succeed(folder, "multi", "search", "--items", apart.name, *given, "--encoded-items", "-k", "5", "--json")
    )
    items = unhub.Vectors(GALLERY.ids, np.load(apart))
    texts = model.encode_texts(CAPTIONS).block(0, len(CAPTIONS))
    searcher = unhub.searcher(items, unhub.load(folder / "apart.unhub"))
    expected = searcher.search_sets([texts[[3, 4]], texts[[1]], texts[[9, 2, 9]]], k=5, combine=model).ids.tolist()
    assert [[hit["id"] for hit in one["hits"]] for one in printed] == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--queries", "wide.npy"), "--queries has 9 dimensions, --items 8; embed both with one model"),
        (
            ("--queries", "wide.npy", "--model", "model.safetensors"),
            "--queries has 9 dimensions, this tower was trained on 8; give the features of the same encoder",
        ),
        (("--sets", "strange.csv"), "--sets: strange.csv: 1 query id is not among the queries, for example 'no text'"),
        (("--sets", "wrong.csv"), "--sets: wrong.csv: has columns ['set', 'query_id']; `set_id` is required"),
        (("--sets", "texts.txt"), "--sets: texts.txt: sets are read from .csv, .tsv, .jsonl, .parquet files"),
        (("--sets", "none.csv"), "--sets: "),
        (
            ("--combine", "SA"),
            "--combine 'SA' is unknown; "
            "did you mean 'sa'? the combinations, besides a trained model, are sa, ra, mf, ts-wf",
        ),
        (
            ("--combine", "lg-wf"),
            "--combine 'lg-wf' is a head with trained weights; "
            "give --model, a file written by `unhub multi train --head lg-wf`",
        ),
        (("--strength", "-1"), "--strength must be at least 0, got -1; 0 is no correction, 1 is all of it"),
        (("-o", "sets.csv"), "--output: sets.csv is an input of this command"),
        (("--queries", "names.txt"), "--queries: names.txt: no reader"),
        (("-k", "0"), "-k must be a whole number of at least 1, got 0"),
    ],
)
def test_a_mistake_in_search_is_one_line(folder: Path, model: Model, change: tuple[str, ...], words: str) -> None:
    given = dict(zip(SEARCH[2::2], SEARCH[3::2], strict=True)) | dict(zip(change[::2], change[1::2], strict=True))
    assert words in fail(folder, "multi", "search", *(one for pair in given.items() for one in pair))


# Sets on disk.


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_sets_are_read_from_every_table(suffix: str, tmp_path: Path) -> None:
    rows = [(7, 1), (3, 0), (7, 0)]
    path = tmp_path / f"sets.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps({"set_id": one, "query_id": other}) + "\n" for one, other in rows))
    else:
        mark = {"csv": ",", "tsv": "\t"}[suffix]
        path.write_text(f"set_id{mark}query_id\n" + "".join(f"{one}{mark}{other}\n" for one, other in rows))
    found = read_sets(path)
    assert found.ids.tolist() == [7, 3] and len(found) == 2
    assert [one.tolist() for one in found.of(unhub.Vectors(np.array([1, 0]), np.eye(2)))] == [
        [[1, 0], [0, 1]],
        [[0, 1]],
    ]
    named = unhub.Vectors(np.array(["0", "1"]), np.eye(2))  # whole numbers also name ids that are strings
    assert [one.tolist() for one in found.of(named)] == [[[0, 1], [1, 0]], [[1, 0]]]
