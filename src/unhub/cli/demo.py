"""`unhub demo`: search emoji by description, on real data that comes with the package."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo, echo_json, progress, spelled
from unhub.cli.errors import argument
from unhub.cli.folding import show, terminal_width, width_of
from unhub.cli.inputs import check_outputs
from unhub.cli.options import Json, Overwrite, Threads
from unhub.errors import ArgumentError, optional
from unhub.evaluation.tables import visible

if TYPE_CHECKING:
    from unhub.demo.finding import Answer, Finder
    from unhub.demo.space import Space
    from unhub.multi.results import SetEvaluation

MOST_PROSE_COLUMNS = 100  # also of a text that is piped


def demo(
    query: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Search for this description and exit; put ; between several of one emoji; repeatable."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write a report on the emoji, for example demo.html; needs the extra plot.")
    ] = None,
    files: Annotated[
        Path | None, typer.Option(help="Copy the data to a new folder, for the other commands, and exit.")
    ] = None,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress, no explanations and no prompt.")] = False,
    as_json: Json = False,
) -> None:
    """Search emoji by description: what hubs do to real searches, and what a correction changes."""
    from unhub import kernels
    from unhub.demo.finding import Finder
    from unhub.demo.space import load_space

    _check_one_given({"--query": query, "--report": report, "--files": files})
    check_outputs([("--report", report)], overwrite)
    if report is not None:
        optional("matplotlib.figure", "plot", "a report")
    with kernels.prefer("numpy"):  # as fast at this size, where numba would compile for seconds first
        finder = Finder(load_space(), threads)
        if files is not None:
            _copy(finder.space, files, quiet, as_json)
        elif query:
            _answer(finder, query, quiet, as_json)
        elif as_json:
            _print_json(finder, report, quiet)
        else:
            _print(finder, report, quiet)
            if sys.stdin.isatty() and sys.stdout.isatty() and not quiet:
                _prompt(finder)
            elif not quiet:
                typer.echo("\nTry your own: unhub demo --query 'birthday cake'")


def _check_one_given(options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise ArgumentError(given[1], f"cannot be used together with {given[0]}", "give one of them")


def _print(finder: Finder, report: Path | None, quiet: bool) -> None:
    from unhub.demo import hubs, lines, result_tables
    from unhub.demo.examples import choose_examples

    space, width = finder.space, _width()
    _heading("Search emoji by description", first=True)
    if not quiet:
        _say(lines.what_is_shown(space))
    asked = space.descriptions("test", "keyword")
    with progress("measure", quiet) as advance:
        measured = result_tables.measure(space, asked, finder.threads, advance)
    _heading("How often the right emoji is found")
    _show_measures(measured)
    if not quiet:
        _say(lines.on_measures(measured, asked, space.descriptions("bank")))
    once = asked.once()
    with progress("hubs", quiet) as advance:
        found = hubs.find_hubs(space, once, finder.threads, advance)
    _heading(f"How evenly emoji are shown, {found.before.k} for each keyword")
    show(result_tables.hubness_cells(found))
    _heading(lines.hubs_title(found))
    if not quiet:
        _say([lines.on_hubs(found, once, space)])
    for number, one in enumerate(hubs.hub_keywords(found, once), start=1):
        _echo(lines.hub_lines(number, one, once, space, width))
    with progress("examples", quiet) as advance:
        examples = choose_examples(finder, advance)
    _heading(lines.examples_title(examples))
    if not quiet:
        _say([lines.on_examples(examples)])
    for example in examples.shown:
        _echo(lines.example_lines(example, width))
    if report is not None:
        _write_report(space, report, finder.threads, quiet)
        typer.echo(f"\nwrote {report}")


def _print_json(finder: Finder, report: Path | None, quiet: bool) -> None:
    from unhub.demo import hubs, result_tables
    from unhub.demo.examples import choose_examples

    space = finder.space
    asked = space.descriptions("test", "keyword")
    with progress("measure", quiet) as advance:
        measured = result_tables.measure(space, asked, finder.threads, advance)
    once = asked.once()
    found = hubs.find_hubs(space, once, finder.threads)
    told = {
        "items": len(space.items),
        "queries": len(asked),
        "correction": space.correction.spec,
        "sets": measured.to_dict(),
        "hubs": hubs.to_dict(found, once, space),
        "examples": choose_examples(finder).to_dict(),
        **({} if report is None else {"report": str(report)}),
    }
    if report is not None:
        _write_report(space, report, finder.threads, quiet)
    echo_json(told)


def _write_report(space: Space, path: Path, threads: int | None, quiet: bool) -> None:
    from unhub import files
    from unhub.demo.page import write_page

    with files.replacing(path) as page, progress("report", quiet) as advance:
        write_page(space, page, shlex.join(["unhub", *sys.argv[1:]]), threads, advance)


def _copy(space: Space, folder: Path, quiet: bool, as_json: bool) -> None:
    from unhub.demo.exporting import write_files

    with argument("--files"):
        names = write_files(space, folder)
    if as_json:
        typer.echo(json.dumps({"path": str(folder), "files": names}, indent=2))
    elif not quiet:
        typer.echo(f"wrote {folder}: {', '.join(names)}")


def _answer(finder: Finder, queries: Iterable[str], quiet: bool, as_json: bool) -> None:
    with argument("--query", "text"):
        answers = [finder.find(text) for text in queries]
    if as_json:
        echo_json([one.to_dict() for one in answers])
        return
    for number, answer in enumerate(answers):
        if number:
            typer.echo()
        if not quiet:
            _echo([_styled(visible(answer.text), bold=True)])
        _show_answer(answer)


def _prompt(finder: Finder) -> None:
    from unhub.demo.finding import converse

    with contextlib.suppress(ImportError):  # as on Windows, whose terminal has its own
        import readline  # noqa: F401  # input() then has a history and arrow keys
    _heading("Your turn")
    _say(["Describe an emoji. Put ; between several descriptions of the same one. An empty line ends the demo."])
    converse(finder, lambda: input("> "), _show_answer, echo)


def _show_answer(answer: Answer) -> None:
    from unhub.demo.lines import answer_lines

    _echo(answer_lines(answer, _width()))


def _show_measures(measured: SetEvaluation) -> None:
    """Print the table with as many intervals as there is room for, the sure changes in colour."""
    from unhub.demo.result_tables import set_cells, verdicts
    from unhub.evaluation.tables import as_text

    width = terminal_width()
    shown = set_cells(measured)
    if width is not None and width_of(shown) > width:
        shown = set_cells(measured, intervals=False)
    if width is not None and width_of(shown) > width:
        show(shown)
        return
    colours = {True: "green", False: "red", None: None}
    head, rule, *rows = as_text(*shown).splitlines()
    _echo((head, rule))
    for line, cells, better in zip(rows, shown[1], verdicts(measured), strict=True):
        _echo([line.removesuffix(cells[-1]) + _styled(cells[-1], fg=colours[better])])


def _heading(text: str, first: bool = False) -> None:
    typer.echo(("" if first else "\n") + _styled(text, bold=True))


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
