"""`unhub demo`: search the functions on this machine by what they do, or emoji by description, raw and corrected."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress, spelled
from unhub.cli.errors import argument
from unhub.cli.folding import show, terminal_width, width_of
from unhub.cli.inputs import check_outputs
from unhub.cli.options import Json, Overwrite, Threads, one_argument_of
from unhub.errors import ArgumentError, optional
from unhub.html_tables import visible

if TYPE_CHECKING:
    from unhub.demo.finding import Answer
    from unhub.demo.result_tables import ResultTable
    from unhub.demo.showing import Demo, Section

MOST_PROSE_COLUMNS = 100  # also of a text that is piped


class Subject(StrEnum):
    """What is searched."""

    functions = "functions"
    emoji = "emoji"


def demo(
    subject: Annotated[
        Subject,
        one_argument_of(Subject, "[functions|emoji]", "The functions on this machine, or emoji that come with unhub."),
    ] = Subject.functions,
    code: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR",
            help="Search this code: a folder, an installed package, or stdlib; repeatable. Default: what is installed.",
        ),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Search for this description and exit; put ; between several of one item; repeatable."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write a report, for example demo.html; needs the extra plot.")
    ] = None,
    files: Annotated[
        Path | None, typer.Option(help="Write the data to a new folder, for the other commands, and exit.")
    ] = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress, no explanations and no prompt.")] = False,
    as_json: Json = False,
) -> None:
    """Search the functions on this machine, or emoji: what hubs do to real searches, and what a correction changes."""
    from unhub import kernels

    _check_one_given({"--query": query, "--report": report, "--files": files})
    if code and subject is not Subject.functions:
        raise ArgumentError("--code", f"cannot be used with the demo of {subject}", "leave it out")
    check_outputs([("--report", report)], overwrite)
    if report is not None:
        from unhub.reports.report import check_page_name  # here: the demo alone starts without it

        with argument("--report", "path"):
            check_page_name(report)
        optional("matplotlib.figure", "plot", "a report")
    with kernels.prefer("numpy"):  # as fast at this size, where numba would compile for seconds first
        with argument("--code"):
            opened = _open(subject, code or [], threads, quiet)
        if files is not None:
            _write_files(opened, files, quiet, as_json)
        elif query:
            _answer(opened, query, quiet, as_json)
        elif as_json:
            _print_json(opened, report, quiet)
        else:
            _print(opened, report, quiet)
            if sys.stdin.isatty() and sys.stdout.isatty() and not quiet:
                _prompt(opened)
            elif not quiet:
                typer.echo(f"\nTry your own: {opened.trial}")


def _open(subject: Subject, code: list[str], threads: int | None, quiet: bool) -> Demo:
    """Return the demo, with what it searches."""
    if subject is Subject.emoji:
        from unhub.demo.emoji import space
        from unhub.demo.emoji.emoji_demo import EmojiDemo

        return EmojiDemo(space.load_space(), threads)
    from unhub.demo.functions.function_demo import open_demo

    return open_demo(code, partial(progress, quiet=quiet), threads)


def _check_one_given(options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise ArgumentError(given[1], f"cannot be used together with {given[0]}", "give one of them")


def _print(opened: Demo, report: Path | None, quiet: bool) -> None:
    for number, section in enumerate(opened.sections(partial(progress, quiet=quiet))):
        _show_section(section, number == 0, quiet)
    if report is not None:
        _write_report(opened, report, quiet)
        typer.echo(f"\nwrote {report}")


def _show_section(section: Section, first: bool, quiet: bool) -> None:
    typer.echo(("" if first else "\n") + _styled(section.title, bold=True))
    if not quiet:
        _say(section.before)
    if section.table is not None:
        _show_table(section.table)
    if not quiet:
        _say(section.after)
    _echo(section.lines(_width()))


def _print_json(opened: Demo, report: Path | None, quiet: bool) -> None:
    told = {**opened.to_dict(partial(progress, quiet=quiet)), **({} if report is None else {"report": str(report)})}
    if report is not None:
        _write_report(opened, report, quiet)
    echo_json(told)


def _write_report(opened: Demo, path: Path, quiet: bool) -> None:
    from unhub import files

    with files.replacing(path) as page, progress("report", quiet) as advance:
        opened.write_page(page, shlex.join(["unhub", *sys.argv[1:]]), advance)


def _write_files(opened: Demo, folder: Path, quiet: bool, as_json: bool) -> None:
    with argument("--files"):
        names = opened.write_files(folder)
    if as_json:
        typer.echo(json.dumps({"path": str(folder), "files": names}, indent=2))
    elif not quiet:
        typer.echo(f"wrote {folder}: {', '.join(names)}")


def _answer(opened: Demo, queries: Iterable[str], quiet: bool, as_json: bool) -> None:
    with argument("--query", "text"):
        answers = [opened.finder.find(text) for text in queries]
    if as_json:
        echo_json([one.to_dict() for one in answers])
        return
    for number, answer in enumerate(answers):
        if number:
            typer.echo()
        if not quiet:
            _echo([_styled(visible(answer.text), bold=True)])
        _echo(opened.answer_lines(answer, _width()))


def _prompt(opened: Demo) -> None:
    from unhub.demo.finding import converse

    with contextlib.suppress(ImportError):  # as on Windows, whose terminal has its own
        import readline  # noqa: F401  # input() then has a history and arrow keys
    typer.echo("\n" + _styled("Your turn", bold=True))
    _say([opened.invitation])

    def show_answer(answer: Answer) -> None:
        _echo(opened.answer_lines(answer, _width()))

    converse(opened.finder, lambda: input("> "), show_answer, echo)


def _show_table(table: ResultTable) -> None:
    """Print a table with as many intervals as there is room for, the sure changes in colour."""
    from unhub.evaluation.tables import as_text

    width = terminal_width()
    shown = table.full
    if width is not None and width_of(shown) > width:
        shown = table.brief
    if width is not None and width_of(shown) > width:
        show(shown)
        return
    colours = {True: "green", False: "red", None: None}
    head, rule, *rows = as_text(*shown).splitlines()
    _echo((head, rule))
    for line, cells, better in zip(rows, shown[1], table.better, strict=True):
        _echo([line.removesuffix(cells[-1]) + _styled(cells[-1], fg=colours[better])])


def _say(paragraphs: Iterable[str]) -> None:
    from unhub.demo.lines import paragraph

    for one in paragraphs:
        _echo(paragraph(one, _width()))


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(spelled(line, sys.stdout, "replace"))  # an emoji that cannot be shown becomes ?


def _width() -> int:
    return min(MOST_PROSE_COLUMNS, terminal_width() or MOST_PROSE_COLUMNS)


def _styled(text: str, fg: str | None = None, bold: bool = False) -> str:
    """Return a text in colour or bold, unless NO_COLOR or a dumb terminal forbids it; echo strips it in a pipe."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not (fg or bold) else typer.style(text, fg=fg, bold=bold or None)
