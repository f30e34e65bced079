"""Rows of Postgres: ids, vectors in pgvector's binary form, and payload as JSON, read, staged and searched."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from unhub.arrays import Float32, Ids
from unhub.data.vectors import as_texts
from unhub.stores.postgres_server import Failed, PostgresConnection
from unhub.stores.postgres_tables import ID, PLAIN_TYPES, PostgresColumn, PostgresTable, VectorType, named, run
from unhub.stores.store import Payload, StoredItems

StagedType: TypeAlias = tuple[sql.Composable, str]  # in SQL, and as psycopg copies it

# Names that no table or column has, which would be taken for them.
PAYLOAD_ROW, FIELDS_ROW = sql.Identifier("unhub payload row"), sql.Identifier("unhub fields row")
FIELDS_ID, FIELDS_READ = sql.Identifier("unhub fields id"), sql.Identifier("unhub fields")
HEADER_BYTES = 4  # the number of dimensions and an unused number, two bytes each
NUMBERS: dict[VectorType, np.dtype[Any]] = {"vector": np.dtype(">f4"), "halfvec": np.dtype(">f2")}


# Vectors


def encoded(rows: Float32, kind: VectorType, failed: Failed) -> NDArray[np.uint8]:
    """Return each row as the bytes of pgvector's binary form."""
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(rows, NUMBERS[kind])
    if not np.isfinite(numbers).all():
        raise failed(f"a vector holds a number that {kind} cannot", "scale the vectors")
    header = np.broadcast_to(np.array([rows.shape[1], 0], ">u2").view(np.uint8), (len(rows), HEADER_BYTES))
    return np.hstack([header, numbers.view(np.uint8).reshape(len(rows), -1)])


def decoded(held: Sequence[bytes], kind: VectorType, dimensions: int, failed: Failed) -> Float32:
    """Return vectors from pgvector's binary form; a column without a fixed dimension may hold different ones."""
    width = HEADER_BYTES + NUMBERS[kind].itemsize * dimensions
    if any(len(one) != width for one in held):
        raise failed("holds vectors of different dimensions", "give the column one, as in vector(512)")
    whole = np.frombuffer(b"".join(held), np.uint8).reshape(len(held), width)
    return np.ascontiguousarray(whole[:, HEADER_BYTES:]).view(NUMBERS[kind]).astype(np.float32)


def as_vector_text(row: Float32) -> str:
    """Return a vector as pgvector reads it in SQL; every float32 comes back as it was."""
    return str(row.tolist())


# Ids


def as_ids(held: Sequence[Any], column: PostgresColumn) -> Ids:
    """Return ids as an array."""
    return np.array(held, np.int64) if column.is_integer else as_texts(held)


def as_values(ids: Ids, column: PostgresColumn, failed: Failed) -> list[Any]:
    """Return ids as the values of a column."""
    if not column.is_integer:
        return [str(one) for one in ids.tolist()]
    if ids.dtype.kind not in "iu":
        raise failed(f"the column {column.name!r} holds integers, these ids are texts", "give integers")
    return [int(one) for one in ids.tolist()]


def id_read(column: PostgresColumn) -> sql.Composed:
    """Return the expression that reads an id."""
    return sql.SQL("{}::{}").format(column.in_sql, id_type(column))


def id_type(column: PostgresColumn) -> sql.SQL:
    """Return the type in which ids travel."""
    return sql.SQL("bigint") if column.is_integer else sql.SQL("text")


# Payload


def payload_read(table: PostgresTable) -> sql.Composed:
    """Return the expression that reads the payload as the text of one JSON object."""
    fields = [
        sql.SQL("{}{} AS {}").format(one.in_sql, sql.SQL("" if one.type in PLAIN_TYPES else "::text"), one.in_sql)
        for one in table.fields
    ]
    parts: list[sql.Composable] = []
    if table.payload:
        parts.append(sql.SQL("coalesce({}, '{{}}'::jsonb)").format(table.payload.in_sql))
    if fields:
        row = sql.SQL("(SELECT to_jsonb({row}) FROM (SELECT {fields}) {row})")
        parts.append(row.format(row=PAYLOAD_ROW, fields=sql.SQL(", ").join(fields)))
    if table.beside:
        parts.append(sql.SQL("coalesce({}, '{{}}'::jsonb)").format(FIELDS_READ))
    return sql.SQL("({})::text").format(sql.SQL(" || ").join(parts or [sql.SQL("'{}'::jsonb")]))


def with_fields(table: PostgresTable) -> sql.Composed:
    """Return the table joined with the fields beside it, as `payload_read` reads them. An item may have none."""
    if table.beside is None:
        return sql.Composed([table.in_sql])
    return sql.SQL(
        "{table} LEFT JOIN (SELECT {id} AS {fields_id}, jsonb_strip_nulls(to_jsonb({row}) - {text}) AS {fields} "
        "FROM {beside} AS {row}) AS {row} ON {fields_id} = {own}"
    ).format(
        row=FIELDS_ROW,
        table=table.in_sql,
        beside=table.beside.in_sql,
        id=named(ID),
        text=sql.Literal(ID),
        fields_id=FIELDS_ID,
        fields=FIELDS_READ,
        own=table.id.in_sql,
    )


