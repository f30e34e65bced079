"""`unhub info` and `unhub methods`: what a file is, and what there is to fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unhub.cli.display import facts, model_facts, wrapped
from unhub.cli.errors import argument
from unhub.cli.folding import show, show_words
from unhub.cli.options import Json, Quiet

if TYPE_CHECKING:
    from unhub.files.models import ModelManifest
    from unhub.methods import Method

HEADS = ("name", "kind", "needs", "parameters", "what it is")
WIDTHS = {2: 19, 3: 17, 4: 38}  # of needs, parameters and what it is: 100 columns in all


def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by `unhub fit` or `unhub multi train`.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check a saved correction or model, and show what it is and how it was made."""
    from unhub import files

    with argument("FILE"):
        manifest = files.read_any_manifest(file)
    if as_json:
        typer.echo(json.dumps({"path": str(file), **manifest}, indent=2))
    if quiet or as_json:
        return
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    heads = ("file", f"{file} (format {manifest['format']}, checksum right)")
    rows = model_facts(cast("ModelManifest", manifest)) if "what" in manifest else facts(manifest)
    show_words((heads, [*rows, ("written", f"{manifest['created']} by {versions}")]))


def methods(quiet: Quiet = False, as_json: Json = False) -> None:
    """List the methods: what each needs, its parameters with defaults, and what it is."""
    from unhub.methods import METHODS

    if as_json:
        listed = [
            {
                "name": name,
                "kind": method.kind,
                "needs": _needs(method),
                "parameters": method.parameters(),
                "what": _first_line(method),
            }
            for name, method in METHODS.items()
        ]
        typer.echo(json.dumps(listed, indent=2))
    if quiet or as_json:
        return
    rows = [
        line
        for name, method in METHODS.items()
        for line in wrapped(
            (name, method.kind, ", ".join(_needs(method)), _settings(method), _first_line(method)), WIDTHS
        )
    ]
    show((HEADS, rows))


def _first_line(method: type[Method]) -> str:
    return (method.__doc__ or "").partition("\n")[0]


def _needs(method: type[Method]) -> list[str]:
    """Return what the method needs: vectors by their options, and an extra to install."""
    needs = {
        "bank": method.needs_bank,
        "bank items": method.dual,
        "perhaps bank items": method.joint,
        "all queries at once": method.kind == "plan",
        f"the extra {method.extra}": bool(method.extra),
    }
    return [need for need, needed in needs.items() if needed]


def _settings(method: type[Method]) -> str:
    """Return the parameters with their defaults as one would type them; the name alone if there is no default."""
    return ", ".join(name if value is None else f"{name}={value}" for name, value in method.parameters().items())
