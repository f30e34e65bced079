"""The five lines: fit, search, save, load."""

import numpy as np

import unhub
from generated import generate

data = generate(seed=1)

correction = unhub.fit(data.items, data.bank, method="nnn")
searcher = unhub.searcher(data.items, correction)
ids, scores = searcher.search(data.queries, k=10)
unhub.save(correction, "quickstart.unhub")
correction = unhub.load("quickstart.unhub")

raw_ids, _ = searcher.search(data.queries, k=10, strength=0)  # the same searcher without the correction
right = np.arange(len(data.queries))
print(f"right at place 1: raw {(raw_ids[:, 0] == right).mean():.1%}, corrected {(ids[:, 0] == right).mean():.1%}")
print(f"loaded: {correction.spec}, {len(correction)} items")
