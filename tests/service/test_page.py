"""The page in a real browser, against a real service: on a phone and on a desktop, by mouse and by keys."""

import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import browser

pytestmark = pytest.mark.once

START_SECONDS = 60
PHONE, DESKTOP = 360, 1280
FOUND = "!document.querySelector('.found').hidden && !document.querySelector('.found').hasAttribute('aria-busy')"


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[str]:
    """Start `unhub serve` as a program, yield its address, and end it."""
    command = [sys.executable, "-m", "unhub", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://[\w.:]+", line):
                yield found[0]
                break
        else:
            raise AssertionError("the service did not start")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=START_SECONDS)


def posted(address: str, path: str, body: dict[str, Any]) -> Any:
    """Return what the API answers."""
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address + path, data, headers)) as answer:
        return json.load(answer)


def fetched(address: str, path: str) -> Any:
    """Return what the API has at a path."""
    with urllib.request.urlopen(address + path) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the emoji."""
    browser.program()
    with serving(tmp_path_factory.mktemp("demo")) as address:
        yield address


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.open_page(tmp_path_factory.mktemp("browser") / "profile") as page:
        yield page


@pytest.fixture
def page(opened: browser.Page) -> Iterator[browser.Page]:
    """An empty page; whatever a test does, the page stays quiet, offline and as wide as the window."""
    opened.visit("data:text/html,", DESKTOP)
    opened.requests.clear()
    opened.complaints.clear()
    yield opened
    assert opened.value("document.documentElement.scrollWidth <= innerWidth")
    assert opened.complaints == []
    home = opened.value("location.origin")
    assert [one for one in opened.requests if not one.startswith((home, "data:"))] == []


@pytest.fixture(params=[PHONE, DESKTOP], ids=["phone", "desktop"])
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def names(page: browser.Page, side: str) -> list[str]:
    """Return the texts of the hits of a side, best first."""
    found: list[str] = page.value(f"[...document.querySelectorAll('.column.{side} .hit .name')].map(one => one.textContent)")
    return found


def search(page: browser.Page, address: str, width: int, **asked: Any) -> None:
    """Open the page with a search, and wait for its results."""
    page.visit(f"{address}/#/search?{urllib.parse.urlencode(asked, doseq=True)}", width)
    page.wait_for(f"document.querySelector('.found') && {FOUND} && document.querySelector('.hit')")


def strength(page: browser.Page) -> str:
    """Return the strength that the results on the page were made with."""
    return str(page.value("document.querySelector('.status').textContent.match(/strength ([\\d.]+)/)[1]"))


def test_an_empty_page_shows_an_example(page: browser.Page, demo: str, width: int) -> None:
    page.visit(demo, width)
    page.wait_for("document.querySelectorAll('.hit').length === 20")
    assert page.value("document.querySelector('.asked-for').textContent").startswith("An example: results for ")
    assert "hubs" in page.value("document.querySelector('.intro').textContent")


def test_enter_searches_and_shows_raw_and_corrected(page: browser.Page, demo: str, width: int) -> None:
    page.visit(demo, width)
    page.click("#asked")
    page.write("birthday cake")
    page.press("Enter")
    page.wait_for("document.querySelector('.asked-for').textContent === 'Results for birthday cake'")
    answer = posted(demo, "/v1/search", {"text": "birthday cake", "raw": True})
    assert names(page, "raw") == [hit["text"] for hit in answer["raw"]]
    assert names(page, "corrected") == [hit["text"] for hit in answer["hits"]]
    assert page.value("location.hash") == "#/search?text=birthday+cake"
    moves = page.value("[...document.querySelectorAll('.corrected .move small')].map(one => one.textContent)")
    expected = [
        "stayed" if hit["raw_rank"] == hit["rank"] else f"was {hit['raw_rank'] or 'below ' + str(answer['fetched'])}"
        for hit in answer["hits"]
    ]
    assert moves == expected
    page.call("Page.reload")
    page.wait_for("document.querySelector('.asked-for')?.textContent === 'Results for birthday cake'")
    assert page.value("document.querySelector('#asked').value") == "birthday cake"


def test_the_slider_ranks_again_by_keys(page: browser.Page, demo: str, width: int) -> None:
    search(page, demo, width, text="money")
    page.value("document.querySelector('#strength').focus()")
    page.press("ArrowLeft")
    page.wait_for("document.querySelector('.status').textContent.includes('strength 0.95')")
    assert page.value("location.hash") == "#/search?text=money&strength=0.95"
    page.press("Home")
    page.wait_for("document.querySelector('.status').textContent.includes('strength 0.00')")
    assert names(page, "raw") == names(page, "corrected")
    assert page.value("document.querySelectorAll('.hit .move:not(.same)').length") == 0
    page.press("End")
    page.wait_for("document.querySelector('.status').textContent.includes('strength 1.50')")
    answer = posted(demo, "/v1/search", {"text": "money", "strength": 1.5})
    assert names(page, "corrected") == [hit["text"] for hit in answer["hits"]]
    assert page.value("document.activeElement.id") == "strength"


def test_an_answer_that_comes_late_is_dropped(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text="money")
    page.value(
        "{ const real = fetch; let calls = 0; window.fetch = async (path, request) => {"
        " const mine = ++calls; const answer = await real(path, {...request, signal: undefined});"
        " if (mine === 1) await new Promise(done => setTimeout(done, 400));"
        " window.answered = (window.answered ?? 0) + 1; return answer; } }"
    )
    slide = "(value => { const one = document.querySelector('#strength'); one.value = value;"
    slide += " one.dispatchEvent(new Event('input')); })"
    page.value(f"{slide}(0.5)")
    page.wait_for("location.hash.includes('strength=0.5')")
    page.value(f"{slide}(1.25)")
    page.wait_for("window.answered === 2")
    page.wait_for(FOUND)
    assert strength(page) == "1.25"


def test_several_descriptions_are_combined(page: browser.Page, demo: str, width: int) -> None:
    page.visit(demo, width)
    page.click("#asked")
    assert not page.value("document.querySelector('#combine').checkVisibility()")
    page.write("cake")
    page.press("Enter", shift=True)
    page.write("candles")
    assert page.value("document.querySelector('#asked').value") == "cake\ncandles"
    assert page.value("document.querySelector('#combine').checkVisibility()")
    page.press("Enter")
    page.wait_for("document.querySelector('.asked-for').textContent.startsWith('Results for 2 descriptions')")
    for name in ("ra", "mf", "head", "sa"):
        page.value(
            f"{{ const one = document.querySelector('#combine'); one.value = '{name}';"
            " one.dispatchEvent(new Event('change')); document.querySelector('.found').setAttribute('aria-busy', '') }"
        )
        page.wait_for(FOUND)
        answer = posted(demo, "/v1/search", {"texts": ["cake", "candles"], "combine": name})
        assert names(page, "corrected") == [hit["text"] for hit in answer["hits"]]
    assert page.value("location.hash") == "#/search?text=cake&text=candles&combine=sa"


def test_a_sample_an_item_and_the_way_back(page: browser.Page, demo: str, width: int) -> None:
    page.visit(demo, width)
    page.click(".chips .chip")
    page.wait_for("location.hash === '#/search?sample=0'")
    page.wait_for("document.querySelector('.asked-for').textContent.startsWith('Results for the sample query')")
    page.click(".corrected .hit .name")
    page.wait_for("document.querySelector('.asked-for').textContent.startsWith('More like ')")
    item = urllib.parse.unquote(page.value("location.hash").partition("item=")[2])
    answer = posted(demo, "/v1/search", {"item": item})
    assert names(page, "corrected") == [hit["text"] for hit in answer["hits"]]
    assert item not in [hit["id"] for hit in answer["hits"]]
    page.value("history.back()")
    page.wait_for("document.querySelector('.asked-for').textContent.startsWith('Results for the sample query')")


def test_a_hit_says_why_it_moved(page: browser.Page, demo: str, width: int) -> None:
    search(page, demo, width, text="money")
    page.click(".corrected .why summary")
    told = page.value("document.querySelector('.corrected .why p').textContent")
    hit = posted(demo, "/v1/search", {"text": "money", "raw": True})["hits"][0]
    numbers = [float(one) for one in re.findall(r"\d\.\d+", told)]
    assert numbers == pytest.approx(
        [abs(hit["bias"]), hit["score"] + hit["bias"], 1.0, abs(hit["bias"]), hit["score"]], abs=6e-4
    )


def test_a_wrong_question_is_answered_with_a_sentence(page: browser.Page, demo: str, width: int) -> None:
    page.visit(f"{demo}/#/search?item=nothing", width)
    page.wait_for("document.querySelector('.problem')?.checkVisibility()")
    told = page.value("document.querySelector('.problem').textContent")
    assert "nothing" in told and told.endswith(".")
    assert page.value("document.querySelector('.found').hidden")
    page.complaints.clear()  # the browser notes the status itself


def test_nothing_found_is_said(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text="money")
    page.value("window.fetch = async () => new Response(JSON.stringify({version: 'v1', strength: 1, hits: [], raw: []}))")
    page.press("Tab")
    page.value("{ const one = document.querySelector('#results'); one.dispatchEvent(new Event('change')); }")
    page.wait_for("document.querySelector('.status').textContent.startsWith('Nothing was found.')")
    assert not page.value("document.querySelector('.comparison').checkVisibility()")


def test_a_call_can_be_copied_and_gives_the_same(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text=["it's \"a\" cake", "candles"], strength="0.5", combine="mf")
    shown = names(page, "corrected")
    page.click(".calls summary")
    curl = page.value("document.querySelectorAll('.calls code')[0].textContent")
    words = shlex.split(curl)
    assert words[:2] == ["curl", f"{demo}/v1/search"]
    body = json.loads(words[words.index("-d") + 1])
    assert body == {"texts": ["it's \"a\" cake", "candles"], "k": 10, "strength": 0.5, "combine": "mf"}
    assert [hit["text"] for hit in posted(demo, "/v1/search", body)["hits"]] == shown


def test_the_keyboard_reaches_everything(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text="money")
    page.value("document.activeElement.blur()")
    reached = []
    for _ in range(45):
        page.press("Tab")
        reached.append(
            page.value(
                "(one => [one.id || one.className || one.textContent, getComputedStyle(one).outlineStyle])"
                "(document.activeElement)"
            )
        )
    order = [name for name, _ in reached]
    assert order[:6] == ["skip", "brand", "Search", "Hubs", "Bank", "API"]
    for wanted in ("asked", "primary", "chip", "strength", "results", "name"):
        assert wanted in order
    assert all(outline != "none" for _, outline in reached)


def test_the_policy_refuses_scripts_of_data(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text="money")
    page.value(
        "{ const one = document.createElement('script'); one.textContent = 'window.ran = true'; document.body.append(one);"
        " document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"window.ran = true\">'); }"
    )
    page.wait_for("document.querySelector('body > img').complete")
    assert page.value("window.ran") is None
    assert any("Content Security Policy" in one for one in page.complaints)
    page.complaints.clear()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_light_and_dark_follow_the_reader(page: browser.Page, demo: str, dark: bool) -> None:
    page.visit(demo, PHONE, dark=dark)
    page.wait_for("document.querySelectorAll('.hit').length === 20")
    script = "(one => [one.backgroundColor, one.color])(getComputedStyle(document.body))"
    paper, ink = (np.mean([int(part) for part in re.findall(r"\d+", one)[:3]]) for one in page.value(script))
    assert (ink - paper if dark else paper - ink) > 180


def test_the_api_page_is_made_from_the_specification(page: browser.Page, demo: str, width: int) -> None:
    page.visit(f"{demo}/api", width)
    page.wait_for("document.querySelector('.operation')")
    paths = fetched(demo, "/openapi.json")["paths"]
    headings = page.value("[...document.querySelectorAll('.operation h2')].map(one => one.textContent)")
    assert headings == [f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in verbs]
    page.click("#get-v1-about ~ .try-it summary")
    page.click("#get-v1-about ~ .try-it button")
    page.wait_for("document.querySelector('#get-v1-about ~ .try-it .answer').textContent.startsWith('200')")
