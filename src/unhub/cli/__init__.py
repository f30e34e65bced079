"""The command line: parse, call one library function, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import signal
import sys
from io import TextIOWrapper


class Interrupted(KeyboardInterrupt):
    """Ctrl-C.

    Where a plain KeyboardInterrupt comes up inside `exec`, as imports use it, Python ends `python -m` by the signal
    whatever the exit code, even if it was caught.

    Compiled code that calls Python, as numba's does, may drop whatever was raised there. One that is gone before
    anything heard it is therefore raised again, unless another one is on its way already.
    """

    unheard = False
    under_way = 0
    reminding = False

    def __init__(self) -> None:
        super().__init__()
        Interrupted.unheard = True
        Interrupted.under_way += 1

    def __del__(self) -> None:
        Interrupted.under_way -= 1
        if _is_lost() and not Interrupted.reminding and not sys.is_finalizing():
            # What is raised in here would be dropped too: it must come from outside, a little later.
            from threading import Timer

            Interrupted.reminding = True
            again = Timer(0.02, _remind)
            again.daemon = True
            again.start()


def hear() -> None:
    """Take note of ctrl-C, so that it does not come again."""
    Interrupted.unheard = False


def main() -> None:
    """Run the command line; ctrl-C ends it with one line and an exit code, from the first import on."""
    _show_what_can_be_shown()
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # in the background it may be ignored
    try:
        if plain:
            signal.signal(signal.SIGINT, _interrupt)
        from unhub.cli.commands import run  # not before: this takes a while

        code = run()
    except KeyboardInterrupt:
        hear()
        sys.stderr.write("unhub: stopped\n")
        code = 130
    finally:
        hear()
        if plain:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(code)


def _show_what_can_be_shown() -> None:
    """Spell out, rather than fail at, what stdout has no character for, as Python does on stderr."""
    out: object = sys.stdout
    if isinstance(out, TextIOWrapper) and out.errors in ("strict", "surrogateescape"):
        out.reconfigure(errors="backslashreplace")


def _is_lost() -> bool:
    """Say whether ctrl-C was raised, is gone, and nothing heard it."""
    return Interrupted.unheard and not Interrupted.under_way


def _remind() -> None:
    from threading import main_thread

    Interrupted.reminding = False
    if not _is_lost():
        return
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)  # which wakes it, where it waits for something
    else:
        signal.raise_signal(signal.SIGINT)


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted
