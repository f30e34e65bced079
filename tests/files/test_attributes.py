"""Attributes of items: which of them a filter selects, and what a filter may not do."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.command import fail, here, write_fitted, write_inputs
from tests.vector_files import write_parquet
from unhub.errors import ArgumentError
from unhub.files import Attributes, read_attributes

pytestmark = pytest.mark.once

CSV = """id,colour,price,sku,made,note
a,red,12,007,2024-01-05,
b,red,30.5,12,2025-02-01,"it's, new"
c,blue,,A1,2023-12-31,n/a
d,Red,-3,9,2024-06-01,x
"""
JSON = """{"id": 1, "colour": "red", "price": 5, "sold": true}
{"id": 2, "colour": "blue", "price": 7.5, "sold": false, "tags": ["x"]}
{"id": 3, "price": null, "sold": true}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Attributes:
    (tmp_path / "items.csv").write_text(CSV)
    return read_attributes(tmp_path / "items.csv")


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("colour = 'red' and price < 20", "a"),
        ("colour = 'red'", "ab"),
        ("lower(colour) == 'red' AND NOT price > 20", "ad"),
        ("colour LIKE 'r%'", "abd"),
        ("price IS NULL", "c"),
        ("price <= 12.0", "ad"),
        ("price IN (12, -3)", "ad"),
        ("price < '9'", "d"),
        ("sku = '007'", "a"),
        ("sku = '9'", "d"),
        ("made >= '2024-01-01' and made < '2025-01-01'", "ad"),
        ("note = 'it''s, new'", "b"),
        ("\"colour\" = 'blue' -- blue ones", "c"),
        ("id > 'b'", "cd"),
        ("COLOUR = 'red' and \"Price\" < 20", "a"),
        ("colour = ')' or [price] < 0 /* ) */ -- )", "d"),
        ("1", "abcd"),
        ("0", ""),
    ],
)
def test_a_filter_selects_items(shop: Attributes, filter: str, found: str) -> None:
    assert "".join(shop.where(filter).tolist()) == found


