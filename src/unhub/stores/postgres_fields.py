"""Fields of items in Postgres: numbers that unhub sets, in a table beside that of the items, which stays as it is.

A column of the items themselves would cost more than a new index: each row that changes enters every index anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from psycopg import sql

from unhub.arrays import Float64
from unhub.stores.postgres_making import grant, grants, is_guarded, keys, make_view, own_views_of
from unhub.stores.postgres_rows import stage, staged_id
from unhub.stores.postgres_server import PostgresConnection
from unhub.stores.postgres_tables import (
    ID,
    FieldsTable,
    PostgresTable,
    TableName,
    fields_note,
    fields_place,
    literal,
    named,
    run,
)


def set_field(c: PostgresConnection, table: PostgresTable, name: str, ids: Sequence[Any], values: Float64) -> None:
    """Set a field of those of these items that exist, in a table and column that are made if they are missing."""
    beside = table.beside or _make(c, table)
    if name not in beside.names:
        run(c, sql.SQL("ALTER TABLE {} ADD COLUMN {} double precision").format(beside.in_sql, named(name)))
    staged = {"id": staged_id(table.id), "value": (sql.SQL("double precision"), "float8")}
    stage(c, staged, zip(ids, np.asarray(values, np.float64).tolist(), strict=True))
    upsert = sql.SQL(
        "INSERT INTO {beside} AS f ({id}, {field}) SELECT s.id::{type}, s.value FROM pg_temp.unhub_staged s "
        "WHERE EXISTS (SELECT FROM {table} AS t WHERE t.{own} = s.id::{type}) "
        "ON CONFLICT ({id}) DO UPDATE SET {field} = EXCLUDED.{field} WHERE f.{field} IS DISTINCT FROM EXCLUDED.{field}"
    )
    run(
        c,
        upsert.format(
            beside=beside.in_sql,
            id=named(ID),
            field=named(name),
            type=table.id.type_in_sql,
            table=table.in_sql,
            own=table.id.in_sql,
        ),
    )


def drop_field(c: PostgresConnection, table: PostgresTable, name: str) -> None:
    """Drop a field if it is there, and the table beside with its last; unhub's views are made again without it."""
    beside = table.beside
    if beside is None or name not in beside.names:
        return
    left = tuple(one for one in beside.names if one != name)
    without = replace(table, beside=replace(beside, names=left) if left else None)
    for view in own_views_of(c, table):
        make_view(c, TableName(table.place.schema, view), without)
    if left:
        run(c, sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(beside.in_sql, named(name)))
    else:
        run(c, sql.SQL("DROP TABLE {}").format(beside.in_sql))


def _make(c: PostgresConnection, table: PostgresTable) -> FieldsTable:
    """Make the table beside another, for who may read that one; the fields of an item go with it where they can."""
    place = fields_place(table.place)
    parts = {"beside": place.in_sql, "id": named(ID), "table": table.in_sql, "own": table.id.in_sql}
    run(c, sql.SQL("CREATE TABLE {beside} AS SELECT {own} AS {id} FROM {table} WITH NO DATA").format(**parts))
    run(c, sql.SQL("ALTER TABLE {beside} ADD PRIMARY KEY ({id})").format(**parts))
    if keys(c, table.place, table.id.name)[0] and _may_refer(c, table):
        refer = "ADD FOREIGN KEY ({id}) REFERENCES {table} ({own}) ON DELETE CASCADE ON UPDATE CASCADE"
        run(c, sql.SQL("ALTER TABLE {beside} " + refer).format(**parts))
    if is_guarded(c, table.place):
        run(c, sql.SQL("ALTER TABLE {beside} ENABLE ROW LEVEL SECURITY").format(**parts))
        seen = "USING (EXISTS (SELECT FROM {table} AS t WHERE t.{own} = {beside}.{id}))"
        run(c, sql.SQL("CREATE POLICY of_items ON {beside} FOR SELECT " + seen).format(**parts))
    grant(c, place, [one for one in grants(c, table.place) if one[0] == "SELECT"])
    run(c, sql.SQL("COMMENT ON TABLE {} IS {}").format(place.in_sql, literal(fields_note(table.place))))
    return FieldsTable(place, ())


def _may_refer(c: PostgresConnection, table: PostgresTable) -> bool:
    """Return whether a foreign key may name a table: one that survives a crash, with the right to."""
    query = "SELECT relpersistence = 'p' AND has_table_privilege(oid, 'REFERENCES') FROM pg_class"
    found = c.execute(f"{query} WHERE oid = to_regclass(%s)", [table.place.quoted(c)]).fetchone()
    return bool(found and found[0])
