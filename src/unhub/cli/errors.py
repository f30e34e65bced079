"""What a mistake looks like on the command line: one line that names the argument, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

# typer exports the leaf of its usage errors only, and where the others live depends on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

MISTAKES = (ValueError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError)
OUT_OF_LUCK = (OSError, MemoryError)


@contextmanager
def argument(name: str) -> Iterator[None]:
    """Name the argument in whatever goes wrong with its value."""
    try:
        yield
    except MISTAKES as error:
        raise ValueError(f"{name}: {_message(error)}") from error


def report(error: Exception) -> int:
    """Print an error as one line and return the exit code; an error that is our own fault is raised again."""
    if isinstance(error, typer.Abort):
        return 130
    if not isinstance(error, (UsageError, *MISTAKES, *OUT_OF_LUCK)):
        raise error
    typer.echo(f"unhub: {' '.join(_message(error).split())}", err=True)
    return 2 if isinstance(error, (UsageError, *MISTAKES)) else 1


def _message(error: Exception) -> str:
    if isinstance(error, UsageError):
        return str(error.format_message())  # type: ignore[attr-defined]  # str() leaves the option's name out
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__
