"""Tables of Postgres as its catalogue describes them: columns, the index of a vector, and what unhub noted there.

unhub's notes are comments on tables, columns and views, behind `unhub: `, so that they go where the table goes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, cast

import psycopg
from psycopg import sql

from unhub.stores.postgres_server import Failed, PostgresConnection
from unhub.stores.store import Metric

NOTE = "unhub: "
RECORDS = "unhub_records"
FIELDS = "unhub_fields_"  # and the name of a table: the table beside it with the fields that unhub set
MOST_NAME_BYTES = 63  # Postgres would cut a longer name
ID, VECTOR, PAYLOAD = "id", "embedding", "payload"  # the columns of a table that is made like no other
VectorType: TypeAlias = Literal["vector", "halfvec"]
VECTOR_TYPES: tuple[VectorType, ...] = ("vector", "halfvec")
OPERATORS: Mapping[Metric, str] = {"cosine": "<=>", "dot": "<#>", "l2": "<->"}
CLASSES: Mapping[Metric, str] = {"cosine": "cosine", "dot": "ip", "l2": "l2"}
MOST_INDEXED: Mapping[VectorType, int] = {"vector": 2000, "halfvec": 4000}
INTEGERS = ("int2", "int4", "int8")
# Types that JSON brings to Python and back as they are; all others, such as numeric or interval, travel as texts.
JSON_TYPES = (*INTEGERS, "bool", "float4", "float8", "text", "varchar", "bpchar", "json", "jsonb", "uuid", "date")
PLAIN_TYPES = {*JSON_TYPES, *(f"_{name}" for name in JSON_TYPES), "timestamp", "timestamptz"}


def named(*names: str) -> sql.Identifier:
    """Return a name in SQL. `run` takes a % for the beginning of a placeholder, so it is doubled, as in `literal`."""
    return sql.Identifier(*(one.replace("%", "%%") for one in names))


def literal(text: str) -> sql.Literal:
    """Return a text in SQL."""
    return sql.Literal(text.replace("%", "%%"))


def run(
    c: PostgresConnection, statement: sql.Composable, parameters: Sequence[object] | Mapping[str, object] = ()
) -> psycopg.Cursor[tuple[Any, ...]]:
    """Run a statement that was made of `named` and `literal`."""
    return c.execute(sql.Composed([statement]), parameters)


@dataclass(frozen=True)
class TableName:
    """The name of a table or view. schema: "" for the first of the search path that has it."""

    schema: str
    name: str

    @property
    def in_sql(self) -> sql.Identifier:
        """The name in SQL."""
        return named(self.schema, self.name) if self.schema else named(self.name)

    def quoted(self, c: PostgresConnection) -> str:
        """Return the name as to_regclass reads it."""
        return sql.Identifier(*filter(None, (self.schema, self.name))).as_string(c)


@dataclass(frozen=True)
class VectorExtension:
    """Where pgvector's types and operators are."""

    schema: str
    version: tuple[int, ...]

    @property
    def iterates(self) -> bool:
        """Whether an index goes on until a filter has let enough rows pass."""
        return self.version >= (0, 8)

    def named(self, name: str) -> sql.Identifier:
        """Return a type, function or operator class."""
        return named(self.schema, name)

    def operator(self, metric: Metric) -> sql.Composed:
        """Return the operator whose ascending order is that of an index."""
        return sql.SQL("OPERATOR({}." + OPERATORS[metric] + ")").format(named(self.schema))


@dataclass(frozen=True)
class IndexPlan:
    """How an index is built. half: of the vectors rounded to halfvec, in a table of vector."""

    method: Literal["hnsw", "ivfflat"]
    half: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class VectorIndex:
    """An index that is there. metric: None for one that unhub does not search by, such as l1."""

    name: str
    plan: IndexPlan
    metric: Metric | None
    partial: bool


