"""The documentation site: it builds without a warning, lists every public name, and works from disk."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import unhub
from docs.parameter_lists import with_lists
from tests import browser

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    return folder


def test_the_reference_has_an_entry_for_every_public_name(site: Path) -> None:
    entries = set(re.findall(r'id="unhub\.(\w+)"', (site / "api.html").read_text(encoding="utf-8")))
    assert entries == set(unhub.__all__)


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)\b[^>]*\bsrc="https?:[^"]*', text), page
        assert not re.findall(r'<link\b[^>]*\brel="(?:stylesheet|preconnect|icon)"[^>]*"https?:[^"]*', text), page


def test_the_search_answers_from_disk(site: Path, tmp_path: Path) -> None:
    with browser.open_page(tmp_path / "profile") as page:
        page.show(site / "index.html", width=1300)
        page.value("document.querySelector('[data-md-toggle=search]').click()")
        page.value(
            "field = document.querySelector('.md-search__input'); field.focus(); field.value = 'temperature';"
            "field.dispatchEvent(new Event('keyup'))"
        )
        deadline = time.monotonic() + browser.SECONDS
        while not page.value("document.querySelectorAll('.md-search-result__item').length"):
            assert time.monotonic() < deadline, "the search found nothing"
            time.sleep(0.1)
        assert all(address.startswith(("file:", "data:")) for address in page.requests)
        assert page.complaints == []


@pytest.mark.parametrize("name", ["index.html", "api.html", "methods/methods.html", "cli/cli.html"])
def test_a_page_fits_on_a_phone(site: Path, tmp_path: Path, name: str) -> None:
    with browser.open_page(tmp_path / "profile") as page:
        page.show(site / name, width=390)
        assert page.value("document.documentElement.scrollWidth") == 390


def test_parameters_named_in_a_docstring_become_a_list() -> None:
    text = "Fit.\n\nitems: (n, d) rows. bank: past queries;\nk, alpha (both): numbers\nof the method. Note: no name."
    assert with_lists(text, {"items", "bank", "k", "alpha"}) == (
        "Fit.\n\n- `items`: (n, d) rows.\n- `bank`: past queries\n"
        "- `k`, `alpha` (both): numbers of the method. Note: no name."
    )


def test_a_docstring_without_parameters_is_left_as_it_is() -> None:
    text = "Search.\n\n`k` is a number: at least 1.\n\nThe shape: (queries, k)."
    assert with_lists(text, {"k", "shape"}) == text
