"""`unhub multi`: several descriptions of one target, to train on, to measure and to search with."""

from __future__ import annotations

import typer

from unhub.cli.errors import Command
from unhub.cli.multi_eval import evaluate
from unhub.cli.multi_search import search
from unhub.cli.multi_train import encode, train

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
for command in (train, encode, search):
    app.command(cls=Command)(command)
app.command("eval", cls=Command)(evaluate)


@app.callback(invoke_without_command=True)
def multi(context: typer.Context) -> None:
    """Use several descriptions of one target: train, encode, measure and search."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
