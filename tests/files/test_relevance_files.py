"""Relevance and texts are read from every format alike, and what is wrong with a file is said with its line."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.vector_files import write_parquet
from unhub.files.columns import PIECE_ROWS

pytestmark = pytest.mark.once

PAIRS = [("q1", "a", 2.0), ("q1", "b", 1.0), ("q 2", "b", 0.5), ("q3", "ç,é", 1.0)]


def write(path: Path, pairs: list[tuple[str, str, float]] = PAIRS) -> Path:
    """Write pairs in the format of the suffix."""
    if path.suffix == ".parquet":
        queries, items, grades = zip(*pairs, strict=True)
        return write_parquet(path, query_id=list(queries), item_id=list(items), grade=list(grades))
    lines = {
        ".csv": ["query_id,item_id,grade", *(f'{query},"{item}",{grade}' for query, item, grade in pairs)],
        ".tsv": ["grade\tmore\titem_id\tquery_id", *(f"{grade}\tx\t{item}\t{query}" for query, item, grade in pairs)],
        ".jsonl": [json.dumps({"item_id": item, "query_id": query, "grade": grade}) for query, item, grade in pairs],
    }.get(path.suffix, [f"{query} 0 {item}\t{grade}" for query, item, grade in pairs])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def pairs_of(relevance: unhub.Relevance) -> list[tuple[object, object, float]]:
    return list(zip(relevance.query_ids.tolist(), relevance.item_ids.tolist(), relevance.grades.tolist(), strict=True))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_table_of_any_format_gives_the_same_pairs(tmp_path: Path, suffix: str) -> None:
    assert pairs_of(unhub.read_relevance(write(tmp_path / f"pairs{suffix}"))) == PAIRS


@pytest.mark.parametrize("suffix", [".qrels", ".txt", "", ".trec"])
def test_qrels_are_known_by_their_suffix_or_by_four_columns(tmp_path: Path, suffix: str) -> None:
    judged = [("q1", "a", 2.0), ("q1", "b", 1.0), ("q3", "b", 0.0), ("q3", "c", -1.0), ("q3", "d", 1.0)]
    path = tmp_path / f"judged{suffix}"
    path.write_text("\n".join(f"{query} Q0\t{item} {grade:.0f}" for query, item, grade in judged))
    assert pairs_of(unhub.read_relevance(path)) == [judged[0], judged[1], judged[4]]  # grades over 0 are kept


def test_qrels_in_a_file_named_tsv_are_qrels(tmp_path: Path) -> None:
    (tmp_path / "judged.tsv").write_text("7\t0\t12\t1\n8\t0\t13\t1\n")
    assert pairs_of(unhub.read_relevance(tmp_path / "judged.tsv")) == [(7, 12, 1.0), (8, 13, 1.0)]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_ids_that_are_all_plain_integers_become_integers_and_only_those(tmp_path: Path, suffix: str) -> None:
    plain = unhub.read_relevance(write(tmp_path / f"plain{suffix}", [("7", "07", 1.0), ("-8", "1", 1.0)]))
    assert plain.query_ids.tolist() == [7, -8]
    assert plain.item_ids.tolist() == ["07", "1"]
    ends = [("9223372036854775807", "9223372036854775808", 1.0), ("-9223372036854775808", "1", 1.0)]
    longest = unhub.read_relevance(write(tmp_path / f"longest{suffix}", ends))
    assert longest.query_ids.tolist() == [2**63 - 1, -(2**63)]
    assert longest.item_ids.tolist() == ["9223372036854775808", "1"]


def test_integers_of_a_typed_file_are_integers(tmp_path: Path) -> None:
    write_parquet(tmp_path / "pairs.parquet", query_id=[3, 4], item_id=[5, 6])
    (tmp_path / "pairs.jsonl").write_text('{"query_id": 3, "item_id": 5}\n\n{"query_id": 4, "item_id": 6}\n')
    for name in ("pairs.parquet", "pairs.jsonl"):
        assert pairs_of(unhub.read_relevance(tmp_path / name)) == [(3, 5, 1.0), (4, 6, 1.0)]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".qrels"])
def test_one_name_late_in_a_long_file_makes_all_its_ids_strings(tmp_path: Path, suffix: str) -> None:
    names = [str(row) for row in range(2 * PIECE_ROWS)] + ["x"]
    relevance = unhub.read_relevance(write(tmp_path / f"long{suffix}", [(name, "1", 1.0) for name in names]))
    assert relevance.query_ids.tolist() == names
    assert set(relevance.item_ids.tolist()) == {1}


def test_a_byte_order_mark_empty_lines_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_bytes("\ufeffquery_id,item_id\r\nq,a\r\n\r\nq,b\r\n".encode())
    (tmp_path / "pairs.qrels").write_bytes("\ufeffq 0 a 1\r\n\r\nq 0 b 1\r\n".encode())
    for name in ("pairs.csv", "pairs.qrels"):
        assert pairs_of(unhub.read_relevance(tmp_path / name)) == [("q", "a", 1.0), ("q", "b", 1.0)]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "query,item\n1,2\n", r"has columns \['query', 'item'\]; `query_id` is required$"),
        ("a.csv", "query_id,item_id,item_id\n1,2,3\n", "`item_id` must occur only once$"),
        ("a.csv", "", r"has columns \[\]"),
        ("a.csv", "query_id,item_id\n", "holds no rows"),
        ("a.csv", "query_id,item_id\n1,2\n3\n", "line 3 has 1 fields, the head 2"),
        ("a.csv", 'query_id,item_id\n"a\nb",2\n3\n', "line 4 has 1 fields"),
        ("a.csv", 'query_id,item_id\n1,"2"3\n', "line 2: "),
        ("a.csv", "query_id,item_id,grade\n1,2,1\n1,3,good\n", "line 3: grade is 'good'; a finite number is required"),
        ("a.csv", "query_id,item_id,grade\n1,2,nan\n", "line 2: grade is 'nan'"),
        ("a.csv", "query_id,item_id\n1,2\n\n,3\n", "line 4: query_id is ''"),
        ("a.csv", "query_id,item_id,grade\n1,2,1\n1,2,2\n", "has two grades"),
        ("a.jsonl", '{"query_id": 1}\n', r"line 1 has keys \['query_id'\]; `item_id` is required"),
        ("a.jsonl", '{"query_id": 1, "item_id": 2}\n{', "line 2 is not JSON"),
        ("a.jsonl", "[1, 2]\n", "line 1 is not an object"),
        ("a.jsonl", '{"query_id": 1.5, "item_id": 2}\n', "line 1: query_id is 1.5"),
        ("a.jsonl", '{"query_id": true, "item_id": 2}\n', "line 1: query_id is True"),
        ("a.jsonl", '{"query_id": 1, "item_id": 2, "grade": null}\n', "line 1: grade is None"),
        ("a.qrels", "1 0 2 1\n1 0 3\n", "line 2 has 3 fields, 4 are required: `qid iter docid grade`$"),
        ("a.qrels", "1 0 2 1\n1 0 3 x\n", "line 2: grade is 'x'"),
        ("a.qrels", "1 0 2 0\n", "no pair with a grade over 0"),
        ("a.xml", "<a/>\n", r"relevance is read from \.csv, .*\.qrels.* not from \*\.xml"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"{name}: .*{words}"):
        unhub.read_relevance(tmp_path / name)


def test_a_bad_line_is_counted_from_the_first_of_the_file(tmp_path: Path) -> None:
    rows = [f"{row},{row},1" for row in range(PIECE_ROWS + 10)]
    rows[PIECE_ROWS + 5] = "1,2,"
    (tmp_path / "long.csv").write_text("query_id,item_id,grade\n" + "\n".join(rows))
    with pytest.raises(ValueError, match=f"line {PIECE_ROWS + 7}: grade is ''"):
        unhub.read_relevance(tmp_path / "long.csv")


def test_a_parquet_file_names_its_columns_and_its_empty_row(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.parquet: has columns \['query_id', 'doc'\]; `item_id` is required"):
        unhub.read_relevance(write_parquet(tmp_path / "a.parquet", query_id=[1], doc=[2]))
    with pytest.raises(ValueError, match=r"b\.parquet: row 1: item_id is None"):
        unhub.read_relevance(write_parquet(tmp_path / "b.parquet", query_id=[1, 2], item_id=["a", None]))


def test_a_file_that_is_not_text_or_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"query_id,item_id\n\xff,1\n")
    with pytest.raises(ValueError, match=r"a\.csv: must be UTF-8"):
        unhub.read_relevance(tmp_path / "a.csv")
    for name in ("none.csv", "none.qrels", "none.parquet", "none.xml"):
        with pytest.raises(FileNotFoundError):
            unhub.read_relevance(tmp_path / name)


def test_without_pyarrow_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "pairs.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"unhub\[parquet\]"):
        unhub.read_relevance(path)


def test_texts_by_row_must_number_the_rows(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes("one\r\n\r\nthr\rée\n".encode())
    texts = unhub.read_texts(tmp_path / "texts.txt")
    assert texts.of(np.array(["x", "y", "z"])) == ["one", "", "thr\rée"]  # a lone \r ends no line
    with pytest.raises(ValueError, match=r"texts\.txt: holds 3 texts, 2 are needed"):
        texts.of(np.array([0, 1]))
    (tmp_path / "latin.txt").write_bytes("thrée".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt: must be UTF-8 text"):
        unhub.read_texts(tmp_path / "latin.txt")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_texts_by_id_follow_the_ids_and_miss_none(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"texts{suffix}"
    said = {"7": "a dog, running", "5": "", "9": "two cats"}
    if suffix == ".parquet":
        write_parquet(path, id=list(said), text=list(said.values()))
    elif suffix == ".jsonl":
        path.write_text("\n".join(json.dumps({"id": name, "text": text}) for name, text in said.items()))
    else:
        gap = {".csv": ",", ".tsv": "\t"}[suffix]
        path.write_text("\n".join([f"id{gap}text", *(f'{name}{gap}"{text}"' for name, text in said.items())]))
    texts = unhub.read_texts(path)
    assert texts.of(np.array([9, 7])) == ["two cats", "a dog, running"]
    assert texts.of(np.array(["5", "7"])) == ["", "a dog, running"]  # ids that are strings elsewhere
    with pytest.raises(ValueError, match=r"has no text for 1 of the ids.*8"):
        texts.of(np.array([7, 8]))


def test_texts_must_be_texts_with_ids_that_do_not_repeat(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": 2}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl: line 1: text is 2; a text is required"):
        unhub.read_texts(tmp_path / "a.jsonl")
    (tmp_path / "b.csv").write_text("id,text\n1,a\n1,b\n")
    with pytest.raises(ValueError, match=r"b\.csv has repeated ids"):
        unhub.read_texts(tmp_path / "b.csv")
    (tmp_path / "c.md").write_text("x")
    with pytest.raises(ValueError, match=r"c\.md: texts are read from \.txt, \.csv"):
        unhub.read_texts(tmp_path / "c.md")
