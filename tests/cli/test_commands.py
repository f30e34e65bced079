"""The command line prints and writes what the library returns."""

import csv
import dataclasses
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import typer

import unhub
from tests.command import (
    BANK,
    FIT,
    ITEMS,
    NAMES,
    QUERIES,
    SEARCH,
    fail,
    here,
    program,
    succeed,
    write_fitted,
    write_inputs,
)
from tests.corrections import bias
from unhub.cli import commands
from unhub.correction import Cost
from unhub.demo.emoji.space import FOLDER
from unhub.files import read_manifest
from unhub.methods import METHODS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_inputs(tmp_path)


@pytest.fixture
def fitted(folder: Path) -> Path:
    return write_fitted(folder)


def test_fit_writes_what_the_library_fits_and_says_what_it_cost(folder: Path) -> None:
    printed = succeed(folder, *FIT, "--method", "nnn", "--set", "k=7", "--set", "alpha=0.5", run=program)
    saved, expected = unhub.load(folder / "out.unhub"), unhub.fit(ITEMS, BANK, method="nnn:k=7,alpha=0.5")
    assert isinstance(saved, unhub.Bias)
    assert isinstance(expected, unhub.Bias)
    assert saved.method == expected.method
    np.testing.assert_allclose(saved.bias, expected.bias, atol=1e-6)
    assert "out.unhub" in printed
    assert "nnn:k=7,alpha=0.5" in printed
    assert re.search(r"cost +1 pass, \d+\.\d+ s, \d+ \w+ peak memory", printed)


def test_fit_passes_every_option_on(folder: Path) -> None:
    options = ("--bank-items", "queries.npy", "--similarity", "dot", "--threads", "1", "--memory", "1GB", "--mergeable")
    succeed(folder, *FIT, "--method", "dualis:beta_query=30", "--item-ids", "names.txt", *options)
    saved = unhub.load(folder / "out.unhub")
    direct = unhub.fit(
        unhub.Vectors(np.array(NAMES), ITEMS),
        BANK,
        method="dualis",
        beta_query=30,
        bank_items=QUERIES,
        similarity="dot",
        mergeable=True,
    )
    assert saved.ids.tolist() == NAMES
    assert (saved.method, saved.source) == (direct.method, direct.source)
    assert saved.arrays.keys() == direct.arrays.keys()


def test_commands_compute_on_a_device(folder: Path) -> None:
    printed = json.loads(succeed(folder, *FIT, "--device", "cpu", "--precision", "bf16", "--json"))
    assert printed["cost"]["kernel"] == "torch:cpu/bf16"
    assert "bf16" in printed["cost"]["notes"][0]
    asked = ("--items", "items.npy", "--queries", "queries.npy")
    search = ("search", *asked, "--correction", "out.unhub", "--format", "json")
    here, there = (json.loads(succeed(folder, *search, *more)) for more in ((), ("--device", "cpu")))
    assert [[hit["id"] for hit in one["hits"]] for one in here] == [[hit["id"] for hit in one["hits"]] for one in there]
    hubs = ("hubs", *asked, "--correction", "out.unhub", "--json")
    assert succeed(folder, *hubs) == succeed(folder, *hubs, "--device", "cpu")
    assert succeed(folder, *search, "--device", "auto")  # without a GPU, the exact index
    assert succeed(folder, *search, "--device", "numpy")  # as for other commands
    fitted = ("--correction", "out.unhub", "-o", "changed.unhub", "--device", "cpu", "--precision", "bf16", "--json")
    np.save(folder / "new.npy", ITEMS[:3] * 0.5)
    np.save(folder / "more.npy", BANK[:3] * 0.5)
    for change in (
        ("extend", "--new-items", "new.npy", "--bank", "bank.npy"),
        ("merge", "--items", "items.npy", "--more-bank", "more.npy"),
    ):
        assert json.loads(succeed(folder, *change, *fitted))["cost"]["kernel"] == "torch:cpu/bf16"
    sets = ("--items", "items.npy", "--bank", "bank.npy", "--queries", "queries.npy")
    plain = ("--methods", "nnn:k=2", "--device", "cpu", "--allow-raw", "-o", "tuned.unhub", "--json")
    tuned = succeed(folder, "tune", *sets, *plain)
    assert unhub.load(folder / "tuned.unhub").cost.kernel == "torch:cpu"
    assert json.loads(tuned)["path"] == "tuned.unhub"


