"""`unhub deploy`, `switch`, `rollback`, `sync`, `doctor` and `export`: a correction in a vector engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

from unhub.cli import stop_if_interrupted
from unhub.cli.display import echo, echo_json, progress
from unhub.cli.errors import NO, argument
from unhub.cli.folding import show_words, tell
from unhub.cli.inputs import GivenPath, check_outputs, open_given_store, read_named, read_optional, read_or_open
from unhub.cli.options import VECTORS, ItemIds, Json, Overwrite, Quiet, Saved, Threads, one_of, vectors

if TYPE_CHECKING:
    from unhub.correction import Correction
    from unhub.deploying.deployment import Deployment, Live
    from unhub.stores.store import Store


class ModeChoice(StrEnum):
    """What is put into the engine."""

    vectors = "vectors"
    payload = "payload"


StoreArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="STORE", help="Address of a collection, for example lancedb:folder#photos.")
]
FittedItems: TypeAlias = Annotated[
    Path | None,
    vectors("The items of the fit, to compare with the store.", "--items"),
]
SampleQueries: TypeAlias = Annotated[Path | None, vectors("Sample queries, to measure with.", "--queries")]

LiveName: TypeAlias = Annotated[
    str | None, typer.Option("--alias", metavar="NAME", help="The live name (default: the collection's and '_live').")
]


def deploy(
    correction: Saved,
    source: Annotated[
        Path,
        typer.Option("--from", parser=GivenPath, metavar="STORE|FILE", help=f"The items: {VECTORS}."),
    ],
    to: Annotated[
        str | None, typer.Option(metavar="STORE", help="Where to put items that are in a file: a collection's address.")
    ] = None,
    mode: Annotated[
        ModeChoice,
        one_of(ModeChoice, "--mode", help="A new collection of augmented vectors, or a field with each item's bias."),
    ] = ModeChoice.vectors,
    item_ids: ItemIds = None,
    queries: SampleQueries = None,
    items: FittedItems = None,
    alias: LiveName = None,
    go_live: Annotated[bool, typer.Option("--switch", help="Go live with it at once.")] = False,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="With --switch: drop deployments that are not live any more.")
    ] = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Put a correction into a vector engine beside what is there, and measure it; nothing goes live unless asked."""
    from unhub.deploying.deploy import deploy as put
    from unhub.deploying.live import drop_old as drop
    from unhub.deploying.live import switch as go
    from unhub.stores.store import Store

    if drop_old and not go_live:
        raise ValueError("--drop-old goes with --switch: what is live must not be dropped")
    fitted = _loaded(correction)
    held = read_or_open(source, "--from") if item_ids is None else read_named(source, item_ids, "--from")
    target = None if to is None else open_given_store(to, "--to")
    asked, fit_items = read_optional(queries, "--queries"), read_optional(items, "--items")
    with progress("deploy", quiet) as advance:
        done = put(
            fitted,
            held,
            mode.value,
            to=target,
            queries=asked,
            items=fit_items,
            alias=alias,
            threads=threads,
            progress=advance,
        )
    stop_if_interrupted()  # nothing goes live after a ctrl-C, even one that was lost on its way
    place = held if isinstance(held, Store) else cast("Store", target)  # or deploy would have refused
    good = done.measured is None or done.measured.good
    if go_live and good:
        go(place, done)
    dropped = drop(place) if drop_old and good else []
    if as_json:
        echo_json({**done.to_json(), "switched": go_live and good, "dropped": dropped})
    elif not quiet:
        show_words((("deployed", done.what), _facts(done)))
        tell(*done.notes, *(f"Dropped {one}." for one in dropped))
        if go_live and good:
            tell(*_state(place))
        elif good:
            tell(f"Nothing was switched. To go live: unhub switch '{place.address}'")
    if not good:
        if not quiet and not as_json:
            tell("It finds less than is promised: nothing was switched.")
        raise typer.Exit(NO)


