"""Live: switch a store to a deployment, go back, and drop what is no longer needed."""

from __future__ import annotations

from unhub.deploying.deployment import Deployment, Live, made_of
from unhub.deploying.unfinished import drop_debris, drop_made
from unhub.errors import ArgumentError, unknown
from unhub.search.in_store import behind, live_record
from unhub.stores.store import Store

LIVE_SUFFIX = "_live"
MOST_BEFORE = 20  # deployments that can be gone back to; some engines limit the length of a record


def place_of(store: Store, served: Live | None) -> Store:
    """Return the collection that deployments are made beside: the source of what is live, else the store's own."""
    if served is not None:
        return store.source_of(served.now.to_json())
    name = store.collection_of()
    return store if name == store.name else store.sibling(name)


def live_of(store: Store) -> Live | None:
    """Return what is live in a store; None if nothing was ever switched there."""
    found = live_record(store)
    return None if found is None else Live.of(*found)


def waiting_of(place: Store, served: Live | None) -> Deployment | None:
    """Return the newest deployment of a collection if it is not live; None if it is, or if there is none."""
    newest = next(reversed(made_of(place)), None)
    live = None if served is None else (served.now.mode, served.now.key)
    return None if newest is None or live == (newest.mode, newest.key) else newest


def live_name_of(store: Store, alias: str | None) -> str:
    """Return the live name of a collection: the one it has, the one asked for, or the default; it must be free."""
    served = live_of(store)
    if served is not None:
        if alias is not None and alias != served.name:
            raise ArgumentError("alias", f"is {alias!r}, and this store is live as {served.name!r}", "leave it out")
        return served.name
    name = alias or f"{store.name}{LIVE_SUFFIX}"
    if store.taken(name):
        raise ArgumentError(
            "alias",
            f"{name!r} is the name of a collection, which an alias cannot take",
            "choose another, and let clients ask for that one from now on; the collection stays as it is",
        )
    return name


def switch(store: Store, deployment: Deployment | str | None = None, *, alias: str | None = None) -> Live:
    """Let the live name serve a deployment, the newest one if none is named, and return what is live then.

    deployment: what `deploy` returned, or the name of the collection or field that it made. alias: the live name, for
    a store that has none yet (default: the one given to `deploy`).
    """
    served = live_of(store)
    place = place_of(store, served)
    if isinstance(deployment, Deployment):
        deployment = _recorded(place, deployment)
    else:
        finished = {one.made: one for one in made_of(place)}
        if not finished:
            raise store.failed("nothing was deployed here that could go live", "deploy a correction first")
        if deployment is not None and deployment not in finished:
            raise unknown("deployment", deployment, finished, "deployments")
        deployment = finished[deployment or list(finished)[-1]]
    live = deployment.live if alias is None and served is None else live_name_of(place, alias)
    if served is not None and served.now.key == deployment.key and served.now.mode == deployment.mode:
        return _publish(place, served)  # again: a kill may have come before the alias moved
    before = () if served is None else (*served.before, served.now)[-MOST_BEFORE:]
    return _publish(place, Live(live, deployment, before, _staleness(place, deployment)))


def _recorded(place: Store, deployment: Deployment) -> Deployment:
    """Return a deployment as its record has it now; raise if it was dropped or replaced since."""
    record = place.record(deployment.key)
    if record is None:
        raise place.failed(f"has no finished deployment {deployment.what}", "deploy it again")
    found = Deployment.from_json(record)
    if found.created != deployment.created:
        raise place.failed(f"{deployment.what} was deployed again on {found.created}", "switch to that one")
    return found


def rollback(store: Store) -> Live:
    """Let the live name serve what it served before: the deployment before, or the plain collection.

    The notes of what is returned say if that is behind its source.
    """
    served = live_of(store)
    if served is None or served.now.mode == "plain":
        raise store.failed("is not live with a correction, so there is nothing to go back to")
    place = place_of(store, served)
    now = served.before[-1] if served.before else served.now.plain()
    if now.mode == "plain" and not place.exists():
        raise store.failed(f"was made of items from elsewhere; there is no plain {place.name!r} to go back to")
    return _publish(place, Live(served.name, now, served.before[:-1], _staleness(place, now)))


def _staleness(place: Store, now: Deployment) -> tuple[str, ...]:
    """Return a note if a deployment is behind its source, by its items or by a sync of another deployment since."""
    if now.mode == "plain" or not place.exists():
        return ()
    late = behind(place, now.to_json())
    if late is not None:
        return (f"{late.text}. {late.remedy}",)
    newest = max(made_of(place), key=lambda one: one.synced, default=now)
    if newest.synced <= now.up_to_date:
        return ()
    return (
        f"{now.what} is of {now.up_to_date}, and {newest.what} was brought up to date since, on {newest.synced}. To "
        f"bring it up to date too, run: unhub sync '{place.address}' --correction FILE",
    )


def _publish(place: Store, live: Live) -> Live:
    place.publish(live.name, live.now.collection, live.key, live.to_json())
    return live


def drop_old(store: Store) -> list[str]:
    """Drop every deployment that is not live, and return what was dropped; there is no way back to them."""
    served = live_of(store)
    if served is None:
        raise store.failed("is not live with a correction, so nothing is old", "switch to a deployment first")
    place = place_of(store, served)
    _publish(place, Live(served.name, served.now))  # first, so that nothing points at what is dropped
    drop_debris(place)
    dropped = []
    for one in made_of(place):
        if one.key == served.now.key and served.now.mode != "plain":
            continue
        drop_made(place, one)
        dropped.append(one.what)
    return dropped