def test_a_wrong_device_is_one_line_that_names_the_option(folder: Path) -> None:
    assert fail(folder, *FIT, "--device", "gpu").startswith("--device 'gpu' is unknown; a GPU is 'cuda', or")
    assert fail(folder, *FIT, "--precision", "bf16").startswith("--precision is 'bf16', which needs a device")
    succeed(folder, *FIT)
    kept = ("--correction", "out.unhub", "-o", "changed.unhub", "--device", "gpu")
    for command in (
        ("extend", "--new-items", "queries.npy", "--bank", "bank.npy", *kept),
        ("merge", "--items", "items.npy", "--more-bank", "queries.npy", *kept),
        ("tune", "--items", "items.npy", "--bank", "bank.npy", *kept[2:]),
    ):
        assert fail(folder, *command).startswith("--device 'gpu' is unknown; a GPU is 'cuda', or")
        assert not (folder / "changed.unhub").exists()
    search = ("search", "--items", "items.npy", "--queries", "queries.npy", "--correction", "out.unhub")
    for device in ("gpu", "cpu:5", "cpu:"):
        assert fail(folder, *search, "--device", device).startswith(f"--device {device!r} is ")
    both = fail(folder, *search, "--device", "cpu", "--index", "exact")
    assert both == "--device and --index both say where to search; give one of them"


def test_fit_is_silent_when_asked(folder: Path) -> None:
    assert succeed(folder, *FIT, "--quiet") == ""
    assert (folder / "out.unhub").exists()


def test_fit_prints_the_manifest_as_json(folder: Path) -> None:
    printed = json.loads(succeed(folder, *FIT, "--json"))
    assert printed == {"path": "out.unhub", **read_manifest(folder / "out.unhub")}
    assert printed["cost"]["passes"] == 1
    assert json.loads(succeed(folder, "info", "out.unhub", "--json")) == printed


def test_a_note_on_what_was_clipped_is_printed(folder: Path) -> None:
    assert re.search(r"note +k was clipped", succeed(folder, *FIT, "--method", "nnn"))


def test_sinkhorn_says_how_far_it_got(folder: Path) -> None:
    printed = succeed(folder, *FIT, "--method", "sn")
    assert re.search(r"iterations +10\n", re.sub(r" +\n", "\n", printed))
    assert re.search(r"marginal errors +queries \S+, items \S+", printed)


def test_search_prints_the_hits_of_the_library_as_json(fitted: Path) -> None:
    answers = json.loads(succeed(fitted, *SEARCH, "queries.npy", "-k", "4", "--strength", "0.5", "--json", run=program))
    assert answers == json.loads(succeed(fitted, *SEARCH, "queries.npy", "-k", "4", "--strength", "0.5", "--json"))
    items = unhub.Vectors(np.array(NAMES), ITEMS)
    hits = unhub.searcher(items, unhub.load(fitted / "fitted.unhub")).search(QUERIES, k=4, strength=0.5)
    assert [answer["query"] for answer in answers] == [0, 1, 2]
    assert [[hit["id"] for hit in answer["hits"]] for answer in answers] == hits.ids.tolist()
    scores = [[hit["score"] for hit in answer["hits"]] for answer in answers]
    np.testing.assert_allclose(scores, hits.scores, atol=1e-6)


def test_search_prints_a_table_with_ids_as_they_are(fitted: Path) -> None:
    printed = succeed(fitted, *SEARCH, "queries.npy", "-k", "2")
    head, _, *rows = printed.splitlines()
    assert head.split() == ["query", "place", "score", "item"]
    assert len(rows) == 6
    assert all(re.fullmatch(r" +[012] +[12] +-?\d\.\d{4}  \[red\] \d+\.jpg", row) for row in rows)
    assert len({row.index("[red]") for row in rows}) == 1  # numbers end in one column, whatever their signs


def test_search_writes_each_format_to_a_file(fitted: Path) -> None:
    for form in ("table", "json", "csv", "npz"):
        told = succeed(fitted, *SEARCH, "queries.npy", "--format", form, "-o", f"hits.{form}")
        assert told == f"wrote hits.{form}: the hits of 3 queries\n"
    with np.load(fitted / "hits.npz") as hits:
        assert hits["queries"].tolist() == [0, 1, 2]
        assert hits["ids"].shape == hits["scores"].shape == (3, 10)
        assert [
            [hit["id"] for hit in answer["hits"]] for answer in json.loads((fitted / "hits.json").read_text())
        ] == hits["ids"].tolist()
        head, *lines = csv.reader((fitted / "hits.csv").read_text().splitlines())
        assert head == ["query", "rank", "id", "score"]
        assert [(int(query), int(rank)) for query, rank, *_ in lines] == [
            (query, rank) for query in range(3) for rank in range(1, 11)
        ]
        assert [item for _, _, item, _ in lines] == hits["ids"].ravel().tolist()
        np.testing.assert_allclose([float(score) for *_, score in lines], hits["scores"].ravel())
    assert (fitted / "hits.table").read_text() == succeed(fitted, *SEARCH, "queries.npy")
    assert succeed(fitted, *SEARCH, "queries.npy", "-o", "hits.json", "--overwrite", "--quiet") == ""
    told = json.loads(succeed(fitted, *SEARCH, "queries.npy", "-o", "hits.json", "--overwrite", "--json"))
    assert told == {"path": "hits.json", "queries": 3, "k": 10}


