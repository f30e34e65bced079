"""The page in a real browser, against a real service: on a phone and on a desktop, by mouse and by keys."""

import base64
import csv
import json
import re
import shlex
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import unhub
from tests import browser, shapes, tiny_encoders
from tests.service.http.running import running
from unhub.stores.store import StoredItems

pytestmark = pytest.mark.once

PHONE, DESKTOP = 360, 1280
FOUND = "!document.querySelector('.found').hidden && !document.querySelector('.found').hasAttribute('aria-busy')"


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[str]:
    """Start `unhub serve` in a folder, and yield its address."""
    with running(arguments, folder) as (_, port):
        yield f"http://127.0.0.1:{port}"


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
    found: list[str] = page.value(
        f"[...document.querySelectorAll('.column.{side} .hit .name')].map(one => one.textContent)"
    )
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


def test_a_page_that_waits_for_its_first_answer_says_so(page: browser.Page, demo: str) -> None:
    page.visit(f"{demo}/#/bank", PHONE)
    page.wait_for("document.querySelector('h1')?.textContent === 'Bank'")
    page.value(
        "{ const real = fetch; const may = new Promise(done => { window.release = done; });"
        " window.fetch = async (path, request) => {"
        " if (String(path).includes('/v1/search')) await may; return real(path, request); } }"
    )
    page.value("location.hash = '#/search?text=money'")
    page.wait_for("[...document.querySelectorAll('[role=status]')].some(one => one.innerText === 'Searching …')")
    page.value("window.release()")
    page.wait_for(f"document.querySelector('.hit') && {FOUND}")
    assert not page.value("document.body.innerText.includes('Searching …')")


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


def test_ids_in_an_address_keep_their_type(page: browser.Page, demo: str) -> None:
    page.visit(demo, DESKTOP)
    page.value("import('/static/addresses.js').then(module => { window.addresses = module; })")
    page.wait_for("window.addresses")
    ids = [3, "3", -4, '"3"', '"', "a b&c=d/e?#", "🎂", ""]
    read = "addresses.idFrom(decodeURIComponent(addresses.itemAddress(one).slice('#/item/'.length)))"
    assert page.value(f"{json.dumps(ids)}.map(one => {read})") == ids
    read = "addresses.idFrom(new URLSearchParams(addresses.searchAddress({item: one}).split('?')[1]).get('item'))"
    assert page.value(f"{json.dumps(ids[:-3])}.map(one => {read})") == ids[:-3]


def test_a_hit_says_why_it_moved(page: browser.Page, demo: str, width: int) -> None:
    search(page, demo, width, text="money")
    page.click(".corrected .why summary")
    told = page.value("document.querySelector('.corrected .why p').textContent")
    hit = posted(demo, "/v1/search", {"text": "money", "raw": True})["hits"][0]
    numbers = [float(one) for one in re.findall(r"\d\.\d+", told)]
    assert numbers == pytest.approx(
        [abs(hit["bias"]), hit["score"] + hit["bias"], 1.0, abs(hit["bias"]), hit["score"]], abs=6e-4
    )


def test_why_follows_a_query_that_is_left_as_it_is(page: browser.Page, files: Path) -> None:
    items, bank = np.load(files / "items.npy"), np.load(files / "bank.npy")
    unhub.save(unhub.fit(items, bank[:5], method="dis"), files / "dis.unhub")
    given = ["--items", "items.npy", "--correction", "dis.unhub", "--queries", "queries.npy"]
    with serving(files, *given) as address:
        asked = ({"sample": row, "raw": True} for row in range(len(np.load(files / "queries.npy"))))
        left = next(one for one in asked if posted(address, "/v1/search", one)["corrected"] is False)
        search(page, address, DESKTOP, sample=left["sample"])
        hit = posted(address, "/v1/search", left)["hits"][0]
        page.click(".corrected .why summary")
        told = page.value("document.querySelector('.corrected .why p').textContent")
    assert "leaves this query as it is" in told
    assert [float(one) for one in re.findall(r"\d\.\d+", told)] == pytest.approx([hit["score"]], abs=6e-4)


def test_an_item_without_a_head_start_has_no_tile_of_one(page: browser.Page, files: Path) -> None:
    items, bank = np.load(files / "items.npy"), np.load(files / "bank.npy")
    unhub.save(unhub.fit(items, bank, method="gc"), files / "gc.unhub")
    with serving(files, "--items", "items.npy", "--correction", "gc.unhub") as address:
        page.visit(f"{address}/#/item/3", DESKTOP)
        page.wait_for("document.querySelector('.item-page h1')")
        assert page.value("document.querySelectorAll('.tile').length") == 0


