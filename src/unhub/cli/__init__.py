"""The command line: parse, call one library function, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import signal
import sys


class Interrupted(KeyboardInterrupt):
    """Ctrl-C.

    Where a plain KeyboardInterrupt comes up inside `exec`, as imports use it, Python ends `python -m` by the signal
    whatever the exit code, even if it was caught.
    """


def main() -> None:
    """Run the command line; ctrl-C ends it with one line and an exit code, from the first import on."""
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # in the background it may be ignored
    try:
        if plain:
            signal.signal(signal.SIGINT, _interrupt)
        from unhub.cli.commands import run  # not before: this takes a while

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("unhub: stopped\n")
        code = 130
    finally:
        if plain:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(code)


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted
