"""In Chroma: write each item's bias into the metadata of a collection, go live, search with a filter, and go back."""

import chromadb
import numpy as np
from chromadb.config import Settings

import unhub
from generated import generate

data = generate(items=600, bank=2000, seed=4)
client = chromadb.PersistentClient("gallery", Settings(anonymized_telemetry=False))  # what you have
photos = client.create_collection("photos", metadata={"hnsw:space": "cosine"})
names = [f"{('photo', 'drawing')[row % 2]} {row}" for row in range(len(data.items))]
photos.add(names, data.items, [{"kind": name.split()[0]} for name in names])

store = unhub.store("chroma:gallery#photos")
correction = unhub.fit(store, data.bank, method="nnn")
done = unhub.deploy(correction, store, "payload", queries=data.queries)
assert done.measured is not None
print(f"{done.what}: recall {done.measured.corrected_recall:.1%} corrected, {done.measured.plain_recall:.1%} plain")

live = unhub.switch(store, done)
searcher = unhub.searcher(store, correction)
ids, _ = searcher.search(data.queries, k=10)
expected = unhub.searcher(store, correction, index="exact").search(data.queries, k=10).ids
print(f"live as {live.name}: top-10 as exact search {(ids == expected).mean():.1%}")
ids, _ = searcher.search(data.queries, k=10, where={"kind": "drawing"})
print(f"drawings alone: {np.isin(ids, names[1::2]).mean():.1%}")
print(f"back to {unhub.rollback(store).now.what}")