@dataclass(frozen=True)
class VectorNote:
    """What unhub notes of a vector column that it made: the metric, and the index that `finish` builds."""

    metric: Metric
    index: IndexPlan | None

    def text(self) -> str:
        """Return it as a comment."""
        return NOTE + json.dumps(asdict(self))

    @staticmethod
    def read(comment: str | None) -> VectorNote | None:
        """Return the note in a comment, None if it is not unhub's."""
        if not comment or not comment.startswith(NOTE + "{"):
            return None
        held = json.loads(comment.removeprefix(NOTE))
        return VectorNote(held["metric"], IndexPlan(**held["index"]) if held["index"] else None)


@dataclass(frozen=True)
class PostgresColumn:
    """A column. typed: its type in SQL. modifier: the dimensions of a vector, -1 if its type names none."""

    name: str
    number: int
    type: str
    typed: str
    modifier: int
    generated: bool
    comment: str | None

    @property
    def in_sql(self) -> sql.Identifier:
        """The column in SQL."""
        return named(self.name)

    @property
    def type_in_sql(self) -> sql.SQL:
        """Its type in SQL."""
        return sql.SQL(self.typed.replace("%", "%%"))

    @property
    def is_integer(self) -> bool:
        """Whether ids in it are numbers."""
        return self.type in INTEGERS

    @property
    def is_payload(self) -> bool:
        """Whether it holds the payload of a table that is made like no other, which is read and written flat."""
        return self.comment == NOTE + PAYLOAD


@dataclass(frozen=True)
class FieldsTable:
    """The table with the fields that unhub set of the items of another: their `id`, and a number for each field."""

    place: TableName
    names: tuple[str, ...]

    @property
    def in_sql(self) -> sql.Identifier:
        """The table in SQL."""
        return self.place.in_sql


@dataclass(frozen=True)
class PostgresTable:
    """A table or view with a column of vectors. beside: None if no field was set."""

    place: TableName
    view: bool
    id: PostgresColumn
    vector: PostgresColumn
    others: tuple[PostgresColumn, ...]
    extension: VectorExtension
    metric: Metric
    index: VectorIndex | None
    note: VectorNote | None
    beside: FieldsTable | None

    @property
    def in_sql(self) -> sql.Identifier:
        """The table in SQL."""
        return self.place.in_sql

    @property
    def type(self) -> VectorType:
        """The type of its vectors."""
        return cast("VectorType", self.vector.type)

    @property
    def payload(self) -> PostgresColumn | None:
        """The column whose JSON is the payload, None where the payload is the other columns alone."""
        return next((one for one in self.others if one.is_payload), None)

    @property
    def fields(self) -> list[PostgresColumn]:
        """The other columns that are payload by themselves."""
        return [one for one in self.others if not one.is_payload]

    def has_field(self, name: str) -> bool:
        """Return whether a column of this name is payload."""
        return any(one.name == name for one in self.fields)

    def holder(self, field: str) -> tuple[sql.Identifier, sql.Identifier] | None:
        """Return the table that holds a field, and its column of ids: the one beside, or this, as of a live view."""
        if self.beside and field in self.beside.names:
            return self.beside.in_sql, named(ID)
        return (self.in_sql, self.id.in_sql) if self.has_field(field) else None

    def plan(self) -> IndexPlan | None:
        """Return how its index is or will be built."""
        if self.index is not None:
            return self.index.plan
        return self.note.index if self.note else None


@dataclass(frozen=True)
class WantedTable:
    """What an address names: a table, and where it says so its columns and metric ("" if it does not)."""

    place: TableName
    id: str
    vector: str
    metric: str


def relation_kind(c: PostgresConnection, place: TableName) -> str:
    """Return the letter of Postgres for a kind of relation ("r" table, "v" view), "" if there is none."""
    found = c.execute("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", [place.quoted(c)]).fetchone()
    return str(found[0]) if found else ""


def schema_of(c: PostgresConnection, place: TableName) -> str:
    """Return the schema of a table that is there, else the one where it would be made, "" if there is none."""
    if place.schema:
        return place.schema
    query = """
        SELECT coalesce((SELECT relnamespace::regnamespace FROM pg_class WHERE oid = to_regclass(%s)),
                        current_schema()::regnamespace)::oid"""
    found = c.execute(f"SELECT nspname::text FROM pg_namespace WHERE oid = ({query})", [place.quoted(c)]).fetchone()
    return str(found[0]) if found else ""


