"""In LanceDB: deploy a correction beside a table, look at it, go live, search there with a filter, and go back."""

import lancedb
import numpy as np

import unhub
from generated import generate

data = generate(items=600, bank=2000, seed=4)
rows = [{"id": row, "vector": vector, "kind": ("photo", "drawing")[row % 2]} for row, vector in enumerate(data.items)]
lancedb.connect("gallery").create_table("photos", rows)  # what you already have

store = unhub.store("lancedb:gallery#photos")
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