def test_the_name_of_the_output_says_its_format_unless_one_is_given(fitted: Path) -> None:
    names = {"hits.json": "json", "h.jsonl": "jsonl", "h.csv": "csv", "h.NPZ": "npz", "hits.txt": "table", "h": "table"}
    for name, form in names.items():
        succeed(fitted, *SEARCH, "queries.npy", "-o", name)
        succeed(fitted, *SEARCH, "queries.npy", "-o", "given", "--format", form, "--overwrite")
        if form == "npz":  # which holds the time it was written
            with np.load(fitted / name) as found, np.load(fitted / "given") as given:
                assert found["ids"].tolist() == given["ids"].tolist()
        else:
            assert (fitted / name).read_bytes() == (fitted / "given").read_bytes()
    succeed(fitted, *SEARCH, "queries.npy", "-o", "hits.json", "--format", "table", "--overwrite")
    assert (fitted / "hits.json").read_bytes() == (fitted / "hits.txt").read_bytes()
    assert succeed(fitted, *SEARCH, "queries.npy", "--json") == succeed(
        fitted, *SEARCH, "queries.npy", "--format", "json"
    )


@pytest.mark.parametrize(
    ("arguments", "reads"),
    [
        (FIT, 0),
        ((*FIT, "--quiet"), 0),
        ((*FIT, "--json"), 0),
        (("remove", "--correction", "fitted.unhub", "--ids", "gone.txt", "-o", "less.unhub"), 1),
        (("info", "fitted.unhub"), 1),
        (("info", "fitted.unhub", "--json"), 1),
        (("info", "fitted.unhub", "--quiet"), 1),
        (("info", "model.safetensors"), 1),
    ],
)
def test_a_saved_file_is_read_once_and_not_by_what_wrote_it(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reads: int
) -> None:
    (fitted / "gone.txt").write_text(NAMES[0])
    shutil.copy(FOLDER / "model.safetensors", fitted)
    opened: list[str] = []
    safe_open = safetensors.safe_open

    def counted(path: Path, **how: str) -> object:
        opened.append(str(path))
        return safe_open(path, **how)

    monkeypatch.setattr(safetensors, "safe_open", counted)
    succeed(fitted, *arguments)
    assert len(opened) == reads, opened


def test_lines_of_json_are_the_list(fitted: Path) -> None:
    listed = json.loads(succeed(fitted, *SEARCH, "queries.npy", "--json"))
    for _ in range(2):
        succeed(fitted, *SEARCH, "queries.npy", "-o", "hits.jsonl", "--overwrite")
        assert [json.loads(line) for line in (fitted / "hits.jsonl").read_text().splitlines()] == listed


@pytest.mark.parametrize("name", ["hits.parquet", "hits.tsv", "hits.npy"])
def test_a_suffix_that_hits_are_not_written_to_is_a_mistake_unless_a_format_is_given(fitted: Path, name: str) -> None:
    said = fail(fitted, *SEARCH, "queries.npy", "-o", name)
    known = "hits are written to .txt, .json, .jsonl, .csv, .npz files"
    assert said == f"--output: {name}: {known}, got *{Path(name).suffix}; name one, or give --format"
    succeed(fitted, *SEARCH, "queries.npy", "-o", name, "--format", "csv")
    assert (fitted / name).read_text().startswith("query,rank,id,score\n")


def test_npz_goes_through_a_pipe(fitted: Path) -> None:
    succeed(fitted, *SEARCH, "queries.npy", "-o", "hits.npz")
    command = [sys.executable, "-m", "unhub", *SEARCH, "queries.npy", "--format", "npz"]
    done = subprocess.run(command, cwd=fitted, capture_output=True, timeout=120, check=True)
    with np.load(fitted / "hits.npz") as written, np.load(io.BytesIO(done.stdout)) as piped:
        assert {name: array.tolist() for name, array in piped.items()} == {
            name: array.tolist() for name, array in written.items()
        }


def test_places_that_nothing_fills_are_left_out_of_the_text(fitted: Path) -> None:
    done = here(fitted, *SEARCH, "queries.npy", "-k", "50", "--format", "json")
    assert [len(answer["hits"]) for answer in json.loads(done.stdout)] == [40, 40, 40]
    assert (done.returncode, done.stderr) == (
        0,
        "unhub: note: -k is 50, but there are only 40 items: all of them are returned\n",
    )
    assert succeed(fitted, *SEARCH, "queries.npy", "-k", "50", "--format", "json", "--quiet") == done.stdout


@pytest.mark.once
def test_info_says_what_a_file_is(tmp_path: Path) -> None:
    unhub.save(bias(np.arange(6)), tmp_path / "one.unhub")
    printed = succeed(tmp_path, "info", "one.unhub")
    for words in ("dis:tau=0.02", "cosine, 64 dimensions", "the matrix, in float32", "queries 1e-09, items 3e-07", "µ"):
        assert words in printed
    kernel = [line.split() for line in printed.splitlines() if line.startswith("kernel")]
    assert kernel == [["kernel", "numba"]]
    kept_nothing = dataclasses.replace(bias(np.arange(6)), cost=Cost(kernel="numba"))
    unhub.save(kept_nothing, tmp_path / "two.unhub")
    assert "nothing" not in succeed(tmp_path, "info", "two.unhub")


@pytest.mark.once
def test_methods_lists_every_method_with_its_parameters(tmp_path: Path) -> None:
    printed = succeed(tmp_path, "methods")
    listed = json.loads(succeed(tmp_path, "methods", "--json"))
    assert [one["name"] for one in listed] == list(METHODS)
    assert "k=128, alpha=0.75" in printed
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 100
    edges = [match.start() for match in re.finditer("─+", lines[1])]
    cells = {name: [""] * len(edges) for name in METHODS}
    name = ""
    for line in lines[2:]:  # a cell goes on in the lines below it
        parts = [line[start:stop].strip() for start, stop in itertools.pairwise([*edges, None])]
        name = parts[0] or name
        cells[name] = [f"{above} {part}".strip() for above, part in zip(cells[name], parts, strict=True)]
    assert cells == {
        one["name"]: [one["name"], one["kind"], ", ".join(one["needs"]), cells[one["name"]][3], one["what"]]
        for one in listed
    }
    needs = {one["name"]: one["needs"] for one in listed}
    assert needs["raw"] == []
    assert needs["is"] == ["bank"]
    assert needs["dualis"] == ["bank", "bank items"]
    assert needs["dbsn"] == ["bank", "perhaps bank items"]
    assert needs["otn"] == ["all queries at once", "the extra plans"]


@pytest.mark.once
def test_version_and_help(tmp_path: Path) -> None:
    assert succeed(tmp_path, "--version", run=program) == f"unhub {unhub.__version__}\n"
    assert succeed(tmp_path, run=program) == succeed(tmp_path, "--help", run=program)
    assert succeed(tmp_path, "-h") == succeed(tmp_path, "--help")
    for command in ("fit", "search", "info", "extend", "merge", "remove", "methods"):
        assert command in succeed(tmp_path, "--help")
        assert "Usage: unhub" in succeed(tmp_path, command, "--help")
        assert succeed(tmp_path, command, "-h") == succeed(tmp_path, command, "--help")


def every_command(group: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words and the command of every command, those of groups too."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*before, name), command
        if hasattr(command, "list_commands"):
            yield from every_command(command, *before, name)


def test_help_fits_80_columns_and_names_every_option_and_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    seen = 0
    for words, command in every_command(typer.main.get_command(commands.app)):
        shown = succeed(tmp_path, *words, "--help")
        assert max(map(len, shown.splitlines())) <= 80
        names = {one for given in command.params for one in (*given.opts, *given.secondary_opts) if one[0] == "-"}
        whole = set(re.findall(r"(?<![\w-])--?\w[\w-]*", shown))
        assert names <= whole, (words, names - whole)
        choices = [one.metavar for one in command.params if one.metavar and one.metavar.startswith("[")]
        assert all(one in shown for one in choices), (words, choices)
        seen += len(names)
    assert seen > 300


def test_the_list_of_commands_is_grouped(tmp_path: Path) -> None:
    known = {name for names in commands.PANELS.values() for name in names}
    assert known <= commands.COMMANDS.keys()
    shown = succeed(tmp_path, "--help")
    places = [shown.index(f" {panel} ") for panel in commands.PANELS]
    assert places == sorted(places)
    assert shown.index(" Keep up to date ") < shown.index(" extend ") < shown.index(" In your engine ")


@pytest.mark.once
def test_help_does_not_import_numpy(tmp_path: Path) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules)); from unhub.cli import main; main()"
    )
    for arguments in (("--help",), ("fit", "--help"), ("--version",)):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.splitlines()[-1] == "False"