def read_extension(c: PostgresConnection, failed: Failed) -> VectorExtension:
    """Return where pgvector is; raise if the database does not have it."""
    found = c.execute(
        "SELECT nspname::text, extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace "
        "WHERE extname = 'vector'"
    ).fetchone()
    if found is None:
        raise failed("this database does not have pgvector", "run CREATE EXTENSION vector in it")
    numbers = [int(one) for one in str(found[1]).split(".") if one.isdigit()]
    return VectorExtension(str(found[0]), tuple(numbers))


def read_table(c: PostgresConnection, wanted: WantedTable, failed: Failed) -> PostgresTable:
    """Return a table or view with its columns and index; raise if it, or a column that was named, is not there."""
    found = c.execute(
        "SELECT c.oid, nspname::text, relkind IN ('v', 'm') "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE c.oid = to_regclass(%s) AND relkind IN ('r', 'p', 'v', 'm', 'f')",
        [wanted.place.quoted(c)],
    ).fetchone()
    if found is None:
        where = f" in the schema {wanted.place.schema!r}" if wanted.place.schema else ""
        raise failed(
            f"there is no table {wanted.place.name!r}{where}", "write it as #table.column or #schema.table.column"
        )
    oid, schema, view = int(found[0]), str(found[1]), bool(found[2])
    extension = read_extension(c, failed)
    columns = _columns(c, oid)
    vector = _vector_column(columns, wanted, failed)
    id_column = _id_column(c, oid, columns, wanted, failed)
    note = VectorNote.read(vector.comment)
    metric, index = _choose_index(_indexes(c, oid, vector), note, wanted.metric, failed)
    others = tuple(one for one in columns if one not in (vector, id_column))
    place = TableName(schema, wanted.place.name)
    beside = _fields(c, place, id_column)
    return PostgresTable(place, view, id_column, vector, others, extension, metric, index, note, beside)


def fields_place(place: TableName) -> TableName:
    """Return the name of the table beside another; of a long name, a hash."""
    name = FIELDS + place.name
    if len(name.encode()) > MOST_NAME_BYTES:
        name = FIELDS + hashlib.blake2b(place.name.encode(), digest_size=16).hexdigest()
    return TableName(place.schema, name)


def fields_note(place: TableName) -> str:
    """Return the comment by which the table beside another is known."""
    return f"{NOTE}fields of {place.name}"


def fields_oid(c: PostgresConnection, place: TableName) -> int | None:
    """Return the table beside another, None if there is none."""
    query = "SELECT oid FROM pg_class WHERE oid = to_regclass(%s) AND obj_description(oid, 'pg_class') = %s"
    found = c.execute(query, [fields_place(place).quoted(c), fields_note(place)]).fetchone()
    return int(found[0]) if found else None


def _fields(c: PostgresConnection, place: TableName, id_column: PostgresColumn) -> FieldsTable | None:
    """Return the table beside another. One with ids of another type was left by a table that is no more."""
    oid = fields_oid(c, place)
    if oid is None:
        return None
    ids, *fields = _columns(c, oid)
    alike = ids.type == id_column.type or (ids.is_integer and id_column.is_integer)
    return FieldsTable(fields_place(place), tuple(one.name for one in fields)) if alike else None


def _columns(c: PostgresConnection, oid: int) -> list[PostgresColumn]:
    rows = c.execute(
        "SELECT attname::text, attnum, typname::text, format_type(atttypid, atttypmod), atttypmod, attgenerated <> '', "
        "col_description(attrelid, attnum) FROM pg_attribute JOIN pg_type t ON t.oid = atttypid "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [oid],
    ).fetchall()
    return [PostgresColumn(*row) for row in rows]