def test_what_is_ranked_again_is_not_logged_again(page: browser.Page, tmp_path: Path) -> None:
    with serving(tmp_path, "--log", "log") as address:
        page.visit(address, DESKTOP)
        page.wait_for("document.querySelectorAll('.hit').length === 20")
        search(page, address, DESKTOP, text="money")
        page.value("document.querySelector('#strength').focus()")
        page.press("Home")
        page.wait_for("document.querySelector('.status').textContent.includes('strength 0.00')")
        time.sleep(1)  # in which everything that is logged is written
    assert len(unhub.read_vectors(tmp_path / "log")) == 1


def test_a_wrong_question_is_answered_with_a_sentence(page: browser.Page, demo: str, width: int) -> None:
    page.visit(f"{demo}/#/search?item=nothing", width)
    page.wait_for("document.querySelector('.problem')?.checkVisibility()")
    told = page.value("document.querySelector('.problem').textContent")
    assert "nothing" in told and told.endswith(".")
    assert page.value("document.querySelector('.found').hidden")
    page.complaints.clear()  # the browser notes the status itself


def test_nothing_found_is_said(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text="money")
    page.value(
        "window.fetch = async () => new Response(JSON.stringify({version: 'v1', strength: 1, hits: [], raw: []}))"
    )
    page.press("Tab")
    page.value("{ const one = document.querySelector('#results'); one.dispatchEvent(new Event('change')); }")
    page.wait_for("document.querySelector('.status').textContent.startsWith('Nothing was found.')")
    assert not page.value("document.querySelector('.comparison').checkVisibility()")


def test_a_call_can_be_copied_and_gives_the_same(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text=['it\'s "a" cake', "candles"], strength="0.5", combine="mf")
    shown = names(page, "corrected")
    page.click(".calls summary")
    curl = page.value("document.querySelectorAll('.calls code')[0].textContent")
    words = shlex.split(curl)
    assert words[:2] == ["curl", f"{demo}/v1/search"]
    body = json.loads(words[words.index("-d") + 1])
    assert body == {"texts": ['it\'s "a" cake', "candles"], "k": 10, "strength": 0.5, "combine": "mf"}
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
    assert [name for name, outline in reached if outline == "none"] == []


def test_the_policy_refuses_scripts_of_data(page: browser.Page, demo: str) -> None:
    search(page, demo, DESKTOP, text="money")
    page.value(
        "{ const one = document.createElement('script'); one.textContent = 'window.ran = true';"
        " document.body.append(one);"
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
    order = ("get", "post", "put", "delete")
    assert headings == [
        f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in sorted(verbs, key=order.index)
    ]
    page.click("#get-v1-about ~ .try-it summary")
    page.click("#get-v1-about ~ .try-it button")
    page.wait_for("document.querySelector('#get-v1-about ~ .try-it .answer').textContent.startsWith('200')")


def test_hubs_are_counted_and_plotted(page: browser.Page, demo: str, width: int) -> None:
    page.visit(f"{demo}/#/hubs", width)
    page.wait_for("document.querySelector('.plot')")
    hubs = fetched(demo, "/v1/hubs?k=10")
    shown = page.value("[...document.querySelectorAll('.figures tbody tr:first-child td')].map(one => one.textContent)")
    assert shown == [f"{round(hubs[side]['largest']):,}" for side in ("raw", "corrected", "chance")]
    cards = page.value("[...document.querySelectorAll('.hub-card h3')].map(one => one.textContent)")
    assert cards == [one["text"] for one in hubs["worst"]["raw"]]
    page.click("#worst [data-side=corrected]")
    cards = page.value("[...document.querySelectorAll('.hub-card h3')].map(one => one.textContent)")
    assert cards == [one["text"] for one in hubs["worst"]["corrected"]]
    page.click("#worst .hub-card summary")
    page.click("#worst .hub-card details a")
    page.wait_for("location.hash.startsWith('#/search?sample=')")
    page.wait_for(f"document.querySelector('.found') && {FOUND}")


def plotted(page: browser.Page) -> tuple[float, float]:
    """Return the counts between which the plot looks."""
    low, high = page.value("(one => [one.from, one.to])(document.querySelector('.plot').dataset)")
    return float(low), float(high)


def test_the_plot_is_zoomed_by_mouse_wheel_keys_and_buttons(page: browser.Page, demo: str, width: int) -> None:
    page.visit(f"{demo}/#/hubs", width)
    page.wait_for("document.querySelector('.plot .curve')")
    assert page.value("[...document.querySelectorAll('.plot .curve')].every(one => one.getBBox().width > 50)")
    assert page.value("document.querySelector('.plot line.average') !== null")
    low, high = plotted(page)
    left, top, right, bottom = page.value(
        "(one => { one.scrollIntoView({block: 'center'}); const box = one.getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom]; })(document.querySelector('.plot'))"
    )
    middle, centre = (left + right) / 2, (top + bottom) / 2
    page.drag((middle, centre), (right - 20, centre))
    dragged = plotted(page)
    assert low < dragged[0] < dragged[1] <= high
    assert page.value("document.querySelector('.readout').textContent").startswith("Returned ")
    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=middle, y=centre, deltaX=0, deltaY=-120)
    page.wait_for(f"Number(document.querySelector('.plot').dataset.to) < {dragged[1]}")
    page.value("document.querySelector('.plot').focus()")
    page.press("0")
    assert plotted(page) == (low, high)
    page.press("+")
    zoomed = plotted(page)
    assert zoomed[0] > low and zoomed[1] < high
    page.press("ArrowRight")
    assert plotted(page)[0] > zoomed[0]
    page.press("-")
    page.press("Escape")
    assert plotted(page) == (low, high)
    page.click(".plot-head button")
    assert plotted(page) == pytest.approx(zoomed)
    page.click(".plot-head button:last-child")
    assert plotted(page) == (low, high)


