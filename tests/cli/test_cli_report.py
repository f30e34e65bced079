"""`unhub report` and `unhub study` write and print what the library returns."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unhub
from tests import shapes
from tests.command import fail, program, succeed
from unhub.files import find_pictures

pytestmark = pytest.mark.once

DATA = shapes.generate()
GIVEN = ("--items", "items.npy", "--bank", "bank.npy", "--queries", "queries.npy")
REPORT = ("report", *GIVEN, "-o", "report.html")
LABELS = ("--relevance", "answers.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with vectors, answers, texts and some pictures."""
    for name in ("items", "bank", "queries"):
        np.save(tmp_path / f"{name}.npy", getattr(DATA, name))
    pairs = "".join(f"{query},{item}\n" for query, item in DATA.relevance)
    (tmp_path / "answers.csv").write_text(f"query_id,item_id\n{pairs}")
    (tmp_path / "items.txt").write_text("".join(f"thing {row} <b>\n" for row in range(90)))
    (tmp_path / "queries.csv").write_text("id,text\n" + "".join(f"{row},where is {row}?\n" for row in range(180)))
    (tmp_path / "others.csv").write_text("id,text\n500,a stranger\n")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_a_picture_that_a_table_names_is_never_replaced(folder: Path) -> None:
    (folder / "pictures").mkdir()
    picture = folder / "pictures" / "3.html"
    Image.new("RGB", (4, 4)).save(picture, format="PNG")
    (folder / "pictures.csv").write_text("id,text\n3,pictures/3.html\n")
    before = picture.read_bytes()
    said = fail(
        folder, "report", *GIVEN, "--item-images", "pictures.csv", "-o", "pictures/3.html", "--overwrite", "--quiet"
    )
    assert said == "--output: pictures/3.html is an input of this command; name another file"
    assert picture.read_bytes() == before


def test_a_correction_is_shown_without_its_bank(folder: Path) -> None:
    unhub.save(unhub.fit(DATA.items, DATA.bank, method="nnn", k=8), folder / "one.unhub")
    given = ("report", *GIVEN[:2], *GIVEN[4:], *LABELS, "-o", "report.html", "--json", "--overwrite")
    assert fail(folder, *given) == (
        "--bank is missing, and without a correction to show one is chosen on it; give it, or --correction"
    )
    with pytest.raises(ValueError, match="bank is missing, and without a correction to show one is chosen on it"):
        unhub.report(DATA.items, None, DATA.queries, path=folder / "report.html")
    told = json.loads(succeed(folder, *given, "--correction", "one.unhub"))
    full = json.loads(succeed(folder, *given, "--correction", "one.unhub", "--bank", "bank.npy"))
    for one in ("verdict", "sentences", "rankings", "queries_in_bank"):
        assert told[one] == full[one]
    assert (told["studies"], len(full["studies"])) == ([], 2)
    assert told["notes"][0].startswith("The bank was not given: the curves over the settings are left out")
    # Its hashes still tell which queries it was fitted on.
    np.save(folder / "queries.npy", np.concatenate([DATA.queries[:-1], DATA.bank[:1]]))
    seen = json.loads(succeed(folder, *given, "--correction", "one.unhub"))
    assert seen["queries_in_bank"] == 1 and "1 of the 180 queries are also in the bank" in seen["notes"][0]


def test_pictures_by_address_are_named_on_the_page_and_allowed_there_alone(folder: Path) -> None:
    unhub.save(unhub.fit(DATA.items, DATA.bank), folder / "one.unhub")
    given = ("--correction", "one.unhub", "--quiet", "--item-images", "https://cdn.example/{id}.jpg?a=1&b=2")
    succeed(folder, *REPORT, *given)
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert re.search(r'<img src="https://cdn\.example/\d+\.jpg\?a=1&amp;b=2"', html)
    assert "default-src 'none'; img-src data: https://cdn.example; style-src" in html
    said = fail(folder, "report", *GIVEN, "-o", "new.html", "--item-images", "https://cdn.example/all.jpg")
    assert said.startswith(
        "--item-images must be an address with {id} after its host, got 'https://cdn.example/all.jpg'"
    )


def test_report_prints_what_the_library_returns(folder: Path) -> None:
    printed = succeed(folder, *REPORT, *LABELS, "--item-texts", "items.txt", "--query-texts", "queries.csv")
    made = unhub.report(DATA.items, DATA.bank, DATA.queries, DATA.relevance, path=folder / "library.html")
    assert printed == f"{made}\nwrote report.html\n"
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "thing 1" in html
    assert "where is " in html
    assert "<b>\n" not in html
    assert "unhub report --items items.npy --bank bank.npy" in html