def switch(
    store: StoreArgument,
    deployment: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="NAME", help="A collection or field that `unhub deploy` made (default: the newest)."
        ),
    ] = None,
    alias: LiveName = None,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Drop deployments that are not live any more; there is no way back.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Let the live name serve what was deployed last, or what is named."""
    from unhub.deploying.live import drop_old as drop
    from unhub.deploying.live import switch as go

    place = open_given_store(store, "STORE")
    notes = go(place, deployment, alias=alias).notes
    dropped = drop(place) if drop_old else []
    _tell_live(place, (*notes, *(f"Dropped {one}." for one in dropped)), quiet, as_json)


def rollback(store: StoreArgument, quiet: Quiet = False, as_json: Json = False) -> None:
    """Let the live name serve again what it served before."""
    from unhub.deploying.live import rollback as back

    place = open_given_store(store, "STORE")
    _tell_live(place, back(place).notes, quiet, as_json)


def sync(
    store: StoreArgument,
    correction: Saved,
    items: FittedItems = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Bring a deployment up to date with items that were added, changed or removed in its source."""
    from unhub.deploying.syncing import sync as update

    fitted, place = _loaded(correction), open_given_store(store, "STORE")
    with progress("sync", quiet) as advance:
        done = update(place, fitted, items=read_optional(items, "--items"), progress=advance)
    if as_json:
        echo_json({**asdict(done), "deployment": done.deployment.to_json()})
    elif not quiet:
        echo(f"{done.deployment.what}: {done}")
        tell(*done.notes)


def doctor(
    store: StoreArgument,
    correction: Saved,
    queries: SampleQueries = None,
    items: FittedItems = None,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check what a store holds against a correction, and measure it; exit code 3 if something is wrong."""
    from unhub.deploying.doctor import doctor as look

    fitted, place = _loaded(correction), open_given_store(store, "STORE")
    asked, fit_items = read_optional(queries, "--queries"), read_optional(items, "--items")
    found = look(place, fitted, asked, items=fit_items, threads=threads)
    if as_json:
        echo_json(found.to_dict())
    elif not quiet:
        tell(*str(found).splitlines())
    if not found.good:
        raise typer.Exit(NO)


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by `unhub fit`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .csv, .jsonl, .parquet or .sql file.")],
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write the bias of every item to a table, for programs that subtract it themselves."""
    from unhub import files

    check_outputs([("--output", output)], overwrite, file)
    with argument("--output", "path"):
        files.bias_writer(output)
    with argument("FILE"):
        fitted = files.load(file, "correction")
    files.export(fitted, output)
    if not quiet:
        echo(f"wrote {len(fitted):,} items to {output}")


def _loaded(path: Path) -> Correction:
    from unhub import files

    with argument("--correction"):
        return files.load(path, "correction")


def _facts(done: Deployment) -> list[tuple[str, str]]:
    rows = [("mode", done.mode), ("items", f"{done.items:,}"), ("correction", done.spec), ("live name", done.live)]
    if done.layout is not None:
        turned = ", rotated" if done.layout.rotate else ""
        widths = f"{done.layout.dimensions} to {done.layout.width} dimensions"
        rows.append(("layout", f"{done.layout.form}, {widths}{turned}"))
    else:
        rows.append(("candidates", f"{done.candidates:,} nearest items are corrected"))
    rows.append(("measured", "not measured: give --queries" if done.measured is None else str(done.measured)))
    rows.append(("would replace", done.replaces or "nothing: it would be the first"))
    return rows


def _state(place: Store) -> list[str]:
    """Return in words what is live, and what a rollback would bring back."""
    live = cast("Live", _live(place))
    if live.now.mode == "plain":
        return [f"Live as {live.name}: {live.now.what}, its plain vectors."]
    before = live.before[-1].what if live.before else "the plain vectors"
    return [
        f"Live as {live.name}: {live.now.what} ({live.now.spec}).",
        f"To go back to {before}: unhub rollback '{place.address}'",
    ]


def _live(place: Store) -> Live | None:
    from unhub.deploying.live import live_of

    return live_of(place)


def _tell_live(place: Store, notes: Sequence[str], quiet: bool, as_json: bool) -> None:
    if as_json:
        live = cast("Live", _live(place))
        echo_json({"live": live.name, **live.to_json(), "notes": list(notes)})
    elif not quiet:
        tell(*_state(place), *notes)
