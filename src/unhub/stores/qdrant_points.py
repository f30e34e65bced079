"""Points: what Qdrant behind its client and Qdrant in process share: ids, payload, settings and searches.

A point's key is an unsigned integer or a UUID. Any other id (a text, a negative integer) becomes a UUID made from it,
and the id itself is kept in the payload field `unhub_id`, which no reader of a store sees.
"""

from __future__ import annotations

import copy
import datetime
import math
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from unhub.arrays import Float32, Float64, Ids, spans
from unhub.data.vectors import as_texts, row_not_finite
from unhub.errors import ArgumentError, check_whole
from unhub.stores.address import Address
from unhub.stores.store import BATCH_ROWS, Codes, Correcting, Metric, Nearest, Payload, Store, StoredItems, Where

ID_FIELD = "unhub_id"
TOLD_SECONDS = 5.0  # a search trusts what it was told of the vector so long: to ask a server takes as long as to search
RECORDS = "unhub_records"  # where records are kept; no collection of the user's
NAMESPACE = uuid.UUID("0f8c9a3e-6d0e-5b0e-9f5e-6c1d2a7b4e11")  # of the UUIDs made from ids; fixed for good
FIRST_BEYOND_INT64 = 1 << 63  # keys are ordered: integers, then UUIDs; from here on are ids that int64 does not hold
KEY_LIMIT = 1 << 64
REQUEST_BYTES = 8 << 20  # a server refuses requests over 32 MB by default
BYTES_OF_A_NUMBER = 20  # as JSON
DISTANCES: Mapping[Metric, str] = {"cosine": "Cosine", "dot": "Dot", "l2": "Euclid"}
CODES: Mapping[str, Codes] = {"scalar": "int8", "product": "pq", "binary": "binary", "turbo": "other"}
DATATYPES: Mapping[str, Codes] = {"float32": "none", "float16": "float16", "uint8": "int8"}
# Codes whose finds the engine scores again from the vectors unless told otherwise; of turbo those of at most 2 bits.
RESCORED_TURBO = ("bits1", "bits1_5", "bits2")

PointKey: TypeAlias = int | str  # an unsigned integer, or the text of a UUID
Settings: TypeAlias = Mapping[str, Any]  # a configuration of Qdrant as JSON
Chosen: TypeAlias = Any  # a filter as the engine takes it, None for all points


class StoredPoint(NamedTuple):
    """A point as it is stored; the row is None where the point lacks this vector."""

    key: PointKey
    row: Sequence[float] | None
    payload: dict[str, Any]


class PointQuery(NamedTuple):
    """A search for the k nearest points, by score - weight * field of the nearest candidates if correcting is given."""

    row: list[float]
    k: int
    effort: int | None = None
    weight: float = 0.0
    correcting: Correcting | None = None


class PointFound(NamedTuple):
    """A point that was found; the payload holds at most the field of its id."""

    key: PointKey
    score: float
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class PointVector:
    """A vector of a collection and its settings.

    name: "" where it has none. alone: whether points have no other vectors beside it.
    """

    name: str
    metric: Metric
    dimensions: int
    hnsw: Settings
    codes: Settings
    stored: Settings
    alone: bool

    @property
    def kind_of_codes(self) -> Codes:
        """What items are compared by before any scoring again."""
        if self.codes:
            return CODES.get(next(iter(self.codes)), "other")
        return DATATYPES.get(str(self.stored.get("datatype") or "float32").lower(), "other")

    @property
    def rescored(self) -> bool:
        """Whether what codes find is scored again from the vectors, when a search does not say."""
        if "turbo" in self.codes:
            return self.codes["turbo"].get("bits") in RESCORED_TURBO
        return not self.codes or "binary" in self.codes

    def told(self) -> dict[str, str]:
        """Return the settings as readable texts."""
        told = {"vector": self.name or "unnamed", "hnsw": listed(self.hnsw)}
        told["quantisation"] = "; ".join(f"{kind} {listed(value)}".strip() for kind, value in self.codes.items())
        other = {name: value for name, value in self.stored.items() if not isinstance(value, Mapping)}
        told["storage"] = listed({name: other[name] for name in other if name not in ("size", "distance")})
        return {name: text for name, text in told.items() if text}


