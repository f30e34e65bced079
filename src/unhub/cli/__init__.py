"""The command line: parse, call one library function, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import _thread
import signal
import sys
from io import TextIOWrapper

TYPE_CHECKING = False  # as type checkers know it: importing typing takes longer than all the rest here

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


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
    thread = 0  # in which signals come: the main one

    def __init__(self) -> None:
        super().__init__()
        Interrupted.thread = _thread.get_ident()
        Interrupted.unheard = True
        Interrupted.under_way += 1

    def __del__(self) -> None:
        Interrupted.under_way -= 1
        if _is_lost() and not Interrupted.reminding and not sys.is_finalizing():
            # What is raised in here would be dropped too: it must come from outside, a little later.
            Interrupted.reminding = True
            _thread.start_new_thread(_remind, (0.02,))  # threading would wait in here until it has begun


def hear() -> None:
    """Take note of ctrl-C, so that it does not come again."""
    Interrupted.unheard = False


def program() -> None:
    """Run the command line in a process that ends with it: ctrl-C comes too late then to change anything."""
    main(signal.SIG_IGN)


def main(afterwards: Callable[[int, FrameType | None], object] | signal.Handlers = signal.default_int_handler) -> None:
    """Run the command line; ctrl-C ends it with one line and an exit code, from the first import on.

    afterwards: what ctrl-C does then.
    """
    _show_what_can_be_shown()
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # in the background it may be ignored
    unraisable, sys.unraisablehook = sys.unraisablehook, _tell_what_is_dropped
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
            signal.signal(signal.SIGINT, afterwards)
        sys.unraisablehook = unraisable
    sys.exit(code)


def _show_what_can_be_shown() -> None:
    """Spell out, rather than fail at, what stdout has no character for, as Python does on stderr."""
    out: object = sys.stdout
    if isinstance(out, TextIOWrapper) and out.errors in ("strict", "surrogateescape"):
        out.reconfigure(errors="backslashreplace")


def _is_lost() -> bool:
    """Say whether ctrl-C was raised, is gone, and nothing heard it."""
    return Interrupted.unheard and not Interrupted.under_way


def _tell_what_is_dropped(dropped: sys.UnraisableHookArgs) -> None:
    """Print what was raised where nothing can be, as Python does; but for ctrl-C, which comes again."""
    if not isinstance(dropped.exc_value, Interrupted):
        sys.__unraisablehook__(dropped)


def _remind(seconds: float) -> None:
    from time import sleep

    sleep(seconds)
    Interrupted.reminding = False
    if not _is_lost():
        return
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(Interrupted.thread, signal.SIGINT)  # which wakes it, where it waits for something
    else:
        signal.raise_signal(signal.SIGINT)


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted
