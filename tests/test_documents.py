"""README and docs: every Python block and every `unhub` command in them runs, and the tables say what the code says."""

import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import unhub
from tests import command, media, tiny_encoders
from unhub.indexes import INDEXES
from unhub.methods import METHODS, as_value
from unhub.methods.method import Value
from unhub.stores.engines import STORES, is_store

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

SIZES = {"gallery": 200, "captions": 600, "training": 150, "q": 8, "new_items": 20, "more_captions": 100}

ENCODER = "openai/clip-vit-base-patch32"


class Block(NamedTuple):
    """A fenced block: its language, the line it begins on, its text."""

    language: str
    line: int
    text: str


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks_of(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield Block(match[1], text.count("\n", 0, match.start(2)) + 1, match[2])


def commands_of(block: Block) -> Iterator[str]:
    """Yield the lines of a block that call unhub, without the prompt; a line that ends in a backslash goes on."""
    for line in block.text.replace("\\\n", " ").splitlines():
        line = line.removeprefix("$ ")
        if line.startswith("unhub "):
            yield line


def table_rows(text: str, head: str) -> dict[str, list[str]]:
    """Return the cells of a table by what stands in the first one, without backticks; `head` begins its first line."""
    lines = text[text.index(f"\n| {head} |") :].strip().split("\n\n")[0].splitlines()[2:]
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {cells[0].strip("`"): cells[1:] for cells in rows}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, made the current one, with the small files that the pages speak of."""
    random = np.random.default_rng(0)
    for name, rows in SIZES.items():
        np.save(tmp_path / f"{name}.npy", random.normal(size=(rows, 16)).astype(np.float32))
    gallery, new = np.load(tmp_path / "gallery.npy"), np.load(tmp_path / "new_items.npy")
    np.save(tmp_path / "all.npy", np.concatenate([gallery, new]))
    np.save(tmp_path / "changed.npy", np.concatenate([new[:3], gallery[3:]]))
    (tmp_path / "new.txt").write_text("204\n201\n")
    (tmp_path / "names.txt").write_text("".join(f"image {row}.jpg\n" for row in range(SIZES["gallery"])))
    (tmp_path / "gone.txt").write_text("3\n5\n")
    (tmp_path / "q.txt").write_text("".join(f"words of query {row}\n" for row in range(SIZES["q"])))
    (tmp_path / "truth.csv").write_text(
        "query_id,item_id\n" + "".join(f"{row},{7 * row}\n" for row in range(SIZES["q"]))
    )
    pairs = [f"{caption},{caption // 3}\n" for caption in range(SIZES["captions"])]  # three captions for each item
    (tmp_path / "map.csv").write_text("query_id,item_id\n" + "".join(pairs[:450]))
    (tmp_path / "val.csv").write_text("query_id,item_id\n" + "".join(pairs[450:]))
    together = [f"{row // 3},{row}\n" for row in range(SIZES["q"])]
    (tmp_path / "sets.csv").write_text("set_id,query_id\n" + "".join(together))
    (tmp_path / "theirs.run").write_text(
        "".join(f"{row} Q0 {7 * row + place} {place + 1} {1 - place} tag\n" for row in range(7) for place in range(2))
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_media(folder: Path) -> None:
    """Write pictures, videos, sounds and captions, and tiny encoders under the names of large ones."""
    tiny_encoders.write_clip(folder / ENCODER)
    tiny_encoders.write_clap(folder / "laion" / "clap-htsat-unfused")
    tiny_encoders.write_picture_model(folder / "facebook" / "dinov2-base", "Dinov2")
    (folder / "sounds").mkdir()
    media.write_sound(folder / "sounds" / "one.wav", media.tones(1.2, 16_000), 16_000, "pcm_s16le")
    (folder / "classes.txt").write_text("circle\nsquare\n")
    (folder / "prompts.txt").write_text("a photo of a {}.\na drawing of a {}.\n")
    media.write_images(folder / "images")
    (folder / "videos").mkdir()
    media.write_video(folder / "videos" / "one.mp4", 12)
    (folder / "captions.csv").write_text("key,caption\n" + "".join(f"k{row},a red circle {row}\n" for row in range(4)))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_runs(page: Path, files: Path, request: pytest.FixtureRequest) -> None:
    namespace: dict[str, object] = {}
    blocks = list(blocks_of(page.read_text(encoding="utf-8")))
    if any("unhub demo" in block.text for block in blocks):
        request.getfixturevalue("kept_code")
    if any(ENCODER in block.text for block in blocks if block.language != "text"):
        write_media(files)
    for block in blocks:
        if block.language == "python":
            # Empty lines before it, so that an error names the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), namespace)
        elif block.language == "console":
            for line in commands_of(block):
                done = command.here(files, *shlex.split(line)[1:])
                # These vectors are noise: `tune` rightly says that nothing is to be gained on them.
                fine = (0, 3) if line.startswith("unhub tune ") else (0,)
                assert done.returncode in fine and not done.stderr, line
                assert done.stdout or "-o" in line, line


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_a_block_is_run_or_says_that_it_is_text(page: Path) -> None:
    assert {block.language for block in blocks_of(page.read_text(encoding="utf-8"))} <= {"python", "console", "text"}


def leads_somewhere(page: Path, target: str) -> bool:
    """Tell whether a file is there that a page links to, and in it the heading, if the link names one."""
    name, _, anchor = target.partition("#")
    there = page.parent / name if name else page
    return there.exists() and (not anchor or anchor in anchors_of(there.read_text(encoding="utf-8")))


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    missing = [one for one in targets if not one.startswith("https://") and not leads_somewhere(page, one)]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_installs_from_a_checkout(page: Path) -> None:
    """As README does: there is no release to install from yet."""
    assert not re.search(r"pip install '?unhub\b", page.read_text(encoding="utf-8"))


def test_the_index_of_the_docs_lists_every_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:]} - {"README.md"}
    assert set(re.findall(r"\(([\w/]+\.md)\)", text)) == pages


def test_every_folder_of_the_package_has_a_page() -> None:
    folders = {path.parent.name for path in (ROOT / "src" / "unhub").glob("*/__init__.py")}
    assert folders <= {page.parent.name for page in PAGES}


def parameters_in(cell: str) -> dict[str, Value]:
    """Read a cell such as `k=128, alpha=0.75`; a name without a value is a parameter that is off by default."""
    pairs = (one.partition("=") for one in cell.strip("`").split(", ") if one)
    return {name: as_value(value) if equals else None for name, equals, value in pairs}


def test_the_table_of_methods_lists_all_with_their_defaults() -> None:
    rows = table_rows((ROOT / "docs" / "methods" / "table.md").read_text(encoding="utf-8"), "method")
    listed = {name: parameters_in(cells[1]) for name, cells in rows.items()}
    assert list(listed) == list(METHODS)
    assert listed == {name: method.parameters() for name, method in METHODS.items()}


def test_the_table_of_methods_says_what_each_needs() -> None:
    rows = table_rows((ROOT / "docs" / "methods" / "table.md").read_text(encoding="utf-8"), "method")
    assert {name for name, cells in rows.items() if cells[2] == "all queries at once"} == {
        name for name, method in METHODS.items() if method.kind == "plan"
    }
    for needs, asked in {
        "bank, bank items": {name for name, method in METHODS.items() if method.dual},
        "bank, perhaps bank items": {name for name, method in METHODS.items() if method.joint},
    }.items():
        assert {name for name, cells in rows.items() if cells[2] == needs} == asked != set()
    assert sum("bank items" in cells[2] for cells in rows.values()) == 3


def test_the_page_of_methods_has_a_section_for_each_of_its_kind() -> None:
    text = (ROOT / "docs" / "methods" / "methods.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `(\w+)`$", text, re.MULTILINE) == list(METHODS)
    kinds = table_rows(text, "kind")
    for name, method in METHODS.items():
        assert f"`{name}`" in kinds[method.kind.capitalize()][1]


def test_the_page_of_indexes_lists_every_engine() -> None:
    rows = table_rows((ROOT / "docs" / "indexes" / "indexes.md").read_text(encoding="utf-8"), "index")
    assert [name.partition(":")[0] for name in rows] == list(INDEXES)


def test_the_table_of_upkeep_says_what_is_refused() -> None:
    rows = table_rows((ROOT / "docs" / "upkeep.md").read_text(encoding="utf-8"), "method")
    said = {name: cells for names, cells in rows.items() for name in re.findall(r"\w+", names)}
    assert said.keys() == METHODS.keys()
    random = np.random.default_rng(0)
    items, bank, targets = random.normal(size=(12, 4)), random.normal(size=(30, 4)), random.normal(size=(9, 4))
    for name, cells in said.items():
        fitted = unhub.fit(items, bank, method=name, bank_items=targets, mergeable=True)
        changed = unhub.Vectors(np.array([1]), items[:1] + 1)
        calls = (
            partial(unhub.extend, fitted, items[:2] + 1, bank, bank_items=targets),
            partial(unhub.remove, fitted, [1], items=items, bank=bank, bank_items=targets),
            partial(unhub.replace, fitted, changed, bank, bank_items=targets, items=items),
            partial(unhub.merge, fitted, items, bank[:5] + 1, bank_items=targets),
        )
        for cell, call in zip(cells, calls, strict=True):
            if cell.startswith(("equal", "close")):
                assert len(call()) == len(fitted) + {"extend": 2, "remove": -1}.get(call.func.__name__, 0)
            else:
                with pytest.raises(ValueError, match="refit"):
                    call()


def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", one) for one in releases[1:])
    kinds = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_page_of_stores_has_an_address_for_every_engine() -> None:
    rows = table_rows((ROOT / "docs" / "stores" / "stores.md").read_text(encoding="utf-8"), "engine")
    assert list(rows) == list(STORES)
    for name, cells in rows.items():
        assert name == "postgres" or all(is_store(one) for one in re.findall(r"`([^`]+)`", cells[0]))
