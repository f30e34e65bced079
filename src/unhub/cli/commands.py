"""The commands of the command line, and how one of them is run."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from unhub.cli.bank import bank
from unhub.cli.demo import demo
from unhub.cli.embed import embed
from unhub.cli.errors import STOPPED, Command, Stopped
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
for command in (fit, search, embed, hubs, bank, tune, info, extend, merge, remove, methods, demo):
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


def run() -> int:
    """Run the command that the arguments name and return its exit code; whatever goes wrong is one line on stderr."""
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")  # POT would import torch, for seconds, and not use it
    try:
        # A command returns nothing; a number is the exit code of one that stopped early.
        code: int | None = app(prog_name="unhub", standalone_mode=False)
    except Exception as error:
        return report_error(error)
    return report_error(Stopped()) if code == STOPPED else code or 0