def as_json(payload: Payload, failed: Failed) -> str:
    """Return a payload as JSON; times, decimals and UUIDs as texts, which columns of their types read."""
    try:
        return json.dumps(dict(payload), default=_as_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise failed(f"the payload cannot be held: {error}", "give values that JSON has") from None


def _as_plain(value: object) -> object:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} is of the type {type(value).__name__}")


# Reading


def read_batch(held: Sequence[tuple[Any, ...]], table: PostgresTable, dimensions: int, failed: Failed) -> StoredItems:
    """Return rows of (id, vector) or (id, vector, payload) as a batch."""
    rows = decoded([one[1] for one in held], table.type, dimensions, failed)
    payload = [json.loads(one[2]) for one in held] if held and len(held[0]) > 2 else None
    return StoredItems(as_ids([one[0] for one in held], table.id), rows, payload)


# Writing


def stage(c: PostgresConnection, columns: Mapping[str, StagedType], rows: Iterable[Sequence[Any]]) -> None:
    """Copy rows into a temporary table that goes with the transaction; vectors are given as bytes."""
    made = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(name), one[0]) for name, one in columns.items())
    c.execute(sql.SQL("CREATE TEMPORARY TABLE unhub_staged ({}) ON COMMIT DROP").format(made))
    with c.cursor().copy("COPY pg_temp.unhub_staged FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types([one[1] for one in columns.values()])
        for row in rows:
            copy.write_row(row)


def staged_id(column: PostgresColumn) -> StagedType:
    """Return how ids are staged."""
    return (sql.SQL("bigint"), "int8") if column.is_integer else (sql.SQL("text"), "text")


def write_batch(c: PostgresConnection, table: PostgresTable, batch: StoredItems, failed: Failed) -> None:
    """Add rows, or replace those of the same ids. Without a payload, that of rows that are there stays.

    What the payload says of fields beside the table, as one that was read does, is left out: `set_field` sets them.
    """
    ids = as_values(batch.ids, table.id, failed)
    vectors = encoded(batch.rows, table.type, failed)
    payload = [as_json(one, failed) for one in batch.payload] if batch.payload is not None else [None] * len(ids)
    given = {key for one in batch.payload or () for key in one}
    fields = {one.name: one for one in table.fields}
    if table.payload is None and (strange := sorted(given - set(fields) - set(_beside(table)))):
        raise failed(f"there is no column {strange[0]!r} for the payload", "add it, or leave it out of the payload")
    staged = {
        "id": staged_id(table.id),
        "vector": (table.extension.named(table.type), "bytea"),
        "held": (sql.SQL("text"), "text"),
    }
    stage(c, staged, zip(ids, map(bytes, vectors), payload, strict=True))
    kept = [one for name, one in fields.items() if not one.generated]
    run(c, _upsert(table, [one for one in kept if one.name in given], kept, batch.payload is not None))


def _upsert(
    table: PostgresTable, given: Sequence[PostgresColumn], kept: Sequence[PostgresColumn], replacing: bool
) -> sql.Composed:
    """Return the statement that moves what was staged. given: columns that the payload has; others get defaults."""
    targets = [table.id, table.vector, *given]
    values: list[sql.Composable] = [_cast("id", table.id), sql.SQL("s.vector"), *(_of_record(one) for one in given)]
    if table.payload and replacing:
        targets.append(table.payload)
        values.append(
            sql.SQL("s.held::jsonb - {}::text[]").format(
                sql.Literal([one.replace("%", "%%") for one in (*(f.name for f in table.fields), *_beside(table))])
            )
        )
    changed = [table.vector, *([*kept, *([table.payload] if table.payload else [])] if replacing else [])]
    record: sql.Composable = sql.SQL("")
    if given:
        types = sql.SQL(", ").join(sql.SQL("{} {}").format(one.in_sql, one.type_in_sql) for one in given)
        record = sql.SQL("CROSS JOIN LATERAL jsonb_to_record(s.held::jsonb) AS r({})").format(types)
    return sql.SQL(
        "INSERT INTO {table} ({targets}) OVERRIDING SYSTEM VALUE SELECT {values} FROM pg_temp.unhub_staged s {record} "
        "ON CONFLICT ({id}) DO UPDATE SET {changed}"
    ).format(
        table=table.in_sql,
        targets=sql.SQL(", ").join(one.in_sql for one in targets),
        values=sql.SQL(", ").join(values),
        record=record,
        id=table.id.in_sql,
        changed=sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(one.in_sql) for one in changed),
    )


def _beside(table: PostgresTable) -> tuple[str, ...]:
    return table.beside.names if table.beside else ()


def _cast(name: str, column: PostgresColumn) -> sql.Composed:
    return sql.SQL("s.{}::{}").format(sql.Identifier(name), column.type_in_sql)


def _of_record(column: PostgresColumn) -> sql.Composed:
    return sql.SQL("r.{}").format(column.in_sql)
