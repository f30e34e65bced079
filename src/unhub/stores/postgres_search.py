"""Searches in Postgres: the statements whose order an index of pgvector can serve, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psycopg
from psycopg import sql

from unhub.arrays import Float32, Float64, spans
from unhub.errors import ArgumentError
from unhub.stores.postgres_rows import as_ids, as_vector_text, id_read, id_type
from unhub.stores.postgres_server import PostgresConnection
from unhub.stores.postgres_tables import PostgresTable, named
from unhub.stores.store import Correcting, Metric, Nearest, Where

MOST_EF, DEFAULT_EF = 1000, 40  # of pgvector
MOST_PROBES = 32768
QUERIES_AT_ONCE, QUERIES_AMONG_AT_ONCE = 256, 8


class Search(NamedTuple):
    """A search: how many items, the condition in SQL, the only ids, and how much effort the index makes."""

    k: int
    condition: sql.SQL
    among: list[Any] | None = None
    effort: int | None = None


def as_condition(c: PostgresConnection, where: Where) -> sql.SQL:
    """Return a filter as SQL with its parameters in place; it is trusted as any SQL of the caller is."""
    if where is None:
        return sql.SQL("true")
    text, parameters = (where, None) if isinstance(where, str) else where if _is_pair(where) else (None, None)
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError("where", f"must be a condition in SQL, or (condition, parameters), got {where!r}")
    if parameters is not None:
        text = psycopg.ClientCursor(c).mogrify(text, parameters)
    # The line break ends a comment. What is left of % is no placeholder of ours.
    return sql.SQL("(" + text.replace("%", "%%") + "\n)")


def _is_pair(where: Where) -> bool:
    return isinstance(where, tuple) and len(where) == 2 and isinstance(where[1], Sequence | Mapping)


def nearest(table: PostgresTable, dimensions: int, search: Search) -> sql.Composed:
    """Return the statement for the rows (id, distance) nearest to %(query)s, nearest first.

    It orders by the operator itself, ascending: an index serves nothing else. The number of rows stands in the text,
    so that it is known where a plan is made. Among some ids, all are compared.
    """
    parts = {
        "id": id_read(table.id),
        "distance": _distance(table, table.type, ""),
        "order": _distance(table, table.type, ""),
        "table": table.in_sql,
        "where": search.condition,
        "k": sql.Literal(search.k),
    }
    if search.among is not None:
        return sql.SQL(
            "WITH chosen AS MATERIALIZED "
            "(SELECT * FROM {table} WHERE {own_id} = ANY(%(among)s::{ids}[]::{own}[]) AND {where}) "
            "SELECT {id}, {distance} FROM chosen ORDER BY {order} LIMIT {k}"
        ).format(**parts, own_id=table.id.in_sql, ids=id_type(table.id), own=table.id.type_in_sql)
    if table.index is not None and table.index.plan.half:
        parts["order"] = _distance(table, "halfvec", f"({dimensions})")
    return sql.SQL("SELECT {id}, {distance} FROM {table} WHERE {where} ORDER BY {order} LIMIT {k}").format(**parts)


def _distance(table: PostgresTable, kind: str, size: str) -> sql.Composed:
    """Return the distance of the vector, as the type `kind`, and the query."""
    named = sql.SQL("{}{}").format(table.extension.named(kind), sql.SQL(size))
    column = sql.SQL("({}::{})").format(table.vector.in_sql, named) if size else table.vector.in_sql
    return sql.SQL("{} {} %(query)s::{}").format(column, table.extension.operator(table.metric), named)


def set_effort(c: PostgresConnection, table: PostgresTable, search: Search) -> None:
    """Let the index make its effort in this transaction: HNSW finds no more rows than its ef."""
    default = "coalesce(nullif(current_setting('hnsw.ef_search', true), '')::int, %(default)s)"
    settings = {"hnsw.ef_search": f"least({MOST_EF}, greatest(%(k)s, coalesce(%(effort)s::int, {default})))::text"}
    if search.effort is not None:
        settings["ivfflat.probes"] = f"least({MOST_PROBES}, %(effort)s::int)::text"
    if table.extension.iterates:  # the order is made again by the client
        settings |= {"hnsw.iterative_scan": "'relaxed_order'", "ivfflat.iterative_scan": "'relaxed_order'"}
    parts = ", ".join(f"set_config('{name}', {value}, true)" for name, value in settings.items())
    c.execute(f"SELECT {parts}", {"k": search.k, "effort": search.effort, "default": DEFAULT_EF})


def similarities(distances: Float64, metric: Metric) -> Float64:
    """Return what pgvector's operators give as similarities, or as squared distances under l2."""
    if metric == "cosine":
        return 1 - distances
    return -distances if metric == "dot" else np.square(distances)


