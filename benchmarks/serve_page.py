"""Serve the emoji and take a picture of the page in Chromium: docs/service/page.png. It needs a font with emoji."""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

EXAMPLE = "/search?text=circle"  # the first example of `unhub demo emoji`, which a rule picks
WINDOW_PIXELS = (1280, 1270)
WAIT_MILLISECONDS = 20_000  # of the page's own clock, which runs ahead while nothing happens
COUNTING_SECONDS = 120
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",  # nothing is caught halfway
)


@contextmanager
def serving() -> Iterator[str]:
    """Start `unhub serve`, yield its address once the hubs are counted, and end it."""
    command = [sys.executable, "-m", "unhub", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = process.stdout or ()
            address = next(found[0] for line in lines if (found := re.search(r"http://[\w.:]+", line)))
            deadline = time.monotonic() + COUNTING_SECONDS
            while urllib.request.urlopen(f"{address}/v1/hubs").status != 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            yield address
        finally:
            process.send_signal(signal.SIGTERM)


def photograph(address: str, target: Path) -> None:
    """Take a picture of what a window shows, in few colours."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("chromium is needed for the screenshot: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shot = Path(folder) / "page.png"
        flags = [
            *FLAGS,
            f"--virtual-time-budget={WAIT_MILLISECONDS}",
            f"--user-data-dir={folder}/profile",
            f"--window-size={WINDOW_PIXELS[0]},{WINDOW_PIXELS[1]}",
            f"--screenshot={shot}",
        ]
        subprocess.run([program, *flags, address], check=True, capture_output=True, timeout=120)
        with Image.open(shot) as whole:
            whole.convert("RGB").quantize(128, method=Image.Quantize.MEDIANCUT).save(target, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("screenshot", nargs="?", type=Path, help="default: docs/service/page.png")
    parser.add_argument("--place", default=EXAMPLE, help="what to show, behind the #")
    given = parser.parse_args()
    with serving() as served:
        target = given.screenshot or Path(__file__).resolve().parents[1] / "docs" / "service" / "page.png"
        photograph(f"{served}/#{given.place}", target)
