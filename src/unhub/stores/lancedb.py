"""LanceDB: tables of a folder or an object store, `lancedb:folder#table.column?id=name&metric=cosine`.

Every change is one commit, seen whole or not at all. A table has no ids of its own: a column is named, or `id`. It has
no metric of its own either: that of its index counts, then what unhub kept when it made the table, then the address,
then cosine.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, cast, final
from urllib.parse import urlsplit

import numpy as np

from unhub.arrays import Float32, Float64, Ids, spans
from unhub.compute.workers import Progress
from unhub.data.ids import as_ids, no_id
from unhub.errors import ArgumentError, check_whole, optional, unknown
from unhub.stores.address import Address
from unhub.stores.lancedb_index import LanceIndex, index_of, partitions_of
from unhub.stores.lancedb_rows import (
    LanceColumns,
    as_ids_of,
    is_number,
    is_usable_id,
    is_vector,
    literal,
    new_fields,
    one_of,
    quoted,
    repeated,
)
from unhub.stores.store import BATCH_ROWS, Codes, Description, Metric, Nearest, Record, Store, StoredItems, Where

SECONDS_TO_STOP = 0.5  # after an interruption, in which LanceDB goes on in threads of its own
PURPOSE = "a LanceDB table"
RECORDS = "unhub_records"
ID_INDEX = "unhub_ids"  # made for the time of one set_field
METRICS: tuple[Metric, ...] = ("cosine", "dot", "l2")
# What the schema of a table that unhub made keeps. Open: ids and payload take their types from the first batch.
METRIC_KEY, INDEX_KEY, OPEN_KEY = "unhub.metric", "unhub.index", "unhub.open"
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}  # or two first writers of a key would each add a row
WINDOW_BYTES = 16 << 20  # vectors in one scan, since a scan reads ahead as far as it can
QUERIES_AT_ONCE = 64
IDS_AT_ONCE = 10_000
INDEX_PATIENCE = timedelta(hours=1)  # LanceDB waits for less than two
ALL_VERSIONS = timedelta(days=36_500)
CONFLICT = "if another program was writing to the table, run it again"


def open_store(address: Address) -> LanceStore:
    """Return the table of an address, whether it exists or not."""
    if address.network:
        raise ArgumentError("store", f"{address} has // after lancedb:", "write lancedb:folder#table")
    place = urlsplit(address.place)
    if "@" in place.netloc:
        raise ArgumentError("store", "has a key in the address", "give keys by the environment, as AWS_ACCESS_KEY_ID")
    if place.scheme == "db":
        raise ArgumentError("store", f"{address} is LanceDB Cloud, which unhub cannot reach", "use a folder or s3://")
    address.check_options("id", "metric")
    metric = address.option("metric")
    if metric and metric not in METRICS:
        raise unknown("store", metric, METRICS, "metrics")
    return LanceStore(address, checked_name(address, address.named()))


def checked_name(address: Address, name: str) -> str:
    """Return the name of a table; raise if LanceDB does not allow it."""
    if not name or not all(one.isascii() and (one.isalnum() or one in "_-.") for one in name):
        allowed = "it may hold English letters, digits, hyphens, underscores and periods"
        raise ArgumentError("store", f"{address}: {name!r} cannot be the name of a table", allowed)
    if name == RECORDS:
        raise ArgumentError("store", f"{address}: {name!r} is where unhub keeps its records", "use another name")
    return name


@final
class LanceStore(Store):
    """A table of LanceDB."""

    engine = "lancedb"

    def __init__(self, address: Address, name: str) -> None:
        super().__init__(address, name)
        self._checked = -1  # the version whose ids are known not to repeat
        # The version of a table that this store alone has filled, and the hashes of its ids: a batch of new ids is then
        # added without looking for them in the table.
        self._filled: tuple[int, set[int]] | None = None

    # Reading

    def exists(self) -> bool:
        """Return whether there is such a table, also one that is damaged; what a killed `create` left is none."""
        if not self._is_place():
            return False
        try:
            self._connection.open_table(self.name)
        except ValueError:  # not found
            return False
        except (RuntimeError, OSError):
            return True
        return True

    def describe(self) -> Description:
        """Return what it is."""
        table = self._table()
        with self._plainly("be described"):
            columns, index = self._shape(table)
            metric, source = self._metric(columns, index)
            settings = {
                "ids": f"{columns.ids} ({columns.schema.field(columns.ids).type})",
                "vectors": f"{columns.vectors} ({columns.number})",
                "metric": source,
                "version": str(table.version),
            }
            about = Description(self.engine, self.name, metric, columns.dimensions, table.count_rows())
            if index is None:
                codes: Codes = "float16" if columns.number == "halffloat" else "none"
                return dataclasses.replace(about, codes=codes, settings=settings)
            settings |= _index_settings(table, columns, index)
            kind = index.about
            return dataclasses.replace(about, index=kind.index, codes=kind.codes, settings=settings)

    def batches(self, payload: bool = False, rows: int = BATCH_ROWS) -> Iterator[StoredItems]:
        """Yield every item once; what others write meanwhile is not seen."""
        check_whole(rows, "rows", 1)
        table = self._table()
        with self._plainly("be read"):
            table.checkout(table.version)
            columns = self._columns(table)
            self._check_ids(table, columns)
            names = [columns.ids, columns.vectors, *(columns.payload if payload else ())]
            window = max(1, WINDOW_BYTES // (4 * columns.dimensions) // rows) * rows
            for start, stop in spans(table.count_rows(), window):
                scan = table.search().select(names).offset(start).limit(stop - start)
                for found in scan.to_batches(rows):
                    for first, last in spans(found.num_rows, rows):
                        yield columns.batch(found.slice(first, last - first), payload)

    def fetch(self, ids: Ids) -> StoredItems:
        """Return those of these items that exist, with their payload."""
        table = self._table()
        with self._plainly("be read"):
            columns = self._columns(table)
            self._check_kind(columns, ids)
            found = columns.schema.empty_table()
            parts = [table.search().where(one_of(columns.ids, ids[a:b])).to_arrow() for a, b in _chunks(ids)]
            if parts:
                found = optional("pyarrow", self.engine, PURPOSE).concat_tables(parts)
            places: dict[int | str, int] = {}
            for place, one in enumerate(as_ids_of(found.column(columns.ids)).tolist()):
                if places.setdefault(one, place) != place:
                    raise self._repeats(one)
            order = np.array([places[one] for one in ids.tolist() if one in places], np.int64)
            return columns.batch(found.take(order), payload=True)

    def search(
        self, queries: Float32, k: int, where: Where = None, among: Ids | None = None, effort: int | None = None
    ) -> Nearest:
        """Return the k nearest items; `where` is SQL and is applied before the search.

        effort: partitions searched (IVF) or ef (HNSW); with a filter more partitions are searched where these hold too
        few items. What is found by codes is scored again from the vectors, so values are true ones; by clusters and
        codes, the effort is also for how many times k items that is done.
        """
        check_whole(k, "k", 1)
        if effort is not None:
            check_whole(effort, "effort", 1)
        if where is not None and not isinstance(where, str):
            raise ArgumentError("where", f"must be SQL such as \"colour = 'red'\", got {where!r}")
        table = self._table()
        with self._plainly("be searched"):
            columns, index = self._shape(table)
            if queries.ndim != 2 or queries.shape[1] != columns.dimensions:
                raise self.failed(f"has {columns.dimensions} dimensions, and the queries have shape {queries.shape}")
            metric, _ = self._metric(columns, index)
            conditions = [f"({where})"] if where is not None else []
            if among is not None:
                self._check_kind(columns, among)
                conditions.append(one_of(columns.ids, among))
            found = Nearest(
                np.full((len(queries), k), np.inf if metric == "l2" else -np.inf, np.float32),
                _empty_ids((len(queries), k), columns.numeric),
            )
            for start, stop in spans(len(queries), QUERIES_AT_ONCE):
                search = table.search(queries[start:stop], vector_column_name=columns.vectors).distance_type(metric)
                search = _tuned(search.limit(k).select([columns.ids, "_distance"]), index, k, effort)
                if conditions:
                    # Else what passes a narrow filter is not found where its partitions are not those searched.
                    search = search.where(" AND ".join(conditions)).maximum_nprobes(0)
                found = _placed(found, start, search.to_arrow(), columns.ids, metric)
            return found

    # Writing

    def names(self) -> list[str]:
        """Return the names of all tables here."""
        if not self._is_place():
            return []
        found: list[str] = []
        with self._plainly("be listed"):
            page = self._connection.list_tables()
            found += page.tables
            while page.page_token:
                page = self._connection.list_tables(page_token=page.page_token)
                found += page.tables
        return sorted(set(found) - {RECORDS})

    def sibling(self, name: str) -> LanceStore:
        """Return the table of another name; its column of ids and of vectors have the same names."""
        if name == self.name:
            return self
        options = {"id": self.address.option("id")} if self.address.option("id") else {}
        return self._addressed(name, self.address.column, options)

    def read_by(self) -> dict[str, str]:
        """Return the column of vectors, that of ids and the metric, as far as the address names them."""
        return {**self.address.options, **({"column": self.address.column} if self.address.column else {})}

    def read_as(self, told: Mapping[str, str]) -> LanceStore:
        """Return the table read by the columns and the metric that were told."""
        options = {name: one for name, one in told.items() if name != "column"} | dict(self.address.options)
        column = self.address.column or told.get("column", "")
        return (
            self
            if (column, options) == (self.address.column, self.address.options)
            else self._addressed(self.name, column, options)
        )

    def _addressed(self, name: str, column: str, options: Mapping[str, str]) -> LanceStore:
        named = name + (f".{column}" if column else "")
        asked = "&".join(f"{one}={value}" for one, value in options.items())
        shown = f"{self.engine}:{self.address.place}#{named}{'?' if asked else ''}{asked}"
        address = dataclasses.replace(self.address, collection=name, column=column, options=options, shown=shown)
        return LanceStore(address, checked_name(address, name))

    def create(self, dimensions: int, metric: Metric, like: Store | None = None) -> None:
        """Create it empty. The index of `like` is built by `finish`; without it there is none, as LanceDB has it."""
        check_whole(dimensions, "dimensions", 1)
        if metric not in METRICS:
            raise unknown("metric", metric, METRICS, "metrics")
        if self.exists():
            raise self.failed("exists already", "drop it, or use another name")
        schema, kept = self._schema(dimensions, like if isinstance(like, LanceStore) else None)
        with self._plainly("be created", "check that you may write there"):
            if _is_folder(self.address.place):
                Path(self.address.place).expanduser().mkdir(parents=True, exist_ok=True)
            self._connection.create_table(self.name, schema=schema.with_metadata({**kept, METRIC_KEY: metric}))
        self._filled = None

    def write(self, batch: StoredItems) -> None:
        """Add or replace items in one commit; a field of the payload that is new becomes a column before it."""
        ids = as_ids(batch.ids, len(batch.rows), "ids")
        if batch.payload is not None and len(batch.payload) != len(ids):
            raise ArgumentError("payload", f"has {len(batch.payload)} rows, {len(ids)} are needed")
        table = self._table()
        with self._plainly("be written", CONFLICT):
            columns = self._columns(table)
            if batch.rows.ndim != 2 or batch.rows.shape[1] != columns.dimensions:
                raise self.failed(f"has {columns.dimensions} dimensions, and the rows have shape {batch.rows.shape}")
            if not len(ids):
                return
            fields = new_fields(batch, columns.schema.names)
            if columns.kept(OPEN_KEY):
                columns = columns.closed(ids, fields, OPEN_KEY)
                table = self._connection.create_table(self.name, columns.table(batch), mode="overwrite")
                self._filled = table.version, set(map(hash, ids.tolist()))
                return
            self._check_kind(columns, ids)
            filled = self._filled_by(table)
            if fields:
                data = columns.with_fields(fields).table(batch)  # fails before a column is added
                table.add_columns(optional("pyarrow", self.engine, PURPOSE).schema(list(fields.items())))
            else:
                data = columns.table(batch)
            self._commit(table, data, columns.ids, set(map(hash, ids.tolist())), filled)

    def remove(self, ids: Ids) -> None:
        """Drop the items with these ids."""
        table = self._table()
        with self._plainly("be written", CONFLICT):
            columns = self._columns(table)
            self._check_kind(columns, ids)
            for start, stop in _chunks(ids):
                table.delete(one_of(columns.ids, ids[start:stop]))
        self._filled = None

    def finish(self, progress: Progress | None = None) -> None:
        """Join small files, build the index that `create` took over, or bring the one that is there up to date.

        LanceDB joins small partitions when it takes in new rows (300 became 6): then the index is built again.

        Below the number of rows that LanceDB needs to train an index there is none, and search is exact. Old versions
        go after seven days, LanceDB's default, in tables that unhub made, and stay in others.
        """
        table = self._table()
        with self._plainly("be indexed", CONFLICT):
            columns = self._columns(table)
            count = table.count_rows()
            if progress is not None:
                progress(0, count)
            metric = columns.kept(METRIC_KEY)
            table.optimize(cleanup_older_than=None if metric else ALL_VERSIONS)
            index = index_of(table, columns.vectors, columns.dimensions)
            planned = LanceIndex.of_text(columns.kept(INDEX_KEY)) if columns.kept(INDEX_KEY) else None
            if planned is not None and count >= planned.least_rows and _is_due(table, columns, index, planned):
                library = optional("lancedb.index", self.engine, PURPOSE)
                config = planned.config(library, cast("Metric", metric), columns.dimensions)
                table.create_index(columns.vectors, config=config)
                index = index_of(table, columns.vectors, columns.dimensions)
            if index is not None and count >= index.least_rows:
                table.wait_for_index([index.name], INDEX_PATIENCE)
            if progress is not None:
                progress(count, count)

    def drop(self) -> None:
        """Drop the table, also what a killed `create` left of it."""
        self._filled, self._checked = None, -1
        if self._is_place():
            with self._plainly("be dropped"):
                self._connection.drop_table(self.name, ignore_missing=True)

    def set_field(self, name: str, ids: Ids, values: Float64) -> None:
        """Set one number for these items.

        With an index on the ids LanceDB changes the one column and the vector index stays; without one it would write
        all rows anew and drop them from the vector index. So there is one for the time of the change.
        """
        chosen = as_ids(ids, len(values), "ids")
        table = self._table()
        with self._plainly("be written", CONFLICT):
            columns = self._columns(table)
            self._check_kind(columns, chosen)
            self._check_field(columns, name)
            if not len(chosen):
                return
            arrow = optional("pyarrow", self.engine, PURPOSE)
            if name not in columns.schema.names:
                table.add_columns(arrow.field(name, arrow.float64()))
            data = arrow.table(
                {columns.ids: arrow.array(chosen.tolist(), columns.schema.field(columns.ids).type)}
                | {name: arrow.array(np.asarray(values, np.float64))}
            )
            known = sum(int(np.isin(part, chosen).sum()) for part in self._all_ids(table, columns))
            with self._id_index(table, columns):
                changed = table.merge_insert(columns.ids).when_matched_update_all().execute(data).num_updated_rows
            if changed != known:
                raise self.failed(f"took the field {name!r} for {changed} of {known} items", "set it again")
        self._filled = None

    def settle(self) -> None:
        """Drop the index on the ids that a killed `set_field` left."""
        table = self._table()
        with self._plainly("be indexed", CONFLICT):
            if any(one.name == ID_INDEX for one in table.list_indices()):
                table.drop_index(ID_INDEX)

    def drop_field(self, name: str) -> None:
        """Drop a column of the payload; nothing is rewritten."""
        table = self._table()
        with self._plainly("be written", CONFLICT):
            columns = self._columns(table)
            self._check_field(columns, name)
            if name in columns.payload:
                table.drop_columns([name])
        self._filled = None

    # Records: a table of keys and JSON

    def records(self) -> dict[str, Record]:
        """Return all records of this folder, as they are now."""
        table = self._records_table()
        if table is None:
            return {}
        with self._plainly("be read"):
            found = table.search().select(["key", "value"]).to_arrow()
            texts = zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True)
            return {key: json.loads(value) for key, value in texts}

    def put_record(self, key: str, record: Record | None) -> None:
        """Keep a record in one commit."""
        try:
            text = json.dumps(record, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise ArgumentError("record", f"cannot be kept as JSON: {error}") from None
        table = self._records_table()
        with self._plainly("keep a record", CONFLICT):
            if record is None:
                if table is not None:
                    table.delete(f"{quoted('key')} = {literal(key)}")
                return
            arrow = optional("pyarrow", self.engine, PURPOSE)
            fields = [arrow.field("key", arrow.string(), False, PRIMARY_KEY), arrow.field("value", arrow.string())]
            if table is None:
                table = self._connection.create_table(RECORDS, schema=arrow.schema(fields), exist_ok=True)
            row = arrow.table({"key": [key], "value": [text]}, schema=arrow.schema(fields))
            table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all().execute(row)

    def _records_table(self) -> Any | None:
        if not self._is_place():
            return None
        with self._plainly("be read"):
            try:
                return self._connection.open_table(RECORDS)
            except ValueError:  # not found
                return None

    # The engine

    @cached_property
    def _connection(self) -> Any:
        """The folder, of which every read sees the newest version; LanceDB would make a folder that is not there."""
        library = optional("lancedb", self.engine, PURPOSE)
        place = self.address.place
        with self._plainly("be opened"):
            where = str(Path(place).expanduser()) if _is_folder(place) else place
            return library.connect(where, read_consistency_interval=timedelta(0))

    def _is_place(self) -> bool:
        return not _is_folder(self.address.place) or Path(self.address.place).expanduser().is_dir()

    def _table(self) -> Any:
        """Return the table as it is now; raise if there is none."""
        if not self._is_place():
            raise self.failed("there is no such folder", "check the path before #")
        with self._plainly("be opened", "the table is damaged, or the folder is not LanceDB's"):
            try:
                return self._connection.open_table(self.name)
            except ValueError:  # not found
                raise self._missing() from None

    def _missing(self) -> ArgumentError:
        names = self.names()
        whole = f"{self.name}.{self.address.column}"
        if self.address.column and whole in names:
            return self.failed(f"there is no table {self.name!r}", f"name the column of {whole!r} too: #{whole}.vector")
        known = f"the tables are {', '.join(map(repr, names))}" if names else "the folder holds no tables"
        return self.failed(f"there is no table {self.name!r}", known)

    @contextmanager
    def _plainly(self, what: str, remedy: str = "") -> Iterator[None]:
        """Raise what the engine raises as one line about this store."""
        try:
            yield
        except ArgumentError:
            raise
        except KeyboardInterrupt:
            time.sleep(SECONDS_TO_STOP)  # a table that it was making may appear until then, after it was dropped
            raise
        except (RuntimeError, ValueError, OSError, TypeError, LookupError) as error:
            text = str(error).partition(", /")[0].strip().partition("\n")[0]  # without the place in LanceDB's sources
            raise self.failed(f"could not {what}: {text or type(error).__name__}", remedy) from None

    # What a table is

    def _shape(self, table: Any) -> tuple[LanceColumns, LanceIndex | None]:
        columns = self._columns(table)
        return columns, index_of(table, columns.vectors, columns.dimensions)

    def _columns(self, table: Any) -> LanceColumns:
        schema = table.schema
        holding = [field.name for field in schema if is_vector(field.type)]
        vectors = self.address.column or (holding[0] if len(holding) == 1 else "")
        if not vectors and not holding:
            raise self.failed("no column holds vectors of one width", "unhub reads lists of floats of one size")
        if not vectors:
            found = f"the columns {', '.join(map(repr, holding))} hold vectors"
            raise self.failed(found, f"name one in the address: #{self.name}.{holding[0]}")
        if vectors not in holding:
            named = f"such columns are {', '.join(map(repr, holding))}" if holding else "there is no such column"
            raise self.failed(f"{vectors!r} is no column of vectors of one width", named)
        ids = self.address.option("id") or "id"
        if ids not in schema.names:
            others = ", ".join(repr(field.name) for field in schema if is_usable_id(field.type)) or "none that could be"
            raise self.failed(f"has no column {ids!r} of ids", f"name one by ?id= in the address, of: {others}")
        if not is_usable_id(schema.field(ids).type):
            raise self.failed(f"the column {ids!r} holds {schema.field(ids).type}", "ids must be integers or texts")
        return LanceColumns(ids, vectors, schema)

    def _metric(self, columns: LanceColumns, index: LanceIndex | None) -> tuple[Metric, str]:
        """Return the metric and where it comes from."""
        asked, own = self.address.option("metric"), index.metric if index else columns.kept(METRIC_KEY)
        if own and own not in METRICS:
            raise self.failed(f"its index is by {own} distance", f"unhub needs one of {', '.join(METRICS)}")
        if own and asked and asked != own:
            raise self.failed(f"is searched by {own}, not {asked}", "leave metric out of the address")
        if own:
            return own, f"{own}, " + ("of its index" if index else "kept by unhub with the table")
        if asked:
            return cast("Metric", asked), f"{asked}, as the address says"
        return "cosine", "cosine, assumed since it has no index; ?metric= in the address chooses another"

    def _schema(self, dimensions: int, like: LanceStore | None) -> tuple[Any, dict[str, str]]:
        """Return the columns of a new table, like those of another, and what is kept with it."""
        arrow = optional("pyarrow", self.engine, PURPOSE)
        ids, vectors = self.address.option("id"), self.address.column
        if like is None:
            fields = [
                arrow.field(ids or "id", arrow.int64()),
                arrow.field(vectors or "vector", arrow.list_(arrow.float32(), dimensions)),
            ]
            return arrow.schema(fields), {OPEN_KEY: "yes"}
        source = like._table()
        columns, index = like._shape(source)
        kept = {OPEN_KEY: columns.kept(OPEN_KEY)} if columns.kept(OPEN_KEY) else {}
        if index is not None:
            if dimensions % index.multiple:
                upwards = -(-dimensions // index.multiple) * index.multiple
                problem = f"an {index.about.shown} index like that of {like.name!r} takes multiples of {index.multiple}"
                raise self.failed(f"{problem} dimensions, not {dimensions}", f"pad the vectors to {upwards}")
            kept[INDEX_KEY] = _with_partitions(source, columns, index).as_text()
        return columns.renamed(ids, vectors, dimensions), kept

    def _check_ids(self, table: Any, columns: LanceColumns) -> None:
        """Raise if an id stands for more than one item."""
        if self._checked == table.version:
            return
        again = repeated(lambda: self._all_ids(table, columns))
        if again is not None:
            raise self._repeats(again)
        self._checked = table.version

    def _all_ids(self, table: Any, columns: LanceColumns) -> Iterator[Ids]:
        for found in table.search().select([columns.ids]).to_batches(IDS_AT_ONCE):
            yield as_ids_of(found.column(columns.ids))

    def _repeats(self, one: int | str) -> ArgumentError:
        return self.failed(f"the id {one!r} stands for more than one item", "name a column without repeats by ?id=")

    def _check_kind(self, columns: LanceColumns, ids: Ids) -> None:
        if len(ids) and columns.numeric != (ids.dtype.kind in "iu"):
            held, given = ("numbers", "texts") if columns.numeric else ("texts", "numbers")
            raise self.failed(f"the ids are {held}, and {given} were given", "use ids of the same kind")

    def _check_field(self, columns: LanceColumns, name: str) -> None:
        if name in (columns.ids, columns.vectors):
            raise self.failed(f"the column {name!r} is no field of the payload", "use another name")
        if not name or any(one in name for one in '."`'):
            raise self.failed(f"{name!r} cannot be the name of a field", "use letters, digits and underscores")
        if name in columns.schema.names and not is_number(columns.schema.field(name).type):
            held = columns.schema.field(name).type
            raise self.failed(f"the column {name!r} holds {held}, not numbers of unhub", "use another name")

    # Commits

    def _filled_by(self, table: Any) -> set[int] | None:
        """Return the hashes of all ids if this store knows them, else None."""
        if table.count_rows() == 0:
            return set()
        return self._filled[1] if self._filled is not None and self._filled[0] == table.version else None

    def _commit(self, table: Any, data: Any, ids: str, keys: set[int], filled: set[int] | None) -> None:
        before = table.version
        if filled is None or not filled.isdisjoint(keys):
            table.merge_insert(ids).when_matched_update_all().when_not_matched_insert_all().execute(data)
            self._filled = None
            return
        after = table.add(data).version
        filled |= keys
        self._filled = (after, filled) if after == before + 1 else None  # else another wrote meanwhile

    @contextmanager
    def _id_index(self, table: Any, columns: LanceColumns) -> Iterator[None]:
        """Have an index over all ids; one of the user's is brought up to date before and after, ours is dropped."""
        tree = optional("lancedb.index", self.engine, PURPOSE).BTree
        own = [one.name for one in table.list_indices() if one.columns == [columns.ids] and one.index_type == "BTree"]
        name = next((one for one in own if one != ID_INDEX), ID_INDEX)
        table.create_index(columns.ids, config=tree(), name=name, replace=True)
        try:
            yield
        finally:
            if name == ID_INDEX:
                table.drop_index(ID_INDEX)
            else:
                table.create_index(columns.ids, config=tree(), name=name, replace=True)


