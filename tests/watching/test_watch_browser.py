"""The page of a watch in a real browser: as wide as the window, quiet, and it asks for nothing but itself."""

from pathlib import Path

import pytest

import unhub
from tests import browser
from tests.reports.test_report_browser import STICKS_OUT, WIDTHS
from tests.watching.answered import EVEN, ITEMS, UNEVEN, day_log, drawn

pytestmark = pytest.mark.once


def test_the_page_fits_and_is_quiet(tmp_path: Path) -> None:
    browser.program()
    days = {f"2026-03-{day:02}": drawn(150, EVEN if day < 9 else UNEVEN, day) for day in range(1, 11)}
    log = day_log(days)
    unhub.watch(log, items=ITEMS, path=tmp_path / "days.html", max_skewness=0.2)
    long = "averyveryverylongidwithoutanyplacetobreakit" * 4
    unhub.watch(unhub.QueryLog.of(returned=[[long, f"i{row}"] for row in range(60)]), path=tmp_path / "long.html")
    with browser.open_page(tmp_path / "profile") as page:
        for name in ("days", "long"):
            for width in WIDTHS[::3]:
                page.show(tmp_path / f"{name}.html", width)
                assert page.value("document.documentElement.scrollWidth") == width
                assert page.value(STICKS_OUT) == []
        assert page.complaints == []
        assert {address for address in page.requests if not address.startswith("data:")} == {
            (tmp_path / f"{name}.html").as_uri() for name in ("days", "long")
        }
