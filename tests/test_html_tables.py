"""Results in a notebook: the tables that print shows, as HTML, with every text of a user escaped."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import unhub
from unhub.evaluation.tables import Tabled
from unhub.html_tables import as_html

pytestmark = pytest.mark.once

RANDOM = np.random.default_rng(0)
WICKED = "<script>alert('x')</script>&\x1b"
ITEMS = unhub.Vectors(np.array([f"{WICKED}{row}" for row in range(30)]), RANDOM.normal(size=(30, 6)))
BANK, QUERIES = (RANDOM.normal(size=(count, 6)).astype(np.float32) for count in (60, 12))
LOG = unhub.QueryLog.of(
    returned=[[f"i{row % 7}", f"i{row % 5 + 7}"] for row in range(80)],
    clicked=[[f"i{row % 7}"] if row % 3 else [] for row in range(80)],
    variants=["raw", "corrected"] * 40,
)
TRUTH = {row: [ITEMS.ids[row].item()] for row in range(12)}


class Cells(HTMLParser):
    """Collects the texts of a page, and which elements it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts, self.elements = list[str](), set[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.elements.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_table_and_lines_are_html_with_their_text_escaped() -> None:
    assert as_html(["a < b", "", (("x", "n"), [("&", "1.5"), ("", "20%")])]) == (
        '<p>a &lt; b</p><table><thead><tr><th style="text-align: left">x</th><th style="text-align: right">n</th></tr>'
        '</thead><tbody><tr><td style="text-align: left">&amp;</td><td style="text-align: right">1.5</td></tr>'
        '<tr><td style="text-align: left"></td><td style="text-align: right">20%</td></tr></tbody></table>'
    )


def test_every_result_is_a_table_in_a_notebook(tmp_path: Path) -> None:
    correction = unhub.fit(ITEMS, BANK, "nnn:k=5")
    hits = unhub.searcher(ITEMS, correction).search(QUERIES, k=3)
    evaluation = unhub.evaluate(QUERIES, ITEMS, TRUTH, correction, resamples=20)
    shown = {
        "hits": hits,
        "evaluation": evaluation,
        "hubness": unhub.hubness(QUERIES, ITEMS, k=3),
        "hubs": unhub.worst_hubs(QUERIES, ITEMS, correction, k=3),
        "bank": unhub.judge_bank(BANK, ITEMS),
        "study": unhub.study_temperature(ITEMS, BANK, QUERIES, temperatures=[0.1, 0.2]),
        "tuning": unhub.tune(ITEMS, BANK, methods=["csls"]),
        "watch": unhub.watch(LOG),
        "test": unhub.ab_test(LOG),
        "difference": unhub.diff(correction, unhub.fit(ITEMS, BANK, "csls:k=5")),
        "history": unhub.keep(correction, tmp_path / "versions"),
    }
    for name, result in shown.items():
        page = Cells(result._repr_html_())  # type: ignore[attr-defined]
        assert page.elements <= {"p", "table", "thead", "tbody", "tr", "th", "td"}, name
        assert "table" in page.elements, name
        if isinstance(result, Tabled):
            words = {one for text in page.texts for one in text.split()}
            printed = {one for line in str(result).split("\n") for one in line.split() if "─" not in one}
            assert words == printed, name
    assert "and 16 more of 12 queries" in Cells(hits._repr_html_()).texts
    assert any(WICKED.replace("\x1b", "\\x1b") in text for text in Cells(hits._repr_html_()).texts)