def _is_folder(place: str) -> bool:
    """Return whether a place is a folder here, not an object store such as s3://bucket."""
    return "://" not in place


def _chunks(ids: Ids) -> Iterator[tuple[int, int]]:
    return spans(len(ids), IDS_AT_ONCE)


def _with_partitions(table: Any, columns: LanceColumns, index: LanceIndex) -> LanceIndex:
    """Return an index with the number of its partitions, unless it was made by their size."""
    if "target_partition_size" in index.settings:
        return index
    partitions = partitions_of(table, columns.vectors, index, columns.dimensions)
    if partitions is None:
        return index
    return dataclasses.replace(index, settings={**index.settings, "num_partitions": partitions})


def _is_due(table: Any, columns: LanceColumns, index: LanceIndex | None, planned: LanceIndex) -> bool:
    """Return whether a planned index is missing, or has other partitions by now; one of another kind is the user's."""
    if index is None:
        return True
    if index.kind != planned.kind or "num_partitions" not in planned.settings:
        return False
    found = _with_partitions(table, columns, index).settings.get("num_partitions")
    return found != planned.settings["num_partitions"]


def _index_settings(table: Any, columns: LanceColumns, index: LanceIndex) -> dict[str, str]:
    """Return what there is to tell about an index."""
    numbers = dict(_with_partitions(table, columns, index).settings)
    if "sub_vector_width" in numbers:
        numbers["num_sub_vectors"] = columns.dimensions // numbers["sub_vector_width"]
    told = table.index_stats(index.name)
    found = {"index": index.about.shown, "indexed": f"{told.num_indexed_rows} of {table.count_rows()}"}
    found |= {name: str(number) for name, number in numbers.items()}
    if index.multiple > 1:
        found["multiple"] = str(index.multiple)
    if index.about.refine:
        found["refine_factor"] = f"{index.about.refine} in searches by unhub; LanceDB refines nothing unless asked"
    return found


