"""Logs of what was returned on the command line: `hubs --hits` and `eval --run`."""

import json
from pathlib import Path

import pytest

from tests.command import fail, succeed, write_fitted, write_inputs
from unhub.banks.repeats import NEAR, TEMPER

pytestmark = pytest.mark.once


EVAL = ("eval", "--items", "items.npy", "--item-ids", "names.txt", "--queries", "queries.npy")
READERS = {
    **{command: (command, "--items-count", "40", "--hits") for command in ("watch", "ab", "hubs")},
    "eval": (*EVAL, "--measures", "R@1", "--run"),
}
OTHER_NAMES = {"query_id": "n", "query": "said", "ids": "shown", "clicked": "opened", "variant": "side", "time": "when"}
FIELDS = {"query_id": "n", "text": "said", "returned": "shown", "clicked": "opened", "variant": "side", "time": "when"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        {
            "query_id": row,
            "query": f"text {row}",
            "ids": [f"[red] {item}.jpg" for item in (row, 39)],
            "clicked": clicked,
        }
        for row, clicked in enumerate([["[red] 39.jpg"], [], ["[red] 2.jpg"]])
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return write_inputs(tmp_path)


def test_hubs_of_a_log_need_no_vectors(folder: Path) -> None:
    out = json.loads(succeed(folder, "hubs", "--hits", "log.jsonl", "--item-ids", "names.txt", "--json"))
    assert (out["before"]["items"], out["before"]["queries"]) == (40, 3)
    assert out["before"]["anti_hubs"] == 36 / 40
    assert out["before"]["chance"]["anti_hubs"] == pytest.approx((1 - 2 / 40) ** 3)
    assert (out["hubs"][0]["id"], out["hubs"][0]["before"]) == ("[red] 39.jpg", 3)
    assert out["query_texts"][0] == ["text 0", "text 1", "text 2"]
    told = succeed(folder, "hubs", "--hits", "log.jsonl", "--items-count", "40")
    assert "Chance alone leaves 85.7% of the items out with this few queries" in told


def test_texts_in_rows_are_those_of_all_items_of_a_log(folder: Path) -> None:
    (folder / "said.txt").write_text("".join(f"said {row}\n" for row in range(40)))
    hubs = ("hubs", "--hits", "log.jsonl", "--item-texts", "said.txt", "--json")
    out = json.loads(succeed(folder, *hubs, "--item-ids", "names.txt"))
    assert [one["id"] for one in out["hubs"]] == [f"[red] {row}.jpg" for row in (39, 0, 1, 2)]
    assert out["item_texts"] == ["said 39", "said 0", "said 1", "said 2"]
    (folder / "said.txt").write_text("".join(f"said {row}\n" for row in range(4)))  # as many as were returned
    words = "said.txt: holds 4 texts, 40 are needed, one per row"
    assert words in fail(folder, *hubs, "--item-ids", "names.txt")
    assert fail(folder, *hubs, "--items-count", "40") == (
        "--item-texts: said.txt: has one text per row, and a log does not say which item that is; "
        "with --hits give --item-ids, or a .csv with id and text"
    )


def test_what_search_wrote_is_counted_against_its_correction(folder: Path) -> None:
    write_fitted(folder)
    search = ("search", "--items", "items.npy", "--item-ids", "names.txt", "--correction", "fitted.unhub")
    succeed(folder, *search, "--queries", "queries.npy", "-k", "4", "-o", "hits.jsonl", "--quiet")
    out = json.loads(succeed(folder, "hubs", "--hits", "hits.jsonl", "--correction", "fitted.unhub", "--json"))
    assert (out["before"]["items"], out["before"]["k"], out["before"]["queries"]) == (40, 4, 3)


def test_a_log_alone_is_no_evaluation_and_the_error_says_what_is(folder: Path) -> None:
    told = "--items is missing; give it, as vectors"
    assert fail(folder, "eval") == told
    assert fail(folder, "eval", "--run", "log.jsonl") == (
        f"{told}; of a log alone, `unhub hubs --hits` counts what was returned, and `unhub ab` compares by clicks"
    )


def test_what_log_add_did_is_shown_without_what_did_not_happen(folder: Path) -> None:
    lines = [json.dumps({"vector": [row, 1.0]}) + "\n" for row in range(3)]
    (folder / "v.jsonl").write_text("".join(lines))
    add = ("log", "add", "v.jsonl", "--bank", "made")
    assert [line.split()[:3] for line in succeed(folder, *add).splitlines()[2:]] == [
        ["new", "queries", "3"],
        ["files", "1"],
        ["too", "old", "0"],
        ["in", "the", "bank"],
    ]
    again = [" ".join(line.split()) for line in succeed(folder, *add).splitlines()]
    assert again[2:4] == ["new queries 0", "files 1, without anything new"]
    told = " ".join(succeed(folder, "log", "add", "--help").replace("│", "").split())
    for figure in (NEAR, TEMPER):
        assert f"(default: as before, at first {figure:g})" in told


def test_a_log_is_a_run_and_its_clicks_are_labels(folder: Path) -> None:
    out = json.loads(succeed(folder, *EVAL, "--run", "log.jsonl", "--measures", "R@1,R@2", "--json"))
    log = out["rankings"][1]
    assert {name: one["value"] for name, one in log["values"].items()} == {"R@1": 50.0, "R@2": 100.0}
    assert "favour the ranking of the log" in out["labels"][0]
    (folder / "truth.csv").write_text("query_id,item_id\n1,[red] 1.jpg\n")
    given = succeed(folder, *EVAL, "--run", "log.jsonl", "--relevance", "truth.csv", "--measures", "R@1", "--json")
    assert json.loads(given)["rankings"][1]["values"]["R@1"]["value"] == 100.0
    assert "labels" not in json.loads(given)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_every_reader_of_logs_takes_names_of_columns_the_unit_of_times_and_bad_lines(
    folder: Path, reader: tuple[str, ...]
) -> None:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    lines = [{**line, "variant": "xy"[row % 2], "time": 5e10 + row} for row, line in enumerate(lines)]
    usual, odd = folder / "own" / "log.jsonl", folder / "odd" / "log.jsonl"
    for path in (usual, odd):
        path.parent.mkdir()
    usual.write_text("".join(json.dumps({**line, "time": line["time"] / 1000}) + "\n" for line in lines))
    renamed = [{OTHER_NAMES[name]: value for name, value in line.items()} for line in lines]
    odd.write_text("".join(json.dumps(line) + "\n" for line in renamed[:2]) + "no line\n" + json.dumps(renamed[2]))
    named = [part for field, name in FIELDS.items() for part in ("--column", f"{field}={name}")]
    told = succeed(folder, *reader, "odd/log.jsonl", *named, "--time-unit", "ms", "--skip-bad")
    left_out = "1 bad line left out: odd/log.jsonl:3: the line is not JSON (Expecting value: line 1 column 1 (char 0))."
    assert left_out in told.splitlines()
    assert told.replace(left_out + "\n", "").replace("odd/", "own/") == succeed(folder, *reader, "own/log.jsonl")
    assert "--column 'txt' is unknown" in fail(folder, *reader, "own/log.jsonl", "--column", "txt=a")
    (folder / "a.run").write_text("0 Q0 [red] 1 0.5 x\n".replace("[red]", "7.jpg"))
    assert "--skip-bad has no effect; " in fail(folder, *reader, "a.run", "--skip-bad")


def test_log_add_takes_the_unit_of_times(folder: Path) -> None:
    (folder / "v.jsonl").write_text('{"vector": [1, 2], "time": 50000000000}\n')
    succeed(folder, "log", "add", "v.jsonl", "--bank", "bank", "--time-unit", "ms")  # in seconds it is to come
    assert "'min' is not one of 'auto', 's', 'ms', 'us', 'ns'" in fail(
        folder, "log", "add", "v.jsonl", "--bank", "bank", "--time-unit", "min"
    )


def test_an_error_names_the_option_or_the_argument_and_the_file(folder: Path) -> None:
    (folder / "bad.jsonl").write_text("no line\n")
    (folder / "days").mkdir()
    (folder / "bad.txt").write_text("1 2\n")
    (folder / "v.jsonl").write_text('{"vector": [1, 2]}\n')
    succeed(folder, "log", "add", "v.jsonl", "--bank", "made")
    ways = {"--hits": ("watch", "--hits"), "--run": (*EVAL, "--run"), "LOG": ("log", "add", "--bank", "made")}
    for name, command in ways.items():
        assert fail(folder, *command, "bad.jsonl").startswith(f"{name}: bad.jsonl:1: the line is not JSON (")
        assert fail(folder, *command, "gone.csv") == f"{name}: No such file or directory: gone.csv"
    assert fail(folder, "watch", "--hits", "days").startswith("--hits: days: holds no log; .jsonl, ")
    assert fail(folder, "watch", "--hits", "bad.txt") == (
        "--hits: bad.txt: line 1 has 2 fields, 6 are required: `qid Q0 docid rank score tag`; if it is to be a query "
        "log, name it as one: .jsonl, .ndjson, .csv, .tsv, .parquet files, those of lines also as .gz, or a folder"
    )
    forget = ("log", "forget", "--query-ids", "a", "--bank", "made", "--log", "bad.jsonl")
    assert fail(folder, *forget).startswith("--log: bad.jsonl:1: the line is not JSON (")


def test_mistakes_are_one_line(folder: Path) -> None:
    assert fail(folder, "hubs", "--items", "items.npy", "--queries", "queries.npy", "--time-unit", "s") == (
        "--time-unit has no effect; it goes with --hits"
    )
    assert fail(folder, "hubs", "--items", "items.npy") == (
        "--queries is missing; give it, or a log of what was returned as --hits"
    )
    assert "--device has no effect" in fail(folder, "hubs", "--hits", "log.jsonl", "--device", "cpu")
    assert "--items-count is 2, but 4 different" in fail(folder, "hubs", "--hits", "log.jsonl", "--items-count", "2")
    assert "--items-count has no effect" in fail(
        folder, "hubs", "--items", "items.npy", "--queries", "queries.npy", "--items-count", "9"
    )
    assert "--relevance is missing" in fail(folder, "eval", "--items", "items.npy", "--queries", "queries.npy")