def test_an_item_has_a_page(page: browser.Page, demo: str, width: int) -> None:
    page.visit(f"{demo}/#/hubs", width)
    page.click(".hub-card h3 a")
    page.wait_for("document.querySelector('.item-page h1')")
    name = urllib.parse.quote(urllib.parse.unquote(page.value("location.hash").removeprefix("#/item/")))
    item = fetched(demo, f"/v1/items/{name}")
    assert page.value("document.querySelector('h1').textContent") == item["text"]
    tiles = page.value("[...document.querySelectorAll('.tile .value')].map(one => one.textContent)")
    assert tiles[1:3] == [str(item["counts"][side]) for side in ("raw", "corrected")]
    for side in ("raw", "corrected"):
        assert names(page, side) == [hit["text"] for hit in item["neighbours"][side]]
        asked = page.value(f"[...document.querySelectorAll('.{side} .plain a')].map(one => one.textContent)")
        assert asked == [one["text"] for one in item["queries"][side]]
    page.click(".item-head .button")
    page.wait_for("document.querySelector('.asked-for')?.textContent.startsWith('More like ')")


@pytest.mark.parametrize(
    "asked", [{"text": "cake"}, {"text": ["cake", "candles"], "combine": "head"}, {"item": "🎂"}, {"sample": 3}]
)
def test_the_copied_python_gives_the_same(page: browser.Page, demo: str, asked: dict[str, Any]) -> None:
    search(page, demo, DESKTOP, **asked, strength="0.5")
    page.click(".calls summary")
    namespace: dict[str, Any] = {}
    exec(page.value("document.querySelectorAll('.calls code')[1].textContent"), namespace)
    texts = dict(zip(namespace["items"].ids.tolist(), namespace["space"].gallery.texts.values(), strict=True))
    assert [texts[one] for one in namespace["ids"][0].tolist()] == names(page, "corrected")


# Data of our own: texts that would do harm if they were markup, pictures, integers for ids, and a folder that keeps.