def lessened(table: PostgresTable, dimensions: int, search: Search, correcting: Correcting) -> sql.Composed:
    """Return the statement for the rows (id, -(s - w field)) of the best of the nearest candidates.

    An item without a value, such as one that was added since, is not corrected. The limit of one row lets Postgres look
    up the few candidates, where it would else read all fields of a small table.
    """
    similarity = {"cosine": "1 - n.distance", "dot": "-n.distance"}[table.metric]
    holder, holder_id = table.holder(correcting.field) or (table.in_sql, table.id.in_sql)
    return sql.SQL(
        "SELECT n.id, coalesce(f.value, 0) * %(weight)s - ({similarity}) AS less FROM ({inner}) AS n(id, distance) "
        "LEFT JOIN LATERAL (SELECT h.{field}::double precision AS value FROM {holder} AS h "
        "WHERE h.{holder_id} = n.id::{own} LIMIT 1) AS f ON true ORDER BY less LIMIT {k}"
    ).format(
        field=named(correcting.field),
        similarity=sql.SQL(similarity),
        inner=nearest(table, dimensions, search._replace(k=correcting.candidates)),
        holder=holder,
        holder_id=holder_id,
        own=table.id.type_in_sql,
        k=sql.Literal(search.k),
    )


def run_all(
    c: PostgresConnection, statement: sql.Composed, queries: Float32, weights: Float64 | None, among: list[Any] | None
) -> list[list[tuple[Any, ...]]]:
    """Return the rows (id, distance, ...) that the statement gives for each query; many go to the server at once."""
    given: list[dict[str, Any]] = [{"query": as_vector_text(one), "among": among} for one in queries]
    if weights is not None:
        for one, weight in zip(given, weights.tolist(), strict=True):
            one["weight"] = weight
    found: list[list[tuple[Any, ...]]] = []
    for start, stop in spans(len(given), QUERIES_AT_ONCE if among is None else QUERIES_AMONG_AT_ONCE):
        with c.cursor(binary=True) as cursor:
            cursor.executemany(statement, given[start:stop], returning=True)
            found.append(cursor.fetchall())
            while cursor.nextset():
                found.append(cursor.fetchall())
    return found


def as_found(rows: Sequence[Sequence[tuple[Any, ...]]], k: int, table: PostgresTable, metric: Metric) -> Nearest:
    """Return rows of (id, distance) in order, with the values of a metric. A row without a vector has no distance."""
    nothing: Any = -1 if table.id.is_integer else ""
    values = np.full((len(rows), k), np.inf if metric == "l2" else -np.inf, np.float32)
    ids: list[Any] = []
    for place, found in enumerate(rows):
        held = sorted(((distance, one) for one, distance, *_ in found if distance is not None), key=_distance_of)
        values[place, : len(held)] = similarities(np.array([distance for distance, _ in held], np.float64), metric)
        ids += [one for _, one in held] + [nothing] * (k - len(held))
    return Nearest(values, as_ids(ids, table.id).reshape(len(rows), k))


def _distance_of(pair: tuple[float, Any]) -> tuple[bool, float]:
    """Return the key of the order: NaN, the cosine of a vector of zeros, comes last."""
    return np.isnan(pair[0]), pair[0]
