"""Postgres with pgvector as a store: a table with a column of vectors, published by a view.

Everything that changes something is one transaction: after a kill it is done or it is not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import ClassVar, final

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from unhub.arrays import Float32, Float64, Ids
from unhub.compute.workers import Progress
from unhub.errors import ArgumentError, check_whole
from unhub.stores.address import Address
from unhub.stores.postgres_fields import drop_field, set_field
from unhub.stores.postgres_making import (
    build_index,
    is_guarded,
    is_own_view,
    make_fresh,
    make_like,
    make_view,
    most_indexed,
    vector_type,
)
from unhub.stores.postgres_rows import (
    as_values,
    id_read,
    id_type,
    payload_read,
    read_batch,
    with_fields,
    write_batch,
)
from unhub.stores.postgres_search import Search, as_condition, as_found, lessened, nearest, run_all, set_effort
from unhub.stores.postgres_server import PostgresConnection, PostgresServer
from unhub.stores.postgres_tables import (
    ID,
    MOST_NAME_BYTES,
    RECORDS,
    VECTOR,
    IndexPlan,
    PostgresTable,
    TableName,
    VectorNote,
    WantedTable,
    fields_oid,
    fields_place,
    named,
    read_extension,
    read_table,
    relation_kind,
    run,
    schema_of,
)
from unhub.stores.store import (
    BATCH_ROWS,
    Codes,
    Correcting,
    Description,
    IndexKind,
    Metric,
    Nearest,
    Record,
    Store,
    StoredItems,
    Where,
)

WATCH_SECONDS = 0.5
KINDS: dict[str, IndexKind] = {"hnsw": "hnsw", "ivfflat": "ivf"}
RECORDS_LOCK = 0x756E687562  # one number for all who make the table of records: "unhub"


@final
class PostgresStore(Store):
    """A table of Postgres with a column of vectors, in a schema that holds its siblings, views and records."""

    engine: ClassVar[str] = "postgres"
    subtracts: ClassVar[bool] = True

    def __init__(self, address: Address, server: PostgresServer) -> None:
        schema, _, name = address.named().rpartition(".")
        super().__init__(address, name)
        self._server = server
        self._wanted = WantedTable(
            TableName(schema, name), address.option("id"), address.column, address.option("metric")
        )
        self._known: PostgresTable | None = None  # what searches need to know of the table

    # Reading

    def exists(self) -> bool:
        """Return whether there is a table or view of this name."""
        with self._transaction() as c:
            return relation_kind(c, self._wanted.place) != ""

    def describe(self) -> Description:
        """Return what it is; items without a vector are not counted."""
        with self._transaction() as c:
            table = self._table(c)
            count, rows = run(
                c, sql.SQL("SELECT count({}), count(*) FROM {}").format(table.vector.in_sql, table.in_sql)
            ).fetchone() or (0, 0)
            dimensions = self._dimensions(c, table)
            settings = {"type": table.vector.typed, "id": f"{table.id.name} ({table.id.typed})"}
            settings["pgvector"] = ".".join(map(str, table.extension.version))
            if rows > count:
                settings["without a vector"] = f"{rows - count:,} rows, which are not items"
            if is_guarded(c, table.place):
                settings["row level security"] = "on: a table made beside it has it too, and no policies yet"
        settings |= _index_settings(table, dimensions)
        half = table.index is not None and table.index.plan.half
        codes: Codes = "float16" if table.type == "halfvec" or half else "none"
        index: IndexKind = KINDS[table.index.plan.method] if table.index else "other" if table.view else "flat"
        rescored = table.type != "halfvec"
        return Description(self.engine, self.name, table.metric, dimensions, count, index, codes, rescored, settings)

    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item that has a vector, in the order of the ids, as they all were when this began."""
        check_whole(rows, "rows", 1)
        # A connection of its own: who reads may write in between.
        with closing(self._server.connect(self.failed)) as c, self._server.telling(self.failed), c.transaction():
            table = self._table(c)
            dimensions = self._dimensions(c, table)
            read = [id_read(table.id), table.vector.in_sql, *([payload_read(table)] if payload else [])]
            statement = sql.SQL("SELECT {} FROM {} WHERE {} IS NOT NULL AND {id} IS NOT NULL ORDER BY {id}").format(
                sql.SQL(", ").join(read),
                with_fields(table) if payload else table.in_sql,
                table.vector.in_sql,
                id=table.id.in_sql,
            )
            with c.cursor("unhub_rows", binary=True) as cursor:
                cursor.execute(statement, ())
                while held := cursor.fetchmany(rows):
                    yield read_batch(held, table, dimensions, self.failed)

    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist, in the order of the ids."""
        with self._transaction() as c:
            table = self._searched(c)
            asked = as_values(ids, table.id, self.failed)
            statement = sql.SQL(
                "SELECT {read}, {vector} FROM unnest(%s::{given}[]) WITH ORDINALITY AS asked(id, place) "
                "JOIN {table} ON {table}.{id} = asked.id::{own} WHERE {vector} IS NOT NULL ORDER BY place"
            ).format(
                read=sql.SQL("{}.{}::{}").format(table.in_sql, table.id.in_sql, id_type(table.id)),
                vector=sql.SQL("{}.{}").format(table.in_sql, table.vector.in_sql),
                given=id_type(table.id),
                table=table.in_sql,
                id=table.id.in_sql,
                own=table.id.type_in_sql,
            )
            held = c.cursor(binary=True).execute(statement, [asked]).fetchall()
            return read_batch(held, table, self._dimensions(c, table), self.failed)

    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items of each query by the index of the table.

        where: a condition in SQL, or (condition, parameters). effort: hnsw.ef_search, of at most 1,000, or
        ivfflat.probes.
        """
        check_whole(k, "k", 1)
        if effort is not None:
            check_whole(effort, "effort", 1)
        with self._transaction() as c:
            table, dimensions = self._asked(c, queries)
            chosen = None if among is None else as_values(among, table.id, self.failed)
            search = Search(k, as_condition(c, where), chosen, effort)
            set_effort(c, table, search)
            return as_found(
                run_all(c, nearest(table, dimensions, search), queries, None, chosen), k, table, table.metric
            )

    def search_less(
        self,
        queries: Float32,
        weights: Float64,
        k: int,
        correcting: Correcting,
        where: Where = None,
        among: Ids | None = None,
    ) -> Nearest:
        """Return the k best items by s - weight * field among the nearest candidates, computed by Postgres."""
        check_whole(k, "k", 1)
        check_whole(correcting.candidates, "candidates", k)
        with self._transaction() as c:
            table, dimensions = self._asked(c, queries)
            if table.metric == "l2":
                raise self.failed("the metric is l2, and similarities are corrected", "add ?metric=cosine or dot")
            if table.holder(correcting.field) is None:
                table = self._table(c)  # it may have been set since
            if table.holder(correcting.field) is None:
                raise self.failed(f"there is no field {correcting.field!r}", "set it first")
            chosen = None if among is None else as_values(among, table.id, self.failed)
            search = Search(k, as_condition(c, where), chosen)
            set_effort(c, table, search._replace(k=correcting.candidates))
            rows = run_all(c, lessened(table, dimensions, search, correcting), queries, weights, chosen)
            return as_found(rows, k, table, "dot")  # of which the distance is the negative, too

    # Writing

    def names(self) -> list[str]:
        """Return the tables of the schema that have a column of vectors."""
        with self._transaction() as c:
            found = c.execute(
                """
                SELECT DISTINCT relname::text FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid
                JOIN pg_type t ON t.oid = atttypid
                WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND relkind IN ('r', 'p')
                  AND NOT attisdropped AND typname IN ('vector', 'halfvec')
                ORDER BY 1""",
                [self._schema(c)],
            ).fetchall()
        return [str(name) for (name,) in found]

    def sibling(self, name: str) -> PostgresStore:
        """Return another table of the schema, with the same names of columns."""
        with self._transaction() as c:
            schema = self._schema(c)
            ids, vector = self._wanted.id, self._wanted.vector
            if relation_kind(c, self._wanted.place):
                table = self._table(c)
                ids, vector = table.id.name, table.vector.name
        fragment = f"{schema}.{name}" + (f".{vector}" if vector else "")
        shown = f"{self.address.shown.partition('#')[0]}#{fragment}"
        other = PostgresStore(
            replace(self.address, collection=f"{schema}.{name}", column=vector, shown=shown), self._server
        )
        other.name = name
        other._wanted = WantedTable(TableName(schema, name), ids, vector, self._wanted.metric)
        return other

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Create it empty: in the database of `like` with its columns and their indexes, else with JSON as payload."""
        check_whole(dimensions, "dimensions", 1)
        other = like if isinstance(like, PostgresStore) else None
        about = None
        if other is not None:
            with other._transaction() as c:
                about = other._table(c)
        with self._transaction() as c:
            name = self._new_name(c, self.name)
            extension = read_extension(c, self.failed)
            note = VectorNote(metric, about.plan() if about else IndexPlan("hnsw"))
            kind = vector_type(extension, about.type if about else "vector", dimensions)
            if about and other and self._server.same_place(other._server):
                make_like(c, name, about, kind, note)
                self._wanted = replace(self._wanted, id=about.id.name, vector=about.vector.name)
            else:
                columns = self._wanted.id or ID, self._wanted.vector or VECTOR
                make_fresh(c, name, columns, kind, note)

    def write(self, batch: StoredItems) -> None:
        """Add items, or replace those with the same ids. Without a payload, that of items that are there stays."""
        if len(batch.ids) == 0:
            return
        with self._transaction() as c:
            table = self._table(c)
            self._check_dimensions(self._dimensions(c, table), batch.rows)
            if batch.ids.dtype.kind not in "iu" and table.id.is_integer and table.note and self._is_empty(c, table):
                # A new table takes the kind of the first ids that are written.
                run(c, sql.SQL("ALTER TABLE {} ALTER {} TYPE text").format(table.in_sql, table.id.in_sql))
                table = self._table(c)
            write_batch(c, table, batch, self.failed)

    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids; ids that it does not have are ignored."""
        with self._transaction() as c:
            table = self._table(c)
            gone = [as_values(ids, table.id, self.failed)]
            delete = sql.SQL("DELETE FROM {} WHERE {} = ANY(%s::{}[]::{}[])")
            types = id_type(table.id), table.id.type_in_sql
            run(c, delete.format(table.in_sql, table.id.in_sql, *types), gone)
            if table.beside:
                run(c, delete.format(table.beside.in_sql, named(ID), *types), gone)

    def finish(self, progress: Progress | None = None) -> None:
        """Build the index that was planned when the table was made, if it can have one and has none."""
        with self._transaction() as c:
            table = self._table(c)
            dimensions = self._dimensions(c, table)
            plan = table.note.index if table.note and table.index is None else None
            if plan is not None and dimensions <= most_indexed(plan, table.type):
                with self._watched(c.info.backend_pid, progress):
                    build_index(c, table, plan, dimensions)
            run(c, sql.SQL("ANALYZE {}").format(table.in_sql))
        self._known = None
        if progress is not None:
            progress(100, 100)

    def drop(self) -> None:
        """Drop the table, if it exists; one that a view shows stays, with an error."""
        with self._transaction() as c:
            if relation_kind(c, self._wanted.place) not in ("", "r", "p"):
                raise self.failed("is no table", "drop a view yourself")
            place = TableName(self._schema(c), self.name)
            beside = [fields_place(place).in_sql] if fields_oid(c, place) is not None else []
            run(c, sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join([place.in_sql, *beside])))

    def set_field(self, name: str, ids: Ids, values: Float64) -> None:
        """Set one number of these items, in a table beside this one; ids that it does not have are ignored."""
        with self._transaction() as c:
            table = self._table(c)
            self._check_field(table, name)
            set_field(c, table, name, as_values(ids, table.id, self.failed), values)

    def drop_field(self, name: str) -> None:
        """Drop a field that was set; unhub's views of the table are made again without it."""
        with self._transaction() as c:
            drop_field(c, self._table(c), name)

    # Records

    def records(self) -> dict[str, Record]:
        """Return all records of the schema."""
        with self._transaction() as c:
            name = self._records(c)
            if not relation_kind(c, name):
                return {}
            return dict(run(c, sql.SQL("SELECT key, value FROM {}").format(name.in_sql)).fetchall())

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record in the table `unhub_records` of the schema; None removes it."""
        with self._transaction() as c:
            self._put(c, key, record)

    def publish(self, live: str, collection: str | None, key: str, record: Record) -> None:
        """Make the view `live` show a table and keep the record, in one transaction. None: the view stays as it is."""
        with self._transaction() as c:
            if collection is not None:
                name = TableName(self._schema(c), live)
                if not is_own_view(c, name):
                    name = self._new_name(c, live)
                wanted = replace(self._wanted, place=TableName(self._schema(c), collection))
                make_view(c, name, read_table(c, wanted, self.failed))
            self._put(c, key, record)

    def taken(self, live: str) -> bool:
        """Return whether a live name is that of a table, or of a view that is not unhub's."""
        with self._transaction() as c:
            name = TableName(self._schema(c), live)
            return relation_kind(c, name) != "" and not is_own_view(c, name)

    # Inside

    @contextmanager
    def _transaction(self) -> Iterator[PostgresConnection]:
        """Give the connection for one transaction; errors of the server are told in plain words."""
        try:
            with self._server.lock, self._server.telling(self.failed):
                connection = self._server.connection(self.failed)
                with connection.transaction():
                    yield connection
        except ArgumentError:
            self._known = None
            raise

    def _table(self, c: PostgresConnection) -> PostgresTable:
        self._known = read_table(c, self._wanted, self.failed)
        return self._known

    def _searched(self, c: PostgresConnection) -> PostgresTable:
        """Return what is known of the table, which a search need not read each time."""
        return self._known if self._known and not self._known.view else self._table(c)

    def _asked(self, c: PostgresConnection, queries: Float32) -> tuple[PostgresTable, int]:
        """Return the table and its dimensions, which the queries must have."""
        table = self._searched(c)
        dimensions = self._dimensions(c, table)
        self._check_dimensions(dimensions, queries)
        return table, dimensions

    def _dimensions(self, c: PostgresConnection, table: PostgresTable) -> int:
        """Return the dimensions of the column's type, else those of the first vector, 0 if there is none."""
        if table.vector.modifier > 0:
            return table.vector.modifier
        held = run(
            c,
            sql.SQL("SELECT {}({v}) FROM {} WHERE {v} IS NOT NULL LIMIT 1").format(
                table.extension.named("vector_dims"), table.in_sql, v=table.vector.in_sql
            ),
        ).fetchone()
        return int(held[0]) if held else 0

    def _check_dimensions(self, dimensions: int, rows: Float32) -> None:
        if rows.ndim != 2 or (dimensions and rows.shape[1] != dimensions):
            problem = f"has vectors of {dimensions} dimensions, got an array of {rows.shape}"
            raise self.failed(problem, "embed with the same model, or use another column")

    def _is_empty(self, c: PostgresConnection, table: PostgresTable) -> bool:
        return run(c, sql.SQL("SELECT FROM {} LIMIT 1").format(table.in_sql)).fetchone() is None

    def _schema(self, c: PostgresConnection) -> str:
        schema = schema_of(c, self._wanted.place)
        if not schema:
            raise self.failed("no schema of the search path exists", "name one, as #schema.table.column")
        return schema

    def _new_name(self, c: PostgresConnection, name: str) -> TableName:
        """Return the name of something that will be made in the schema; raise if it cannot be."""
        made = TableName(self._schema(c), name)
        if not name or len(name.encode()) > MOST_NAME_BYTES:
            raise self.failed(f"the name {name!r} is not of 1 to {MOST_NAME_BYTES} bytes", "choose another")
        if relation_kind(c, made):
            raise self.failed(f"there is already a table or view {name!r}", "drop it first, or choose another name")
        return made

    def _check_field(self, table: PostgresTable, name: str) -> None:
        if not name or len(name.encode()) > MOST_NAME_BYTES:
            raise self.failed(f"{name!r} cannot be the name of a field", f"use one of 1 to {MOST_NAME_BYTES} bytes")
        if name in (ID, table.id.name, table.vector.name, *(one.name for one in table.others)):
            raise self.failed(f"there is already a column {name!r}", "use another name for the field")

    def _records(self, c: PostgresConnection) -> TableName:
        return TableName(self._schema(c), RECORDS)

    def _put(self, c: PostgresConnection, key: str, record: Record | None) -> None:
        name = self._records(c)
        if record is None:
            if relation_kind(c, name):
                run(c, sql.SQL("DELETE FROM {} WHERE key = %s").format(name.in_sql), [key])
            return
        c.execute("SELECT pg_advisory_xact_lock(%s)", [RECORDS_LOCK])  # two at once could both make the table
        if not relation_kind(c, name):
            run(c, sql.SQL("CREATE TABLE {} (key text PRIMARY KEY, value jsonb NOT NULL)").format(name.in_sql))
        insert = "INSERT INTO {} VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
        run(c, sql.SQL(insert).format(name.in_sql), [key, Jsonb(record)])

    @contextmanager
    def _watched(self, pid: int, progress: Progress | None) -> Iterator[None]:
        """Report how far the server is with an index, from a connection of its own."""
        if progress is None:
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(pid, progress, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, pid: int, progress: Progress, done: threading.Event) -> None:
        query = "SELECT 100 * blocks_done / nullif(blocks_total, 0) FROM pg_stat_progress_create_index WHERE pid = %s"
        shown = 0
        try:
            with closing(self._server.connect(self.failed)) as c:
                while not done.wait(WATCH_SECONDS):
                    found = c.execute(query, [pid]).fetchone()
                    shown = max(shown, int(found[0] or 0) if found else 0)
                    progress(min(shown, 99), 100)
        except (ArgumentError, psycopg.Error):
            return  # the index is built all the same


def _index_settings(table: PostgresTable, dimensions: int) -> dict[str, str]:
    """Return what is worth telling of the index, or why there is none."""
    if table.index is not None:
        plan = table.index.plan
        of = " of the vectors rounded to halfvec" if plan.half else ""
        return {"index": f"{plan.method} {table.index.name}{of}", **plan.options}
    plan_made = table.note.index if table.note else None
    if plan_made is not None and dimensions > (most := most_indexed(plan_made, table.type)):
        return {"index": f"none: {dimensions:,} dimensions are more than the {most:,} of an index on {table.type}"}
    return {"index": "none: every search compares all items"}
