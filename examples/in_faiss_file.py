"""In a FAISS index file: make a corrected index beside it, go live, search it, and go back."""

import faiss

import unhub
from generated import generate

data = generate(items=600, bank=2000, seed=4)
index = faiss.IndexFlatIP(data.items.shape[1])
index.add(data.items)
faiss.write_index(index, "photos.index")  # what you already have

store = unhub.store("faiss:photos.index")
correction = unhub.fit(store, data.bank, method="nnn", similarity="dot")
done = unhub.deploy(correction, store, queries=data.queries)
assert done.measured is not None
print(f"{done.what}: recall {done.measured.corrected_recall:.1%} corrected, {done.measured.plain_recall:.1%} plain")

live = unhub.switch(store, done)
searcher = unhub.searcher(store, correction)
ids, _ = searcher.search(data.queries, k=10)
expected = unhub.searcher(store, correction, index="exact").search(data.queries, k=10).ids
print(f"live as {live.name}: top-10 as exact search {(ids == expected).mean():.1%}")
print(f"back to {unhub.rollback(store).now.what}")
