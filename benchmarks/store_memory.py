"""Memory of reading a whole table out of LanceDB and Postgres by `store.vectors()`: it must stay under 1 GB.

    python benchmarks/store_memory.py [--items 1000000] [--dimensions 512] [--engine lancedb postgres]

The table is generated and written by the engines' own bulk ways; then a child process opens the store and reads it into
its mapped temporary file. The parent samples the child's memory every 10 ms: anonymous (RssAnon), and total, which
includes pages of mapped files that the system can reclaim. The server of Postgres is another process and is not
counted. About twice the size of the vectors is needed on disk. Linux only.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import unhub
from data import unit_vectors
from engines_places import server_folder
from memory import check_room
from multi_tables import as_markdown
from unhub.arrays import Float32, spans

ITEMS, DIMENSIONS, LIMIT_MB = 1_000_000, 512, 1_000
BLOCK_ROWS = 10_000
SAMPLE_SECONDS = 0.01


def blocks(items: int, dimensions: int) -> Iterator[tuple[range, Float32]]:
    """Yield ids and rows; the same rows again and again, since they only have to be read."""
    rows = unit_vectors(min(items, BLOCK_ROWS), dimensions, seed=0)
    for start, stop in spans(items, BLOCK_ROWS):
        yield range(start, stop), rows[: stop - start]


def in_lancedb(folder: Path, items: int, dimensions: int) -> str:
    """Write a table and return its address."""
    import lancedb
    import pyarrow

    kind = pyarrow.list_(pyarrow.float32(), dimensions)
    schema = pyarrow.schema([("id", pyarrow.int64()), ("vector", kind)])

    def batches() -> Iterator[Any]:
        for ids, rows in blocks(items, dimensions):
            vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.ravel()), dimensions)
            yield pyarrow.record_batch([pyarrow.array(ids), vectors], schema=schema)

    lancedb.connect(folder / "db").create_table("photos", batches(), schema=schema)
    return f"lancedb:{folder}/db#photos"


def in_postgres(folder: Path, items: int, dimensions: int) -> str:
    """Write a table without an index and return its address."""
    import psycopg

    address = f"postgresql://postgres@/postgres?host={server_folder()}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE photos (id bigint PRIMARY KEY, vector vector({dimensions}))")
        heads = np.zeros(BLOCK_ROWS, [("fields", ">i2"), ("size", ">i4"), ("id", ">i8"), ("bytes", ">i4")])
        with connection.cursor().copy("COPY photos FROM STDIN (FORMAT binary)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
            for ids, rows in blocks(items, dimensions):
                shape = [("head", heads.dtype), ("width", ">i2"), ("none", ">i2"), ("row", ">f4", (dimensions,))]
                written = np.zeros(len(rows), shape)
                written["head"]["fields"], written["head"]["size"], written["head"]["id"] = 2, 8, ids
                written["head"]["bytes"], written["width"], written["row"] = 4 + 4 * dimensions, dimensions, rows
                copy.write(written.tobytes())
            copy.write(b"\xff\xff")
    return f"{address}#photos.vector"


ENGINES: Mapping[str, Callable[[Path, int, int], str]] = {"lancedb": in_lancedb, "postgres": in_postgres}


def memory_of(process: int) -> tuple[int, int]:
    """Return the anonymous and the total resident memory of a process in bytes; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0, 0
    found = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("RssAnon", "VmRSS"))
    anonymous, total = (int(one[1]) << 10 if one else 0 for one in found)
    return anonymous, total


def watch(address: str) -> tuple[dict[str, Any], tuple[int, int]]:
    """Read a store in a child, and return what it reports and its largest anonymous and total memory."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", address]
    peak, done = (0, 0), threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:

        def sample() -> None:
            nonlocal peak
            while not done.wait(SAMPLE_SECONDS):
                now = memory_of(child.pid)
                peak = max(peak[0], now[0]), max(peak[1], now[1])

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        assert child.stdout is not None
        told = child.stdout.read()
        done.set()
        thread.join()
    if child.returncode:
        raise SystemExit(f"the child ended with exit code {child.returncode}")
    return json.loads(told), peak


def read(address: str) -> None:
    """Run as the child: read the whole store."""
    began = perf_counter()
    vectors = unhub.store(address).vectors()
    print(json.dumps({"seconds": perf_counter() - began, "items": len(vectors), "dimensions": vectors.dimensions}))


def main() -> None:
    """Write the tables, read each in a child of its own, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--engine", nargs="+", choices=[*ENGINES], default=[*ENGINES])
    parser.add_argument("--folder", type=Path, help="folder for the temporary files; default: the system's")
    parser.add_argument("--child", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        read(options.child)
        return
    rows = []
    for engine in options.engine:
        with tempfile.TemporaryDirectory(prefix="unhub-memory-", dir=options.folder) as folder:
            check_room(Path(folder), 2 * options.items * options.dimensions * 4)
            address = ENGINES[engine](Path(folder), options.items, options.dimensions)
            told, peaks = watch(address)
        anonymous, total = (peak / 1e6 for peak in peaks)
        verdict = "met" if total < LIMIT_MB else "met, but for mapped files" if anonymous < LIMIT_MB else "**missed**"
        size = f"{told['items']:,} x {told['dimensions']}"
        rows.append([engine, size, f"{told['seconds']:.0f}", f"{anonymous:.0f}", f"{total:.0f}", verdict])
    print(as_markdown(["engine", "table", "seconds", "anonymous MB", "total MB", f"under {LIMIT_MB} MB"], rows))


if __name__ == "__main__":
    main()
