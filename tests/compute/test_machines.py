"""A Ray cluster of several raylets on this machine: one machine's numbers, rows by their files, workers that die."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from pyarrow import parquet

import unhub
from tests.bank_cases import drawn, whole_h
from tests.children import SOURCE, child
from tests.command import FIT, fail, succeed, write_inputs
from tests.vector_files import fixed, write_parquet
from unhub.arrays import Float32
from unhub.compute import machines
from unhub.compute.machines import ATTEMPTS, Cluster, KeptThere
from unhub.compute.workers import elsewhere
from unhub.data.similarity import Dot
from unhub.data.vectors import Stacked, Vectors
from unhub.errors import ArgumentError

ray: Any = pytest.importorskip("ray", reason="ray is not installed: the extra ray has it")
pytestmark = pytest.mark.once
RAYLETS = 3
ROOM = 300  # seconds that anything may take on a machine that does much else
STREAMED = ["is:tau=0.02", "dis", "csls", "nnn:k=32", "dualis", "dualdis", "dn", "cent"]
BALANCED = ["sn:tau=0.05", "dbsn"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Start a cluster of one-processor raylets, and return its address."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{SOURCE}:{Path(__file__).parents[2]}"  # the workers import what this process tests
    clusters: Any = pytest.importorskip("ray.cluster_utils", reason="ray is not installed: the extra ray has it")
    sizes = {"num_cpus": 1, "object_store_memory": 100_000_000}
    patient = {"health_check_initial_delay_ms": 60_000, "health_check_timeout_ms": 60_000}  # other tests run too
    head = {**sizes, "include_dashboard": False, "_system_config": patient}
    started: Any = None
    for attempt in range(3):  # Ray gives a raylet thirty seconds to start, which a busy machine may not have
        try:
            started = clusters.Cluster(True, head_node_args=head)
            for _ in range(RAYLETS - 1):
                started.add_node(**sizes)
            break
        except Exception:
            if started is not None:
                started.shutdown()
            if attempt == 2:
                raise
    try:
        yield started.address
    finally:
        started.shutdown()
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="module")
def runner(address: str) -> Iterator[Cluster]:
    """Stay connected for several fits."""
    ray.init(address, log_to_driver=False, logging_level="ERROR")
    yield Cluster(ray, address)
    ray.shutdown()


@contextmanager
def workers_of(runner: Cluster, count: int) -> Iterator[None]:
    """Cut the work for this many one-thread workers, on the raylets that there are."""
    kept = runner.slots, runner.machines
    runner.slots, runner.machines = count, [1] * count
    try:
        with elsewhere(runner):
            yield
    finally:
        runner.slots, runner.machines = kept


def process_of(keeper: Any) -> int:
    """Return the process that keeps an object."""
    return int(ray.get(keeper.__ray_call__.remote(lambda worker: os.getpid())))


def raylet_of(keeper: Any) -> int:
    """Return the raylet that an object is kept on, by its process."""
    return int(ray.get(keeper.__ray_call__.remote(lambda worker: os.getppid())))


def rows_of(n: int, d: int, seed: int) -> Float32:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


class Held:
    """Rows that are pickled by value and read where they are; it counts the rows that are read in this process."""

    def __init__(self, rows: Float32) -> None:
        self.shape, self.dtype = rows.shape, rows.dtype
        self.held, self.home, self.read_here = rows.tobytes(), os.getpid(), 0

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        start, stop, _ = key.indices(self.shape[0])
        if os.getpid() == self.home:
            self.read_here += stop - start
        return np.frombuffer(self.held, self.dtype).reshape(self.shape)[start:stop]

    def take_rows(self, positions: NDArray[np.int64]) -> NDArray[np.generic]:
        if os.getpid() == self.home:
            self.read_here += len(positions)
        return np.frombuffer(self.held, self.dtype).reshape(self.shape)[positions]


class Trap:
    """Rows that kill the process that reads them, or raise an error there: the reads from `spared` to `until`."""

    def __init__(
        self, rows: Float32, marks: Path, spared: int, until: int, error: type[Exception] | None = None
    ) -> None:
        self.rows, self.marks, self.home, self.error = rows, marks, os.getpid(), error
        self.spared, self.until = spared, until
        self.shape, self.dtype = rows.shape, rows.dtype

    def __getitem__(self, key: slice, /) -> NDArray[np.generic]:
        reads = len(list(self.marks.iterdir()))
        if os.getpid() != self.home and reads < self.until:
            (self.marks / f"{os.getpid()}-{time.monotonic_ns()}").touch()
            if reads >= self.spared and self.error is not None:
                raise self.error
            if reads >= self.spared:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.rows[key]


# The same numbers.


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_any_number_of_workers_has_the_numbers_of_one_machine(runner: Cluster, count: int) -> None:
    sets = drawn(50, items=700, bank=1900)
    specs = [*STREAMED, *BALANCED]
    here = unhub.fit(sets.items, sets.bank, method=specs, bank_items=sets.bank_items, threads=1)
    with workers_of(runner, count):
        there = unhub.fit(sets.items, sets.bank, method=specs, bank_items=sets.bank_items, threads=1)
    for one, other in zip(here, there, strict=True):
        if isinstance(one, unhub.Bias):
            scale = max(float(np.ptp(whole_h(one))), 1e-3)
            assert_allclose(whole_h(other), whole_h(one), rtol=0, atol=1e-5 * scale)
        else:
            assert_allclose(other.apply(sets.query_scores), one.apply(sets.query_scores), rtol=1e-5)
        assert other.source == one.source
        assert any("on Ray" in note for note in other.cost.notes)
        assert abs(other.cost.passes - one.cost.passes) <= 1  # one of them may have to make K again


def test_workers_compute_with_torch_if_its_processor_is_named(runner: Cluster) -> None:
    pytest.importorskip("torch", reason="torch is not installed: the extra train has it")
    sets = drawn(50, items=700, bank=1900)
    asked: dict[str, Any] = {"method": ["nnn:k=32", "sn:tau=0.05"], "threads": 1, "device": "cpu"}
    here = unhub.fit(sets.items, sets.bank, **asked)
    with workers_of(runner, 1):  # every worker has to import torch
        there = unhub.fit(sets.items, sets.bank, on="ray", **asked)
    for one, other in zip(here, there, strict=True):
        assert_allclose(whole_h(other), whole_h(one), rtol=0, atol=1e-5 * float(np.ptp(whole_h(one))))
        assert other.cost.kernel == one.cost.kernel and "torch" in other.cost.kernel


def test_rankings_are_those_of_one_machine(runner: Cluster) -> None:
    sets = drawn(51, items=300, bank=700)
    correction = unhub.fit(sets.items, sets.bank, threads=1)
    answers = [(query, query % 300) for query in range(len(sets.queries))]
    relevance = unhub.Relevance(*map(np.array, zip(*answers, strict=True)))
    here = unhub.evaluate(sets.queries, sets.items, relevance, correction, threads=1)
    counts = unhub.hubness(sets.queries, sets.items, correction, threads=1).counts
    with workers_of(runner, 3):
        there = unhub.evaluate(sets.queries, sets.items, relevance, correction, threads=1)
        assert_array_equal(unhub.hubness(sets.queries, sets.items, correction, threads=1).counts, counts)
    assert there.to_dict() == here.to_dict()


@pytest.mark.parametrize("spec", ["is", "sn:tau=0.05"])
def test_extending_and_merging_are_those_of_one_machine(runner: Cluster, spec: str) -> None:
    sets = drawn(52, items=300, bank=700)
    fitted = unhub.fit(sets.items[:250], sets.bank[:600], spec, threads=1, mergeable=True)

    def changed() -> list[Any]:
        extended = unhub.extend(fitted, sets.items[250:], sets.bank[:600], threads=1)
        return [extended, unhub.merge(fitted, sets.items[:250], sets.bank[600:], threads=1)]

    here = changed()
    with workers_of(runner, 2):
        for one, other in zip(here, changed(), strict=True):
            assert_allclose(other.bias, one.bias, rtol=0, atol=1e-5 * np.ptp(one.bias))


def test_tuning_chooses_as_on_one_machine(runner: Cluster) -> None:
    sets = drawn(53, items=300, bank=700)
    methods = ["is", "nnn:k=8,alpha=0.75", "sn:tau=0.05"]
    here = unhub.tune(sets.items, sets.bank, methods=methods, threads=1)
    with workers_of(runner, 2):
        there = unhub.tune(sets.items, sets.bank, methods=methods, threads=1)
    assert there.best.spec == here.best.spec
    assert [one.spec for one in there.table] == [one.spec for one in here.table]


def test_commands_compute_on_a_cluster(runner: Cluster, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    printed = json.loads(succeed(tmp_path, *FIT, "--on", "ray", "--json"))
    assert any("on Ray" in note for note in printed["cost"]["notes"])
    hubs = ("hubs", "--items", "items.npy", "--queries", "queries.npy", "--json")
    assert succeed(tmp_path, *hubs) == succeed(tmp_path, *hubs, "--on", "ray")


@pytest.mark.parametrize("command", ["fit", "tune"])
def test_a_wrong_cluster_is_one_line_that_names_the_option(tmp_path: Path, command: str) -> None:
    write_inputs(tmp_path)
    said = fail(tmp_path, command, *FIT[1:], "--on", "dask")
    assert said.startswith("--on must be 'ray' or an address such as 'ray://host:10001', got 'dask'")


# What is sent.


def test_rows_in_files_never_pass_through_this_process(runner: Cluster, tmp_path: Path) -> None:
    rows = rows_of(6000, 64, 0)
    np.save(tmp_path / "items.npy", rows[:3000].astype(np.float16))
    np.save(tmp_path / "part.npy", rows[3000:4500])
    np.save(tmp_path / "bank.npy", rows[4500:])
    first, part, bank = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("items", "part", "bank"))
    items = Vectors(np.arange(4400), Stacked([first[100:], np.asarray(part)]))  # a slice, and a view that is no memmap
    here = [unhub.fit(items, bank, method, threads=1) for method in ("is", "dn", "sn:tau=0.1")]
    before = runner.sent
    with workers_of(runner, 2):
        there = [unhub.fit(items, bank, method, threads=1) for method in ("is", "dn", "sn:tau=0.1")]
    for one, other in zip(here, there, strict=True):
        assert_allclose(whole_h(other), whole_h(one), rtol=0, atol=1e-6)
    assert runner.sent - before < 250_000 < bank.nbytes  # the jobs, and the vectors of Sinkhorn


@pytest.mark.parametrize("kind", ["mapped", "parquet", "described"])
def test_a_part_of_the_bank_and_the_checked_items_are_read_by_the_workers(
    runner: Cluster, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unhub.estimating.cluster_outlay", lambda bank: 1.0)  # too much for clusters of the bank
    rows = {"items": rows_of(3000, 128, 0), "bank": rows_of(12_000, 128, 1)}
    sets: dict[str, Any] = {}
    for name, some in rows.items():
        if kind == "mapped":
            np.save(tmp_path / f"{name}.npy", some)
            sets[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        elif kind == "parquet":
            (tmp_path / name).mkdir()
            for number, part in enumerate(np.array_split(some, 3)):
                write_parquet(tmp_path / name / f"{number}.parquet", embedding=fixed(part))
            sets[name] = unhub.read_vectors(tmp_path / name)
        else:
            sets[name] = Held(some)
    methods = ["is:tau=0.1", "nnn:k=64", "dn"]
    here = unhub.fit(rows["items"], rows["bank"], method=methods, error=0.01, threads=1)
    before = runner.sent
    with workers_of(runner, 2):
        there = unhub.fit(sets["items"], sets["bank"], method=methods, error=0.01, threads=1)
    for one, other in zip(here, there, strict=True):
        assert_allclose(whole_h(other), whole_h(one), rtol=0, atol=1e-6)
        assert other.cost.pairs == one.cost.pairs
    assert "a random" in there[0].cost.how
    once = sum(some.nbytes for some in rows.values()) if kind == "described" else 0
    assert once <= runner.sent - before < once + 250_000  # the jobs, and the places of the rows
    if kind == "described":
        assert sets["items"].read_here <= 500 and sets["bank"].read_here == 0  # the items by which they are known


def test_a_folder_of_shards_is_read_by_the_workers(runner: Cluster, tmp_path: Path) -> None:
    for number in range(4):
        table = pyarrow.table({"embedding": list(rows_of(400, 64, number))})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    items, bank = unhub.read_vectors(tmp_path), rows_of(300, 64, 9)
    here, before = unhub.fit(items, bank, threads=1), runner.sent
    with workers_of(runner, 2):
        there = unhub.fit(items, bank, threads=1)
    assert_allclose(whole_h(there), whole_h(here), rtol=0, atol=1e-6)
    assert runner.sent - before < bank.nbytes + 50_000 < items.rows[:].nbytes


def test_rows_in_memory_are_sent_once(runner: Cluster) -> None:
    items, bank = rows_of(9000, 64, 1), rows_of(2000, 64, 2)
    before = runner.sent
    with workers_of(runner, 3):
        unhub.fit(items, bank, method=["is", "nnn"], threads=1)
    assert items.nbytes + bank.nbytes <= runner.sent - before < 1.1 * (items.nbytes + bank.nbytes)


def test_progress_is_shown_as_parts_are_done(runner: Cluster) -> None:
    seen: list[tuple[int, int]] = []
    with workers_of(runner, 2):
        unhub.fit(rows_of(30_000, 8, 1), rows_of(300, 8, 2), threads=1, progress=lambda *done: seen.append(done))
    assert len({done for done, _ in seen}) >= 4
    assert seen[-1][0] == seen[-1][1] == 30_000 * 300


# What goes wrong.


@pytest.mark.parametrize(("spec", "spared"), [("is", 4), ("sn:tau=0.1,keep=none", 25)])
def test_a_worker_that_is_killed_changes_no_h(runner: Cluster, tmp_path: Path, spec: str, spared: int) -> None:
    items, bank = rows_of(9000, 16, 3), rows_of(800, 16, 4)
    trap: Any = Trap(items, tmp_path, spared, spared + 1)
    here = unhub.fit(items, bank, spec, threads=1)
    with workers_of(runner, 3):
        there = unhub.fit(trap, bank, spec, threads=1)  # which keeps no K, so that items are read again
    assert len(list(tmp_path.iterdir())) == spared + 1
    assert_allclose(whole_h(there), whole_h(here), rtol=0, atol=1e-6)


def test_a_kept_shard_whose_worker_is_killed_is_made_anew(runner: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    items, bank, asked = rows_of(900, 16, 3), rows_of(800, 16, 4), []
    ask = KeptThere.ask

    def killing(self: KeptThere, method: str, *arguments: Any) -> list[Any]:
        asked.append(method)
        if len(asked) == 5:
            os.kill(process_of(runner.keeper(1)), signal.SIGKILL)
        return ask(self, method, *arguments)

    here = unhub.fit(items, bank, "sn:tau=0.05", threads=1)
    monkeypatch.setattr(KeptThere, "ask", killing)
    with workers_of(runner, 2):
        there = unhub.fit(items, bank, "sn:tau=0.05", threads=1)
    assert asked == ["way", "first_totals", *["shares_at"] * 10, "rows_at"]
    assert_allclose(whole_h(there), whole_h(here), rtol=0, atol=1e-6)


def test_a_part_of_the_matrix_is_kept_on_each_machine(runner: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    sets, ask = drawn(54, items=900, bank=800), KeptThere.ask
    killed: list[int] = []

    def killing(self: KeptThere, method: str, *arguments: Any) -> list[Any]:
        if method == "totals" and not killed:
            killed.append(process_of(runner.keeper(1)))
            os.kill(killed[0], signal.SIGKILL)
        return ask(self, method, *arguments)

    def fitted() -> Any:
        return unhub.fit(sets.items, sets.bank, "dbsn:tau=0.02", bank_items=sets.bank_items, threads=1, memory="320kB")

    with workers_of(runner, 2):
        whole = fitted()
        monkeypatch.setattr(KeptThere, "ask", killing)
        with_a_loss = fitted()
    assert killed
    assert whole.cost.kept == "sparse" and 2 < whole.cost.passes <= 4
    assert_array_equal(with_a_loss.bias, whole.bias)
    balanced = unhub.fit(sets.items, sets.bank, "dbsn:tau=0.02,tolerance=1e-6,keep=fp32", bank_items=sets.bank_items)
    cold = unhub.fit(sets.items, sets.bank, "dbsn:tau=0.02,keep=fp32", bank_items=sets.bank_items)
    assert isinstance(balanced, unhub.Bias) and isinstance(cold, unhub.Bias)
    assert np.std(whole.bias - balanced.bias) < np.std(cold.bias - balanced.bias)


def test_each_machine_keeps_a_shard(runner: Cluster) -> None:
    with elsewhere(runner):
        unhub.fit(rows_of(900, 16, 3), rows_of(800, 16, 4), "sn:tau=0.05", threads=1)
    assert len({raylet_of(runner.keeper(number)) for number in range(RAYLETS)}) == RAYLETS


def test_work_that_always_kills_its_worker_is_given_up(runner: Cluster, tmp_path: Path) -> None:
    trap: Any = Trap(rows_of(600, 16, 3), tmp_path, 0, 99)
    with workers_of(runner, 1), pytest.raises(ArgumentError, match=f"a worker died {ATTEMPTS} times at the same work"):
        unhub.fit(trap, rows_of(500, 16, 4), threads=1)


def test_a_worker_out_of_memory_is_said_so(runner: Cluster, tmp_path: Path) -> None:
    trap: Any = Trap(rows_of(600, 16, 3), tmp_path, 0, 99, MemoryError)
    with (
        workers_of(runner, 1),
        pytest.raises(ArgumentError, match="where a worker is out of memory; use machines with"),
    ):
        unhub.fit(trap, rows_of(500, 16, 4), threads=1)


def test_a_bad_row_is_reported_as_here(runner: Cluster) -> None:
    items = rows_of(9000, 16, 3)
    items[8123, 2] = np.nan
    with workers_of(runner, 2), pytest.raises(ArgumentError, match=r"^items holds nan in row 8123; every number"):
        unhub.fit(items, rows_of(500, 16, 4), threads=1)


def test_rows_that_cannot_be_sent_are_refused(runner: Cluster) -> None:
    class Local(Trap):
        """Of this function, so that no other process can find it."""

    rows: Any = Local(rows_of(600, 16, 3), Path(), 0, 0)
    with workers_of(runner, 1), pytest.raises(ArgumentError, match=r"^on cannot be used with rows that cannot be sent"):
        unhub.fit(rows, rows_of(500, 16, 4), threads=1)


@pytest.mark.parametrize("package", ["unhub", "numpy"])
def test_another_version_on_a_worker_is_named(runner: Cluster, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "9.9" if name == package else real(name))
    named = rf"^on is 'ray', where a worker has {package} [0-9.]+, and this process 9\.9; install the same version"
    with pytest.raises(ArgumentError, match=named):
        Cluster(ray, "ray")


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_gpu_of_a_cluster_is_refused_before_anything_starts(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, h = rows_of(9, 4, 0), unhub.fit(rows_of(9, 4, 0), rows_of(9, 4, 1))
    start_nothing(monkeypatch)
    given: dict[str, Any] = {"on": "ray", "device": device}
    calls: list[Callable[[], object]] = [
        lambda: unhub.fit(rows, rows, **given),
        lambda: unhub.tune(rows, rows, **given),
        lambda: unhub.extend(h, rows, rows, **given),
        lambda: unhub.merge(h, rows, rows, **given),
        lambda: unhub.evaluate(rows, rows, {0: [0]}, **given),
        lambda: unhub.hubness(rows, rows, **given),
        lambda: unhub.worst_hubs(rows, rows, **given),
    ]
    for call in calls:
        with pytest.raises(ArgumentError, match=rf"^device is '{device}'.* Ray cluster computes on processors; leave"):
            call()


def start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever asks for a cluster fail."""
    monkeypatch.setattr(machines, "cluster", None)
    monkeypatch.setattr("unhub.fitting.cluster", None)
    monkeypatch.setattr("unhub.upkeep.cluster", None)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"error": 0}, "error must be a finite number above 0"),
        ({"error": 0.1, "mergeable": True}, "error cannot be combined with mergeable"),
        ({"error": 0.1, "method": "sn"}, "error cannot be used with 'sn'"),
        ({"error": 0.1, "seed": -1}, "seed must be"),
        ({"error": 0.1, "items": unhub.Dense(np.eye(4)), "bank": None}, "error has no use with a matrix"),
        ({"method": "nnn:k=0"}, "method 'nnn' needs k to be"),
        ({"device": "gpu"}, "device 'gpu' is unknown"),
        ({"device": "auto", "precision": "bf16"}, "precision is 'bf16', .* on a cluster device='auto' finds none"),
        ({"precision": "bf16"}, "precision is 'bf16', which needs a device of torch; give"),
        ({"precision": "fp8"}, "precision 'fp8' is unknown"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_anything_starts(
    given: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_nothing(monkeypatch)
    with pytest.raises(ArgumentError, match=f"^{problem}"):
        unhub.fit(**{"items": rows_of(9, 4, 0), "bank": rows_of(9, 4, 1), "on": "ray", **given})


def test_a_method_whose_library_is_missing_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    start_nothing(monkeypatch)
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"^otn needs POT: "):
        unhub.fit(rows_of(9, 4, 0), rows_of(9, 4, 1), "otn", on="ray")


def test_what_cannot_be_merged_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, more = rows_of(9, 4, 0), rows_of(9, 4, 1)
    fitted = unhub.fit(rows, rows_of(9, 4, 2), "nnn")
    start_nothing(monkeypatch)
    with pytest.raises(ArgumentError, match=r"^correction of 'nnn' does not keep what merging needs"):
        unhub.merge(fitted, rows, more, on="ray")


def test_a_precision_that_a_cluster_cannot_have_is_refused_before_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    start_nothing(monkeypatch)
    with pytest.raises(ArgumentError, match=r"^precision is 'bf16', .* device='auto' finds none"):
        unhub.tune(rows_of(9, 4, 0), rows_of(9, 4, 1), on="ray", device="auto", precision="bf16")


def test_auto_is_what_workers_compute_with_whatever_is_here(runner: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, bank = rows_of(300, 16, 0), rows_of(400, 16, 1)
    here, counts = unhub.fit(rows, bank, threads=1), unhub.hubness(bank, rows, threads=1).counts
    monkeypatch.setattr("unhub.kernels._best_device", lambda: "torch:cuda")
    there = unhub.fit(rows, bank, on="ray", device="auto")
    assert_allclose(whole_h(there), whole_h(here), rtol=0, atol=1e-6)
    assert there.cost.kernel == here.cost.kernel
    assert_array_equal(unhub.hubness(bank, rows, on="ray", device="auto").counts, counts)


@pytest.mark.parametrize("on", ["dask", "", 7, "nowhere", "ray://", "ray://head", "head:"])
def test_what_is_no_address_is_refused(on: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^on must be 'ray' or an address such as"):
        unhub.fit(rows_of(9, 4, 0), rows_of(9, 4, 1), on=on)


def test_an_address_where_nothing_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    process = child(f"""
import numpy as np, unhub
unhub.fit(np.eye(3), np.eye(3), on="ray://127.0.0.1:{port}")
""")
    _, errors = process.communicate(timeout=ROOM)
    assert f"on names 'ray://127.0.0.1:{port}', where no Ray cluster answers" in errors.splitlines()[-1]


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_listener_that_says_nothing_is_given_up_in_time(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = child(f"""
import os, numpy as np, unhub
from unhub.compute import machines
from unhub.errors import ArgumentError
machines.ANSWER_SECONDS = machines.CLIENT_SECONDS = 2
try:
    unhub.fit(np.eye(3), np.eye(3), on="{scheme}127.0.0.1:{server.getsockname()[1]}")
except ArgumentError as error:
    print(error, flush=True)
    os._exit(3)
""")
        said, errors = process.communicate(timeout=ROOM)
    assert process.returncode == 3, errors
    assert "where no Ray cluster answers" in said


def test_a_connection_that_comes_too_late_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "ANSWER_SECONDS", 0.05)
    answers, ended = threading.Event(), threading.Event()
    with pytest.raises(ArgumentError, match=r"no answer in 0\.05 seconds"):
        machines._within_time("somewhere:1", lambda: answers.wait(ROOM), ended.set)
    machines._within_time("ray://somewhere:1", lambda: answers.wait(0.5), ended.set)  # a client server takes longer
    assert not ended.is_set()
    answers.set()
    assert ended.wait(ROOM)


def test_another_cluster_than_the_connected_one_is_refused(runner: Cluster, address: str) -> None:
    rows = rows_of(9, 4, 0)
    assert any("on Ray" in note for note in unhub.fit(rows, rows, on=address).cost.notes)
    with pytest.raises(ArgumentError, match=r"^on names 'ray://nowhere:1', but this process is already connected to"):
        unhub.fit(rows, rows, on="ray://nowhere:1")


def test_machines_that_start_no_worker_are_one_line(runner: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "START_SECONDS", 0)
    with pytest.raises(ArgumentError, match=r"^on is 'ray', where a machine starts no worker"):
        Cluster(ray, "ray")


def test_a_cluster_without_machines_is_one_line(runner: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_with_processors", lambda ray: [])
    with pytest.raises(ArgumentError, match="where no machine is left"):
        runner.keeper(99)


def test_what_was_asked_before_an_interruption_can_be_cancelled(runner: Cluster) -> None:
    def interrupted() -> Any:
        raise KeyboardInterrupt

    pending: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        runner.gather([lambda: "asked", interrupted], pending, lambda amount: None)
    assert pending == ["asked"]


def test_another_machines_copy_of_a_file_is_told_by_its_ends(tmp_path: Path) -> None:
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.float32, (4000, 16))
    rows[:] = 1
    place: Any = machines._place_in_file(rows)
    assert_array_equal(machines._map_again(*place), rows)
    machines._mapped.cache_clear()  # as on another machine
    rows[-1] = 2
    with pytest.raises(ArgumentError, match="has with other contents; put it on a shared disk"):
        machines._map_again(*place)


def test_a_file_that_was_replaced_behind_its_map_is_not_read_by_workers(tmp_path: Path) -> None:
    path, whole = tmp_path / "rows.npy", np.ones((4000, 16), np.float32)
    np.save(path, whole)
    rows = np.load(path, mmap_mode="r")
    whole[2000] = 2  # as after one item was embedded anew: the size and the ends are the same
    np.save(tmp_path / "new.npy", whole)
    (tmp_path / "new.npy").replace(path)
    for view in (rows, rows[:5]):
        with pytest.raises(ArgumentError, match=r"read .*rows\.npy, which was replaced since .*; open it again$"):
            machines._place_in_file(view)
    again: Any = machines._place_in_file(np.load(path, mmap_mode="r"))
    assert_array_equal(machines._map_again(*again), whole)


def test_a_view_of_a_part_of_a_file_is_mapped_again_as_it_is(tmp_path: Path) -> None:
    raw = np.memmap(tmp_path / "raw", np.float16, "w+", offset=4098, shape=(300, 16))
    raw[:] = np.arange(4800).reshape(300, 16)
    with (tmp_path / "raw").open("ab") as file:
        file.write(b"more")
    for view in (raw, raw[5:], raw[::-2], raw[:, 3:9], raw.T):
        place: Any = machines._place_in_file(view)
        assert_array_equal(machines._map_again(*place), view)


# From outside: a call that connects by itself, and one that is interrupted.


def test_a_call_connects_by_itself_and_ctrl_c_frees_the_cluster(address: str, tmp_path: Path) -> None:
    np.save(tmp_path / "items.npy", rows_of(40_000, 32, 0))
    process = child(f"""
import numpy as np, unhub
from unhub.compute import machines
machines.ANSWER_SECONDS = {ROOM}
items = np.load({str(tmp_path / "items.npy")!r}, mmap_mode="r")
small = unhub.fit(items[:500], items[:400], on={address!r})
print(abs(small.bias - unhub.fit(items[:500], items[:400]).bias).max() < 1e-6, flush=True)
def progress(done, total):
    if done:
        print("started", flush=True)
unhub.fit(items, items, method="sn:iterations=200", memory="1MB", on={address!r}, progress=progress)
""")
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["True\n", "started\n"]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=ROOM)
        assert "KeyboardInterrupt" in errors and process.returncode != 0
    finally:
        process.kill()
        process.wait()


def test_the_command_takes_a_device_a_cluster_and_an_error_at_once(address: str, tmp_path: Path) -> None:
    sets = rows_of(1000, 64, 0), rows_of(4000, 64, 1)
    for name, rows in zip(("items", "bank"), sets, strict=True):
        np.save(tmp_path / f"{name}.npy", rows)
    process = child(f"""
import os
os.chdir({str(tmp_path)!r})
os.environ["RAY_ADDRESS"] = {address!r}
from unhub import kernels
from unhub.cli import main
from unhub.compute import machines
machines.ANSWER_SECONDS = {ROOM}
kernels._best_device = lambda: "torch:cuda"  # as if there were a GPU
sys.argv = ["unhub", *{FIT!r}, *"--method nnn --device auto --on ray --error 0.02 --seed 4 --json".split()]
main()
""")
    said, errors = process.communicate(timeout=ROOM)
    assert (process.returncode, errors) == (0, "")
    cost, here = json.loads(said)["cost"], unhub.fit(*sets, "nnn", error=0.02, seed=4)
    assert 0 < cost["error"] <= 0.02 and "a random" in cost["how"] and (cost["pairs"] == here.cost.pairs)
    assert any("on Ray" in note for note in cost["notes"])
    assert_allclose(whole_h(unhub.load(tmp_path / "out.unhub")), whole_h(here), rtol=0, atol=1e-6)


def test_sigterm_frees_the_cluster_and_ends_the_program_without_a_word(address: str) -> None:
    process = child(f"""
import signal
import numpy as np, unhub
from unhub.compute import machines
machines.ANSWER_SECONDS = {ROOM}
rows = np.random.default_rng(0).standard_normal((40_000, 32)).astype(np.float32)
heard = []
own = lambda number, frame: heard.append(number)
signal.signal(signal.SIGTERM, own)
ask = lambda done, total: done or signal.raise_signal(signal.SIGTERM)
unhub.fit(rows[:50], rows[:40], on={address!r}, progress=ask)
print(bool(heard) and signal.getsignal(signal.SIGTERM) is own, flush=True)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
def progress(done, total):
    if done:
        print("started", flush=True)
unhub.fit(rows, rows, method="sn:iterations=200", memory="1MB", on={address!r}, progress=progress)
""")
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["True\n", "started\n"]
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=ROOM)
        assert (process.returncode, errors) == (-signal.SIGTERM, "")
    finally:
        process.kill()
        process.wait()


def test_jobs_that_end_just_as_they_are_given_up_do_no_harm(address: str) -> None:
    process = child(f"""
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import itertools, ray
from tests.compute.test_machines import Nap
from unhub.compute.machines import Cluster
ray.init({address!r}, log_to_driver=False, logging_level="ERROR")
runner = Cluster(ray, "ray")
for number in range(80):
    left = itertools.count(2 + number % 5, -1)
    def interrupt(amount):
        if next(left) <= 0:
            raise KeyboardInterrupt
    try:
        runner.run([Nap(0.00002 * place) for place in range(100)], interrupt)
    except KeyboardInterrupt:
        pass
print(runner.run([Nap(0)], lambda amount: None))
""")
    said, errors = process.communicate(timeout=ROOM)
    assert said == "['awake']\n", errors


@pytest.mark.parametrize("there", ["local", "127.0.0.1:1"])
def test_a_cluster_that_an_interrupt_finds_starting_is_ended(there: str) -> None:
    process = child(f"""
import os, signal, threading, time, types
os.environ["RAY_ADDRESS"] = {there!r}
from unhub.compute import machines

started, state = threading.Event(), []
def init(*given, **more):
    started.set()
    time.sleep(1)
    state.append("up")
def shutdown():
    if state:
        state.append("down")
ray = types.SimpleNamespace(init=init, shutdown=shutdown, is_initialized=lambda: False)
machines.optional_for, machines._await_answer = lambda *given: ray, lambda address: None
threading.Thread(target=lambda: started.wait() and os.kill(os.getpid(), signal.SIGINT)).start()
try:
    with machines.cluster("ray"):
        pass
except KeyboardInterrupt:
    time.sleep(2)
    print(state, flush=True)
""")
    said, errors = process.communicate(timeout=60)
    assert said.startswith("['up', 'down'"), errors


@pytest.mark.parametrize("inside", [True, False])
def test_a_sigterm_while_the_cluster_is_freed_does_not_cut_that_off(inside: bool) -> None:
    process = child(f"""
import signal, types
from unhub.compute import machines

def shutdown():
    signal.raise_signal(signal.SIGTERM)
    print("free", flush=True)
ray = types.SimpleNamespace(shutdown=shutdown, is_initialized=lambda: False)
machines._connect = lambda *given: None
with machines._connected(ray, "ray", None):
    if {inside}:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            print("settled", flush=True)
print("goes on")
""")
    said, errors = process.communicate(timeout=60)
    assert (said, errors, process.returncode) == ("settled\n" * inside + "free\n", "", -signal.SIGTERM)


def test_the_cluster_is_free_again(runner: Cluster) -> None:
    until = time.monotonic() + ROOM
    while ray.available_resources().get("CPU", 0) < RAYLETS and time.monotonic() < until:
        time.sleep(0.2)
    assert ray.available_resources()["CPU"] == RAYLETS


def test_similarities_are_sent_without_ids(runner: Cluster) -> None:
    items = Vectors(np.array([f"item {place:099d}" for place in range(3000)]), rows_of(3000, 8, 0))
    before = runner.sent
    runner.run([_Shape(Dot(items, items))], lambda amount: None)
    assert runner.sent - before < 2 * items.rows.nbytes  # type: ignore[attr-defined]


def test_what_belongs_to_one_pass_is_lent_to_it(runner: Cluster) -> None:
    weights, rows, kept, before = np.ones(50_000), rows_of(9000, 8, 5), len(runner._put), runner.sent
    assert runner.run([_Sum(weights, rows) for _ in range(3)], lambda amount: None) == [50_000] * 3
    assert len(runner._put) == kept + 1
    assert weights.nbytes + rows.nbytes <= runner.sent - before < 1.1 * (weights.nbytes + rows.nbytes)


class Nap:
    """A job that only takes its time."""

    size = 0

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, tick: object) -> str:
        time.sleep(self.seconds)
        return "awake"


