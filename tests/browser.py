"""A headless Chromium driven over its debugging pipe: load a page, look at it, click and type in it, print it."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
SECONDS = 60.0
KEY_CODES = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Home": 36, "End": 35}
SHIFT = 8  # as the browser numbers it
MIDDLE = """one => {
  one.scrollIntoView({block: "center"});
  const box = one.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""
PAUSE_SECONDS = 0.02  # between two looks at the page


@dataclass
class Page:
    """An open page and what it did: the addresses it asked for, and what it complained of."""

    call: Callable[..., dict[str, Any]]
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def show(self, path: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Load a file in a window of this size, in light or dark colours, and wait until it is there."""
        self.visit(path.resolve().as_uri(), width, height, dark)

    def visit(self, address: str, width: int, height: int = 900, dark: bool = False) -> None:
        """Load an address, as `show` loads a file."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait_for(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + SECONDS
        while not self.value(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"waited in vain for {script}"
            time.sleep(PAUSE_SECONDS)

    def click(self, selector: str) -> None:
        """Click the middle of the first element that a selector finds, as a mouse does."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        x, y = self.value(f"({MIDDLE})(document.querySelector({json.dumps(selector)}))")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the mouse from one place of the window to another."""
        steps = (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end))
        for kind, (x, y) in steps:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, shift: bool = False) -> None:
        """Press a key where the focus is: a character, or one that KEY_CODES has."""
        code = KEY_CODES.get(key, ord(key[0].upper()))
        written = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        held = {"key": key, "windowsVirtualKeyCode": code, "modifiers": SHIFT if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **held, **written)
        self.call("Input.dispatchKeyEvent", type="keyUp", **held)

    def value(self, script: str) -> Any:
        """Return what an expression is in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def screenshot(self, whole: bool = True) -> bytes:
        """Return what is seen, or the whole page, as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def pdf(self) -> bytes:
        """Return the page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


def program() -> str:
    """Return the browser's program, or skip the running test."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    pytest.skip("chromium not found: install it (apt-get install chromium) to check pages in a browser")


@contextmanager
def open_page(profile: Path) -> Iterator[Page]:
    """Start a browser with an empty profile in this folder, and yield its page."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    # The browser reads commands from file 3 and writes answers to file 4, whatever numbers the pipes got here.
    command = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'
    arguments = ["bash", "-c", command, program(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with open(profile.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(their_in, their_out)
        )
    os.close(their_in)
    os.close(their_out)
    try:
        yield _attach(our_in, our_out)
    finally:
        os.close(our_out)
        os.close(our_in)
        process.terminate()
        process.wait(SECONDS)


def _attach(source: int, sink: int) -> Page:
    numbers, unread, session = itertools.count(1), bytearray(), ""

    def call(method: str, **parameters: Any) -> dict[str, Any]:
        number = next(numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(sink, json.dumps(message).encode() + b"\0")
        while True:
            answer = _next_message(source, unread)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            _note(page, answer)

    page = Page(call)
    target = next(one for one in call("Target.getTargets")["targetInfos"] if one["type"] == "page")
    session = call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Network", "Log"):
        call(f"{domain}.enable")
    return page


def _next_message(source: int, unread: bytearray) -> dict[str, Any]:
    while b"\0" not in unread:
        ready, _, _ = select.select([source], [], [], SECONDS)
        assert ready, "the browser does not answer"
        more = os.read(source, 1 << 20)
        assert more, "the browser ended"
        unread += more
    message, _, rest = bytes(unread).partition(b"\0")
    unread[:] = rest
    loaded: dict[str, Any] = json.loads(message)
    return loaded


def _note(page: Page, event: dict[str, Any]) -> None:
    """Keep what tells of a request, an error or a line on the console."""
    method, told = event.get("method"), event.get("params", {})
    if method == "Network.requestWillBeSent":
        page.requests.append(told["request"]["url"])
    elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
        page.complaints.append(json.dumps(told))
