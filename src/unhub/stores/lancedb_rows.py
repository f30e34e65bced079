"""Rows of LanceDB as numpy arrays and back: ids, vectors and payload in the columns of Arrow."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import Float32, Ids
from unhub.data.vectors import as_texts
from unhub.errors import optional
from unhub.stores.store import FIELD_PREFIX, Payload, StoredItems

LARGEST_ID = 2**63 - 1
NO_IDS: Ids = np.empty(0, np.int64)


def _arrow() -> ModuleType:
    return optional("pyarrow", "lancedb", "a LanceDB table")


class ArrowPayload(Sequence[Payload]):
    """The payload of some rows, still in the columns of the engine; a row becomes Python when it is asked for.

    Written to another table it is copied column by column.
    """

    def __init__(self, columns: Any) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @overload
    def __getitem__(self, at: int) -> Payload: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Payload]: ...
    def __getitem__(self, at: int | slice) -> Payload | Sequence[Payload]:
        rows = range(len(self))[at]
        if isinstance(rows, range):
            return ArrowPayload(self.columns.take(list(rows)))
        return dict(self.columns.slice(rows, 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Payload]:
        return iter(self.columns.to_pylist())


@dataclass(frozen=True)
class LanceColumns:
    """The columns of a table: ids, vectors, and everything else, which is payload. `schema` is Arrow's."""

    ids: str
    vectors: str
    schema: Any

    @property
    def dimensions(self) -> int:
        """How wide the vectors are."""
        return int(self.schema.field(self.vectors).type.list_size)

    @property
    def number(self) -> str:
        """The numbers of a vector: float, halffloat or double."""
        return str(self.schema.field(self.vectors).type.value_type)

    @property
    def numeric(self) -> bool:
        """Whether ids are integers, not texts."""
        return is_integer(self.schema.field(self.ids).type)

    @property
    def payload(self) -> list[str]:
        """The names of the other columns."""
        return [name for name in self.schema.names if name not in (self.ids, self.vectors)]

    def kept(self, key: str) -> str:
        """Return what the schema keeps under a key, "" for nothing."""
        return str((self.schema.metadata or {}).get(key.encode(), b"").decode())

    def closed(self, ids: Ids, fields: Mapping[str, Any], open_key: str) -> LanceColumns:
        """Return the columns of a table whose ids are of the kind of these, with these fields, no longer open."""
        arrow = _arrow()
        kind = arrow.int64() if ids.dtype.kind in "iu" else arrow.string()
        metadata = {name: held for name, held in self.schema.metadata.items() if name != open_key.encode()}
        changed = [field.with_type(kind) if field.name == self.ids else field for field in self.schema]
        return dataclasses.replace(self, schema=arrow.schema(changed, metadata)).with_fields(fields)

    def with_fields(self, fields: Mapping[str, Any]) -> LanceColumns:
        """Return the columns with more payload, of these types."""
        arrow = _arrow()
        added = [arrow.field(name, type_) for name, type_ in fields.items()]
        return dataclasses.replace(self, schema=arrow.schema([*self.schema, *added], self.schema.metadata))

    def renamed(self, ids: str, vectors: str, dimensions: int) -> Any:
        """Return the schema of a table like this with other dimensions; an empty name stays what it is.

        Columns of biases belong to the deployments of this table alone.
        """
        arrow = _arrow()
        fields = []
        for field in self.schema:
            if field.name == self.ids:
                fields.append(arrow.field(ids or self.ids, field.type))
            elif field.name == self.vectors:
                fields.append(arrow.field(vectors or self.vectors, arrow.list_(field.type.value_type, dimensions)))
            elif not field.name.startswith(FIELD_PREFIX):
                fields.append(field.with_nullable(True))
        return arrow.schema(fields)

    def batch(self, found: Any, payload: bool) -> StoredItems:
        """Return rows of the engine as a batch; float32 vectors are not copied."""
        ids, rows = as_ids_of(found.column(self.ids)), as_rows_of(found.column(self.vectors), self.dimensions)
        return StoredItems(ids, rows, ArrowPayload(found.select(self.payload)) if payload else None)

    def table(self, batch: StoredItems) -> Any:
        """Return a batch as rows of the engine; raise an ArrowException where a value does not fit its column."""
        arrow = _arrow()
        payload = payload_columns(batch)
        columns = []
        for field in self.schema:
            if field.name == self.ids:
                columns.append(arrow.array(batch.ids.tolist(), field.type))
            elif field.name == self.vectors:
                columns.append(_vectors(arrow, batch.rows, field.type))
            elif field.name not in payload:
                columns.append(arrow.nulls(len(batch.ids), field.type))
            elif isinstance(payload[field.name], list):
                columns.append(_fitted(arrow, payload[field.name], field))
            else:
                held = payload[field.name]
                columns.append(held if held.type == field.type else held.cast(field.type))
        return arrow.table(columns, schema=self.schema)


