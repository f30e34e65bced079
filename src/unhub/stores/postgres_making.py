"""Tables, indexes and views that unhub makes in Postgres."""

from __future__ import annotations

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
    VectorExtension,
    VectorNote,
    VectorType,
)

MOST_MEMORY_MB = 1024  # for building an index; the server's own setting if it is more


def make_fresh(
    c: PostgresConnection, name: sql.Identifier, columns: tuple[str, str], kind: sql.Composable, note: VectorNote
) -> None:
    """Make a table that is like no other: ids, vectors of this type, and one column of JSON for the payload."""
    id_name, vector = (sql.Identifier(one) for one in columns)
    c.execute(
        sql.SQL("CREATE TABLE {} ({} bigint PRIMARY KEY, {} {} NOT NULL, {} jsonb NOT NULL DEFAULT '{{}}')").format(
            name, id_name, vector, kind, sql.Identifier(PAYLOAD)
        )
    )
    comment_column(c, name, PAYLOAD, NOTE + PAYLOAD)
    comment_column(c, name, columns[1], note.text())


def make_like(
    c: PostgresConnection, name: sql.Identifier, like: PostgresTable, kind: sql.Composable, note: VectorNote
) -> None:
    """Make a table with the columns and indexes of another, but for its vectors, which have this type.

    Defaults that draw from a sequence are left out: the other table could not be dropped while they use it.
    """
    kept = "DEFAULTS INCLUDING INDEXES INCLUDING COMMENTS INCLUDING STORAGE INCLUDING COMPRESSION"
    c.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING " + kept + ")").format(name, like.sql))
    quoted = name.as_string(c)
    for (index,) in c.execute(OF_VECTOR, [quoted, like.vector.name]).fetchall():
        c.execute(sql.SQL("DROP INDEX {}").format(sql.SQL(index)))
    for (column,) in c.execute(OF_SEQUENCES, [quoted]).fetchall():
        c.execute(sql.SQL("ALTER TABLE {} ALTER {} DROP DEFAULT").format(name, sql.Identifier(column)))
    c.execute(sql.SQL("ALTER TABLE {} ALTER {v} DROP DEFAULT, ALTER {v} TYPE {}").format(name, kind, v=like.vector.sql))
    unique, primary = c.execute(KEYS, {"table": quoted, "id": like.id.name}).fetchone() or (False, False)
    if not unique:
        key = sql.SQL("UNIQUE" if primary else "PRIMARY KEY")
        c.execute(sql.SQL("ALTER TABLE {} ADD {} ({})").format(name, key, like.id.sql))
    if is_guarded(c, like.sql):  # without policies of its own, only its owner reads it
        c.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name))
    comment_column(c, name, like.vector.name, note.text())


OF_VECTOR = """
    SELECT objid::regclass::text FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    JOIN pg_index ON indexrelid = objid
    WHERE classid = 'pg_class'::regclass AND refobjid = to_regclass(%s) AND attname = %s"""
OF_SEQUENCES = """
    SELECT attname::text FROM pg_attrdef d JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    WHERE adrelid = to_regclass(%s) AND EXISTS (SELECT FROM pg_depend p JOIN pg_class s ON s.oid = p.refobjid
      WHERE p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid AND s.relkind = 'S')"""
KEYS = """
    SELECT bool_or(indisunique AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = attnum), bool_or(indisprimary)
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attname = %(id)s
    WHERE indrelid = to_regclass(%(table)s)"""


def is_guarded(c: PostgresConnection, name: sql.Identifier) -> bool:
    """Return whether a table has row level security."""
    query = "SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass(%s)"
    found = c.execute(query, [name.as_string(c)]).fetchone()
    return bool(found and found[0])


def comment_column(c: PostgresConnection, name: sql.Identifier, column: str, comment: str) -> None:
    """Note something of a column."""
    c.execute(sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(name, sql.Identifier(column), sql.Literal(comment)))


# Indexes


