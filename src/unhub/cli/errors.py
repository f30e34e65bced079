"""What a mistake looks like on the command line: one line that names the option, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from typer.core import TyperCommand

from unhub.cli.display import echo
from unhub.errors import ArgumentError

# typer exports the leaf of its usage errors only, and where the others live depends on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

MISTAKES = (ValueError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError)
OUT_OF_LUCK = (OSError, MemoryError)
BROKEN_PIPE = 141  # as of a program that the signal ended: 128 + SIGPIPE
STOPPED = 130  # likewise: 128 + SIGINT
# Arguments of the library whose options have other names.
RENAMED = {
    "corrections": "correction",
    "exclude": "exclude_self",
    "methods": "method",
    "path": "output",
    "runs": "run",
}


class StoppedByUser(Exception):
    """Ctrl-C; its text, if it has one, says how to go on."""


class Command(TyperCommand):
    """A command whose errors name its options, and which ends quietly when its reader leaves, as `head` does."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's own class is not exported
        try:
            returned = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python says so as it flushes at the end
            sys.exit(BROKEN_PIPE)
        except KeyboardInterrupt as error:
            raise StoppedByUser(*error.args) from error  # typer would make a mere exit code of it
        except ArgumentError as error:
            raise error.of(self._option_of(error.name)) from error
        return returned

    def _option_of(self, name: str) -> str:
        """Return the option for what the library calls by this name, or the name if there is none."""
        options = {str(one.name): one.opts[0] for one in self.params if one.opts[0].startswith("-")}
        return options.get(name) or options.get(RENAMED.get(name, ""), name)


@contextmanager
def argument(option: str, *names: str) -> Iterator[None]:
    """Name the option in whatever goes wrong with its value.

    names: what the library calls the argument, where that is not the name of the option. An error of another name,
    such as that of a file or of a method's parameter, keeps it and gets the option in front.
    """
    try:
        yield
    except ArgumentError as error:
        if error.name in (option.lstrip("-").replace("-", "_"), *names):
            raise error.of(option) from error
        raise ValueError(f"{option}: {error}") from error
    except MISTAKES as error:
        raise ValueError(f"{option}: {_message(error)}") from error


@contextmanager
def saying_how_to_go_on(how: Callable[[], str]) -> Iterator[None]:
    """Say on ctrl-C how to continue the work."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(how()) from error


def report(error: Exception) -> int:
    """Print an error as one line and return the exit code; an error that is our own fault is raised again."""
    if isinstance(error, (StoppedByUser, typer.Abort)):
        echo(f"unhub: stopped{f'; {error}' if str(error) else ''}", err=True)
        return STOPPED
    if not isinstance(error, (UsageError, *MISTAKES, *OUT_OF_LUCK)):
        raise error
    echo(f"unhub: {' '.join(_message(error).split())}", err=True)
    return 2 if isinstance(error, (UsageError, *MISTAKES)) else 1


def _message(error: Exception) -> str:
    if isinstance(error, UsageError):
        return str(error.format_message())  # type: ignore[attr-defined]  # str() leaves the option out
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__