class _Sum:
    """A job that adds up weights."""

    size = 0

    def __init__(self, weights: NDArray[np.float64], rows: Float32) -> None:
        self.weights, self.rows = weights, rows

    def __call__(self, tick: object) -> float:
        return float(self.weights.sum())


class _Shape:
    """A job that says how large a matrix is."""

    size = 0

    def __init__(self, similarity: Dot) -> None:
        self.similarity = similarity

    def __call__(self, tick: object) -> tuple[int, int]:
        return self.similarity.shape


def test_without_ray_the_extra_is_named() -> None:
    process = child("""
import sys
sys.modules["ray"] = None
import numpy as np, unhub
unhub.fit(np.eye(3), np.eye(3), on="ray")
""")
    _, errors = process.communicate(timeout=ROOM)
    assert "MissingLibrary: on is 'ray', which needs ray: " in errors and "[ray]" in errors.splitlines()[-1]


def test_a_cluster_is_started_for_the_call_and_ended_with_it() -> None:
    process = child("""
import os
os.environ["RAY_ADDRESS"] = "local"
import numpy as np, ray, unhub
rows = np.random.default_rng(0).standard_normal((500, 8)).astype(np.float32)
there = unhub.fit(rows, rows[:300], on="ray", threads=1)
print(ray.is_initialized(), abs(there.bias - unhub.fit(rows, rows[:300]).bias).max() < 1e-6, there.cost.notes)
""")
    said, errors = process.communicate(timeout=ROOM)
    assert said.startswith("False True ('on Ray, 1 processor of 1 machine:"), errors