def most_indexed(plan: IndexPlan, kind: VectorType) -> int:
    """Return how many dimensions an index can have."""
    return MOST_INDEXED["halfvec" if plan.half else kind]


def build_index(c: PostgresConnection, table: PostgresTable, plan: IndexPlan, dimensions: int) -> None:
    """Build an index of what a table holds, with memory for all of it where that is not too much."""
    megabytes = f"least({MOST_MEMORY_MB}, 2 * pg_table_size(to_regclass(%s)) / 1048576 + 1)"
    larger = f"greatest({megabytes}, pg_size_bytes(current_setting('maintenance_work_mem')) / 1048576)"
    c.execute(f"SELECT set_config('maintenance_work_mem', {larger} || 'MB', true)", [table.sql.as_string(c)])
    kind: VectorType = "halfvec" if plan.half else table.type
    options = [sql.SQL("{} = {}").format(sql.Identifier(n), sql.Literal(v)) for n, v in plan.options.items()]
    indexed: sql.Composable = table.vector.sql
    if plan.half:
        half = sql.SQL("({}::{}({}))")
        indexed = half.format(table.vector.sql, table.extension.named(kind), sql.Literal(dimensions))
    c.execute(
        sql.SQL("CREATE INDEX ON {} USING {} ({} {}) {}").format(
            table.sql,
            sql.Identifier(plan.method),
            indexed,
            table.extension.named(f"{kind}_{CLASSES[table.metric]}_ops"),
            sql.SQL("WITH ({})").format(sql.SQL(", ").join(options)) if options else sql.SQL(""),
        )
    )


def vector_type(extension: VectorExtension, kind: VectorType, dimensions: int) -> sql.Composed:
    """Return the type of vectors of so many dimensions."""
    return sql.SQL("{}({})").format(extension.named(kind), sql.Literal(dimensions))


# Views


def is_own_view(c: PostgresConnection, name: sql.Identifier) -> bool:
    """Return whether a name is that of a view that unhub made."""
    found = c.execute(
        "SELECT relkind = 'v' AND coalesce(obj_description(oid, 'pg_class'), '') LIKE %s FROM pg_class "
        "WHERE oid = to_regclass(%s)",
        [NOTE + "%", name.as_string(c)],
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
        [table.sql.as_string(c), sql.Identifier(table.schema).as_string(c), NOTE + "%"],
    ).fetchall()
    return [str(name) for (name,) in found]


def make_view(c: PostgresConnection, name: sql.Identifier, table: PostgresTable) -> None:
    """Make a view that shows a table, with rights and notes of its own.

    It is dropped before it is made, since a view cannot be replaced by one with vectors of another dimension.
    """
    grants = c.execute(GRANTS, [name.as_string(c)]).fetchall()
    c.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(name))
    columns = sql.SQL(", ").join(one.sql for one in (table.id, table.vector, *table.others))
    # Row level security is that of who asks, not of who made the view.
    guarded = sql.SQL("WITH (security_invoker = true)" if is_guarded(c, table.sql) else "")
    c.execute(sql.SQL("CREATE VIEW {} {} AS SELECT {} FROM {}").format(name, guarded, columns, table.sql))
    c.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(name, sql.Literal(NOTE + "shows " + table.name)))
    comment_column(c, name, table.id.name, NOTE + ID)
    comment_column(c, name, table.vector.name, VectorNote(table.metric, None).text())
    if table.payload:
        comment_column(c, name, table.payload.name, NOTE + PAYLOAD)
    for right, grantable, role in grants:
        to = sql.Identifier(role) if role is not None else sql.SQL("PUBLIC")
        more = sql.SQL("WITH GRANT OPTION" if grantable else "")
        c.execute(sql.SQL("GRANT {} ON {} TO {} {}").format(sql.SQL(right), name, to, more))


GRANTS = """
    SELECT privilege_type, is_grantable, CASE grantee WHEN 0 THEN NULL ELSE pg_get_userbyid(grantee)::text END
    FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass(%s) AND grantee <> relowner"""
