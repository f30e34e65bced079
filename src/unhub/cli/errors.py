"""What a mistake looks like on the command line: one line that names the option, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from typer.core import TyperCommand

from unhub.cli.display import echo
from unhub.errors import ArgumentError, EmptyLogError, LogFileError, MissingLibrary

# typer exports the leaf of its usage errors only, and where the others live depends on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

MISTAKES = (ValueError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError)
MACHINE_FAILURES = (OSError, MemoryError)
BROKEN_PIPE = 141  # as for a program that the signal ended: 128 + SIGPIPE
STOPPED = 130  # likewise: 128 + SIGINT
NO = 3  # the work is done, and the answer is no
# Arguments of the library whose options have other names.
RENAMED = {
    "banks_from": "bank_from",
    "columns": "column",
    "corrections": "correction",
    "exclude": "exclude_self",
    "method": "methods",
    "logs": "log",
    "methods": "method",
    "changed": "items",
    "other_banks": "other_bank",
    "path": "output",
    "runs": "run",
}


class StoppedByUser(Exception):
    """Ctrl-C; its text, if any, says how to continue."""


class Command(TyperCommand):
    """A command whose errors name its options, and which ends quietly when its reader leaves, as `head` does."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's own class is not exported
        try:
            returned = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain at exit
            sys.exit(BROKEN_PIPE)
        except KeyboardInterrupt as error:
            raise StoppedByUser(*error.args) from error  # typer would turn it into an exit code
        except ArgumentError as error:
            raise error.of(self._option_of(error.name)) from error
        except MissingLibrary as error:
            raise error.of(self._option_of(error.argument)) from error
        return returned

    def _option_of(self, name: str) -> str:
        """Return the option for an argument of the library, or its name if there is none."""
        options = {str(one.name): one.opts[0] for one in self.params if one.opts[0].startswith("-")}
        return options.get(name) or options.get(RENAMED.get(name, ""), name)


@contextmanager
def argument(option: str, *names: str) -> Iterator[None]:
    """Name the option in errors about its value.

    names: other names that the library has for the argument. An error with yet another name, such as a file or a
    parameter of a method, keeps it and gets the option in front.
    """
    try:
        yield
    except ArgumentError as error:
        if error.name in (option.lstrip("-").replace("-", "_"), *names):
            raise error.of(option) from error
        raise ValueError(f"{option}: {error}") from error
    except EmptyLogError as error:
        raise EmptyLogError(f"{option}: {error}") from error
    except MISTAKES as error:
        raise ValueError(f"{option}: {_message(error)}") from error


@contextmanager
def log_argument(option: str) -> Iterator[None]:
    """Name the option in errors about a log that is read among other files."""
    try:
        yield
    except LogFileError as error:
        raise ValueError(f"{option}: {error}") from error


@contextmanager
def saying_how_to_continue(how: Callable[[], str]) -> Iterator[None]:
    """Say on ctrl-C how to continue the work."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(how()) from error


def report(error: Exception) -> int:
    """Print an error as one line and return the exit code; any other error is a bug, and is raised again."""
    if isinstance(error, (StoppedByUser, typer.Abort)):
        echo(f"unhub: stopped{f'; {error}' if str(error) else ''}", err=True)
        return STOPPED
    if not isinstance(error, (UsageError, *MISTAKES, *MACHINE_FAILURES)):
        raise error
    echo(f"unhub: {' '.join(_message(error).split())}", err=True)
    return 2 if isinstance(error, (UsageError, *MISTAKES)) else 1


def _message(error: Exception) -> str:
    if isinstance(error, UsageError):
        told = str(error.format_message())  # type: ignore[attr-defined]  # str() leaves the option out
        if not getattr(error, "possibilities", True) and (context := getattr(error, "ctx", None)) is not None:
            told += f"; {context.command_path} --help lists all"  # an option that is near none
        return told
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__
