"""A web server of a folder, for the tests of remote files: it sends ranges, and fails where it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class FileServer:
    """Where a folder is served, and how: with ranges or not, with errors, or with no answer until it is closed."""

    url: str = ""
    ranges: bool = True
    dated: bool = True  # names when a file was written
    status: int = 0  # of every answer, if it is not 0
    broken: int = 0  # answers with a range that break off
    silent: bool = False
    closing: threading.Event = field(default_factory=threading.Event)
    sent: list[int] = field(default_factory=list)  # the sizes of the ranges


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *given: Any, files: FileServer, **more: Any) -> None:
        self.files = files
        super().__init__(*given, **more)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def send_header(self, keyword: str, value: str) -> None:
        """Leave out the date of the file if told to."""
        if self.files.dated or keyword != "Last-Modified":
            super().send_header(keyword, value)

    def do_HEAD(self) -> None:
        if self._answers():
            super().do_HEAD()

    def do_GET(self) -> None:
        if not self._answers():
            return
        asked = self.headers.get("Range")
        path = Path(self.translate_path(self.path))
        if asked is None or not self.files.ranges or not path.is_file():
            super().do_GET()
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        content = path.read_bytes()[int(first) : int(last) + 1]
        self.files.sent.append(len(content))
        self.send_response(206)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.files.broken:
            self.files.broken -= 1
            content = content[: len(content) // 2]
            self.close_connection = True
        self.wfile.write(content)

    def _answers(self) -> bool:
        if self.files.silent:
            self.files.closing.wait(30)
            self.close_connection = True
            return False
        if self.files.status:
            self.send_error(self.files.status)
            return False
        return True


@contextmanager
def served(folder: Path) -> Iterator[FileServer]:
    """Serve a folder on this machine."""
    files = FileServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, files=files, directory=str(folder)))
    files.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        files.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
