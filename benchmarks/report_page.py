"""Write a report on generated data with pictures, and take a picture of it in Chromium: docs/reports/report.png."""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

import unhub

COLOURS = {
    "red": "#d7263d",
    "orange": "#f46036",
    "yellow": "#f2b705",
    "green": "#2e8b57",
    "blue": "#2374ab",
    "violet": "#7b4fa3",
    "pink": "#e27396",
    "black": "#22223b",
}
SHAPES = {"circle": 0, "triangle": 3, "square": 4, "pentagon": 5, "star": 10}  # corners; a circle has none
SIZES = {"small": 0.26, "large": 0.42}
PAPERS = ("#f4f1de", "#e0fbfc", "#f8edeb", "#eef4ed")
SIDE_PIXELS = 120
DIMENSIONS = 64
WINDOW_PIXELS = (3060, 3600)  # longer than the page
WIDTH_PIXELS = 1712  # of the picture, which shows the page in columns
COLUMN_STYLE = """
main { max-width: none; padding: 32px; columns: 3; column-gap: 32px; }
.verdict, .tiles, .card, .note { break-inside: avoid; }
h1, h2, h2 ~ .note, .tally, .legend { break-after: avoid; }
h2 { margin-top: 2.4rem; }
"""


@dataclass(frozen=True)
class Shapes:
    """Pictures of shapes and texts that ask for them, embedded; a query is answered by every picture of its kind."""

    names: list[str]
    items: NDArray[np.float32]
    item_names: NDArray[np.int64]
    queries: NDArray[np.float32]
    query_names: NDArray[np.int64]
    bank: NDArray[np.float32]

    @property
    def relevance(self) -> list[tuple[int, int]]:
        queries, items = np.nonzero(self.query_names[:, None] == self.item_names[None])
        return list(zip(queries.tolist(), items.tolist(), strict=True))


def generate(items: int, queries: int, bank: int, seed: int = 0) -> Shapes:
    """Draw kinds of pictures and embed them: the sum of their colour, shape and size, noise, and a shared direction.

    A picture whose noise leans towards the direction that all texts share is a hub.
    """
    random = np.random.default_rng(seed)

    def draw(rows: int, scale: float) -> NDArray[np.float64]:
        return random.normal(scale=scale / DIMENSIONS**0.5, size=(rows, DIMENSIONS))

    parts = [dict(zip(words, draw(len(words), 1.0), strict=True)) for words in (SIZES, COLOURS, SHAPES)]
    kinds = list(itertools.product(*parts))
    meanings = np.array([sum(part[word] for part, word in zip(parts, kind, strict=True)) for kind in kinds])
    item_cone, query_cone = draw(1, 1.0), draw(1, 1.0)

    def embed(count: int, cone: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        names = random.integers(len(kinds), size=count)
        rows = meanings[names] + cone + draw(count, 1.7)
        return names, (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    item_names, item_rows = embed(items, item_cone)
    query_names, query_rows = embed(queries, query_cone)
    _, bank_rows = embed(bank, query_cone)
    return Shapes([" ".join(kind) for kind in kinds], item_rows, item_names, query_rows, query_names, bank_rows)


def paint(name: str, path: Path, random: np.random.Generator) -> None:
    """Draw a picture of a kind at a random place and angle."""
    size, colour, shape = name.split()
    image = Image.new("RGB", (SIDE_PIXELS, SIDE_PIXELS), str(random.choice(PAPERS)))
    radius = SIZES[size] * SIDE_PIXELS
    centre = random.uniform(radius + 2, SIDE_PIXELS - radius - 2, size=2)
    pen = ImageDraw.Draw(image)
    corners = SHAPES[shape]
    if not corners:
        pen.ellipse([*(centre - radius), *(centre + radius)], fill=COLOURS[colour])
    else:
        turn = random.uniform(0, 2 * math.pi)
        lengths = [radius * (0.45 if shape == "star" and corner % 2 else 1) for corner in range(corners)]
        angles = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
        points = [
            (centre[0] + length * math.cos(angle), centre[1] + length * math.sin(angle))
            for length, angle in zip(lengths, angles, strict=True)
        ]
        pen.polygon(points, fill=COLOURS[colour])
    image.save(path)


def write_page(path: Path, items: int, queries: int, bank: int) -> unhub.Report:
    """Write the report to a file."""
    data = generate(items, queries, bank)
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        pictures = [Path(folder) / f"{row}.png" for row in range(items)]
        for name, picture in zip(data.item_names, pictures, strict=True):
            paint(data.names[name], picture, random)
        return unhub.report(
            data.items,
            data.bank,
            data.queries,
            data.relevance,
            path=path,
            item_images=pictures,
            item_texts=[data.names[name] for name in data.item_names],
            query_texts=[f"a {data.names[name]}" for name in data.query_names],
            title="Shapes: a hubness report",
            command="python benchmarks/report_page.py",
        )


def photograph(page: Path, target: Path) -> None:
    """Take a picture of a whole page in headless Chromium, in columns."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("chromium is needed for the screenshot: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        columns, shot = Path(folder) / "columns.html", Path(folder) / "page.png"
        columns.write_text(page.read_text(encoding="utf-8").replace("</style>", f"{COLUMN_STYLE}</style>"), "utf-8")
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
            f"--window-size={WINDOW_PIXELS[0]},{WINDOW_PIXELS[1]}",
            f"--screenshot={shot}",
        ]
        subprocess.run([program, *flags, columns.as_uri()], check=True, capture_output=True, timeout=120)
        with Image.open(shot) as whole:
            smaller(whole.convert("RGB")).quantize(256, method=Image.Quantize.MEDIANCUT).save(target, optimize=True)


def smaller(whole: Image.Image) -> Image.Image:
    """Return a picture scaled to its width in the docs, without the empty end."""
    pixels = np.asarray(whole)
    end = min(int(np.flatnonzero((pixels != pixels[-1, 0]).any(axis=(1, 2)))[-1]) + 40, whole.height)
    height = round(end * WIDTH_PIXELS / whole.width)
    return whole.crop((0, 0, whole.width, end)).resize((WIDTH_PIXELS, height), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("screenshot", nargs="?", type=Path, help="default: docs/reports/report.png")
    parser.add_argument("--page", type=Path, help="also keep the page in this file")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data: 0.1 is a tenth")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = given.page or Path(folder) / "report.html"
        made = write_page(page, *(max(100, round(given.scale * count)) for count in (1500, 2000, 6000)))
        print(made)
        photograph(page, given.screenshot or Path(__file__).resolve().parents[1] / "docs" / "reports" / "report.png")
