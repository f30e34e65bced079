"""The commands, each imported when it is used, and how one of them is run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unhub.cli.errors import STOPPED, Command, StoppedByUser
from unhub.cli.errors import report as report_error
from unhub.errors import nearest_name

# The module of each command in unhub.cli, and the name of its function there. `unhub --help` shows them by PANELS.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "fit": ("fit", "fit"),
    "search": ("search", "search"),
    "embed": ("embed", "embed"),
    "datasets": ("datasets", "datasets"),
    "hubs": ("hubs", "hubs"),
    "bank": ("bank", "bank"),
    "tune": ("tune", "tune"),
    "info": ("info", "info"),
    "extend": ("upkeep", "extend"),
    "merge": ("upkeep", "merge"),
    "remove": ("upkeep", "remove"),
    "replace": ("upkeep", "replace"),
    "diff": ("diff", "diff"),
    "history": ("history", "history"),
    "deploy": ("deploy", "deploy"),
    "switch": ("deploy", "switch"),
    "rollback": ("deploy", "rollback"),
    "sync": ("deploy", "sync"),
    "doctor": ("deploy", "doctor"),
    "export": ("deploy", "export"),
    "methods": ("info", "methods"),
    "demo": ("demo", "demo"),
    "serve": ("serve", "serve"),
    "eval": ("evaluate", "evaluate"),
    "report": ("report", "report"),
    "study": ("study", "study"),
    "watch": ("watch", "watch"),
    "ab": ("ab", "ab"),
    "multi": ("commands", "multi"),
    "log": ("commands", "log"),
    "bench": ("commands", "bench"),
}
# The parts of `unhub --help`; a command that is in none comes first, under Commands.
PANELS: Mapping[str, tuple[str, ...]] = {
    "Correct": ("fit", "search", "tune", "bank", "log", "methods"),
    "Measure": ("eval", "hubs", "report", "study", "watch", "ab"),
    "Keep up to date": ("info", "extend", "merge", "remove", "replace", "diff", "history"),
    "In your engine": ("deploy", "switch", "rollback", "sync", "doctor", "export"),
    "Show and serve": ("demo", "serve"),
    "Make vectors": ("embed", "multi"),
    "The papers": ("datasets", "bench"),
}
PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}
LOG_COMMANDS: Mapping[str, tuple[str, str]] = {
    "add": ("log", "add"),
    "forget": ("log_forget", "forget"),
}
MULTI_COMMANDS: Mapping[str, tuple[str, str]] = {
    "train": ("multi_train", "train"),
    "encode": ("multi_train", "encode"),
    "search": ("multi_search", "search"),
    "eval": ("multi_eval", "evaluate"),
}
BENCH_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("bench", "run"),
    "files": ("bench", "files"),
    "table": ("bench", "table"),
}
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Commands(TyperGroup):
    """A group that imports a command when it is used, so that no command waits for another's imports."""

    known: Mapping[str, tuple[str, str]] = COMMANDS

    def list_commands(self, ctx: object) -> list[str]:
        panels = [*PANELS] if self.known is COMMANDS else []
        return sorted(self.known, key=lambda name: panels.index(PANEL_OF[name]) if name in PANEL_OF and panels else -1)

    def get_command(self, ctx: object, cmd_name: str) -> Any:  # typer's own class is not exported
        if cmd_name not in self.commands and cmd_name in self.known:
            module, function = self.known[cmd_name]
            command = _built(cmd_name, getattr(import_module(f"unhub.cli.{module}"), function))
            command.rich_help_panel = PANEL_OF.get(cmd_name) if self.known is COMMANDS else None
            self.commands[cmd_name] = command
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.known:
            near = nearest_name(args[0], self.known)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near!r}?" if near else ""))
        return super().resolve_command(ctx, args)


class MultiCommands(Commands):
    """The group of `unhub multi`."""

    known = MULTI_COMMANDS


class BenchCommands(Commands):
    """The group of `unhub bench`."""

    known = BENCH_COMMANDS


class LogCommands(Commands):
    """The group of `unhub log`."""

    known = LOG_COMMANDS


def _built(name: str, made: Any) -> Any:
    """Return the command of a function, or of a group of commands."""
    if isinstance(made, typer.Typer):
        return typer.main.get_command(made)
    from unhub.cli.options import with_columns  # here: `unhub --help` does not need it

    alone = typer.Typer(add_completion=False, context_settings=CONTEXT_SETTINGS)
    alone.command(name, cls=Command)(with_columns(made))
    return typer.main.get_command(alone)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=CONTEXT_SETTINGS, cls=Commands)
multi = typer.Typer(name="multi", add_completion=False, context_settings=CONTEXT_SETTINGS, cls=MultiCommands)
bench = typer.Typer(name="bench", add_completion=False, context_settings=CONTEXT_SETTINGS, cls=BenchCommands)

log = typer.Typer(name="log", add_completion=False, context_settings=CONTEXT_SETTINGS, cls=LogCommands)


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


@multi.callback(invoke_without_command=True)
def multi_command(context: typer.Context) -> None:
    """Use several descriptions of one target: train, encode, measure and search."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@log.callback(invoke_without_command=True)
def log_command(context: typer.Context) -> None:
    """Keep a bank folder that follows query logs."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@bench.callback(invoke_without_command=True)
def bench_command(context: typer.Context) -> None:
    """Run the papers' benchmarks, and put the published figures beside the measured."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run() -> int:
    """Run the command that the arguments name and return its exit code; whatever goes wrong is one line on stderr."""
    # Where colorama is installed, numba would end what a terminal shows with a code that resets its colours.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")  # POT would import torch, for seconds, and not use it
    try:
        # A command returns nothing; a number is the exit code of one that stopped early.
        code: int | None = app(prog_name="unhub", standalone_mode=False)
    except Exception as error:
        return report_error(error)
    return report_error(StoppedByUser()) if code == STOPPED else code or 0
