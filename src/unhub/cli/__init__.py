"""The command line: parse, call one library function, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unhub.cli.errors import report
from unhub.cli.fit import fit
from unhub.cli.info import info, methods
from unhub.cli.search import search

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
for command in (fit, search, info, methods):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        import unhub

        typer.echo(f"unhub {unhub.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def unhub_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Correct hubness in cross-modal vector search."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; whatever goes wrong is one line on stderr and an exit code."""
    try:
        # A command returns nothing; a number is the exit code of one that stopped early.
        code = app(prog_name="unhub", standalone_mode=False)
    except Exception as error:
        code = report(error)
    except KeyboardInterrupt:
        code = 130
    if code == 130:
        typer.echo("unhub: stopped", err=True)
    sys.exit(code or 0)
