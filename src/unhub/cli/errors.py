"""What a mistake looks like on the command line: one line that names the option, and an exit code."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import typer
from typer.core import TyperCommand

from unhub.cli import hear
from unhub.cli.display import echo
from unhub.errors import ArgumentError

# typer exports the leaf of its usage errors only, and where the others live depends on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

MISTAKES = (ValueError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError)
OUT_OF_LUCK = (OSError, MemoryError)
QUOTED = r"(?<!\w)(?:'[^']*'|\"[^\"]*\"|`[^`]*`)"  # and no apostrophe
BROKEN_PIPE = 141  # as of a program that the signal ended: 128 + SIGPIPE
STOPPED = 130  # likewise: 128 + SIGINT


class Stopped(Exception):
    """Ctrl-C; its text, if it has one, says how to go on."""


class Command(TyperCommand):
    """A command whose errors speak of its options, and which ends quietly when its reader leaves, as `head` does."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's own class is not exported
        try:
            returned = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python says so as it flushes at the end
            sys.exit(BROKEN_PIPE)
        except KeyboardInterrupt as error:
            hear()
            raise Stopped(*error.args) from error  # typer would make a mere exit code of it
        except ArgumentError as error:
            options = {str(one.name): one.opts[0] for one in self.params if one.opts[0].startswith("-")}
            raise error.of(options.get(error.name, error.name)) from error
        except MISTAKES as error:
            options = {str(one.name): one.opts[0] for one in self.params if one.opts[0].startswith("-")}
            raise ValueError(in_options(_message(error), options)) from error
        return returned


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return what the library says of its arguments as said of the options of a command.

    An argument is known by its place as the first word, by its underscore, or as a keyword: `bank=`, `index='exact'`,
    `mergeable=True`. So is the option by what is unknown: a method, an index, a measure. What stands in quotes is the
    user's, such as a column's name, and stays.
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
    unknown = re.match(rf"unknown ({names})\b", text)
    text = f"{options[unknown[1]]}: {text}" if unknown else text
    text = re.sub(r"\bsimilarity='dot'", "`unhub fit --similarity dot`", text)  # where the command has no such option
    text = text.replace("exclude='self'", "--exclude-self")
    text = re.sub(r"\bfit\(\.\.\., ([a-z]+)=True\)", r"`unhub fit --\1`", text)
    text = re.sub(r"\b([a-z]+)=True\b", r"--\1", text)
    named = options.get("new_item_ids") or options.get("item_ids")
    text = text.replace("Vectors(ids, rows)", f"give {named}" if named else "Vectors(ids, rows)")
    text = re.sub(r"(?<![\w./-])unhub\.load\b", "unhub info", text)
    return re.sub(r"(?<![\w./-])unhub\.(fit|extend|merge|remove)\b", r"unhub \1", text)


@contextmanager
def argument(name: str) -> Iterator[None]:
    """Name the argument in whatever goes wrong with its value, once where the library names it too."""
    try:
        yield
    except ArgumentError as error:
        raise error.of(name) from error
    except MISTAKES as error:
        own = name.lstrip("-").replace("-", "_")
        # A file may be called like its option, as in "output exists": only what says no such thing is shortened.
        said = re.match(rf"{own}(?=:| '| is empty;)(.*)", _message(error), re.DOTALL)
        raise ValueError(f"{name}{said[1]}" if said else f"{name}: {_message(error)}") from error


@contextmanager
def saying_how_to_go_on(how: Callable[[], str]) -> Iterator[None]:
    """Say on ctrl-C what takes up the work again."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(how()) from error


def report(error: Exception) -> int:
    """Print an error as one line and return the exit code; an error that is our own fault is raised again."""
    if isinstance(error, (Stopped, typer.Abort)):
        hear()
        echo(f"unhub: stopped{f'; {error}' if str(error) else ''}", err=True)
        return STOPPED
    if not isinstance(error, (UsageError, *MISTAKES, *OUT_OF_LUCK)):
        raise error
    echo(f"unhub: {' '.join(_message(error).split())}", err=True)
    return 2 if isinstance(error, (UsageError, *MISTAKES)) else 1


def _with_the_nearest(text: str) -> str:
    """Return what typer says of a wrong choice with the nearest of those there are, as it says of commands."""
    text = text.replace(": Value error, ", ": ")
    choice = re.search(r"'([^']*)' is not one of ('.*')\.$", text)
    near = difflib.get_close_matches(choice[1].lower(), re.findall(r"'([^']*)'", choice[2]), n=1) if choice else []
    return f"{text} Did you mean {near[0]!r}?" if near else text


def _message(error: Exception) -> str:
    if isinstance(error, UsageError):
        return _with_the_nearest(error.format_message())  # type: ignore[attr-defined]  # str() leaves the option out
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__