def _vector_column(columns: Sequence[PostgresColumn], wanted: WantedTable, failed: Failed) -> PostgresColumn:
    vectors = [one for one in columns if one.type in VECTOR_TYPES]
    names = ", ".join(one.name for one in vectors) or "there is none"
    if wanted.vector:
        named = _named(columns, wanted.vector, f"its columns of vectors: {names}", failed)
        if named not in vectors:
            raise failed(f"the column {named.name!r} is of the type {named.type}", "use one of vector or halfvec")
        return named
    if len(vectors) != 1:
        raise failed(
            f"{wanted.place.name!r} has {len(vectors)} columns of vectors", f"name one as #table.column ({names})"
        )
    return vectors[0]


def _id_column(
    c: PostgresConnection, oid: int, columns: Sequence[PostgresColumn], wanted: WantedTable, failed: Failed
) -> PostgresColumn:
    """Return the column that the address names, else the one that is the primary key, else `id`."""
    remedy = "name the column of ids as ?id=column"
    if wanted.id:
        return _named(columns, wanted.id, remedy, failed)
    keys = c.execute("SELECT indkey::int2[] FROM pg_index WHERE indrelid = %s AND indisprimary", [oid]).fetchone()
    if keys and len(keys[0]) == 1:
        return next(one for one in columns if one.number == keys[0][0])
    noted = [one for one in columns if one.comment == NOTE + ID]
    return noted[0] if noted else _named(columns, ID, remedy, failed)


def _named(columns: Sequence[PostgresColumn], name: str, remedy: str, failed: Failed) -> PostgresColumn:
    for one in columns:
        if one.name == name:
            return one
    raise failed(f"there is no column {name!r}", remedy)


def _indexes(c: PostgresConnection, oid: int, vector: PostgresColumn) -> list[VectorIndex]:
    """Return the indexes of the column itself, and of it as halfvec."""
    rows: list[tuple[Any, ...]] = c.execute(
        """
        SELECT i.relname::text, am.amname::text, opcname::text, coalesce(i.reloptions, '{}'), indpred IS NOT NULL,
               indkey[0] = 0
        FROM pg_index x JOIN pg_class i ON i.oid = indexrelid JOIN pg_am am ON am.oid = i.relam
        JOIN pg_opclass o ON o.oid = indclass[0]
        WHERE indrelid = %(table)s AND indisvalid AND am.amname IN ('hnsw', 'ivfflat') AND (indkey[0] = %(column)s
          OR indkey[0] = 0 AND opcname LIKE 'halfvec%%' AND EXISTS (
            SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = indexrelid
            AND refobjid = %(table)s AND refobjsubid = %(column)s))
        ORDER BY indpred IS NOT NULL, i.relname
        """,
        {"table": oid, "column": vector.number},
    ).fetchall()
    metrics: dict[str, Metric] = {f"{kind}_{CLASSES[one]}_ops": one for kind in VECTOR_TYPES for one in CLASSES}
    return [
        VectorIndex(
            name, IndexPlan(method, half, dict(_option(one) for one in options)), metrics.get(operators), partial
        )
        for name, method, operators, options, partial, half in rows
    ]


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _choose_index(
    indexes: Sequence[VectorIndex], note: VectorNote | None, asked: str, failed: Failed
) -> tuple[Metric, VectorIndex | None]:
    """Return the metric that was asked for, else of the index, else as noted, else cosine; and the index for it."""
    metrics = sorted({one.metric or "another" for one in indexes})
    remedy = "add ?metric=cosine, dot or l2 to the address"
    metric: Metric
    if asked:
        metric = cast("Metric", asked)
    elif note and (note.metric in metrics or not metrics):
        metric = note.metric
    elif len(metrics) > 1:
        raise failed(f"there are indexes for several metrics ({', '.join(metrics)})", remedy)
    elif metrics == ["another"]:
        raise failed("the index is for a metric that unhub does not have", remedy)
    else:
        metric = cast("Metric", metrics[0]) if metrics else "cosine"
    # A partial index answers only those who filter as it does.
    return metric, next((one for one in indexes if one.metric == metric and not one.partial), None)
