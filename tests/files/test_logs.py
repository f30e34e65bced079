"""Query logs in every format: read as they were written, with bad lines named and a torn end left out."""

import csv
import gzip
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unhub
from unhub.data.query_log import UNKNOWN, IdLists, join_logs
from unhub.files.log_values import TimeUnit
from unhub.service.kept.log_writer import LogWriter

pytestmark = pytest.mark.once

DOG = {"query_id": "a1", "query": "a dog", "time": "2024-03-01T12:00:00Z", "ids": [7, 3, 9], "clicked": [3]}
CAT = {"query_id": "a2", "query": "a cat", "time": 1709294401, "ids": [9], "clicked": None, "variant": "B"}


def write_lines(path: Path, *lines: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def lists_of(found: IdLists | None) -> list[list[object]]:
    assert found is not None
    return [found.ids[found.span(row, row + 1)].tolist() for row in range(len(found))]


def test_a_log_of_json_lines_is_read_as_it_stands(tmp_path: Path) -> None:
    log = unhub.read_log(write_lines(tmp_path / "day.jsonl", DOG, CAT))
    assert len(log) == 2 and log.notes == ()
    assert log.query_ids is not None and log.query_ids.tolist() == ["a1", "a2"]
    assert log.times is not None and log.times.tolist() == [datetime(2024, 3, 1, 12), datetime(2024, 3, 1, 12, 0, 1)]
    assert log.texts is not None and log.texts.tolist() == ["a dog", "a cat"]
    assert log.vectors is None
    assert lists_of(log.returned) == [[7, 3, 9], [9]]
    assert log.clicked is not None and log.clicked.ids.tolist() == [3]
    assert log.clicked.positions.tolist() == [2]
    assert log.variants is not None and log.variants.tolist() == ["", "B"]


def test_lists_in_a_csv_file_are_json_or_separated_by_spaces(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        'text,ts,vector,results,click\n"a dog, big",1709294400123,0.5 -2,x y,y\nb,0,"[1, 2e0]","[""z""]",\n'
    )
    log = unhub.read_log(path)
    assert log.times is not None and log.times[0] == np.datetime64("2024-03-01T12:00:00.123")
    assert np.array_equal(np.asarray(log.vectors), np.array([[0.5, -2], [1, 2]], np.float32))
    assert lists_of(log.returned) == [["x", "y"], ["z"]]
    assert log.clicked is not None and log.clicked.positions.tolist() == [2]
    assert log.texts is not None and log.texts.tolist() == ["a dog, big", "b"]


def test_columns_have_the_names_they_are_given(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", {"q": "dog", "query": 5, "hits": [{"id": "i", "score": 1.0}]})
    log = unhub.read_log(path, text="q", returned="hits")
    assert log.texts is not None and log.texts.tolist() == ["dog"]
    assert lists_of(log.returned) == [["i"]]
    with pytest.raises(ValueError, match=r"x\.jsonl: no line has the column `when`"):
        unhub.read_log(path, text="q", time="when")


@pytest.mark.parametrize(
    ("told", "unit", "seconds"),
    [
        (1_709_294_400, "auto", 1_709_294_400.0),
        (1_709_294_400.25, "auto", 1_709_294_400.25),
        ("1709294400", "auto", 1_709_294_400.0),
        (1_709_294_400_250, "auto", 1_709_294_400.25),
        (1_709_294_400_250_000, "auto", 1_709_294_400.25),
        (1_709_294_400_250_000_999, "auto", 1_709_294_400.25),
        ("1709294400250000999", "auto", 1_709_294_400.25),
        (90_000_000_000, "ms", 90_000_000.0),
        (90_000_000_000, "ns", 90.0),
        ("2024-03-01 12:00:00.25", "auto", 1_709_294_400.25),
        ("2024-03-01T14:00:00+02:00", "auto", 1_709_294_400.0),
    ],
)
def test_times_are_iso_or_numbers(tmp_path: Path, told: object, unit: TimeUnit, seconds: float) -> None:
    log = unhub.read_log(write_lines(tmp_path / "x.jsonl", {"query": "a", "ts": told}), time_unit=unit)
    assert log.times is not None and log.times.view(np.int64)[0] == round(seconds * 1e6)


def test_an_unknown_unit_of_time_is_an_error() -> None:
    with pytest.raises(ValueError, match="time_unit 'hours' is unknown"):
        unhub.read_log("x.jsonl", time_unit="hours")  # type: ignore[arg-type]


def test_a_file_has_one_unit_of_time(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", *({"query": "a", "ts": one} for one in (0, 1.7e9, 1_709_294_400_250)))
    with pytest.raises(ValueError, match=r"x\.jsonl:3: .* in ms by its size, unlike those before, in s; if they have"):
        unhub.read_log(path)
    assert len(unhub.read_log(path, skip_bad=True)) == 2
    assert len(unhub.read_log(path, time_unit="ms")) == 3


BAD = {
    "no object": "[1, 2]",
    "no JSON": '{"query": "a"',
    "no UTF-8": b'{"query": "\xff", "ts": 5}',
    "half a character": '{"query": "\\ud800", "ts": 5}',
    "no time": '{"query": "a"}',
    "no date": '{"query": "a", "ts": "yesterday"}',
    "a time that is not finite": '{"query": "a", "ts": NaN}',
    "a huge time": '{"query": "a", "ts": ' + "9" * 400 + "}",
    "a time before 1970": '{"query": "a", "ts": -5}',
    "no text": '{"query": 5, "ts": 5}',
    "an empty id": '{"query": "a", "ts": 5, "ids": [""]}',
    "no id": '{"query": "a", "ts": 5, "ids": [true]}',
    "a vector unlike before": '{"query": "a", "ts": 5, "vector": [1]}',
    "places of other clicks": '{"query": "a", "ts": 5, "clicked": [1], "position": [1, 2]}',
    "a place before the first": '{"query": "a", "ts": 5, "clicked": [1], "position": 0}',
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD.keys())
def test_a_bad_line_is_named_and_left_out_on_request(tmp_path: Path, line: str | bytes) -> None:
    path = tmp_path / "x.jsonl"
    good = b'{"query": "b", "ts": 5}\n'
    path.write_bytes(good + (line.encode() if isinstance(line, str) else line) + b"\n\n" + good)
    with pytest.raises(ValueError, match=r"x\.jsonl:2: the line "):
        unhub.read_log(path)
    log = unhub.read_log(path, skip_bad=True)
    assert len(log) == 2
    assert log.notes[0].startswith("1 bad line left out: ") and "x.jsonl:2" in log.notes[0]


def test_bad_lines_are_counted_and_the_first_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('query,ts\na,1\nb\n"c"d,3\ne,x\nf,5,6\ng,"7\nh",\n')
    with pytest.raises(ValueError, match=r"x\.csv:3: .*x\.csv:4: .*x\.csv:5: .*; and 2 more"):
        unhub.read_log(path)
    assert len(unhub.read_log(path, skip_bad=True)) == 1


def test_lines_that_are_wrong_in_the_same_way_are_told_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", *({"foo": row} for row in range(9)), {"query": 5})
    one = "1: the line has the columns foo; none of query_id, query, .*; name yours, such as text=q "
    with pytest.raises(
        ValueError, match=rf"^[^ ]*x\.jsonl:{one}[^ ]*; [^ ]*:10: the line has the text 5; .*; and 8 more"
    ):
        unhub.read_log(path)
    path.write_bytes(bytes(range(128, 256)) + b"\n" + bytes(range(200, 256)) + b"\n")
    with pytest.raises(ValueError, match=r"x\.jsonl:1: the line is not UTF-8 text; and 1 more\."):
        unhub.read_log(path)
    (tmp_path / "x.csv").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"x\.csv: is not UTF-8 text; "):
        unhub.read_log(tmp_path / "x.csv")
    pq.write_table(pa.table({"foo": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet: has the columns foo; none of query_id, .* name yours"):
        unhub.read_log(tmp_path / "x.parquet")


def test_vectors_of_another_length_or_not_finite_are_bad(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", *({"vector": one} for one in ([1, 2], [1], [1e300, 0], ["1", 2], [3, 4])))
    log = unhub.read_log(path, skip_bad=True)
    assert np.array_equal(np.asarray(log.vectors), np.array([[1, 2], [3, 4]], np.float32))
    assert log.notes[0].startswith("3 bad lines left out")


@pytest.mark.parametrize("cut", ['{"query": "do', '{"query": "dog"'])
def test_a_torn_last_line_of_a_live_log_is_left_out_with_a_note(tmp_path: Path, cut: str) -> None:
    path = write_lines(tmp_path / "x.jsonl", {"query": "a"})
    with path.open("a") as file:
        file.write(cut)
    log = unhub.read_log(path)
    assert len(log) == 1
    assert log.notes == (f"The last line of {path} is cut off; it was left out.",)


@pytest.mark.parametrize("cut", ['a2,"a dog\n', 'a2,"a dog\nand a', 'a2,"a ""dog""\nand\n'])
def test_a_record_of_several_lines_that_is_cut_off_is_left_out_with_a_note(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f'query_id,query\na1,"a\ncat"\n{cut}')
    log = unhub.read_log(path)
    assert log.texts is not None and log.texts.tolist() == ["a\ncat"]
    assert log.notes == (f"The last line of {path}, which begins at line 4, is cut off; it was left out.",)


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize(("rows", "width"), [(30, 1), (3, 10_000)])
def test_a_quotation_mark_that_hides_the_rest_of_a_table_is_a_bad_line(
    tmp_path: Path, rows: int, width: int, end: str
) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("query_id\tquery\n" + 'a\t"cat\n' + "\n".join(["b\t" + "dog" * width] * rows) + end)
    with pytest.raises(ValueError, match=rf"x\.tsv:2: .* nothing closes, .* {rows + 1} lines on"):
        unhub.read_log(path)
    vectors = [f"b{row}\t1 2" for row in range(30)]
    path.write_text('query_id\tvector\na\t1 2\nb\t"1 2\n' + "\n".join(vectors) + end)
    for call in (lambda: unhub.add_log(path, tmp_path / "bank"), lambda: unhub.forget_queries(["b7"], logs=[path])):
        with pytest.raises(ValueError, match=r"x\.tsv:3: .* nothing closes"):
            call()


def test_a_last_line_that_is_whole_counts_without_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"query": "a"}\n{"query": "b"}')
    assert len(unhub.read_log(path)) == 2
    path.write_text('{"query": "a"}\n{"query": 5}')  # whole, and wrong
    with pytest.raises(ValueError, match=r"x\.jsonl:2"):
        unhub.read_log(path)


def test_files_of_a_folder_that_are_not_read_are_told(tmp_path: Path) -> None:
    logs, bank = tmp_path / "logs", tmp_path / "bank"
    (logs / "old").mkdir(parents=True)
    for name in ("q.jsonl", "q.jsonl.1", "q.jsonl.2.gz", ".q.jsonl", "old/q.zst", "_a", "b.bak"):
        (logs / name).write_text('{"query_id": "x", "vector": [1, 2]}\n')
    (logs / "_SUCCESS").touch()
    told = "logs: not read are .q.jsonl, _a, b.bak, old/q.zst, q.jsonl.1 and 1 more (in all 6): .jsonl, .ndjson, "
    read = unhub.read_log(logs)
    assert len(read) == 1 and told in read.notes[0]
    assert told in unhub.add_log(logs, bank).notes[0]
    forgotten = unhub.forget_queries(["x"], bank=bank, logs=[logs, logs])
    assert len(forgotten.notes) == 1 and told in forgotten.notes[0]


def test_a_folder_of_days_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "2024-03-02").mkdir()
    write_lines(tmp_path / "2024-03-02" / "b.jsonl", {"query": "third"})
    write_lines(tmp_path / "2024-03-01.jsonl", {"query": "first", "ids": ["x"]})
    (tmp_path / "2024-03-01b.csv").write_text("query\nsecond\n")
    pq.write_table(pa.table({"query": ["fourth"]}), tmp_path / "2024-03-03.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "README.md").touch()
    log = unhub.read_log(tmp_path)
    assert log.texts is not None and log.texts.tolist() == ["first", "second", "third", "fourth"]
    assert lists_of(log.returned) == [["x"], [], [], []]


def test_files_of_lines_may_be_packed_by_gzip(tmp_path: Path) -> None:
    plain = write_lines(tmp_path / "plain.jsonl", DOG, CAT)
    (tmp_path / "days" / "2024-03-02").mkdir(parents=True)
    (tmp_path / "days" / "2024-03-01.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "days" / "2024-03-02" / "b.csv.gz").write_bytes(gzip.compress(b"query_id,query,ts\na3,a fox,5\na4,a"))
    (tmp_path / "days" / "c.parquet.gz").touch()  # which is no log
    log = unhub.read_log(tmp_path / "days")
    assert log.texts is not None and log.texts.tolist() == ["a dog", "a cat", "a fox"]
    assert log.notes == (f"The last line of {tmp_path}/days/2024-03-02/b.csv.gz is cut off; it was left out.",)
    assert unhub.watch(tmp_path / "days" / "2024-03-01.jsonl.gz").current.queries == 2
    bad = tmp_path / "x.jsonl.gz"
    bad.write_bytes(gzip.compress(plain.read_bytes() + b"{\n" + plain.read_bytes()))
    with pytest.raises(ValueError, match=r"x\.jsonl\.gz:3: the line is not JSON"):
        unhub.read_log(bad)
    bad.write_bytes(bad.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"x\.jsonl\.gz: truncated or not what gzip wrote"):
        unhub.read_log(bad, skip_bad=True)
    with pytest.raises(ValueError, match=r"those of lines also as \.gz, and folders, not from \*\.gz"):
        unhub.read_log(tmp_path / "days" / "c.parquet.gz")


def test_parts_that_do_not_fit_together_are_an_error(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", {"vector": [1, 2]})
    write_lines(tmp_path / "b.jsonl", {"vector": [1]})
    with pytest.raises(ValueError, match=r"has vectors of \[1, 2\] dimensions"):
        unhub.read_log(tmp_path)
    write_lines(tmp_path / "b.jsonl", {"query": "a"})
    with pytest.raises(ValueError, match="has texts in one part and not in another"):
        unhub.read_log(tmp_path)


def test_a_log_without_a_query_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no log"):
        unhub.read_log(tmp_path)
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(ValueError, match="without a query yet"):
        unhub.read_log(tmp_path)
    (tmp_path / "a.npy").touch()
    with pytest.raises(ValueError, match="logs are read from"):
        unhub.read_log(tmp_path / "a.npy")
    for missing in ("missing.csv", "missing"):  # a folder has no suffix
        with pytest.raises(FileNotFoundError):
            unhub.read_log(tmp_path / missing)


def test_the_log_of_a_service_is_read_with_its_rows_mapped(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    for part in (rows[:2], rows[2:]):
        writer = LogWriter(tmp_path / "log", 3)
        for row in part:
            writer.append(row[None], ["x", "y"], "v1")
        writer.close()
    log = unhub.read_log(tmp_path / "log")
    assert np.array_equal(np.asarray(log.vectors), rows)
    assert log.query_ids is not None and log.query_ids.tolist() == [0, 1, 2, 3, 4]
    assert lists_of(log.returned) == [["x", "y"]] * 5
    assert log.variants is not None and set(log.variants.tolist()) == {"v1"}
    assert log.times is not None and abs(log.times[0] - np.datetime64(datetime.now(UTC).replace(tzinfo=None))) < (
        np.timedelta64(60, "s")
    )
    assert np.array_equal(np.asarray(unhub.read_vectors(tmp_path / "log").rows), rows)
    segment = tmp_path / "log" / "000002.jsonl"
    told = segment.read_text().splitlines()
    segment.write_text("\n".join([told[0], "{}", told[2]]) + "\n")
    with pytest.raises(ValueError, match=r"000002\.jsonl:2"):
        unhub.read_log(tmp_path / "log")
    assert np.array_equal(np.asarray(unhub.read_log(tmp_path / "log", skip_bad=True).vectors), rows[[0, 1, 2, 4]])


def test_times_and_vectors_of_parquet_have_their_own_types(tmp_path: Path) -> None:
    moments = [datetime(2024, 3, 1, 12), datetime(2024, 3, 1, 13)]
    for kind in (pa.timestamp("ns"), pa.timestamp("s", "Europe/Berlin"), pa.timestamp("us")):
        table = pa.table(
            {
                "ts": pa.array(moments, pa.timestamp("us")).cast(kind),
                "embedding": pa.array([[1.5, 2.0], [3.0, 4.0]], pa.list_(pa.float16())),
                "ids": pa.array([[1, 2], None], pa.list_(pa.int32())),
            }
        )
        pq.write_table(table, tmp_path / "x.parquet")
        log = unhub.read_log(tmp_path / "x.parquet")
        assert log.times is not None and log.times.tolist() == moments
        assert np.array_equal(np.asarray(log.vectors), np.array([[1.5, 2], [3, 4]], np.float32))
        assert lists_of(log.returned) == [[1, 2], []]
    for days in (pa.date32(), pa.date64()):
        pq.write_table(pa.table({"ts": pa.array(moments, days).dictionary_encode()}), tmp_path / "x.parquet")
        log = unhub.read_log(tmp_path / "x.parquet")
        assert log.times is not None and log.times.tolist() == [datetime(2024, 3, 1)] * 2
    pq.write_table(pa.table({"ts": pa.array([Decimal("1709294400.25")], pa.decimal128(20, 6))}), tmp_path / "x.parquet")
    assert unhub.read_log(tmp_path / "x.parquet").times == np.datetime64("2024-03-01T12:00:00.25")
    pq.write_table(pa.table({"ts": pa.array([10**14, 5], pa.timestamp("s"))}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet:0: the row has the time 3170843-11-07.*outside of the years"):
        unhub.read_log(tmp_path / "x.parquet")
    pq.write_table(pa.table({"embedding": [[1.0, 2.0], [None, 1.0], [3.0], [4.0, 5.0]]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet:1: the row .* and 0 more|x\.parquet:1: the row"):
        unhub.read_log(tmp_path / "x.parquet")
    assert len(unhub.read_log(tmp_path / "x.parquet", skip_bad=True)) == 2


def test_a_log_of_arrays_knows_the_places_of_clicks() -> None:
    log = unhub.QueryLog.of(
        query_ids=[1, 2], times=["2024-03-01", "2024-03-02"], returned=[["a", "b"], ["c"]], clicked=[["b", "z"], []]
    )
    assert log.clicked is not None and log.clicked.positions.tolist() == [2, UNKNOWN]
    assert repr(log) == "<QueryLog: 2 queries with query_ids, times, returned, clicked>"
    second = log.gather(np.array([1]))
    assert lists_of(second.returned) == [["c"]] and len(second) == 1
    assert lists_of(join_logs([second, log]).returned) == [["c"], ["a", "b"], ["c"]]
    with pytest.raises(ValueError, match="log has 2 query_ids, 1 texts"):
        unhub.QueryLog.of(query_ids=[1, 2], texts=["a"])
    with pytest.raises(ValueError, match="log holds nothing"):
        unhub.QueryLog.of()


def as_json(path: Path, lines: Sequence[Mapping[str, object]]) -> None:
    write_lines(path.with_suffix(".jsonl"), *lines)


def as_csv(path: Path, lines: Sequence[Mapping[str, object]]) -> None:
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows(
            {key: json.dumps(one) if isinstance(one, list) else one for key, one in line.items()} for line in lines
        )


def as_parquet(path: Path, lines: Sequence[Mapping[str, object]]) -> None:
    pq.write_table(
        pa.table({key: [line[key] for line in lines] for key in lines[0]}),
        path.with_suffix(".parquet"),
        row_group_size=2,
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1, max_size=8)
LINES = st.fixed_dictionaries(
    {
        "query_id": TEXTS,
        "query": TEXTS,
        "ts": st.integers(10**9, 9 * 10**10),
        "vector": st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
        "ids": st.lists(TEXTS, max_size=4, unique=True),
        "clicked": st.lists(TEXTS, max_size=2, unique=True),
        "variant": st.sampled_from(["A", "B"]),
    }
)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=1, max_size=6))
@pytest.mark.parametrize(("write", "suffix"), [(as_json, ".jsonl"), (as_csv, ".csv"), (as_parquet, ".parquet")])
def test_what_was_written_is_read_back(
    tmp_path: Path,
    write: Callable[[Path, Sequence[Mapping[str, object]]], None],
    suffix: str,
    lines: list[dict[str, object]],
) -> None:
    write(tmp_path / "log", lines)
    log = unhub.read_log(tmp_path / f"log{suffix}")
    assert log.query_ids is not None and log.texts is not None and log.times is not None
    assert log.variants is not None and log.clicked is not None
    assert [str(one) for one in log.query_ids] == [line["query_id"] for line in lines]
    assert log.texts.tolist() == [line["query"] for line in lines]
    assert (log.times.view(np.int64) // 10**6).tolist() == [line["ts"] for line in lines]
    assert np.array_equal(np.asarray(log.vectors), np.array([line["vector"] for line in lines], np.float32))
    assert [[str(one) for one in some] for some in lists_of(log.returned)] == [line["ids"] for line in lines]
    assert log.variants.tolist() == [line["variant"] for line in lines]
    clicked = IdLists(log.clicked.starts, log.clicked.ids)
    assert [[str(one) for one in some] for some in lists_of(clicked)] == [line["clicked"] for line in lines]


def test_a_log_is_read_in_pieces_as_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "x.jsonl", *({"query": f"{row}", "ids": [row]} for row in range(23)))
    whole = unhub.read_log(path)
    monkeypatch.setattr("unhub.files.logs.PIECE_QUERIES", 4)
    pieces = unhub.read_log(path)
    assert whole.texts is not None and pieces.texts is not None
    assert whole.texts.tolist() == pieces.texts.tolist()
    assert lists_of(whole.returned) == lists_of(pieces.returned)


def test_no_warning_escapes_a_vector_beyond_float32(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = unhub.read_log(write_lines(tmp_path / "x.jsonl", {"vector": [1e39]}, {"vector": [1]}), skip_bad=True)
    assert len(log) == 1
