"""Your own index: the correction is stored in one or two extra dimensions, and the index needs no plug-in."""

import faiss
import numpy as np

import unhub
from generated import generate

data = generate(seed=2)
correction = unhub.fit(data.items, data.bank, method="sn", tau=0.05)
expected = unhub.searcher(data.items, correction).search(data.queries, k=10).ids

# Inner product, one more dimension. The strength is chosen per query: 1 is corrected, 0 raw, from the same index.
stored = unhub.augment(data.items, correction, form="ip")
flat = faiss.IndexFlatIP(stored.shape[1])
flat.add(stored)
_, found = flat.search(unhub.augment_queries(data.queries, correction), 10)
_, raw = flat.search(unhub.augment_queries(data.queries, correction, strength=0), 10)
print(f"flat index, {data.items.shape[1]} + 1 dimensions: top-10 as the searcher's {(found == expected).mean():.1%}")
right = np.arange(len(data.queries))
print(f"right at place 1: strength 0 {(raw[:, 0] == right).mean():.1%}, 1 {(found[:, 0] == right).mean():.1%}")

# L2 or cosine, two more dimensions: every stored vector has one length, which graphs and clusters want.
stored = unhub.augment(data.items, correction, form="l2")
graph = faiss.IndexHNSWFlat(stored.shape[1], 32)
graph.hnsw.efSearch = 128
graph.add(stored)
_, found = graph.search(unhub.augment_queries(data.queries, correction, form="l2"), 10)
shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, expected, strict=True)])
print(f"HNSW on L2, {data.items.shape[1]} + 2 dimensions: shares {shared:.1%} of the searcher's top-10")
