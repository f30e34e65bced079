"""Ids that are not UTF-8, as names of files may be: whatever is done with them ends well."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.command import BANK, ITEMS, QUERIES, program, succeed
from unhub.evaluation.tables import as_text
from unhub.files import read_draws, read_ids, read_relevance, read_sets, read_vectors, write_draws

pytestmark = pytest.mark.once

NAMES = [os.fsdecode(b"caf\xe9%d.png" % row) for row in range(40)]
ASKED = [os.fsdecode(b"q\xff%d" % row) for row in range(3)]
SEARCH = ("search", "--items", "items.npz", "--correction", "fitted.unhub", "--queries", "queries.npz", "-k", "2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "items.npz", vectors=ITEMS, ids=np.array(NAMES))
    np.savez(tmp_path / "queries.npz", vectors=QUERIES, ids=np.array(ASKED))
    unhub.save(unhub.fit(named(NAMES, "items.npz"), BANK, method="nnn:k=5"), tmp_path / "fitted.unhub")
    pairs = [{"query_id": one, "item_id": NAMES[0]} for one in ASKED]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return tmp_path


def named(names: list[str], file: str) -> unhub.Vectors:
    return unhub.Vectors(np.array(names), ITEMS if file == "items.npz" else QUERIES)


def test_hits_are_written_in_every_form(folder: Path) -> None:
    for _ in range(2):  # the second time over the first
        for suffix in ("json", "csv", "npz", "txt"):
            succeed(folder, *SEARCH, "-o", f"hits.{suffix}", "--overwrite")
    hits = json.loads((folder / "hits.json").read_text(encoding="utf-8"))
    assert [one["query"] for one in hits] == ASKED
    assert {hit["id"] for one in hits for hit in one["hits"]} <= set(NAMES)
    with np.load(folder / "hits.npz") as arrays:
        assert arrays["queries"].tolist() == ASKED
        assert arrays["ids"][:, 0].tolist() == [one["hits"][0]["id"] for one in hits]
    with (folder / "hits.csv").open(encoding="utf-8") as file:
        assert next(csv.DictReader(file))["query"] == r"q\udcff0"
    assert r"q\udcff0      1" in (folder / "hits.txt").read_text(encoding="utf-8")


def test_a_terminal_shows_them_and_json_keeps_them(folder: Path) -> None:
    assert r"q\udcff0" in succeed(folder, *SEARCH, run=program)
    assert [one["query"] for one in json.loads(succeed(folder, *SEARCH, "--json", run=program))] == ASKED
    found = json.loads(succeed(folder, "hubs", *SEARCH[1:-2], "--json", run=program))
    assert found["hubs"][0]["id"] in NAMES


def test_a_table_stays_in_its_columns() -> None:
    assert as_text(("a", "b"), [("\udce9", "x"), ("c", "y")]).splitlines()[2:] == [r"\udce9  x", "c       y"]


def test_a_report_and_the_ranks_of_an_evaluation_are_written(folder: Path) -> None:
    asked = ("--items", "items.npz", "--queries", "queries.npz", "--relevance", "pairs.jsonl")
    corrected = (*asked, "--correction", "fitted.unhub")
    succeed(folder, "eval", *corrected, "-o", "ranks.csv", "--quiet")
    assert r"q\udcff0," in (folder / "ranks.csv").read_text(encoding="utf-8")
    np.save(folder / "bank.npy", BANK)
    succeed(folder, "report", *corrected, "--bank", "bank.npy", "-o", "page.html", "--quiet")
    assert r"caf\udce9" in (folder / "page.html").read_text(encoding="utf-8")
    made = unhub.report(named(NAMES, "items.npz"), BANK, named(ASKED, "queries.npz"), path=folder / "other.html")
    assert r"caf\udce9" in made.html


def test_they_are_read_where_a_file_can_hold_them(folder: Path) -> None:
    assert unhub.load(folder / "fitted.unhub").ids.tolist() == NAMES
    assert read_vectors(folder / "items.npz").ids.tolist() == NAMES
    assert read_relevance(folder / "pairs.jsonl").query_ids.tolist() == ASKED
    (folder / "sets.jsonl").write_text(json.dumps({"set_id": ASKED[0], "query_id": ASKED[1]}))
    assert read_sets(folder / "sets.jsonl").ids.tolist() == ASKED[:1]
    texts, items = named(ASKED, "queries.npz"), named(NAMES, "items.npz")
    write_draws(unhub.Draws.of(texts, items, dict(zip(ASKED, NAMES, strict=False)), sizes=(1,)), folder / "d.npz")
    assert read_draws(folder / "d.npz").text_ids.tolist() == ASKED
    (folder / "e").mkdir()
    np.save(folder / "e" / "embeddings.npy", QUERIES)
    (folder / "e" / "manifest.json").write_text(json.dumps({"format": 1, "rows": 3, "dimensions": 8}))
    (folder / "e" / "ids.json").write_text(json.dumps(ASKED))
    assert read_vectors(folder / "e").ids.tolist() == ASKED


def test_a_file_of_ids_that_is_not_utf8_is_refused_at_the_door(folder: Path) -> None:
    (folder / "names.txt").write_bytes(b"\n".join(map(os.fsencode, NAMES)))
    np.save(folder / "rows.npy", ITEMS)
    with pytest.raises(ValueError, match=r"names\.txt: ids must be UTF-8 text"):
        read_vectors(folder / "rows.npy", ids=folder / "names.txt")


def test_an_id_that_an_array_would_cut_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("a\0\nb\n")
    for text in (False, True):
        with pytest.raises(ValueError, match=r"ids\.txt: an id ends in NUL"):
            read_ids(tmp_path / "ids.txt", text=text)
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"query_id": "a\0", "item_id": 1}))
    with pytest.raises(ValueError, match=r"pairs\.jsonl: line 1: query_id is 'a\\x00'"):
        read_relevance(tmp_path / "pairs.jsonl")


@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_that_are_no_characters_are_no_id(tmp_path: Path, order: str) -> None:
    ids = np.array([97, 0x110000], f"{order}u4").view(f"{order}U1")
    np.savez(tmp_path / "rows.npz", vectors=ITEMS[:2], ids=ids)
    with pytest.raises(ValueError, match=r"rows\.npz has an id that is not valid text"):
        read_vectors(tmp_path / "rows.npz")
    np.savez(tmp_path / "rows.npz", vectors=ITEMS[:2], ids=np.array(["a", "é"], f"{order}U1"))
    assert read_vectors(tmp_path / "rows.npz").ids.tolist() == ["a", "é"]
