"""`unhub serve` in a process of its own, as a user starts it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.children import SOURCE

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


@contextmanager
def running(options: Sequence[str] = (), folder: Path | None = None) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start the service on a free port; yield the process and the port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "unhub", "serve", "--port", "0", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        found = ADDRESS.search(line)
        assert found, line + process.stderr.read()
        yield process, int(found[1])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
