"""Before and after: hubs in a search over generated data, and what each correction does to them."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import unhub
from generated import generate

METHODS = ["raw", "dn", "csls", "nnn", "is", "dis", "dualis", "sn", "dbsn"]
SHOWN = "sn"  # whose effect on the worst hubs is shown
K = 10


def main() -> None:
    """Fit every method in one call, search with each, print what changed."""
    console = Console(highlight=False)
    data = generate(seed=0)
    console.print(
        f"Generated data (seed 0, no real images or texts): {len(data.items):,} items, {len(data.queries):,} queries "
        f"with one right item each, and a bank of {len(data.bank):,} earlier queries about other items."
    )
    start = time.perf_counter()
    corrections = unhub.fit(data.items, data.bank, method=METHODS, bank_items=data.bank_items)
    console.print(f"{len(METHODS)} methods fitted in {time.perf_counter() - start:.1f} s.")
    found = {
        one.method.name: unhub.searcher(data.items, one).search(data.queries, k=K).ids.astype(np.int64)
        for one in corrections
    }
    console.print(_measures(found, len(data.items)))
    console.print(
        "Skewness says how unevenly the answers fall on the items: 0 is even, and the higher, the more a few hubs take."
    )
    console.print(f"A fair share is {K * len(data.queries) / len(data.items):g} of the {len(data.queries):,} top-{K}s.")
    console.print(_worst_hubs(found["raw"], found[SHOWN], len(data.items)))
    chosen = corrections[METHODS.index(SHOWN)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gallery.unhub"
        unhub.save(chosen, path)
        again = unhub.searcher(data.items, unhub.load(path)).search(data.queries, k=K)
        same = np.array_equal(again.ids, found[SHOWN])
        console.print(
            f"Saved {SHOWN} to one file of {path.stat().st_size / 1000:.0f} kB and loaded it: "
            f"{'the same answers' if same else 'OTHER ANSWERS'}."
        )


def occurrences(ids: NDArray[np.int64], items: int) -> NDArray[np.int64]:
    """Count the queries that have each item among their answers, (items,)."""
    return np.bincount(ids.ravel(), minlength=items)


def _skewness(counts: NDArray[np.int64]) -> float:
    apart = counts - counts.mean()
    return float((apart**3).mean() / (apart**2).mean() ** 1.5)


def _measures(found: dict[str, NDArray[np.int64]], items: int) -> Table:
    table = Table()
    table.add_column("method")
    for head in ("R@1", f"R@{K}", "skewness", "never found"):
        table.add_column(head, justify="right")
    for name, ids in found.items():
        right = ids == np.arange(len(ids))[:, None]
        counts = occurrences(ids, items)
        table.add_row(
            name,
            f"{100 * right[:, 0].mean():.1f} %",
            f"{100 * right.any(axis=1).mean():.1f} %",
            f"{_skewness(counts):.2f}",
            f"{100 * (counts == 0).mean():.1f} %",
        )
    return table


def _worst_hubs(before: NDArray[np.int64], after: NDArray[np.int64], items: int) -> Table:
    raw, corrected = occurrences(before, items), occurrences(after, items)
    table = Table()
    for head in ("worst hubs", f"raw: in top-{K}s", f"{SHOWN}: in top-{K}s"):
        table.add_column(head, justify="right")
    for item in np.argsort(-raw)[:5]:
        table.add_row(f"item {item}", str(raw[item]), str(corrected[item]))
    return table


if __name__ == "__main__":
    main()
