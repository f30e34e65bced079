"""Extra memory of IS, DIS, NNN, CSLS and DualIS from mapped files, 1,000,000 items x 10,000 bank and the reverse.

The claim: the peak of the anonymous memory of a child process that fits, over what it had after importing unhub and
opening the maps, is below 500 MB (aim 200 MB). Loading the compiled kernels counts (importing numba is part of
importing unhub); the table also shows this part, measured by a fit of a few rows before the real one.

The parent reads RssAnon from /proc/PID/status every 10 ms and keeps the largest. The kernel's own high-water mark,
VmHWM, would not do: it includes pages of the mapped files that happen to be in memory, which the system can reclaim at
any time, and there is no such mark for anonymous memory alone. A peak shorter than 10 ms can be missed. Linux only.

A full run writes about 2.1 GB (1.1 GB with --dtype float16) to a temporary folder, removed afterwards, and multiplies
1e10 pairs for each method and shape, about a minute each on two cores and two for DualIS: a quarter of an hour in all.
For DualIS the bank items are as many as the bank, and read from the same file.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import unhub
from data import unit_vectors, write_unit_vectors

METHODS = ("is", "dis", "nnn", "csls", "dualis")
LARGE_ROWS, SMALL_ROWS = 1_000_000, 10_000
LIMIT_MB, AIM_MB = 500, 200
SAMPLE_SECONDS = 0.01


@dataclass(frozen=True)
class Used:
    """What a fit in a child process took: seconds, and bytes of anonymous memory, in total and for the kernels."""

    seconds: float
    extra: int
    kernels: int


def main() -> None:
    """Write the files, fit each method on each shape in a child of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", choices=METHODS, help="only these; repeatable")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32", help="number type of the files")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--folder", type=Path, help="folder for the temporary files; default: the system's")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for both sizes, such as 0.01 for a small run")
    parser.add_argument("--child", nargs=4, metavar=("METHOD", "ITEMS", "BANK", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        method, items, bank, threads = options.child
        fit_as_told(method, Path(items), Path(bank), int(threads))
        return
    if not Path("/proc/self/status").exists():
        raise SystemExit("this benchmark reads /proc/PID/status, which only Linux has")
    sizes = {name: max(2, round(rows * options.scale)) for name, rows in (("large", LARGE_ROWS), ("small", SMALL_ROWS))}
    numbers = f"{options.dtype}, d = {options.dimensions}, {options.threads} thread(s)"
    table = Table("items x bank", "method", "seconds", "extra MB", "of it kernels", f"must {LIMIT_MB}", f"aim {AIM_MB}")
    table.title, table.min_width = f"Extra anonymous memory of a fit from mapped files, {numbers}", 90
    with tempfile.TemporaryDirectory(prefix="unhub-memory-", dir=options.folder) as folder:
        check_room(Path(folder), sum(sizes.values()) * options.dimensions * np.dtype(options.dtype).itemsize)
        files = {name: Path(folder) / f"{name}.npy" for name in sizes}
        for seed, (name, rows) in enumerate(sizes.items()):
            write_unit_vectors(files[name], rows, options.dimensions, seed, options.dtype)
        for items, bank in (("large", "small"), ("small", "large")):
            for method in options.method or METHODS:
                used = watch(method, files[items], files[bank], options.threads)
                table.add_row(f"{sizes[items]:,} x {sizes[bank]:,}", method, *cells(used))
    Console(width=110).print(table)


def check_room(folder: Path, needed: int) -> None:
    """Stop if the files would fill the disk."""
    free = shutil.disk_usage(folder).free
    if free < 1.2 * needed:
        raise SystemExit(
            f"{folder} has {free / 1e9:.1f} GB free, the files take {needed / 1e9:.1f} GB; name another with --folder"
        )


def cells(used: Used) -> tuple[str, ...]:
    """Return the table cells of a fit."""
    extra = used.extra / 1e6
    verdicts = ("met" if extra <= LIMIT_MB else "MISSED", "met" if extra <= AIM_MB else "missed")
    return (f"{used.seconds:.1f}", f"{extra:.0f}", f"{used.kernels / 1e6:.0f}", *verdicts)


def watch(method: str, items: Path, bank: Path, threads: int) -> Used:
    """Fit in a child and sample its anonymous memory from when it has opened the maps until it is done."""
    told = [method, str(items), str(bank), str(threads)]
    command = [sys.executable, str(Path(__file__).resolve()), "--child", *told]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            hear(child)  # the maps are open
            before = anonymous_memory(child.pid)
            with Sampling(child.pid) as sampling:
                tell(child)
                hear(child)  # the kernels are loaded
                loaded = anonymous_memory(child.pid)
                tell(child)
                report = json.loads(hear(child))  # the fit is done
            tell(child)
        except BaseException:
            child.kill()
            raise
    return Used(float(report["seconds"]), sampling.peak - before, loaded - before)


class Sampling:
    """A thread that keeps the largest anonymous memory of a process it has seen."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Sampling:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self.peak = max(self.peak, anonymous_memory(self.process))
            if self._done.wait(SAMPLE_SECONDS):
                return


def anonymous_memory(process: int) -> int:
    """Return a process's anonymous resident memory in bytes; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(match[1]) << 10 if match else 0


def hear(child: subprocess.Popen[str]) -> str:
    """Return the child's next line."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise SystemExit(f"the child ended early, with exit code {child.wait()}")
    return line


def tell(child: subprocess.Popen[str]) -> None:
    """Let the child continue."""
    assert child.stdin is not None
    child.stdin.write("go on\n")
    child.stdin.flush()


def fit_as_told(method: str, items_file: Path, bank_file: Path, threads: int) -> None:
    """Run as the child: open the maps, load the kernels, fit; report each step and wait for a line before the next."""

    def done(what: object) -> None:
        print(json.dumps(what), flush=True)
        sys.stdin.readline()

    fit = unhub.fit  # imports on first use count as importing unhub
    items, bank = np.load(items_file, mmap_mode="r"), np.load(bank_file, mmap_mode="r")
    done("opened")
    few = unit_vectors(600, 8, seed=2)
    fit(few, few, method=method, bank_items=few if method == "dualis" else None, threads=threads)
    done("loaded")
    start = time.perf_counter()
    fitted = fit(items, bank, method=method, bank_items=bank if method == "dualis" else None, threads=threads)
    done({"seconds": time.perf_counter() - start, "items": len(fitted.ids)})


if __name__ == "__main__":
    main()
