"""`unhub history`: the versions of a correction in a folder, which is active, and how to go back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo_json
from unhub.cli.errors import argument
from unhub.cli.folding import show_words, tell
from unhub.cli.inputs import GivenPath, address_in, open_given_store
from unhub.cli.options import Json, Quiet
from unhub.errors import ArgumentError

if TYPE_CHECKING:
    from unhub.stores.store import Store

DEPLOYED_HEADS = ("deployment", "made", "method", "items", "hash", "what it is")


def history(
    folder: Annotated[
        Path,
        typer.Argument(
            parser=GivenPath, metavar="DIR", help="A folder of versions, that of `unhub serve --state`, or a store."
        ),
    ],
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep this correction as the next version, and make it active."),
    ] = None,
    why: Annotated[str, typer.Option(help="A sentence about the version that --keep adds.")] = "",
    activate: Annotated[str | None, typer.Option(metavar="NAME", help="Make a version active, for example v3.")] = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Make the version that was active before active.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the versions in a folder and say which is active; keep another one, or go back.

    Of a store, the deployments are listed.
    """
    from unhub import files
    from unhub.deploying import kept_versions

    if sum((keep is not None, activate is not None, rollback)) > 1:
        raise ArgumentError("--keep", "--activate and --rollback are different changes", "give one of them")
    if why and keep is None:
        raise ArgumentError("--why", "is about a version that is added", "give --keep too")
    address = address_in(folder)
    if address is not None:
        if keep is not None or activate is not None or rollback:
            remedy = "for a store, run unhub deploy, unhub switch --to NAME, or unhub rollback"
            raise ArgumentError("DIR", "must be a folder to keep, activate or roll back a version", remedy)
        _show_deployments(open_given_store(address, "DIR"), quiet, as_json)
        return
    with argument("DIR", "folder"):
        if keep is not None:
            with argument("--keep"):
                fitted = files.load(keep, "correction")
            found = kept_versions.keep(fitted, folder, why=why)
        elif activate is not None or rollback:
            found = kept_versions.activate(folder, activate)
        else:
            found = kept_versions.history(folder)
    if as_json:
        echo_json(found.to_dict())
    elif not quiet:
        show_words((kept_versions.HEADS, found.cells()))
        tell("", found.conclusion)


def _show_deployments(store: Store, quiet: bool, as_json: bool) -> None:
    """Print what was deployed in a store, the oldest first, and what is live there."""
    from unhub.deploying.deployment import made_of
    from unhub.deploying.live import live_of, place_of

    served = live_of(store)
    made = made_of(place_of(store, served))
    now = None if served is None else served.now.made
    back = served.before[-1].made if served is not None and served.before else None
    states = ["live" if one.made == now else "what a rollback brings back" * (one.made == back) for one in made]
    if as_json:
        told = [{**one.to_json(), "state": state} for one, state in zip(made, states, strict=True)]
        echo_json({"live": None if served is None else served.name, "deployments": told})
    elif not quiet:
        rows = [
            (one.made, one.created[:16].replace("T", " "), one.spec, f"{one.items:,}", one.digest[:12], state)
            for one, state in zip(made, states, strict=True)
        ]
        show_words((DEPLOYED_HEADS, rows))
        live = "Nothing is live" if served is None else f"Live as {served.name}: {served.now.what}"
        tell("", f"{live}.")
