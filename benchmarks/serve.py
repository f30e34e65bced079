"""The service under load: 100,000 items x 512, exact index, clients in another process.

The claims: at 64 clients at least 4 times the throughput of the same service without joining queries; p99 at half of
the largest throughput under 3 times its p50; anonymous memory grows by under 20 MB after the first minute of ten.

Every service is a process of its own and the clients are another (serve_load.py); all share the cores of the machine.
`searcher` is the same searcher called in a loop for one query at a time, without a service. At half of the load,
requests come at random moments (Poisson), and their time counts from the moment they were due. Memory is RssAnon of
/proc, so Linux only. About a quarter of an hour on two cores; --minutes 1 --seconds 5 is a short run. The exit code is
1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors

if TYPE_CHECKING:
    from unhub.service.service import Service

CLIENTS = (1, 8, 64)
LEAST_GAIN, MOST_SPREAD, MOST_GROWTH_MB = 4.0, 3.0, 20.0
HERE = Path(__file__)


def main() -> None:
    """Measure, print the tables, and say which claims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=15.0, help="for each measurement of throughput")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the run that memory is measured in")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # in the child: where the data is
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)  # in the child: without joining
    given = parser.parse_args()
    if given.folder is not None:
        _serve(given.folder, not given.alone)
        return
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, given.items, given.dimensions)
        holds = _run(console, folder, given)
    sys.exit(0 if holds else 1)


def _write(folder: Path, items: int, dimensions: int) -> None:
    rows, bank = unit_vectors(items, dimensions, 1), unit_vectors(1000, dimensions, 2)
    np.save(folder / "items.npy", rows)
    np.save(folder / "bank.npy", bank)
    unhub.save(unhub.fit(rows, bank, method="nnn:k=16"), folder / "c.unhub")


def _run(console: Console, folder: Path, given: argparse.Namespace) -> bool:
    """Measure and print; return whether every claim holds."""
    found: dict[tuple[str, int], dict[str, float]] = {("searcher", 1): _searcher(folder, given)}
    for kind in ("alone", "joined"):
        with _served(folder, kind == "alone") as (_, port):
            _load(port, given.dimensions, min(3.0, given.seconds), clients=8)  # warm
            for clients in CLIENTS:
                found[kind, clients] = _load(port, given.dimensions, given.seconds, clients=clients)
    table = Table("service", "clients", "queries a second", "p50 ms", "p99 ms", "failed")
    for (kind, clients), one in found.items():
        table.add_row(
            kind, str(clients), *(f"{one[name]:.1f}" for name in ("rate", "p50", "p99")), f"{one['failed']:.0f}"
        )
    console.print(table)
    most = max(one["rate"] for (kind, _), one in found.items() if kind == "joined")
    gain = found["joined", 64]["rate"] / found["alone", 64]["rate"]
    with _served(folder, False) as (process, port):
        _load(port, given.dimensions, min(3.0, given.seconds), clients=8)
        half = _load(port, given.dimensions, given.seconds, rate=most / 2)
        growth, later = _memory(process, port, given, most / 2)
    spread = half["p99"] / half["p50"]
    holds = gain >= LEAST_GAIN, spread < MOST_SPREAD, growth < MOST_GROWTH_MB and not later["failed"]
    claims = Table("claim", "measured", "wanted", "holds")
    claims.add_row("joined over alone, 64 clients", f"{gain:.1f}x", f"{LEAST_GAIN:g}x", _word(holds[0]))
    claims.add_row(
        f"p99 over p50 at {most / 2:.0f} a second",
        f"{spread:.2f} ({half['p99']:.0f} over {half['p50']:.0f} ms)",
        f"under {MOST_SPREAD:g}",
        _word(holds[1]),
    )
    claims.add_row(
        f"memory after the first minute of {given.minutes:g}",
        f"{growth:+.1f} MB, {later['failed']:.0f} of {later['count']:.0f} failed",
        f"under {MOST_GROWTH_MB:g} MB",
        _word(holds[2]),
    )
    console.print(claims)
    return all(holds)


def _word(holds: bool) -> str:
    return "yes" if holds else "no"


def _searcher(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Call the searcher in a loop, one query at a time."""
    searcher = unhub.searcher(np.load(folder / "items.npy"), unhub.load(folder / "c.unhub"))
    queries = unit_vectors(200, given.dimensions, 5)
    searcher.search(queries[:1])
    taken: list[float] = []
    end = time.perf_counter() + given.seconds
    while (began := time.perf_counter()) < end:
        row = len(taken) % len(queries)
        searcher.search(queries[row : row + 1], k=10)
        taken.append(time.perf_counter() - began)
    return _figures({"seconds": taken, "failed": 0, "lasted": sum(taken)})


@contextmanager
def _served(folder: Path, alone: bool) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a service in a process of its own; yield it and its port."""
    command = [sys.executable, str(HERE), "--folder", str(folder), *(["--alone"] if alone else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def _serve(folder: Path, joins: bool) -> None:
    """Serve until the parent ends it; print the port."""
    from unhub.service.http.api import application
    from unhub.service.http.safety import Access
    from unhub.service.http.server import listen, run
    from unhub.service.limits import ServiceLimits
    from unhub.service.served import Gallery, ServedSpace
    from unhub.service.service import Service

    items = unhub.Vectors(np.arange(len(np.load(folder / "items.npy", mmap_mode="r"))), np.load(folder / "items.npy"))
    space = ServedSpace("benchmark", Gallery(items, {}), unhub.load(folder / "c.unhub"))
    service: Service = Service(space, ServiceLimits(), joins=joins)
    version = service.live.now
    version.search([version.vector(0)], 1, np.ones(1))  # compiles the kernel
    bound = listen("127.0.0.1", 0)
    try:
        run(application(service, Access()), bound, service.limits, lambda: print(bound.getsockname()[1], flush=True))
    finally:
        service.close()


def _load(
    port: int, dimensions: int, seconds: float, clients: int | None = None, rate: float | None = None
) -> dict[str, float]:
    how = ["--clients", str(clients)] if rate is None else ["--rate", str(rate)]
    command = [sys.executable, str(HERE.with_name("serve_load.py")), "--port", str(port), *how]
    command += ["--dimensions", str(dimensions), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return _figures(json.loads(done.stdout))


def _figures(taken: dict[str, list[float] | float]) -> dict[str, float]:
    seconds = np.array(taken["seconds"])
    assert not isinstance(taken["lasted"], list) and not isinstance(taken["failed"], list)
    middle, late = np.percentile(seconds, [50, 99]) * 1000
    rate = len(seconds) / taken["lasted"]
    return {"rate": rate, "p50": middle, "p99": late, "failed": taken["failed"], "count": len(seconds)}


def _memory(
    process: subprocess.Popen[str], port: int, given: argparse.Namespace, rate: float
) -> tuple[float, dict[str, float]]:
    """Return by how many megabytes the service grows after the first tenth of the run, and what was answered."""
    seen: list[float] = []
    done = threading.Event()

    def watch() -> None:
        seen.append(_anonymous(process.pid))
        while not done.wait(1.0):
            seen.append(_anonymous(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        answered = _load(port, given.dimensions, 60 * given.minutes, rate=rate)
    finally:
        done.set()
        watcher.join()
    begun = max(1, len(seen) // max(1, round(given.minutes)))  # the first minute
    first, last = np.median(seen[max(0, begun - 5) : begun + 1]), np.median(seen[-5:])
    return float(last - first) / 1e6, answered


def _anonymous(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024.0


if __name__ == "__main__":
    main()