def test_report_passes_every_option_on(folder: Path) -> None:
    unhub.save(unhub.fit(DATA.items, DATA.bank, method="csls", similarity="dot"), folder / "one.unhub")
    pictures = folder / "pictures"
    pictures.mkdir()
    for row in range(90):
        Image.new("RGB", (9, 9)).save(pictures / f"{row}.jpg")
    options = (
        "--correction",
        "one.unhub",
        "--item-images",
        "pictures",
        "--figures",
        "charts",
        "--title",
        "Mine & yours",
        "--measures",
        "MRR",
        "--similarity",
        "dot",
        "--seed",
        "5",
        "--threads",
        "1",
        "--json",
    )
    told = json.loads(succeed(folder, *REPORT, *LABELS, *options))
    assert (told["path"], told["shown"]) == ("report.html", "csls:k=10")
    expected = unhub.evaluate(DATA.queries, DATA.items, DATA.relevance, measures="MRR", similarity="dot")
    assert told["rankings"][0]["values"]["MRR"]["value"] == pytest.approx(expected.rows[0].values["MRR"].value)
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "<h1>Mine &amp; yours</h1>" in html
    assert "data:image/jpeg" in html
    assert len(list((folder / "charts").iterdir())) == 12


def test_report_calls_by_its_id_what_has_no_text(folder: Path) -> None:
    (folder / "some.csv").write_text("id,text\n" + "".join(f"{row},thing {row}\n" for row in range(0, 90, 2)))
    unhub.save(unhub.fit(DATA.items, DATA.bank), folder / "one.unhub")
    succeed(folder, *REPORT, "--item-texts", "some.csv", "--correction", "one.unhub")
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert {int(row) % 2 for row in re.findall(r">thing (\d+)<", html)} == {0}
    assert {int(row) % 2 for row in re.findall(r">item (\d+)<", html)} == {1}


def test_report_shows_raw_alone(folder: Path) -> None:
    unhub.save(unhub.fit(DATA.items, DATA.bank, method="raw"), folder / "raw.unhub")
    told = json.loads(succeed(folder, *REPORT, *LABELS, "--correction", "raw.unhub", "--json"))
    assert told["verdict"] == "none"
    assert [one["name"] for one in told["rankings"]] == ["raw"]


def test_report_is_silent_when_asked(folder: Path) -> None:
    assert succeed(folder, *REPORT, "--quiet", run=program) == ""
    assert "No relevance was given" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_page_and_its_charts_are_replaced_on_request_alone(folder: Path) -> None:
    unhub.save(unhub.fit(DATA.items, DATA.bank), folder / "one.unhub")
    arguments = (*REPORT[:-1], "again.html", "--figures", "drawn", "--correction", "one.unhub", "--quiet")
    succeed(folder, *arguments)
    assert "--output: again.html exists" in fail(folder, *arguments)
    (folder / "again.html").unlink()
    (folder / "drawn" / "shares.png").write_text("mine")
    for path in (folder / "drawn").iterdir():
        if path.name != "shares.png":
            path.unlink()
    assert "--figures: drawn/shares.png exists and is not a file that unhub saved; give --overwrite" in fail(
        folder, *arguments
    )
    assert not (folder / "again.html").exists()
    succeed(folder, *arguments, "--overwrite")
    assert (folder / "drawn" / "shares.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((folder / "drawn").iterdir())) == 12 and (folder / "again.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*REPORT, "--relevance", "no.csv"), "--relevance: .*no.csv"),
        ((*REPORT, "--item-texts", "answers.csv"), "--item-texts: answers.csv: "),
        ((*REPORT, "--item-images", "no.txt"), "--item-images: .*no.txt"),
        ((*REPORT, "--correction", "items.npy"), "--correction: items.npy: "),
        ((*REPORT, "--measures", "R@"), "--measures must be a text such as 'R@10', got 'R@'; the measures are"),
        ((*REPORT, "--figures", "items.txt"), "--figures: items.txt is a file; name a folder"),
        (
            (*REPORT, "--figures", "no/such"),
            "--figures: cannot write no/such: there is no folder .*no; create",
        ),
        (
            (*REPORT, "--item-images", "empty"),
            "--item-images: empty: no file in this folder is named by the id of an item, such as 0$",
        ),
        (
            (*REPORT, "--item-texts", "others.csv"),
            "--item-texts: others.csv: has no text for any of the ids, for example 0$",
        ),
        (
            ("report", *GIVEN, "--queries", "bank.npy", "-o", "r.html"),
            "--queries are all in the bank, so they cannot be used to choose a correction; take them out of the bank, ",
        ),
        (("report", *GIVEN, "-o", "items.npy"), "--output: items.npy is an input"),
        (("report", *GIVEN), "Missing option '--output'"),
        (
            ("study", "temperature", *GIVEN, "-o", "study.gif"),
            "--output: study.gif is not the name of a picture; end it in .png or .svg",
        ),
        (
            ("study", "temperature", *GIVEN, "--measure", "R@1"),
            "--measure 'R@1' needs relevance; give relevance, or choose 'skewness'$",
        ),
        (
            ("study", "growth", *GIVEN, "--bank", "queries.npy"),
            "--bank is given 2 times; only bank-source takes several banks$",
        ),
        (
            ("study", "bank-source", *GIVEN, "--bank", "./bank.npy"),
            "--bank names two banks 'bank'; give each a name, for example --bank first=bank.npy$",
        ),
        (
            ("study", "growth", *GIVEN, "--method", "dbsn"),
            "--bank-items must be given for 'dbsn'; "
            "give the training items beside the bank, or study 'sn', which is the same",
        ),
        (
            ("study", "k-alpha", *GIVEN, "--bank-items", "items.npy"),
            "--bank-items has no effect: k-alpha studies only 'nnn'; leave it out$",
        ),
        (
            ("study", "growth", *GIVEN, "--bank-items", "items.npy"),
            "--bank-items are used by none of .*'nnn:k=32,alpha=0.5'; name a method that uses them, such as 'dbsn'$",
        ),
        (
            ("study", "k-alpha", *GIVEN, "--method", "is"),
            "--method has no effect: k-alpha studies only 'nnn'; leave it out$",
        ),
        (("study", "size", *GIVEN), "'size' is not one of 'temperature'"),
        (
            ("report", *GIVEN, "-o", "report.pdf"),
            r"^--output is report\.pdf, but a report is an HTML page; name a file that ends in \.html$",
        ),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    assert re.search(message, fail(folder, *arguments))