@pytest.mark.parametrize(
    ("filter", "words"),
    [
        ("color = 'red'", "no such column: color; got \"color = 'red'\", and the columns are id, colour, price, sku"),
        ('colour = "red"', '"red" is no column, and texts stand in single quotes'),
        ("colour = ", "cannot be read: .*syntax error|incomplete input"),
        ("", "cannot be read"),
        ("price < 20; drop table items", "cannot be read"),
        ("price < ?", "cannot be read"),
        ("load_extension('x') = 1", r"load_extension\(\) is not allowed"),
        ("length(randomblob(9)) > 1", r"randomblob\(\) is not allowed"),
        ("id in (select name from sqlite_master)", "it does more than compare columns is not allowed"),
        ("exists (with recursive r(n) as (select 1 union all select n from r) select * from r)", "is not allowed"),
        ("price < 20 \0", "cannot be read"),
        ("price < 0 /* ' */ or \"red\" != 'x'", '"red" is no column'),
        ("price < 0 -- it's\n or \"red\" != 'x'", '"red" is no column'),
        (
            "1) UNION ALL SELECT 99999 WHERE (1",
            "a bracket is closed that was not opened, and a filter is one expression",
        ),
        ("1) UNION ALL SELECT 1 WHERE (1", "a bracket is closed that was not opened"),
        ("price < 99999999999999999999", "99999999999999999999 is beyond 64 bits, and a column of such is of texts"),
    ],
)
def test_a_filter_that_is_wrong_or_does_more_is_one_line(shop: Attributes, filter: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^where [^\n]*({words})"):
        shop.where(filter)


def test_a_stray_text_among_numbers_is_refused_where_it_would_matter(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id,price,colour\na,9,red\nb,20,blue\nc,n/a,blue\n")
    table = read_attributes(tmp_path / "items.csv")
    assert table.where("colour = 'blue'").tolist() == ["b", "c"]
    with pytest.raises(ArgumentError, match=r"compares 'price', whose numbers in .* have 'n/a' among them; leave such"):
        table.where("price < 20")


def test_only_the_letters_of_ascii_have_a_case(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id,ärzte,straße,STRASSE\na,x,1,2\nb,y,3,4\n", encoding="utf-8")
    table = read_attributes(tmp_path / "items.csv")
    assert table.where("\"ärzte\" = 'x' and straße = 1 and strasse = 2").tolist() == ["a"]
    with pytest.raises(ArgumentError, match='"Ärzte" is no column'):
        table.where("\"Ärzte\" != 'x'")


def test_integers_are_whole_up_to_64_bits_and_texts_beyond(tmp_path: Path) -> None:
    owners = [(1 << 63) - 1, (1 << 63) - 2, -(1 << 63)]
    (tmp_path / "items.csv").write_text(
        f"id,owner,hash\na,{owners[0]},{1 << 64}\nb,{owners[1]},7\nc,{owners[2]},{1 << 63}\n"
    )
    write_parquet(
        tmp_path / "items.parquet",
        id=["a", "b", "c"],
        owner=owners,
        hash=pa.array([1 << 63, 7, (1 << 64) - 1], pa.uint64()),
    )
    for suffix in (".csv", ".parquet"):
        table = read_attributes(tmp_path / f"items{suffix}")
        assert [table.where(f"owner = {owner}").tolist() for owner in owners[:2]] == [["a"], ["b"]]
        assert table.where("owner < 0").tolist() == ["c"]
        assert table.where(f"hash in ('{1 << 63}', 7)").tolist() == (["b", "c"] if suffix == ".csv" else ["a", "b"])
    (tmp_path / "items.csv").write_text(f"id,n\na,1\nb,2\nc,{1 << 63}\n")
    with pytest.raises(ArgumentError, match=f"have '{1 << 63}', beyond 64 bits, among them"):
        read_attributes(tmp_path / "items.csv").where("n < 20")


def test_what_only_looks_like_a_number_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(f"id,code\na,e5\nb,.\nc,+\nd,.5\ne,{'9' * 5000}\n")
    assert read_attributes(tmp_path / "items.csv").where("code in ('e5', '.')").tolist() == ["a", "b"]


def test_decimals_and_texts_of_numbers_are_numbers_in_parquet_too(tmp_path: Path) -> None:
    prices = [Decimal("100.00"), Decimal("15.00"), Decimal("9.50"), None]
    texts = {"text": ["100", "15.0", "9.5", ""], "stray": ["100", "15", "9", "n/a"], "note": ["", "x", "y", None]}
    long = [Decimal("0.1234567890123456"), *prices[1:]]
    path = write_parquet(tmp_path / "items.parquet", id=["a", "b", "c", "d"], price=prices, long=long, **texts)
    table = read_attributes(path)
    for name in ("price", "text"):
        assert table.where(f"{name} < 20").tolist() == ["b", "c"]
        assert table.where(f"{name} in (9.5, 100)").tolist() == ["a", "c"]
        assert table.where(f"{name} is null").tolist() == ["d"]
    assert table.where("note = ''").tolist() == ["a"]
    with pytest.raises(ArgumentError, match=r"compares 'stray', whose numbers in .* have 'n/a' among them"):
        table.where("stray < 20")
    with pytest.raises(ArgumentError, match=r"have 0\.1234567890123456, and only 15 digits are compared; round them"):
        table.where("long < 20")


def test_times_are_written_as_those_of_sqlite(tmp_path: Path) -> None:
    made = [datetime(2024, 1, 1), datetime(2024, 1, 1, 18), datetime(2024, 1, 2)]
    zone = timezone(timedelta(hours=2))
    zoned = pa.array([one.replace(tzinfo=UTC).astimezone(zone) for one in made], pa.timestamp("us", "+02:00"))
    path = write_parquet(
        tmp_path / "items.parquet", id=["a", "b", "c"], made=made, zoned=zoned, day=[one.date() for one in made]
    )
    table = read_attributes(path)
    for name in ("made", "zoned"):
        assert table.where(f"{name} >= '2024-01-01 12:00:00'").tolist() == ["b", "c"]
        assert table.where(f"{name} < datetime('2024-01-01 12:00:00')").tolist() == ["a"]
        assert table.where(f"{name} = '2024-01-01 18:00:00'").tolist() == ["b"]
    assert table.where("day = '2024-01-02'").tolist() == ["c"]


def test_texts_of_times_in_json_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text(
        '{"id": "2024-01-01", "made": "2024-01-01T00:00:00Z"}\n{"id": "2024-01-02", "made": "2024-01-01T18:00:00Z"}\n'
    )
    table = read_attributes(tmp_path / "items.jsonl")
    assert table.where("made = '2024-01-01T18:00:00Z'").tolist() == ["2024-01-02"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_values_with_types_keep_them(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"items{suffix}"
    if suffix == ".jsonl":
        path.write_text(JSON)
    else:
        columns = {"colour": ["red", "blue", None], "price": [5, 7.5, None], "sold": [True, False, True]}
        write_parquet(path, id=[1, 2, 3], tags=[["x"]] * 3, **columns)
    table = read_attributes(path)
    assert table.where("sold = true and price > 4").tolist() == [1]
    assert table.where("price > 6 or colour is null").tolist() == [2, 3]
    with pytest.raises(ArgumentError, match="no such column: tags"):
        table.where("tags = 'x'")


def test_items_are_matched_by_id(shop: Attributes, tmp_path: Path) -> None:
    assert shop.where("colour = 'red'", np.array(["b", "z"])).tolist() == ["b"]
    with pytest.raises(ValueError, match=r"items\.csv: has none of the items, for example 'z'"):
        shop.where("colour = 'red'", np.array(["z"]))
    (tmp_path / "numbers.csv").write_text("photo,x\n7,1\n8,2\n")
    table = read_attributes(f"{tmp_path / 'numbers.csv'}#id=photo")
    assert table.where("x > 0", np.array(["7", "9"])).tolist() == ["7"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour\nred\n", r"has columns \['colour'\]; `id` is required"),
        ("id,x\na,1\na,2\n", "has repeated ids"),
        ("id,x\n,1\n", "row 0 of the column `id` is empty"),
        ("id,x,X\na,1,2\n", "`X` must occur only once, whatever its case|`x` must occur only once"),
        ("id,x\na\n", "line 2 has 1 fields, the head 2"),
        ("id,x\n", "holds no rows"),
    ],
)
def test_a_table_that_is_wrong_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"items\.csv[^\n]*({words})"):
        read_attributes(tmp_path / "items.csv")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "items.txt").touch()
    with pytest.raises(ValueError, match=r"items\.txt: attributes are read from \.csv, \.tsv, \.jsonl, \.parquet"):
        read_attributes(tmp_path / "items.txt")
    (tmp_path / "items.jsonl").write_text('{"id": \n')
    with pytest.raises(ValueError, match=r"items\.jsonl: truncated or not lines of JSON"):
        read_attributes(tmp_path / "items.jsonl")


def test_a_search_returns_what_the_filter_selects(tmp_path: Path) -> None:
    write_fitted(write_inputs(tmp_path))
    items = (
        "--items",
        "items.npy",
        "--item-ids",
        "names.txt",
        "--correction",
        "fitted.unhub",
        "--queries",
        "queries.npy",
    )
    names = (tmp_path / "names.txt").read_text().splitlines()
    (tmp_path / "shop.csv").write_text("id,n\n" + "\n".join(f"{name},{row}" for row, name in enumerate(names)))
    search = ("search", *items, "-k", "3", "--format", "csv")
    done = here(tmp_path, *search, "--attributes", "shop.csv", "--where", "n between 5 and 6")
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.split(",")[2] for line in done.stdout.splitlines()[1:]} == {names[5], names[6]}
    nothing = here(tmp_path, *search, "--attributes", "shop.csv", "--where", "n < 0")
    assert nothing.stderr == "unhub: note: --where selects none of the 40 items\n"
    assert nothing.stdout == "query,rank,id,score\n"
    for given, words in (
        (("--where", "n < 5"), "--where needs a table of attributes, since the items are in a file"),
        (("--attributes", "shop.csv"), "--attributes is a table to filter by, and there is no filter"),
        (("--attributes", "shop.csv", "--where", "m < 5"), "--where cannot be read: no such column: m; got 'm < 5'"),
        (("--attributes", "gone.csv", "--where", "m < 5"), "--attributes: No such file or directory: gone.csv"),
    ):
        assert words in fail(tmp_path, *search, *given)
