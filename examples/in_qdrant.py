"""In Qdrant: deploy a correction beside a collection, go live, search there with a filter, and go back.

This is the local mode of its client. On a server, only the address differs: qdrant://localhost:6333/photos.
"""

import numpy as np
from qdrant_client import QdrantClient, models

import unhub
from generated import generate

data = generate(items=200, bank=1000, seed=4)
client = QdrantClient(path="gallery")  # what you already have
size = models.VectorParams(size=data.items.shape[1], distance=models.Distance.COSINE)
client.create_collection("photos", vectors_config=size)
kinds = [{"kind": ("photo", "drawing")[row % 2]} for row in range(len(data.items))]
client.upload_collection("photos", data.items, payload=kinds, ids=range(len(data.items)))
client.close()  # a folder is open in one place at a time

store = unhub.store("qdrant:gallery#photos")
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
ids, _ = searcher.search(data.queries, k=10, where={"must": [{"key": "kind", "match": {"value": "drawing"}}]})
print(f"drawings alone: {np.isin(ids, drawings).mean():.1%}")
print(f"back to {unhub.rollback(store).now.what}")
