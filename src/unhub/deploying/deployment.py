"""Deployment: what was put beside a collection, what was measured there, and the record that says what is live."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from unhub.arrays import Ids
from unhub.layouts import Layout
from unhub.stores.store import FIELD, LIVE, MADE, Codes, Description, Record, Store
from unhub.stores.store import FIELD_PREFIX as FIELD_PREFIX  # who makes deployments needs it beside their names

Mode: TypeAlias = Literal["vectors", "payload", "plain"]

BESIDE = "_unhub_"  # between the name of a collection and the number of what was made of it

# How much lower the corrected recall may be than the plain one: an extra dimension costs a graph next to nothing, codes
# of 8 bits some, and a product quantiser more; None where no bound is promised and the figure is only told.
ALLOWED_LOSS = 0.01
ALLOWED_LOSSES: Mapping[tuple[Codes, bool], float | None] = {
    ("int8", False): 0.04,
    ("int8", True): 0.015,
    ("pq", True): 0.03,
    ("pq", False): None,
    ("binary", True): None,
    ("binary", False): None,
    ("other", True): None,
    ("other", False): None,
}


@dataclass(frozen=True)
class Measured:
    """What sample queries found in the engine, against exact search: recall of the k best, and time for one query.

    plain_recall is that of uncorrected search, allowed_loss how much lower corrected_recall may be, None for any.
    Skewness is that of how often items are returned, before and after.
    """

    queries: int
    k: int
    plain_recall: float
    corrected_recall: float
    plain_ms: float
    corrected_ms: float
    plain_skewness: float
    corrected_skewness: float
    allowed_loss: float | None

    @property
    def good(self) -> bool:
        """Whether the corrected search finds as much as is promised."""
        return self.allowed_loss is None or self.corrected_recall >= self.plain_recall - self.allowed_loss

    @property
    def has_spare(self) -> bool:
        """Whether half of the allowed loss is left, since other queries than these will be asked."""
        return self.allowed_loss is None or self.corrected_recall >= self.plain_recall - self.allowed_loss / 2

    def __str__(self) -> str:
        return (
            f"{self.queries:,} queries, {self.k} best: recall {self.corrected_recall:.3f} corrected, "
            f"{self.plain_recall:.3f} plain; {self.corrected_ms:.2f} ms a query, {self.plain_ms:.2f} ms plain; "
            f"skewness {self.corrected_skewness:.2f}, {self.plain_skewness:.2f} plain"
        )


@dataclass(frozen=True)
class Deployment:
    """A correction in a store, ready to go live.

    source: the collection it was made of. collection: the one to search, made for mode `vectors`, else the source.
    field, candidates: where mode `payload` has the biases, and how many nearest items it corrects. live: the name that
    clients ask for. digest, spec: of the correction. notes: what a reader should know. effort: the ef or nprobe that a
    search of mode `vectors` asks for, None for the engine's default. synced: when `sync` compared it last with its
    source, "" for never. read_by: what the address of the source says of how it is read. items_digest:
    of the ids of the items, "" in a record from before it was kept.
    """

    mode: Mode
    source: str
    collection: str
    live: str
    items: int
    digest: str
    spec: str
    created: str
    layout: Layout | None = None
    field: str = ""
    candidates: int = 0
    measured: Measured | None = None
    replaces: str = ""
    notes: tuple[str, ...] = ()
    effort: int | None = None
    synced: str = ""
    read_by: Mapping[str, str] = dataclasses.field(default_factory=dict)
    items_digest: str = ""

    @property
    def key(self) -> str:
        """The key of its record."""
        return f"{MADE}{self.collection}" if self.mode == "vectors" else f"{FIELD}{self.source}/{self.field}"

    @property
    def made(self) -> str:
        """The name of the collection or field that was made for it."""
        return self.field or self.collection

    @property
    def up_to_date(self) -> str:
        """When it was last as its source was."""
        return max(self.created, self.synced)

    @property
    def what(self) -> str:
        """What is searched, in words."""
        return f"{self.collection}, field {self.field}" if self.mode == "payload" else self.collection

    def to_json(self) -> Record:
        """Return the record of it."""
        return {
            **asdict(self),
            "layout": None if self.layout is None else self.layout.to_json(),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Deployment:
        """Return the deployment of a record."""
        if given.get("mode") not in get_args(Mode):
            raise ValueError(f"it is no record of a deployment: {dict(given)}")
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        layout, measured = known.get("layout"), known.get("measured")
        return cls(
            **{
                **known,
                "layout": None if layout is None else Layout.from_json(layout),
                "measured": None if measured is None else Measured(**measured),
                "notes": tuple(known.get("notes", ())),
            }
        )

    def plain(self) -> Deployment:
        """Return the state before any deployment: the source, searched as it is."""
        return replace(
            self,
            mode="plain",
            collection=self.source,
            layout=None,
            field="",
            candidates=0,
            measured=None,
            notes=(),
            effort=None,
        )


@dataclass(frozen=True)
class Live:
    """What a live name serves now, and what it served before, the newest last.

    notes: what a reader should know who has just changed it; no part of the record.
    """

    name: str
    now: Deployment
    before: tuple[Deployment, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{LIVE}{self.name}"

    def to_json(self) -> Record:
        return {"now": self.now.to_json(), "before": [one.to_json() for one in self.before]}

    @classmethod
    def of(cls, name: str, record: Record) -> Live:
        """Return what a record says."""
        before = tuple(map(Deployment.from_json, record["before"]))
        return cls(name, Deployment.from_json(record["now"]), before)


def items_digest_of(ids: Ids) -> str:
    """Return a hash of the ids of items, in whatever order, by which a deployment knows that none came or went."""
    total = hashlib.blake2b(digest_size=16)
    for one in np.sort(ids).tolist():
        total.update(f"\0{one}".encode("utf-8", "surrogatepass"))
    return total.hexdigest()


def allowed_loss(about: Description) -> float | None:
    """Return how much lower the corrected recall may be in such a collection."""
    return ALLOWED_LOSSES.get((about.codes, about.rescored), ALLOWED_LOSS)


def made_of(store: Store) -> list[Deployment]:
    """Return every finished deployment of a collection that is still there, the oldest first."""
    found = []
    for key, record in store.records().items():
        if key.startswith((MADE, FIELD)):
            one = Deployment.from_json(record)
            if one.source == store.name:
                found.append(one)
    return sorted(found, key=lambda one: (one.created, number_of(one)))


def next_number(place: Store) -> int:
    """Return the number of the next deployment of a collection, whose names are free."""
    number = 1 + max(map(number_of, made_of(place)), default=0)
    taken = {*place.names(), *_fields(place)}
    while f"{place.name}{BESIDE}{number}" in taken or f"{FIELD_PREFIX}{number}" in taken:
        number += 1
    return number


def _fields(place: Store) -> set[str]:
    """Return the fields of the payload, as far as the first items show."""
    first = next(iter(place.batches(payload=True)), None) if place.exists() else None
    return {name for payload in (first.payload if first else None) or () for name in payload}


def number_of(one: Deployment) -> int:
    """Return the number in the name of what a deployment made."""
    return int(one.made.rpartition("_")[2])
