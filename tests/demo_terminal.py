"""`unhub demo` in a process of its own at a terminal, as someone sees it."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios


class Terminal:
    """`unhub demo` in a process of its own at a terminal."""

    def __init__(self, columns: int, *arguments: str) -> None:
        self.screen, inside = pty.openpty()
        termios.tcsetwinsize(inside, (24, columns))
        given = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "unhub", "demo", *arguments, "--threads", "1"],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env={**given, "TERM": "xterm-256color"},
        )
        os.close(inside)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.screen)

    def read_until(self, end: str) -> str:
        """Return what is printed up to this text."""
        seen = b""
        while not seen.endswith(end.encode()):
            ready, _, _ = select.select([self.screen], [], [], 60)
            assert ready, seen.decode(errors="replace")
            seen += os.read(self.screen, 1 << 16)
        return seen.decode()

    def plain(self, printed: str) -> list[str]:
        """Return what was printed as lines, without colours and the movements of a progress bar."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed).replace("\r", "\n").splitlines()

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def interrupt(self) -> int:
        """Interrupt the process and return its exit code; again where readline was not waiting yet and missed it."""
        for _ in range(5):
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(5)
        raise AssertionError("it goes on after ctrl-C")
