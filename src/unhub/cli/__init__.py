"""The command line: parse, call one library function, print. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from unhub.cli.bank import bank
from unhub.cli.embed import embed
from unhub.cli.errors import Command
from unhub.cli.errors import report as report_error
from unhub.cli.evaluate import evaluate
from unhub.cli.fit import fit
from unhub.cli.hubs import hubs
from unhub.cli.info import info, methods
from unhub.cli.multi import app as multi
from unhub.cli.report import report as report_command
from unhub.cli.search import search
from unhub.cli.study import study
from unhub.cli.tune import tune
from unhub.cli.upkeep import extend, merge, remove

HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=HELP)
for command in (fit, search, embed, hubs, bank, tune, info, extend, merge, remove, methods):
    app.command(cls=Command)(command)
app.command("eval", cls=Command)(evaluate)
app.command("report", cls=Command)(report_command)
app.command("study", cls=Command)(study)
app.add_typer(multi, name="multi")


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
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")  # POT would import torch, for seconds, and not use it
    try:
        # A command returns nothing; a number is the exit code of one that stopped early.
        code = app(prog_name="unhub", standalone_mode=False)
    except Exception as error:
        code = report_error(error)
    except KeyboardInterrupt:
        code = 130
    if code == 130:
        typer.echo("unhub: stopped", err=True)
    sys.exit(code or 0)