def _tuned(search: Any, index: LanceIndex | None, k: int, effort: int | None) -> Any:
    """Return a search with the effort and refining that its index takes."""
    if index is None:
        return search
    refine = index.about.refined(k, effort)
    if refine:
        search = search.refine_factor(refine)
    if effort is None:
        return search
    if index.about.index == "hnsw":
        return search.ef(max(effort, k * max(1, refine)))  # LanceDB refuses less
    return search.nprobes(effort)


def _placed(found: Nearest, start: int, rows: Any, ids: str, metric: Metric) -> Nearest:
    """Put what the engine returned, in any order, into its places: the first query is number `start`."""
    distances = rows.column("_distance").to_numpy()
    # LanceDB numbers the queries only if there are several.
    queries = rows.column("query_index").to_numpy() if "query_index" in rows.schema.names else np.zeros(len(rows), int)
    order = np.lexsort((distances, queries))
    queries = queries[order].astype(np.int64)
    places = np.arange(len(order)) - np.searchsorted(queries, queries)
    values = distances if metric == "l2" else 1 - distances
    given = as_ids_of(rows.column(ids))[order]
    kept = found.ids if found.ids.dtype.itemsize >= given.dtype.itemsize else found.ids.astype(given.dtype)
    kept[start + queries, places] = given
    found.values[start + queries, places] = values[order]
    return Nearest(found.values, cast("Ids", kept))


def _empty_ids(shape: tuple[int, int], numeric: bool) -> Ids:
    kind = np.dtype(np.int64 if numeric else "<U1")
    return cast("Ids", np.full(shape, no_id(kind), kind))
