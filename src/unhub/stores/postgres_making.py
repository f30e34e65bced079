"""Tables, indexes and views that unhub makes in Postgres."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from psycopg import sql

from unhub.stores.postgres_server import PostgresConnection
from unhub.stores.postgres_tables import (
    CLASSES,
    ID,
    MOST_INDEXED,
    NOTE,
    PAYLOAD,
    IndexPlan,
    PostgresTable,
    TableName,
    VectorExtension,
    VectorNote,
    VectorType,
    literal,
    named,
    run,
)

MOST_MEMORY_MB = 1024  # for building an index; the server's own setting if it is more


def make_fresh(
    c: PostgresConnection, place: TableName, columns: tuple[str, str], kind: sql.Composable, note: VectorNote
) -> None:
    """Make a table that is like no other: ids, vectors of this type, and one column of JSON for the payload."""
    id_name, vector = (named(one) for one in columns)
    run(
        c,
        sql.SQL("CREATE TABLE {} ({} bigint PRIMARY KEY, {} {} NOT NULL, {} jsonb NOT NULL DEFAULT '{{}}')").format(
            place.in_sql, id_name, vector, kind, named(PAYLOAD)
        ),
    )
    comment_column(c, place, PAYLOAD, NOTE + PAYLOAD)
    comment_column(c, place, columns[1], note.text())


def make_like(
    c: PostgresConnection, place: TableName, like: PostgresTable, kind: sql.Composable, note: VectorNote
) -> None:
    """Make a table with the columns and indexes of another, but for its vectors, which have this type.

    Defaults that draw from a sequence are left out: the other table could not be dropped while they use it.
    """
    kept = "DEFAULTS INCLUDING INDEXES INCLUDING COMMENTS INCLUDING STORAGE INCLUDING COMPRESSION"
    run(c, sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING " + kept + ")").format(place.in_sql, like.in_sql))
    quoted = place.quoted(c)
    for (index,) in c.execute(OF_VECTOR, [quoted, like.vector.name]).fetchall():
        run(c, sql.SQL("DROP INDEX {}").format(sql.SQL(index.replace("%", "%%"))))
    for (column,) in c.execute(OF_SEQUENCES, [quoted]).fetchall():
        run(c, sql.SQL("ALTER TABLE {} ALTER {} DROP DEFAULT").format(place.in_sql, named(column)))
    run(
        c,
        sql.SQL("ALTER TABLE {} ALTER {v} DROP DEFAULT, ALTER {v} TYPE {}").format(
            place.in_sql, kind, v=like.vector.in_sql
        ),
    )
    unique, primary = keys(c, place, like.id.name)
    if not unique:
        key = sql.SQL("UNIQUE" if primary else "PRIMARY KEY")
        run(c, sql.SQL("ALTER TABLE {} ADD {} ({})").format(place.in_sql, key, like.id.in_sql))
    if is_guarded(c, like.place):  # without policies of its own, only its owner reads it
        run(c, sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(place.in_sql))
    comment_column(c, place, like.vector.name, note.text())


OF_VECTOR = """
    SELECT objid::regclass::text FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    JOIN pg_index ON indexrelid = objid
    WHERE classid = 'pg_class'::regclass AND refobjid = to_regclass(%s) AND attname = %s"""
OF_SEQUENCES = """
    SELECT attname::text FROM pg_attrdef d JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    WHERE adrelid = to_regclass(%s) AND EXISTS (SELECT FROM pg_depend p JOIN pg_class s ON s.oid = p.refobjid
      WHERE p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid AND s.relkind = 'S')"""
KEYS = """
    SELECT bool_or(indisunique AND indimmediate AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = attnum),
           bool_or(indisprimary)
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attname = %(id)s
    WHERE indrelid = to_regclass(%(table)s)"""


def keys(c: PostgresConnection, place: TableName, column: str) -> tuple[bool, bool]:
    """Return whether a column is unique, and whether the table has a primary key."""
    unique, primary = c.execute(KEYS, {"table": place.quoted(c), "id": column}).fetchone() or (False, False)
    return bool(unique), bool(primary)


def is_guarded(c: PostgresConnection, place: TableName) -> bool:
    """Return whether a table has row level security."""
    query = "SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass(%s)"
    found = c.execute(query, [place.quoted(c)]).fetchone()
    return bool(found and found[0])


def comment_column(c: PostgresConnection, place: TableName, column: str, comment: str) -> None:
    """Note something of a column."""
    run(c, sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(place.in_sql, named(column), literal(comment)))


# Indexes


def most_indexed(plan: IndexPlan, kind: VectorType) -> int:
    """Return how many dimensions an index can have."""
    return MOST_INDEXED["halfvec" if plan.half else kind]


def build_index(c: PostgresConnection, table: PostgresTable, plan: IndexPlan, dimensions: int) -> None:
    """Build an index of what a table holds, with memory for all of it where that is not too much."""
    megabytes = f"least({MOST_MEMORY_MB}, 2 * pg_table_size(to_regclass(%s)) / 1048576 + 1)"
    larger = f"greatest({megabytes}, pg_size_bytes(current_setting('maintenance_work_mem')) / 1048576)"
    c.execute(f"SELECT set_config('maintenance_work_mem', {larger} || 'MB', true)", [table.place.quoted(c)])
    kind: VectorType = "halfvec" if plan.half else table.type
    options = [sql.SQL("{} = {}").format(named(n), sql.Literal(v)) for n, v in plan.options.items()]
    indexed: sql.Composable = table.vector.in_sql
    if plan.half:
        half = sql.SQL("({}::{}({}))")
        indexed = half.format(table.vector.in_sql, table.extension.named(kind), sql.Literal(dimensions))
    run(
        c,
        sql.SQL("CREATE INDEX ON {} USING {} ({} {}) {}").format(
            table.in_sql,
            named(plan.method),
            indexed,
            table.extension.named(f"{kind}_{CLASSES[table.metric]}_ops"),
            sql.SQL("WITH ({})").format(sql.SQL(", ").join(options)) if options else sql.SQL(""),
        ),
    )


def vector_type(extension: VectorExtension, kind: VectorType, dimensions: int) -> sql.Composed:
    """Return the type of vectors of so many dimensions."""
    return sql.SQL("{}({})").format(extension.named(kind), sql.Literal(dimensions))


# Views


def is_own_view(c: PostgresConnection, place: TableName) -> bool:
    """Return whether a name is that of a view that unhub made."""
    found = c.execute(
        "SELECT relkind = 'v' AND coalesce(obj_description(oid, 'pg_class'), '') LIKE %s FROM pg_class "
        "WHERE oid = to_regclass(%s)",
        [NOTE + "%", place.quoted(c)],
    ).fetchone()
    return bool(found and found[0])


def own_views_of(c: PostgresConnection, table: PostgresTable) -> list[str]:
    """Return the views of unhub that show a table, in its schema."""
    found = c.execute(
        """
        SELECT DISTINCT v.relname::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        JOIN pg_class v ON v.oid = r.ev_class
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = to_regclass(%s) AND v.relkind = 'v'
          AND v.relnamespace = %s::regnamespace AND obj_description(v.oid, 'pg_class') LIKE %s""",
        [table.place.quoted(c), sql.Identifier(table.place.schema).as_string(c), NOTE + "%"],
    ).fetchall()
    return [str(name) for (name,) in found]


def make_view(c: PostgresConnection, place: TableName, table: PostgresTable) -> None:
    """Make a view that shows a table and its fields, with rights and notes of its own.

    It is dropped before it is made, since a view cannot be replaced by one with vectors of another dimension. Where
    nobody asks for a field, Postgres leaves out the join.
    """
    rights = grants(c, place)
    run(c, sql.SQL("DROP VIEW IF EXISTS {}").format(place.in_sql))
    shown = [sql.SQL("t.{}").format(one.in_sql) for one in (table.id, table.vector, *table.others)]
    source = sql.SQL("{} AS t").format(table.in_sql)
    if table.beside:
        join = sql.SQL("{} LEFT JOIN {} AS f ON f.{} = t.{}")
        source = join.format(source, table.beside.in_sql, named(ID), table.id.in_sql)
        shown += [sql.SQL("f.{}").format(named(one)) for one in table.beside.names if not table.has_field(one)]
    # Row level security is that of who asks, not of who made the view.
    guarded = sql.SQL("WITH (security_invoker = true)" if is_guarded(c, table.place) else "")
    columns = sql.SQL(", ").join(shown)
    run(c, sql.SQL("CREATE VIEW {} {} AS SELECT {} FROM {}").format(place.in_sql, guarded, columns, source))
    run(c, sql.SQL("COMMENT ON VIEW {} IS {}").format(place.in_sql, literal(NOTE + "shows " + table.place.name)))
    comment_column(c, place, table.id.name, NOTE + ID)
    comment_column(c, place, table.vector.name, VectorNote(table.metric, None).text())
    if table.payload:
        comment_column(c, place, table.payload.name, NOTE + PAYLOAD)
    grant(c, place, rights)


Grant: TypeAlias = tuple[str, bool, str | None]  # a right, whether it may be passed on, and whose it is: None, all


def grants(c: PostgresConnection, place: TableName) -> list[Grant]:
    """Return the rights that others than its owner have on a table or view."""
    return [(str(right), bool(more), role) for right, more, role in c.execute(GRANTS, [place.quoted(c)]).fetchall()]


def grant(c: PostgresConnection, place: TableName, rights: Iterable[Grant]) -> None:
    """Grant rights on a table or view."""
    for right, grantable, role in rights:
        to = named(role) if role is not None else sql.SQL("PUBLIC")
        more = sql.SQL("WITH GRANT OPTION" if grantable else "")
        run(c, sql.SQL("GRANT {} ON {} TO {} {}").format(sql.SQL(right), place.in_sql, to, more))


GRANTS = """
    SELECT privilege_type, is_grantable, CASE grantee WHEN 0 THEN NULL ELSE pg_get_userbyid(grantee)::text END
    FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass(%s) AND grantee <> relowner"""
