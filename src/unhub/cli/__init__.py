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
    """

    came = False


def stop_if_interrupted() -> None:
    """Raise ctrl-C again if it came and the work continues.

    Code that calls Python from C, as numba's does, may drop what was raised there. Work calls this while it runs.
    """
    if Interrupted.came:
        raise Interrupted


def program() -> None:
    """Run the command line as a program; ctrl-C after the command is done has no effect."""
    main(signal.SIG_IGN)


def main(afterwards: Callable[[int, FrameType | None], object] | signal.Handlers = signal.default_int_handler) -> None:
    """Run the command line; ctrl-C ends it with one line and an exit code, from the first import on.

    afterwards: what ctrl-C does after the command.
    """
    _escape_unencodable()
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # in the background it may be ignored
    Interrupted.came = False
    before = sys.unraisablehook
    try:
        if plain:
            sys.unraisablehook = _interrupting_again(before)
            signal.signal(signal.SIGINT, _interrupt)
        from unhub.cli.commands import run  # not before: this takes a while

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("unhub: stopped\n")
        code = 130
    finally:
        if plain:
            signal.signal(signal.SIGINT, afterwards)
            sys.unraisablehook = before
    sys.exit(code)


def _escape_unencodable() -> None:
    """Escape characters that stdout cannot encode, as Python does on stderr."""
    out: object = sys.stdout
    if isinstance(out, TextIOWrapper) and out.errors in ("strict", "surrogateescape"):
        out.reconfigure(errors="backslashreplace")


def _interrupt(number: int, frame: object) -> None:
    Interrupted.came = True
    raise Interrupted


def _interrupt_thread(main: int) -> None:
    """Send ctrl-C to the main thread; where the system allows it by a signal, which also ends a sleep or a wait."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _interrupting_again(
    other: Callable[[sys.UnraisableHookArgs], object],
) -> Callable[[sys.UnraisableHookArgs], object]:
    """Return a hook that interrupts again if Python drops a ctrl-C, as it does in `__del__`; `other` takes the rest."""

    def look(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            # From another thread, which runs once this hook has returned: what is raised in a hook is dropped too.
            _thread.start_new_thread(_interrupt_thread, (_thread.get_ident(),))
        else:
            other(dropped)

    return look
