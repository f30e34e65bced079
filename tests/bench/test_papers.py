"""The page of the papers: it lists every table and figure, and its commands and options are there."""

import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import unhub
from tests.bench.tiny_sets import PARTS, part_of, tiny, write_vectors
from tests.command import succeed
from unhub.bench.published import CITED, WITHOUT_FIGURES, published
from unhub.cli.commands import app
from unhub.evaluation.measures import parse_measures
from unhub.methods import parse

pytestmark = pytest.mark.once

PAGE = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
LETTERED = re.findall(r"^\| ([A-Z]) \| `(unhub [^`]+)`", PAGE, re.MULTILINE)


def numbers(last: int, appendix: int = 0) -> list[str]:
    return [*map(str, range(1, last + 1)), *(f"A{number}" for number in range(1, appendix + 1))]


# Counted in the papers.
TABLES = {"qbnorm": numbers(21), "nnn": numbers(3, 15), "dbsn": numbers(6, 10), "mqvr": numbers(2)}
FIGURES = {"qbnorm": numbers(8), "nnn": numbers(3, 2), "dbsn": numbers(10, 11), "mqvr": [*numbers(5), "6a", "6b"]}


def listed(paper: str, kind: str) -> dict[str, list[str]]:
    """Return the rows of the list of tables or figures of a paper, by their numbers."""
    section = PAGE.split(f"\n## {paper}\n")[1].split("\n## ")[0]
    lines = section[section.index(f"\n| {kind} |") :].strip().split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {number: cells for number, *cells in rows}


@pytest.mark.parametrize("paper", CITED)
def test_every_table_and_figure_of_a_paper_is_listed_with_a_command_or_a_reason(paper: str) -> None:
    for kind, known in (("table", TABLES), ("figure", FIGURES)):
        rows = listed(paper, kind)
        assert list(rows) == known[paper]
        assert all(cells[0] and cells[-1] for cells in rows.values())


def test_a_table_can_be_asked_for_exactly_where_figures_of_it_are_published() -> None:
    asked = re.findall(r"`unhub bench table (\w+:\w+) --work W`", PAGE)
    assert asked == list(dict.fromkeys(asked))
    assert set(asked) == {f"{one.paper}:{one.table}" for one in published()}


def test_tables_without_figures_are_those_that_the_page_has_no_command_for() -> None:
    without = [
        f"{paper}:{number}"
        for paper in CITED
        for number, row in listed(paper, "table").items()
        if "bench table" not in row[-1]
    ]
    assert sorted(WITHOUT_FIGURES) == sorted(without)


def test_the_sets_to_run_are_those_of_the_published_figures() -> None:
    for paper in CITED:
        for number, (_, run, then) in listed(paper, "table").items():
            if "bench table" in then:
                sets = {one.data_set for one in published(paper, number)}
                assert set(re.findall(r"`(\w+)`", run)) == sets, (paper, number)


def commands() -> list[list[str]]:
    texts = [*re.findall(r"`(unhub [^`]+)`", PAGE), *re.findall(r"^(unhub .+)$", PAGE, re.MULTILINE)]
    return [shlex.split(text)[1:] for text in dict.fromkeys(texts)]


def options_of(words: list[str]) -> set[str] | None:
    """Return the options of the command that these words call, or None if there is no such command."""
    command: Any = typer.main.get_command(app)
    for word in words:
        if not hasattr(command, "get_command"):
            break
        command = command.get_command(None, word)
        if command is None:
            return None
    return {name for one in command.params for name in one.opts}


def test_the_options_of_every_command_exist() -> None:
    assert len(commands()) > 60
    for words in commands():
        options = options_of(words)
        assert options is not None, words
        assert {word for word in words if word.startswith("-")} <= options, words
        if any(word.startswith("-") for word in words):  # otherwise the command is only named
            parsed(words)