def _fitted(arrow: ModuleType, values: list[Any], field: Any) -> Any:
    """Return values as a column; raise a ValueError where one would be changed, as Arrow makes 2 of 2.5."""
    try:
        found = arrow.array(values)
    except TypeError:  # a kind that cannot be told from values, such as a map
        return arrow.array(values, field.type)
    if not arrow.types.is_null(found.type) and _kind(found.type) != _kind(field.type):
        raise ValueError(f"the field {field.name!r} holds {field.type}, and {found.type} was given")
    return found.cast(field.type)


def _kind(type_: Any) -> str:
    types = _arrow().types
    kept = type_.value_type if types.is_dictionary(type_) else type_
    if types.is_integer(kept) or types.is_floating(kept):
        return "number"
    if types.is_boolean(kept):
        return "truth"
    return "text" if any(test(kept) for test in _tests_of_text()) else "other"


def _tests_of_text() -> tuple[Callable[[Any], bool], ...]:
    types = _arrow().types
    return types.is_string, types.is_large_string, types.is_string_view


def _vectors(arrow: ModuleType, rows: Float32, type_: Any) -> Any:
    with np.errstate(over="ignore"):
        flat = np.ascontiguousarray(rows).astype(type_.value_type.to_pandas_dtype(), copy=False).reshape(-1)
    if not np.isfinite(flat).all():
        raise ValueError(f"a vector holds NaN, infinity or a number beyond {type_.value_type}")
    return arrow.FixedSizeListArray.from_arrays(arrow.array(flat), type=type_)


def payload_columns(batch: StoredItems) -> dict[str, Any]:
    """Return the payload of a batch by name: a list of values, or a column of Arrow where it came from LanceDB."""
    if batch.payload is None:
        return {}
    if isinstance(batch.payload, ArrowPayload):
        return {name: batch.payload.columns.column(name) for name in batch.payload.columns.schema.names}
    names = dict.fromkeys(name for one in batch.payload for name in one)
    return {name: [one.get(name) for one in batch.payload] for name in names}


def new_fields(batch: StoredItems, known: Sequence[str]) -> dict[str, Any]:
    """Return the types of those payload columns that are not known; one without any value has no type and is left."""
    arrow = _arrow()
    columns = {name: values for name, values in payload_columns(batch).items() if name not in known}
    types = {name: (arrow.array(held) if isinstance(held, list) else held).type for name, held in columns.items()}
    return {name: type_ for name, type_ in types.items() if not arrow.types.is_null(type_)}


def is_vector(type_: Any) -> bool:
    """Return whether a column of this type holds vectors that LanceDB can search by cosine, dot or l2."""
    arrow = _arrow()
    return bool(arrow.types.is_fixed_size_list(type_) and arrow.types.is_floating(type_.value_type))


def is_integer(type_: Any) -> bool:
    """Return whether a column of this type holds integers."""
    return bool(_arrow().types.is_integer(type_))


def is_number(type_: Any) -> bool:
    """Return whether a column of this type holds numbers that need not be whole."""
    return bool(_arrow().types.is_floating(type_))


def is_usable_id(type_: Any) -> bool:
    """Return whether a column of this type can name items: integers or texts, also if each text is kept once."""
    return is_integer(type_) or _kind(type_) == "text"


def as_ids_of(column: Any) -> Ids:
    """Return a column of ids as an array; raise a ValueError for ids that no array of ids can hold."""
    if column.null_count:
        raise ValueError("an item has no id")
    if not is_integer(column.type):
        return as_texts(column.to_pylist())
    found = column.to_numpy(zero_copy_only=False)
    if found.dtype.kind == "u" and len(found) and found.max() > LARGEST_ID:
        raise ValueError(f"the id {found.max()} is over {LARGEST_ID}, the largest that an array of ids can hold")
    return np.array(found, np.int64)  # a copy: ids that are kept must not keep the vectors they were read with


def as_rows_of(column: Any, dimensions: int) -> Float32:
    """Return a column of vectors as rows."""
    if column.null_count:
        raise ValueError("an item has no vector")
    held = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    flat = held.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat.reshape(-1, dimensions), np.float32)


def repeated(read: Callable[[], Iterable[Ids]]) -> int | str | None:
    """Return an id that occurs more than once, None if there is none; `read` reads all ids, a few at a time.

    Eight bytes are kept of each id, so that a million texts need no more memory than a million numbers.
    """
    keys, counts = np.unique(np.concatenate([_keys(part) for part in read()] or [_keys(NO_IDS)]), return_counts=True)
    suspects = keys[counts > 1]
    if not len(suspects):
        return None
    again = [one for part in read() for one in part[np.isin(_keys(part), suspects)].tolist()]
    return next((one for one, times in Counter(again).items() if times > 1), None)


def _keys(ids: Ids) -> NDArray[np.int64]:
    return np.fromiter(map(hash, ids.tolist()), np.int64, len(ids))


def quoted(name: str) -> str:
    """Return a column as SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


def one_of(name: str, ids: Ids) -> str:
    """Return the SQL condition that a column holds one of these ids."""
    return f"{quoted(name)} IN ({', '.join(map(literal, ids.tolist()))})" if len(ids) else "false"


def literal(value: int | str) -> str:
    """Return a number or a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