HOSTILE = (
    "<script>document.title = 'run'</script>",
    '"><img src=x onerror="document.title = \'run\'">',
    "'; document.title = 'run'; //",
    "\u202egnp.exe \u2066 hidden",
    "averyverylongwordwithoutanyplacetobreakit" * 4,
    "javascript:document.title='run'",
    "&lt;b&gt; {{7*7}} ${7*7}",
)
TOKEN = "a secret of the test, long enough"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a gallery with pictures and hostile texts."""
    browser.program()
    folder = tmp_path_factory.mktemp("gallery")
    data = shapes.generate()
    np.save(folder / "items.npy", data.items)
    np.save(folder / "bank.npy", data.bank)
    np.save(folder / "queries.npy", data.queries)
    unhub.save(unhub.fit(data.items, data.bank, method="nnn:k=8,alpha=0.75"), folder / "c.unhub")
    with (folder / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((row, hostile(row)) for row in range(len(data.items)))])
    with (folder / "asked.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((row, hostile(row)) for row in range(len(data.queries)))])
    (folder / "pictures").mkdir()
    for row in range(len(data.items)):
        Image.new("RGB", (40, 60), (2 * row, 100, 200)).save(folder / "pictures" / f"{row}.png")
    (folder / "token.txt").write_text(TOKEN)
    return folder


def hostile(row: int) -> str:
    """Return a text that would do harm."""
    return f"{HOSTILE[row % len(HOSTILE)]} {row}"


FILES = {
    "items": "items.npy",
    "correction": "c.unhub",
    "bank": "bank.npy",
    "queries": "queries.npy",
    "item-texts": "texts.csv",
    "query-texts": "asked.csv",
    "item-images": "pictures",
}
GIVEN = [part for option, name in FILES.items() for part in (f"--{option}", name)]


@pytest.fixture(scope="module")
def gallery(files: Path) -> Iterator[str]:
    with serving(files, *GIVEN, "--state", "state") as address:
        yield address


@pytest.mark.parametrize("place", ["search?sample=0&k=50", "hubs", "item/3", "bank"])
def test_texts_are_shown_as_text(page: browser.Page, gallery: str, place: str, width: int) -> None:
    page.visit(f"{gallery}/#/{place}", width)
    page.wait_for("document.querySelector('.hit, .hub-card, .versions li')")
    assert page.value("document.title").endswith(" · items · unhub")
    assert page.value("document.querySelectorAll('script').length") == 1
    assert page.value("document.querySelectorAll('main [onerror], main b b').length") == 0
    if place.startswith("search"):
        answer = posted(gallery, "/v1/search", {"sample": 0, "k": 50, "raw": True})
        assert names(page, "raw") == [hostile(hit["id"]) for hit in answer["raw"]]
        assert names(page, "corrected") == [hostile(hit["id"]) for hit in answer["hits"]]
        # A mark of direction turns nothing outside its own text.
        assert page.value(
            "[...document.querySelectorAll('.name bdi')].every(one => getComputedStyle(one).unicodeBidi === 'isolate')"
        )


def seen(page: browser.Page, image: str) -> None:
    """Wait until a picture is loaded, which it is when it comes into sight."""
    page.value(f"document.querySelector({image!r}).scrollIntoView()")
    page.wait_for(f"document.querySelector({image!r}).naturalWidth === 40")


def test_pictures_are_shown(page: browser.Page, gallery: str, width: int) -> None:
    search(page, gallery, width, sample=0)
    seen(page, ".raw .hit:first-child img")
    seen(page, ".corrected .hit:last-child img")
    assert page.value("document.querySelectorAll('.raw img').length") == 10
    assert not page.value("document.querySelector('#asked')")  # without an encoder there is no box to type into


def test_more_like_an_item_with_a_number(page: browser.Page, gallery: str) -> None:
    search(page, gallery, DESKTOP, item=3)
    answer = posted(gallery, "/v1/search", {"item": 3})
    assert names(page, "corrected") == [hostile(hit["id"]) for hit in answer["hits"]]


@pytest.mark.parametrize("asked", [{"item": 3}, {"sample": 4}])
def test_the_copied_python_reads_the_files(
    page: browser.Page, gallery: str, files: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    search(page, gallery, DESKTOP, **asked)
    page.click(".calls summary")
    monkeypatch.chdir(files)
    namespace: dict[str, Any] = {}
    exec(page.value("document.querySelectorAll('.calls code')[1].textContent"), namespace)
    assert [hostile(one) for one in namespace["ids"][0].tolist()] == names(page, "corrected")


def test_the_copied_python_fetches_an_item_of_a_store(page: browser.Page, files: Path, tmp_path: Path) -> None:
    items = unhub.read_vectors(files / "items.npy")
    store = unhub.store(f"lancedb:{tmp_path}#photos")
    store.create(items.dimensions, "cosine")
    store.write(StoredItems(items.ids, items.block(0, len(items))))
    with serving(files, "--store", f"lancedb:{tmp_path}#photos", "--correction", "c.unhub") as address:
        search(page, address, DESKTOP, item=3)
        page.click(".calls summary")
        namespace: dict[str, Any] = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(files)
            exec(page.value("document.querySelectorAll('.calls code')[1].textContent"), namespace)
        answer = posted(address, "/v1/search", {"item": 3})
    assert namespace["ids"][0].tolist() == [hit["id"] for hit in answer["hits"]]


def test_what_was_meant_is_kept(page: browser.Page, gallery: str, files: Path) -> None:
    search(page, gallery, DESKTOP, sample=4)
    assert "what you meant" in page.value("document.querySelector('.legend').textContent")
    page.click(".corrected .mark")
    page.wait_for("document.querySelector('.notice')?.textContent.startsWith('Noted')")
    assert page.value("document.querySelector('.corrected .mark').getAttribute('aria-pressed')") == "true"
    best = posted(gallery, "/v1/search", {"sample": 4})["hits"][0]["id"]
    relevance = unhub.read_relevance(files / "state" / "marks" / "relevance.csv")
    assert relevance.item_ids.tolist()[-1] == best


def test_refit_activate_and_roll_back(page: browser.Page, files: Path, width: int, tmp_path: Path) -> None:
    with serving(files, *GIVEN, "--state", str(tmp_path / "state")) as address:
        page.visit(f"{address}/#/bank", width)
        page.wait_for("document.querySelector('.verdict-line')")
        assert fetched(address, "/v1/bank")["conclusion"] in page.value(
            "document.querySelector('.verdict-line').textContent"
        )
        page.click("#method")
        page.write("csls:k=5")
        page.press("Enter")
        page.wait_for("[...document.querySelectorAll('button')].some(one => one.textContent === 'Activate v2')")
        assert fetched(address, "/v1/about")["version"] == "v1"  # offered, not served
        page.click(".row .primary")
        page.wait_for("document.querySelector('#version').textContent === 'v2'")
        page.wait_for("document.querySelector('.versions .active b').textContent === 'v2'")  # its table comes later
        assert fetched(address, "/v1/about")["method"].startswith("csls")
        page.click("#rollback")
        page.wait_for("document.querySelector('#version').textContent === 'v1'")
        page.wait_for("document.querySelector('.versions .active b').textContent === 'v1'")
        assert fetched(address, "/v1/about")["version"] == "v1"


def test_a_refit_that_cannot_be_is_told(page: browser.Page, gallery: str) -> None:
    page.visit(f"{gallery}/#/bank", DESKTOP)
    page.click("#method")
    page.write("otn")
    page.press("Enter")
    page.wait_for("document.querySelector('.notice.bad')")
    assert "otn" in page.value("document.querySelector('.notice.bad').textContent")
    page.complaints.clear()  # the browser notes the status itself


def test_a_token_is_asked_for_and_used(page: browser.Page, files: Path) -> None:
    with serving(files, *GIVEN, "--token-file", "token.txt") as address:
        page.visit(address, PHONE)
        page.click("#token")
        page.write(TOKEN)
        page.press("Enter")
        page.wait_for("document.querySelectorAll('.hit').length === 20")
        seen(page, ".raw .hit:first-child img")
        page.click(".calls summary")
        assert TOKEN not in page.value("document.documentElement.outerHTML")
        page.value("sessionStorage.clear()")
    assert all("401" in one for one in page.complaints)
    page.complaints.clear()


def test_a_picture_and_a_text_are_encoded(page: browser.Page, tmp_path: Path) -> None:
    browser.program()
    tiny_encoders.write_clip(tmp_path / "clip")
    random = np.random.default_rng(0)
    np.save(tmp_path / "items.npy", random.normal(size=(30, 12)).astype(np.float32))
    items, bank = np.load(tmp_path / "items.npy"), random.normal(size=(300, 12)).astype(np.float32)
    unhub.save(unhub.fit(items, bank, method="nnn:k=5"), tmp_path / "c.unhub")
    Image.new("RGB", (40, 60), "red").save(tmp_path / "red.png")
    given = ("--items", "items.npy", "--correction", "c.unhub", "--encoder", "clip")
    with serving(tmp_path, *given) as address:
        page.visit(address, PHONE)
        page.click("#asked")  # nothing is shown yet: there is no sample to begin with
        page.write("a red circle")
        page.press("Enter")
        page.wait_for("document.querySelector('.asked-for').textContent === 'Results for a red circle'")
        document = page.call("DOM.getDocument")["root"]["nodeId"]
        field = page.call("DOM.querySelector", nodeId=document, selector="#picture")["nodeId"]
        page.call("DOM.setFileInputFiles", files=[str(tmp_path / "red.png")], nodeId=field)
        page.wait_for("document.querySelector('.asked-for').textContent === 'Results for the picture red.png'")
        picture = base64.b64encode((tmp_path / "red.png").read_bytes()).decode()
        answer = posted(address, "/v1/search", {"picture": picture})
        assert names(page, "corrected") == [str(hit["id"]) for hit in answer["hits"]]


def test_the_picture_of_the_docs_can_be_made(tmp_path: Path) -> None:
    browser.program()
    script = Path(__file__).parents[2] / "benchmarks" / "serve_page.py"
    arguments = [sys.executable, str(script), "shot.png"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "shot.png") as shot:
        assert shot.width == DESKTOP
        assert len(shot.convert("RGB").getcolors(1 << 24) or []) > 50
