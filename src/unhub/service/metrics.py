"""Metrics for Prometheus: latency, queries, how even the answers are, and how far recent queries are from the bank.

Nothing of a query is kept: of each, one number, its distance from the bank; of each answer, counts by item.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from unhub.arrays import Float32, Ids, random_positions, unit
from unhub.data.vectors import Vectors
from unhub.evaluation.chance import chance_of
from unhub.evaluation.hubness import figures_of, top_items
from unhub.service.version import Version

WINDOW = 2000  # answers that hubness is measured on: between this many and half of it
PLACES = 10  # of each answer
BANK_SAMPLE = 1000  # bank queries that a query's distance is measured to
RECENT = 1000  # distances that are remembered
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class ReturnedCounts:
    """How often each item of a version was among the first places of the last answers."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self._older = self._newer = np.zeros(len(version), np.int64)
        self._newer = self._older.copy()
        self._answers = [0, 0]

    def add(self, positions: NDArray[np.int64], answers: int) -> None:
        """Count the first places of some answers."""
        np.add.at(self._newer, positions, 1)
        self._answers[1] += answers
        if self._answers[1] >= WINDOW // 2:
            self._older, self._newer = self._newer, np.zeros(len(self.version), np.int64)
            self._answers = [self._answers[1], 0]

    def figures(self) -> dict[str, float]:
        """Return the evenness of the window, and what chance would give."""
        counts, answers = self._older + self._newer, sum(self._answers)
        if not answers or not counts.any():
            return {}
        seen = figures_of(counts)
        chance = chance_of(int(counts.sum()), answers, len(counts), top_items(len(counts)))
        return {
            "skewness": seen.skewness,
            "skewness_chance": chance.skewness,
            "robin_hood": seen.robin_hood,
            "robin_hood_chance": chance.robin_hood,
            "largest": seen.largest,
            "largest_chance": chance.largest,
            "answers": answers,
        }


class BankDistances:
    """The distance, one minus the cosine, from a query to the nearest of some bank queries."""

    def __init__(self, bank: Vectors | None) -> None:
        self.bank = bank
        self._sample: Float32 | None = None
        self.own = float("nan")  # the median distance of bank queries to the nearest of the others
        self._recent: deque[float] = deque(maxlen=RECENT)
        if bank is None or len(bank) < 2:
            return
        chosen = random_positions(len(bank), min(len(bank), BANK_SAMPLE), 0)
        rows = unit(bank.gather(chosen).block(0, len(chosen)))
        products = rows @ rows.T
        np.fill_diagonal(products, -1.0)
        self._sample, self.own = rows, float(np.median(1 - products.max(axis=1)))

    def add(self, queries: Float32) -> None:
        """Measure queries, (queries, dimensions)."""
        if self._sample is not None:
            there = queries[np.any(queries, axis=1)]  # a row of zeros, as under dot, has no direction
            nearest = (unit(there) @ self._sample.T).max(axis=1)
            self._recent.extend((1 - nearest).tolist())

    def recent(self) -> float:
        """Return the median distance of the last queries."""
        return float(np.median([*self._recent])) if self._recent else float("nan")


class Metrics:
    """All metrics of one service, in a registry of their own."""

    def __init__(self, version: Version) -> None:
        registry = self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._returned, self._distances = ReturnedCounts(version), BankDistances(version.bank)
        self.seconds = Histogram(
            "unhub_request_seconds", "Time from a request to its answer", ["path"], registry=registry, buckets=SECONDS
        )
        self.requests = Counter("unhub_requests", "Requests answered", ["path", "status"], registry=registry)
        self.queries = Counter("unhub_queries", "Queries searched with", registry=registry)
        self.items = Gauge("unhub_items", "Items served", registry=registry)
        self.multiplies = Counter(
            "unhub_multiplies", "Searches run, each for all queries that waited", registry=registry
        )
        self.log_written = Gauge("unhub_log_written", "Queries written to the log", registry=registry)
        self.log_dropped = Gauge("unhub_log_dropped", "Queries the log had no room for", registry=registry)
        self._hubness = Gauge(
            "unhub_returned_hubness",
            "Unevenness of the items returned lately, and what chance would give",
            ["figure"],
            registry=registry,
        )
        self._bank = Gauge(
            "unhub_bank_distance",
            "Median distance to the nearest bank query: of recent queries, and of bank queries among themselves",
            ["of"],
            registry=registry,
        )

    def request(self, route: str, status: int, seconds: float) -> None:
        """Note the answer to a request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def observe(self, version: Version, queries: Float32, returned: Sequence[Ids]) -> None:
        """Note the queries of some searches, (queries, dimensions), and the ids that each search returned."""
        positions = version.names.looked_up(np.concatenate([ids[:PLACES] for ids in returned]))[0]
        self.queries.inc(len(queries))
        with self._lock:
            if self._returned.version is not version:
                self._returned = ReturnedCounts(version)
            if self._distances.bank is not version.bank:
                self._distances = BankDistances(version.bank)
            self._returned.add(positions, len(returned))
            self._distances.add(queries)

    def text(self, also: Callable[[], None]) -> bytes:
        """Return everything as text for Prometheus; `also` sets what is known elsewhere."""
        also()
        with self._lock:
            figures, recent = self._returned.figures(), self._distances.recent()
        for name, value in figures.items():
            self._hubness.labels(name).set(value)
        self._bank.labels("recent queries").set(recent)
        self._bank.labels("bank").set(self._distances.own)
        return generate_latest(self.registry)
