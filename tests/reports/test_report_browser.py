"""The page of a report in a real browser: quiet, offline, and as wide as the window, on a phone and in print."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unhub
from tests import browser, shapes

pytestmark = pytest.mark.once

DATA = shapes.generate()
LONG = "averyveryverylongwordwithoutanyplacetobreakit" * 4
WIDTHS = (360, 390, 800, 1280)

# What sticks out of the window, unless it is inside something that scrolls by itself.
STICKS_OUT = """
[...document.querySelectorAll("main *")].filter(one =>
  one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, svg")).map(one => one.outerHTML)
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write three reports: with labels and long texts, with pictures, and with nothing but vectors."""
    browser.program()  # without one, skip before anything is made
    folder = tmp_path_factory.mktemp("pages")
    pictures = [folder / f"{row}.png" for row in range(90)]
    for row, path in enumerate(pictures[:85]):
        Image.new("RGB", (40, 60), (row, 100, 200)).save(path)
    texts = [LONG if row % 3 == 0 else f"item {row} <script>console.log(1)</script>" for row in range(90)]
    asked = {query: f"{LONG} {query}" for query in range(0, 180, 2)}
    given = (DATA.items, DATA.bank, DATA.queries)
    several = unhub.fit(DATA.items, DATA.bank, method=["is", "sn", "nnn", "csls", "dn"])
    labelled = (*given, DATA.relevance)
    unhub.report(*labelled, path=folder / "texts.html", item_texts=texts, query_texts=asked)
    unhub.report(
        *labelled, path=folder / "pictures.html", item_texts=texts, item_images=pictures, corrections=several[:1]
    )
    unhub.report(*given, path=folder / "plain.html", corrections=several)
    return {name: folder / f"{name}.html" for name in ("texts", "pictures", "plain")}


@pytest.fixture(scope="module")
def page(pages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.open_page(tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


@pytest.mark.parametrize("name", ["texts", "pictures", "plain"])
def test_nothing_is_wider_than_the_window(name: str, pages: dict[str, Path], page: browser.Page) -> None:
    for width in WIDTHS:
        page.show(pages[name], width)
        assert page.value("innerWidth") == width
        assert page.value("document.documentElement.scrollWidth") == width
        assert page.value(STICKS_OUT) == []


@pytest.mark.parametrize("name", ["texts", "pictures", "plain"])
def test_the_page_is_quiet_and_asks_for_nothing_but_itself(
    name: str, pages: dict[str, Path], page: browser.Page
) -> None:
    page.requests.clear()
    page.complaints.clear()
    page.show(pages[name], 1280)
    assert page.value("document.querySelectorAll('h2').length") == 7
    assert page.complaints == []
    assert {re.match(r"file:.*/|data:", address)[0] for address in page.requests} == {  # type: ignore[index]
        f"{pages[name].parent.as_uri()}/",
        "data:",
    }
    assert [address for address in page.requests if address.startswith("file:")] == [pages[name].as_uri()]


def test_a_script_in_a_text_is_not_run_even_if_it_were_let_in(pages: dict[str, Path], page: browser.Page) -> None:
    # The policy in the head of the page holds even where the escaping would fail.
    broken = pages["texts"].with_name("broken.html")
    html = pages["texts"].read_text(encoding="utf-8")
    broken.write_text(html.replace("<main>", "<main><script>document.title = 'run'</script>"), encoding="utf-8")
    page.show(broken, 1280)
    assert page.value("document.title") == "Hubness report"
    page.complaints.clear()  # it says that it was refused


def test_charts_and_pictures_are_seen(pages: dict[str, Path], page: browser.Page) -> None:
    page.show(pages["pictures"], 390)
    sizes = page.value("[...document.querySelectorAll('svg')].map(one => one.getBoundingClientRect().width)")
    assert len(sizes) == 6
    assert min(sizes) > 300
    assert page.value("[...document.querySelectorAll('img')].every(one => one.complete && one.naturalWidth > 0)")
    assert page.value("document.querySelectorAll('img').length") > 20
    # A letter of a chart is a letter that can be read on a phone.
    letters = "[...document.querySelectorAll('svg text')].map(one => one.getBoundingClientRect().height)"
    assert np.median(page.value(letters)) > 7


def test_light_and_dark_follow_the_reader(pages: dict[str, Path], page: browser.Page) -> None:
    def contrast() -> float:
        """Return how much lighter the page is than its letters, from -255 to 255."""
        script = "(one => [one.backgroundColor, one.color])(getComputedStyle(document.body))"
        paper, ink = (np.mean([int(part) for part in re.findall(r"\d+", one)[:3]]) for one in page.value(script))
        return float(paper - ink)

    page.show(pages["plain"], 1280)
    assert contrast() > 180
    page.show(pages["plain"], 1280, dark=True)
    assert contrast() < -180
    line = "getComputedStyle(document.querySelector('svg path[style*=\"--fixed\"]')).stroke"
    assert page.value(line) == "rgb(93, 182, 242)"


def test_the_page_prints(pages: dict[str, Path], page: browser.Page) -> None:
    page.show(pages["texts"], 1280, dark=True)
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


def test_a_screenshot_has_all_of_the_page(pages: dict[str, Path], page: browser.Page, tmp_path: Path) -> None:
    page.show(pages["plain"], 390)
    height = page.value("document.documentElement.scrollHeight")
    (tmp_path / "page.png").write_bytes(page.screenshot())
    with Image.open(tmp_path / "page.png") as shot:
        assert shot.size == (390, height)


def test_the_picture_of_the_docs_can_be_made(tmp_path: Path) -> None:
    browser.program()
    script = Path(__file__).parents[2] / "benchmarks" / "report_page.py"
    arguments = [sys.executable, str(script), "shot.png", "--page", "page.html", "--scale", "0.05"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Hubness is " in done.stdout
    with Image.open(tmp_path / "shot.png") as shot:
        assert shot.width == 1712
        assert len(shot.convert("RGB").getcolors(1 << 24) or []) > 50
    assert "data:image/jpeg" in (tmp_path / "page.html").read_text(encoding="utf-8")
