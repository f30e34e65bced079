"""`unhub ab` prints what the library returns."""

import json
from pathlib import Path

import pytest

import unhub
from tests.command import fail, succeed

pytestmark = pytest.mark.once

AB = ("ab", "--hits", "log.jsonl", "--items-count", "50")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        {
            "query": f"q{row}",
            "ids": [row % 50, 3],
            "clicked": [3] if row % 5 < 2 + row % 2 else [],
            "arm": "xy"[row % 2],
        }
        for row in range(400)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_it_prints_what_the_library_returns(folder: Path) -> None:
    found = unhub.ab_test(folder / "log.jsonl", items=50)
    assert json.loads(succeed(folder, *AB, "--json")) == found.to_dict()
    told = succeed(folder, *AB, "--baseline", "y", "--split", "x=1,y=9")
    assert "by bootstrap over queries; hubness in samples of 100 different queries." in told
    assert "WARNING: the split is not the intended one" in told


def test_mistakes_are_one_line(folder: Path) -> None:
    assert "--split must be NAME=WEIGHT,NAME=WEIGHT, got 'x'" in fail(folder, *AB, "--split", "x")
    assert "--baseline 'xx' is unknown" in fail(folder, *AB, "--baseline", "xx")
    (folder / "log.jsonl").write_text('{"query": "a", "ids": [1]}\n')
    assert "--hits do not say which variant answered" in fail(folder, *AB)