def test_study_prints_what_the_library_returns(folder: Path) -> None:
    given = (DATA.items, DATA.bank, DATA.queries, DATA.relevance)
    banks = {"bank": DATA.bank, "few": DATA.queries}
    expected = {
        "temperature": str(unhub.study_temperature(*given)),
        "bank-source": str(unhub.study_bank_source(DATA.items, banks, *given[2:])),
    }
    for name, text in expected.items():
        more = ("--bank", "few=queries.npy") if name == "bank-source" else ()
        assert succeed(folder, "study", name, *GIVEN, *LABELS, *more) == f"{text}\n"


def test_report_of_items_that_ask_for_each_other(folder: Path) -> None:
    unhub.save(unhub.fit(DATA.items, DATA.bank, method="csls"), folder / "one.unhub")
    themselves = (
        "report",
        "--items",
        "items.npy",
        "--bank",
        "bank.npy",
        "--queries",
        "items.npy",
        "--overwrite",
        "-o",
        "page.html",
    )
    printed = succeed(folder, *themselves, "--exclude-self", "--correction", "one.unhub")
    assert "The item with the query's own id is left out for every query." in printed
    assert fail(folder, *themselves, "--exclude-self") == (
        "--exclude-self needs a correction to show, since no item is left out when one is chosen; give --correction too"
    )


def test_study_of_items_that_ask_for_each_other(folder: Path) -> None:
    themselves = ("--items", "items.npy", "--bank", "bank.npy", "--queries", "items.npy", "--exclude-self")
    found = unhub.study_k_and_alpha(DATA.items, DATA.bank, DATA.items, exclude="self")
    assert succeed(folder, "study", "k-alpha", *themselves) == f"{found}\n"


def test_study_writes_a_picture_and_prints_json(folder: Path) -> None:
    options = (
        "--method",
        "nnn:k=5,alpha=0.5",
        "--seeds",
        "2",
        "--seed",
        "1",
        "--measure",
        "skewness",
        "--threads",
        "1",
    )
    told = json.loads(succeed(folder, "study", "bank-size", *GIVEN, *options, "-o", "size.svg", "--json"))
    expected = unhub.study_bank_size(
        DATA.items, DATA.bank, DATA.queries, methods=["nnn:k=5,alpha=0.5"], seeds=2, seed=1, measure="skewness"
    )
    assert told == json.loads(json.dumps(expected.to_dict()))
    assert "<svg" in (folder / "size.svg").read_text(encoding="utf-8")
    assert succeed(folder, "study", "k-alpha", *GIVEN, "-o", "grid.png", "--quiet", run=program) == ""
    assert (folder / "grid.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_are_found_by_id_in_a_folder_or_a_list(tmp_path: Path) -> None:
    for name in ("7.jpg", "8.png", "9", "7.txt", "x.jpg"):
        (tmp_path / name).write_bytes(b"")
    assert find_pictures(tmp_path, np.array([7, 9, 10])) == {7: tmp_path / "7.jpg", 9: tmp_path / "9"}
    assert find_pictures(tmp_path, np.array(["x.jpg", "8"])) == {"x.jpg": tmp_path / "x.jpg", "8": tmp_path / "8.png"}
    (tmp_path / "list.csv").write_text(f"id,text\n1,sub/a.jpg\n2,\n3,{tmp_path / 'b.jpg'}\n")
    found = find_pictures(tmp_path / "list.csv", np.array([3, 2, 1, 4]))
    assert found == {3: tmp_path / "b.jpg", 1: tmp_path / "sub" / "a.jpg"}
