"""After the fit: new items, more past queries, deleted items, and a searcher that is kept up to date."""

import numpy as np

import unhub
from generated import generate

data = generate(seed=3)
old, new = data.items[:1800], data.items[1800:]
bank, more_bank = data.bank[:5000], data.bank[5000:]

correction = unhub.fit(old, bank, method="is", mergeable=True)
searcher = unhub.searcher(old, correction)

grown = unhub.extend(correction, new, bank)  # computes only the new items
searcher.add(new, grown)
print(f"extended from {len(correction)} to {len(grown)} items; the searcher holds {len(searcher)}")

merged = unhub.merge(grown, data.items, more_bank)  # as if fitted on both banks
refit = unhub.fit(data.items, data.bank, method="is")
nothing = np.zeros((1, len(merged)))  # scores of 0, so that what apply returns is -h
apart = np.abs(merged.apply(nothing) - refit.apply(nothing)).max()
print(f"extended and merged against a refit: h differs by at most {apart:.0e}")

smaller = unhub.remove(merged, [0, 1, 2])
searcher = unhub.searcher(unhub.Vectors(smaller.ids, data.items[3:]), smaller)
ids, _ = searcher.search(data.queries, k=10)
print(f"removed 3: {len(smaller)} items, lowest id found {ids.min()}")