def listed(settings: Settings) -> str:
    """Return settings as one text: `m 16, ef_construct 100`."""
    return ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)


# Ids


def keys_of(one: int | str) -> list[PointKey]:
    """Return the keys an id may have, first the one it is written under.

    An integer may have been read as a text, where a collection holds both.
    """
    if isinstance(one, int):
        return [one if 0 <= one < KEY_LIMIT else _made(f"integer:{one}")]
    written = one if _is_uuid(one) else _made(f"text:{one}")
    return [written, *(keys_of(int(one)) if _is_number(one) else [])]


def id_of(key: PointKey, payload: Mapping[str, Any]) -> int | str:
    """Return the id of a point."""
    if isinstance(key, int):
        return key
    kept = payload.get(ID_FIELD, key)
    return kept if isinstance(kept, int) else str(kept)


def _made(text: str) -> str:
    return str(uuid.uuid5(NAMESPACE, text))


def record_key(key: str) -> str:
    """Return the key of the point, or the name of the file, that holds a record."""
    return _made(f"record:{key}")


def _is_uuid(text: str) -> bool:
    """Return whether a text is a UUID as Qdrant spells it; in other spellings it would come back changed."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _is_number(text: str) -> bool:
    return len(text) <= 20 and text.isascii() and text.removeprefix("-").isdigit() and str(int(text)) == text


def _as_array(ids: Sequence[int | str], texts: bool) -> Ids:
    return as_texts([str(one) for one in ids]) if texts else np.array(ids, np.int64)


# Payload


def path_of(field: str) -> str:
    """Return the name of a field as Qdrant's paths spell it: a dot or a space inside is none of the path's."""
    return field if field.replace("_", "").isalnum() and field.isascii() else f'"{field}"'


def _plain(value: object) -> Any:
    """Return a value of a payload as JSON holds it; raise a ValueError if JSON has none."""
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): _plain(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"{value!r}")


class PointStore(Store):
    """A collection of Qdrant, whichever way it is reached; an engine implements the reading and writing of points."""

    subtracts = True
    filters_by_json = True

    def settle(self) -> None:
        """Build the graph again: a point whose payload changes is taken out of it."""
        self.finish()

    def __init__(self, address: Address, name: str) -> None:
        super().__init__(address, name)
        self._asked = address.option("vector")
        self._vector: PointVector | None = None
        self._read_at = 0.0
        self._texts: bool | None = None

    # What each way to the engine implements, with keys for ids and fields as paths

    @abstractmethod
    def read_vector(self) -> PointVector:
        """Return the vector that the address means; raise if there is none such."""

    @abstractmethod
    def page(
        self, start: PointKey | None, limit: int, payload: bool, chosen: Chosen = None
    ) -> tuple[list[StoredPoint], PointKey | None]:
        """Return the points from a key on, by key, and the key that is next; payload: all of it, or the id alone."""

    @abstractmethod
    def points(self, keys: Sequence[PointKey], rows: bool) -> list[StoredPoint]:
        """Return those of these points that exist, in any order, with the id alone as payload."""

    @abstractmethod
    def find(self, queries: Sequence[PointQuery], chosen: Chosen) -> list[list[PointFound]]:
        """Return what each query finds."""

    @abstractmethod
    def choose(self, where: Where, keys: Sequence[PointKey] | None) -> Chosen:
        """Return the engine's filter for a filter of the user's and the only keys to find."""

    @abstractmethod
    def choose_not_negative(self) -> Chosen:
        """Return the filter for points whose kept id is no negative integer."""

    @abstractmethod
    def put(self, points: Sequence[StoredPoint]) -> None:
        """Write points."""

    @abstractmethod
    def delete(self, keys: Sequence[PointKey]) -> None:
        """Drop points; keys that do not exist are ignored."""

    @abstractmethod
    def put_values(self, field: str, values: Sequence[tuple[PointKey, float]]) -> None:
        """Set a field, by its name, of points that exist."""

    @abstractmethod
    def delete_values(self, path: str) -> None:
        """Drop a field of every point."""

    # What they share

    def vector(self, fresh: bool = False, age: float = math.inf) -> PointVector:
        """Return the vector that is searched; a call of the user's reads it anew, since an alias may have moved.

        age: the most seconds since it was read.
        """
        if self._vector is None or fresh or monotonic() > self._read_at + age:
            self._vector, self._read_at = self.read_vector(), monotonic()
        return self._vector

    def read_by(self) -> dict[str, str]:
        """Return the name of the vector, if the address has it."""
        return {"vector": self._asked} if self._asked else {}

    def read_as(self, told: Mapping[str, str]) -> Self:
        """Return the collection with the vector that was told."""
        if self._asked or "vector" not in told:
            return self
        other = copy.copy(self)
        other._asked = told["vector"]
        other.forget()
        return other

    def forget(self) -> None:
        """Forget what was read of the collection."""
        self._vector = self._texts = None

    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item that has the vector, by key."""
        vector, texts = self.vector(fresh=True), self._has_texts()
        following: PointKey | None = None
        while True:
            points, following = self.page(following, rows, payload)
            held = [point for point in points if point.row is not None]
            if held:
                ids = _as_array([id_of(point.key, point.payload) for point in held], texts)
                kept = [{name: point.payload[name] for name in point.payload if name != ID_FIELD} for point in held]
                yield StoredItems(ids, _rows(held, vector.dimensions), kept if payload else None)
            if following is None:
                return

    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist and have the vector."""
        vector, found = self.vector(fresh=True), list[StoredPoint]()
        places = list[int]()
        for start, stop in spans(len(ids), BATCH_ROWS):
            spelled = [(place, one, keys_of(one)) for place, one in enumerate(ids[start:stop].tolist(), start)]
            by_key = {point.key: point for point in self.points([key for *_, keys in spelled for key in keys], True)}
            for place, one, keys in spelled:
                points = [by_key[key] for key in keys if key in by_key]
                held = [p for p in points if p.row is not None and str(id_of(p.key, p.payload)) == str(one)]
                found += held[:1]
                places += [place] * len(held[:1])
        return StoredItems(ids[np.array(places, np.int64)], _rows(found, vector.dimensions))

    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items; `where` is a filter of Qdrant, an object of its library or its JSON."""
        check_whole(k, "k", 1)
        if effort is not None:
            check_whole(effort, "effort", 1)
        vector = self._fitting(queries)
        asked = [PointQuery(row, k, effort) for row in queries.tolist()]
        return self._sorted(self._search(asked, vector, where, among), k, vector.metric)

    def search_less(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        correcting: Correcting,
        where: Where = None,
        among: Ids | None = None,
    ) -> Nearest:
        """Return the k best by s - weight * field, by a formula in the engine; a point without the field loses none."""
        check_whole(k, "k", 1)
        vector = self._fitting(queries)
        if vector.metric == "l2":
            raise self.failed("has the metric l2, which has no similarity to subtract from", "use cosine or dot")
        if len(weights) != len(queries):
            raise ArgumentError(
                "weights", f"has {len(weights)} numbers for {len(queries)} queries", "give one for each"
            )
        path = Correcting(path_of(self._checked(correcting.field)), max(k, correcting.candidates))
        pairs = zip(queries.tolist(), weights.tolist(), strict=True)
        asked = [PointQuery(row, k, None, weight, path) for row, weight in pairs]
        return self._sorted(self._search(asked, vector, where, among), k, vector.metric)

    def write(self, batch: StoredItems) -> None:
        """Add points or replace them whole, which would drop other vectors of theirs."""
        vector = self._fitting(batch.rows, "rows")
        if not vector.alone:
            raise self.failed("has other vectors beside, which writing would drop", "write to a collection with one")
        if (bad := row_not_finite(batch.rows)) is not None:
            raise self.failed(f"cannot hold NaN or infinity, as in the row of {batch.ids[bad]!s}", "leave it out")
        payload = batch.payload if batch.payload is not None else [{}] * len(batch.ids)
        if not len(batch.ids) == len(batch.rows) == len(payload):
            raise ArgumentError(
                "batch",
                f"has {len(batch.ids)} ids, {len(batch.rows)} rows and {len(payload)} payloads",
                "give one each",
            )
        held = [self._payload(one, kept) for one, kept in zip(batch.ids.tolist(), payload, strict=True)]
        keys = [keys_of(one)[0] for one in batch.ids.tolist()]
        for start, stop in spans(len(keys), _rows_of_a_request(vector.dimensions)):
            parts = zip(keys[start:stop], batch.rows[start:stop].tolist(), held[start:stop], strict=True)
            self.put([StoredPoint(*part) for part in parts])
        self._texts = self._texts or (batch.ids.dtype.kind == "U" and len(keys) > 0) or None

    def remove(self, ids: Ids) -> None:
        """Drop points."""
        self.vector(fresh=True)
        keys = [key for one in ids.tolist() for key in keys_of(one)]
        for start, stop in spans(len(keys), BATCH_ROWS):
            self.delete(keys[start:stop])

    def set_field(self, name: str, ids: Ids, values: Float64) -> None:
        """Set a number of each point; raise before anything is written if one does not exist."""
        self._checked(name)
        if len(ids) != len(values):
            raise ArgumentError("values", f"has {len(values)} numbers for {len(ids)} ids", "give one for each")
        if not np.isfinite(values).all():
            raise ArgumentError("values", "holds NaN or infinity", "give finite numbers")
        keys = self._existing(ids)
        pairs = list(zip(keys, values.tolist(), strict=True))
        for start, stop in spans(len(pairs), BATCH_ROWS):
            self.put_values(name, pairs[start:stop])

    def drop_field(self, name: str) -> None:
        """Drop a field of every point."""
        self.vector(fresh=True)
        self.delete_values(path_of(self._checked(name)))

    def _existing(self, ids: Ids) -> list[PointKey]:
        """Return the keys of items, each the one under which the item exists."""
        self.vector(fresh=True)
        keys: list[PointKey] = []
        for start, stop in spans(len(ids), BATCH_ROWS):
            spelled = [(one, keys_of(one)) for one in ids[start:stop].tolist()]
            known = {point.key for point in self.points([key for _, spelt in spelled for key in spelt], False)}
            for one, spelt in spelled:
                if not (found := [key for key in spelt if key in known]):
                    raise self.failed(f"has no item {one!r}", "write it first, or leave it out")
                keys.append(found[0])
        return keys

    def _fitting(self, rows: Float32, what: str = "queries") -> PointVector:
        """Return the vector; raise if rows have other dimensions."""
        vector = self.vector(age=TOLD_SECONDS)
        width = rows.shape[1] if rows.ndim == 2 else 0
        if width != vector.dimensions:
            vector = self.vector(fresh=True)
        if width != vector.dimensions:
            problem = f"has {vector.dimensions} dimensions, the {what} have {width or 'none'}"
            raise self.failed(problem, "embed both with one model")
        return vector

    def _search(
        self, asked: list[PointQuery], vector: PointVector, where: Where, among: Ids | None
    ) -> list[list[PointFound]]:
        keys = None if among is None else [key for one in among.tolist() for key in keys_of(one)]
        chosen = self.choose(where, keys)
        found: list[list[PointFound]] = []
        for start, stop in spans(len(asked), _rows_of_a_request(vector.dimensions)):
            found += [[]] * (stop - start) if keys == [] else self._found(asked[start:stop], chosen)
        return found

    def _found(self, asked: list[PointQuery], chosen: Chosen) -> list[list[PointFound]]:
        try:
            return self.find(asked, chosen)
        except ArgumentError:
            self.vector(fresh=True)  # raises in our words if what was known of the collection is not true any more
            raise

    def _sorted(self, found: list[list[PointFound]], k: int, metric: Metric) -> Nearest:
        """Return what was found as arrays, best first; Qdrant's Euclid is the root of a squared distance."""
        ids = [[id_of(hit.key, hit.payload) for hit in hits] for hits in found]
        texts = self._has_texts(any(isinstance(one, str) or one >= FIRST_BEYOND_INT64 for row in ids for one in row))
        values = np.full((len(found), k), np.inf if metric == "l2" else -np.inf, np.float32)
        for row, hits in enumerate(found):
            values[row, : len(hits)] = [hit.score for hit in hits]
        values = np.square(values) if metric == "l2" else values
        order = np.argsort(values if metric == "l2" else -values, axis=1, kind="stable")
        filled = [row + [("" if texts else -1)] * (k - len(row)) for row in ids]
        arrays = _as_array([one for row in filled for one in row], texts).reshape(len(found), k)
        places = np.arange(len(found))[:, None]
        return Nearest(values[places, order], arrays[places, order])

    def _has_texts(self, seen: bool = False) -> bool:
        """Return whether ids of this collection are texts, or integers that only a text can hold.

        The same for all its batches and searches, so that an id is the same value in all of them.
        """
        if seen:
            self._texts = True
        if self._texts is None:
            points, _ = self.page(FIRST_BEYOND_INT64, 1, False, self.choose_not_negative())
            if points or self.page(None, 1, False)[0]:  # of an empty collection nothing is known yet
                self._texts = bool(points)
        return bool(self._texts)

    def _payload(self, one: int | str, payload: Payload) -> dict[str, Any]:
        if ID_FIELD in payload:
            raise self.failed(f"keeps ids in the payload field {ID_FIELD!r}, which {one!r} has", "rename the field")
        try:
            plain = {str(name): _plain(value) for name, value in payload.items()}
        except ValueError as error:
            raise self.failed(f"cannot hold {error} in the payload of {one!r}", "JSON holds no such value") from None
        return plain if keys_of(one)[0] == one else {**plain, ID_FIELD: one}

    def _checked(self, field: str) -> str:
        if not field or '"' in field or field == ID_FIELD:
            raise ArgumentError("field", f"cannot be named {field!r} in Qdrant", "use letters, digits and _")
        return field


