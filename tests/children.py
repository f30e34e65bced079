"""Processes that run a script on the sources, to be measured or stopped as a whole."""

import signal
import subprocess
import sys
import time
from pathlib import Path

SOURCE = str(Path(__file__).parents[1] / "src")


def child(script: str) -> "subprocess.Popen[str]":
    """Start a script in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {SOURCE!r})\n{script}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_ctrl_c_stops(script: str) -> None:
    """Interrupt a script that would run for minutes once it has printed "started": it must end within seconds."""
    process = child(script)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        start = time.perf_counter()
        _, errors = process.communicate(timeout=60)
        assert time.perf_counter() - start < 10
        assert "KeyboardInterrupt" in errors
        assert process.returncode != 0
    finally:
        process.kill()
        process.wait()
