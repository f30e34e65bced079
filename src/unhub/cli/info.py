"""`unhub info` and `unhub methods`: what a file is, and what there is to fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import facts, table
from unhub.cli.errors import argument

if TYPE_CHECKING:
    from unhub.methods import Method

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def info(
    file: Annotated[Path, typer.Argument(help="A file that `unhub fit` or `unhub.save` wrote.")], as_json: Json = False
) -> None:
    """Check a saved correction and say what it is and what its fit cost."""
    from unhub import files

    with argument("FILE"):
        manifest = files.read_manifest(file)
    if as_json:
        typer.echo(json.dumps({"path": str(file), **manifest}, indent=2))
        return
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    rows = [("file", f"{file} (format {manifest['format']}, checksum right)"), *facts(manifest)]
    table(("", ""), [*rows, ("written", f"{manifest['created']} by {versions}")])


def methods(as_json: Json = False) -> None:
    """List the methods, their parameters with defaults, and what each is."""
    from unhub.methods import METHODS

    if as_json:
        listed = [
            {"name": name, "kind": method.kind, "parameters": method.parameters(), "what": _first_line(method)}
            for name, method in METHODS.items()
        ]
        typer.echo(json.dumps(listed, indent=2))
        return
    rows = [(name, method.kind, _settings(method), _first_line(method)) for name, method in METHODS.items()]
    table(("name", "kind", "parameters", "what it is"), rows)


def _first_line(method: type[Method]) -> str:
    return (method.__doc__ or "").partition("\n")[0]


def _settings(method: type[Method]) -> str:
    """Return the parameters as one would type their defaults; the name alone where the default is to have none."""
    return ", ".join(name if value is None else f"{name}={value}" for name, value in method.parameters().items())