def _rows(points: Sequence[StoredPoint], dimensions: int) -> Float32:
    return np.array([point.row for point in points], np.float32).reshape(len(points), dimensions)


def _rows_of_a_request(dimensions: int) -> int:
    return max(1, min(BATCH_ROWS, REQUEST_BYTES // (BYTES_OF_A_NUMBER * dimensions)))


def vector_of(
    store: Store,
    asked: str,
    vectors: Mapping[str, Settings],
    sparse: Sequence[str],
    hnsw: Settings,
    codes: Settings,
) -> PointVector:
    """Return the vector of this name, or the only one where none is asked for, out of a collection's settings."""
    names = ", ".join(repr(name) for name in sorted(vectors)) or "none"
    if not asked and len(vectors) != 1:
        if not vectors:
            raise store.failed("has no dense vectors", "sparse vectors are not supported")
        raise store.failed(f"has several vectors: {names}", "name one in the address: ?vector=NAME")
    if asked and asked not in vectors:
        raise store.failed(f"has no vector {asked!r}", f"its vectors: {names}")
    name = asked or next(iter(vectors))
    found = vectors[name]
    metrics: dict[str, Metric] = {distance: metric for metric, distance in DISTANCES.items()}
    if found["distance"] not in metrics:
        raise store.failed(f"compares by {found['distance']}", f"the metrics are {', '.join(metrics)}")
    if found.get("multivector_config"):
        raise store.failed(f"holds several vectors of {name!r} for each item", "only one for each item is supported")
    graph = {**hnsw, **(found.get("hnsw_config") or {})}
    coded = found.get("quantization_config") or codes
    alone = len(vectors) + len(sparse) == 1
    return PointVector(name, metrics[found["distance"]], int(found["size"]), graph, coded, found, alone)