def test_every_option_of_a_figure_is_one_of_its_command() -> None:
    by_letter = {letter: shlex.split(command)[1:] for letter, command in LETTERED}
    tried = 0
    for paper in CITED:
        for _, then in listed(paper, "figure").values():
            named = [letter for letter in re.findall(r"\b([A-Z])\b", then) if letter in by_letter]
            for added in re.findall(r"`(-[^`]+)`", then):
                words = shlex.split(added)
                if named and len(words) > 1:
                    options = [options_of(by_letter[letter]) or set() for letter in named]
                    assert any({word for word in words if word.startswith("-")} <= one for one in options), then
                    check_values(words)
                    tried += 1
    assert tried > 5


def check_values(words: list[str]) -> None:
    """Read the methods and measures that follow their options."""
    for option, value in pairwise(words):
        if option == "--method":
            parse(value)
        if option == "--measure" and value != "skewness":
            parse_measures([value])


def parsed(words: list[str]) -> None:
    """Let the command read its words, as it does before it looks for files."""
    command: Any = typer.main.get_command(app)
    rest = words
    while hasattr(command, "get_command"):
        command, rest = command.get_command(None, rest[0]), rest[1:]
    command.make_context("unhub", [*rest])
    check_values(words)


def files_of() -> dict[str, str]:
    """Return the files that the names in capitals stand for, as the page lists them."""
    lines = PAGE.split("\n| name | file |\n")[1].split("\n\n")[0].splitlines()[1:]
    rows = [line.strip("| ").split(" | ") for line in lines]
    return {
        name: file
        for names, files in rows
        for name, file in zip(names.split(", "), re.findall(r"`([^`]+)`", files), strict=True)
    }


def write_files(folder: Path) -> dict[str, str]:
    """Write what `unhub bench files` writes of a tiny data set and the bank of another, by the names of the page."""
    ready = write_vectors(folder / "mine", tiny())
    (ready / "coco").mkdir()
    for side in ("queries", "items"):
        (ready / "coco" / f"train-{side}.npy").write_bytes((ready / f"val-{side}.npy").read_bytes())
    coco = replace(tiny(), name="coco", parts={"train": part_of("coco", 20)})
    made = unhub.bench_files(tiny(), folder / "work", embeddings=ready, banks_from=[coco])
    return {name: str(made.folder / file) for name, file in files_of().items()}


def filled(words: list[str], files: dict[str, str]) -> list[str]:
    """Return a command with the files in place of the names in capitals."""
    split = [word.rpartition("=") for word in words]
    return [f"{before}{equals}{files.get(last, last)}" for before, equals, last in split]


def test_the_commands_of_the_figures_run_on_the_files_that_are_written(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    by_letter = {letter: shlex.split(text)[1:] for letter, text in LETTERED}
    others = [words for words in commands() if words[:2] in (["multi", "train"], ["multi", "encode"])]
    assert len(by_letter) > 8 and len(others) == 2
    for words in (*by_letter.values(), *others):
        quick = ["--epochs", "1", "--dimensions", "8"] if words[:2] == ["multi", "train"] else []
        succeed(tmp_path, *filled(words, files), *quick)
        assert [one for word in words if (one := tmp_path / word).suffix and one.stat().st_size] or "-o" not in words
    assert '`unhub.load("model.safetensors").combination.weights(sets)`' in PAGE
    encoded = np.asarray(unhub.read_vectors(tmp_path / "encoded.npz").rows[:6], np.float32)
    weights = unhub.load(tmp_path / "model.safetensors", "model").combination.weights(encoded.reshape(2, 3, -1))
    assert weights.shape == (2, 3) and weights.sum(axis=1) == pytest.approx(1)
    added = next(then for number, (_, then) in listed("dbsn", "figure").items() if number == "7")
    more = shlex.split(re.findall(r"`(--method[^`]+)`", added)[0])
    bank_items = filled(more, files)[more.index("--bank-items") + 1]
    pictures = {f"train picture {number}" for number in range(PARTS["train"])}
    assert {*map(str, unhub.read_vectors(bank_items).ids)} == pictures
    succeed(tmp_path, *filled([*by_letter["S"], *more], files), "--overwrite")
