"""What a mistake looks like on the command line: one line that names the option, and an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer
from typer.core import TyperCommand

# typer exports the leaf of its usage errors only, and where the others live depends on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

MISTAKES = (ValueError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError)
OUT_OF_LUCK = (OSError, MemoryError)
QUOTED = r"(?<!\w)(?:'[^']*'|\"[^\"]*\"|`[^`]*`)"  # and no apostrophe
BROKEN_PIPE = 141  # as of a program that the signal ended: 128 + SIGPIPE


class Command(TyperCommand):
    """A command whose errors speak of its options, and which ends quietly when its reader leaves, as `head` does."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's own class is not exported
        try:
            returned = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python says so as it flushes at the end
            sys.exit(BROKEN_PIPE)
        except MISTAKES as error:
            options = {str(one.name): one.opts[0] for one in self.params if one.opts[0].startswith("-")}
            raise ValueError(in_options(_message(error), options)) from error
        return returned


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return what the library says of its arguments as said of the options of a command.

    An argument is known by its place as the first word, by its underscore, or as a keyword: `bank=`, `index='exact'`,
    `mergeable=True`. What stands in quotes is the user's, such as a column's name, and stays.
    """
    names = "|".join(options)

    def option(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return " ".join(filter(None, (options[match[1]], *match.groups()[1:])))

    for pattern in (
        rf"^({names})\b(?!=)",
        rf"\b({names})='([^']*)'",
        rf"\b({names})=(?=[\s;,.)]|$)",
        rf"(?<![-\w/])({'|'.join(name for name in options if '_' in name) or '$.'})\b(?!\.\w|/)",  # no file's name
    ):
        text = re.sub(f"{QUOTED}|{pattern}", option, text)
    text = re.sub(r"\b([a-z]+)=True\b", r"--\1", text)
    return re.sub(r"\bunhub\.(extend|merge|remove)\b", r"unhub \1", text)


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
