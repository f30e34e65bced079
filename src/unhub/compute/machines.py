"""Cluster: run jobs and keep objects on the machines of a Ray cluster. Ray is imported when a cluster is asked for.

What is sent is pickled here, so that rows are never sent twice: a mapped file goes as its path, and is mapped again
where it is needed; an array that is only in memory goes once into Ray's object store, whoever refers to it.
"""

from __future__ import annotations

import functools
import hashlib
import io
import mmap
import os
import pickle
import re
import signal
import socket
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from unhub.compute.workers import POLL_SECONDS, Job, Stopped, Tick, elsewhere, one_blas_thread, thread_count
from unhub.data.vectors import Gathered
from unhub.errors import ArgumentError, optional, optional_for
from unhub.kernels import AUTO, BF16, check_name, name_of

AT_HAND = (
    "ray"  # the cluster that RAY_ADDRESS names or that runs on this machine, else one that is started for the call
)
ADDRESS = re.compile(r"(ray://)?[^/]+:[0-9]+")
CLIENT = "ray://"  # how the address of a client server begins
ON_CLUSTER = "on Ray, "  # how the note on where work ran begins
LOCAL = "local"  # in RAY_ADDRESS: start one
ANSWER_SECONDS = 20  # to wait for an address
CLIENT_SECONDS = 45  # for a client server, which itself gives the process that it starts for a client 30
START_SECONDS = 180  # to wait for the first worker on each machine
SETTLE_SECONDS = 10  # for what was given up to end, before the connection may be closed
LISTEN_SECONDS = 0.5  # between two looks of a job whether it is given up
ATTEMPTS = 4  # of a job or an object whose worker died, before the cluster is given up
SMALL_BYTES = 1 << 16  # arrays up to here are sent with what refers to them
EDGE_BYTES = 1 << 16  # at either end of a file, which tell it from another of its size
MOST_OPENED = 4  # sets of rows that a worker keeps open, whatever their size
MOST_MAPPED = 32  # files that a worker keeps mapped
OPEN_FILES = "/dev/fd"  # the files that this process holds open, by their numbers; Windows has no such folder
REINSTALL = "install the same version everywhere"
T = TypeVar("T")
P = ParamSpec("P")


@contextmanager
def cluster(on: str | None, threads: int | None = None) -> Iterator[None]:
    """Let the workers inside the `with` block use what a user named, and leave nothing behind; None changes nothing.

    on: "ray", or an address such as "ray://host:10001" or "host:6379". threads: of a cluster that is started here.
    """
    if on is None:
        yield
        return
    given: object = on
    if not isinstance(given, str) or not (given == AT_HAND or ADDRESS.fullmatch(given)):
        raise ArgumentError("on", f"must be {AT_HAND!r} or an address such as 'ray://host:10001', got {given!r}")
    ray = optional_for("on", on, "ray", "ray")
    with _connected(ray, on, threads), elsewhere(Cluster(ray, on)):
        yield


@contextmanager
def _connected(ray: Any, on: str, threads: int | None) -> Iterator[None]:
    """Be connected inside the `with` block; a program that was before stays so.

    A SIGTERM, as of a scheduler, ends the program once the cluster is free, where Ray would print its own stack;
    further ones change nothing.
    """
    if ray.is_initialized():
        _check_connected(ray, on)
        yield
        return
    heard: list[int] = []

    def hear(number: int, frame: object) -> None:
        heard.append(number)

    def leave(number: int, frame: object) -> None:
        if not heard:
            heard.append(number)
            raise SystemExit(128 + number)

    before = signal.getsignal(signal.SIGTERM)
    is_ours = before is not None and threading.current_thread() is threading.main_thread()
    try:
        _connect(ray, on, threads)
        if is_ours:  # not sooner: Ray sets its own
            signal.signal(signal.SIGTERM, leave if before is signal.SIG_DFL else before)
        yield
    finally:
        if is_ours and before is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, hear)  # what frees the cluster is not cut off
        try:
            ray.shutdown()
        finally:
            if is_ours:
                signal.signal(signal.SIGTERM, before)
            if heard:
                signal.raise_signal(heard[0])


def on_machines(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function that takes `on`, `threads` and `device` do its work in a `cluster`."""

    @functools.wraps(function)
    def there(*arguments: P.args, **named: P.kwargs) -> T:
        on, device, precision = (cast("str | None", named.get(name)) for name in ("on", "device", "precision"))
        if on is not None:
            named["device"] = device_on(on, device, precision)
        with cluster(on, cast("int | None", named.get("threads"))):
            return function(*arguments, **named)

    return there


def device_on(on: str | None, device: str | None, precision: str | None = None) -> str | None:
    """Return the device that computes, as a user names it: on a cluster, "auto" is None, this library's own kernels.

    The jobs of a cluster ask it for processors, and several share a machine; so a GPU is refused, before anything
    starts. What this machine has does not count: it only hands out the work.
    """
    if on is None:
        return device
    if device == AUTO:
        if precision == BF16:
            problem = f"is {BF16!r}, which needs a device of torch, and on a cluster device={AUTO!r} finds none"
            raise ArgumentError(
                "precision", problem, "leave it out, or give device='cpu' for torch's processor kernels"
            )
        device = None
    name = check_name(device)
    if name is not None and name.startswith("torch:") and name.removeprefix("torch:") != "cpu":
        problem = f"is {device!r}, and a Ray cluster computes on processors"
        raise ArgumentError("device", problem, "leave it out, or give 'cpu' for torch's own processor kernels")
    name_of(device, precision)  # what cannot be is an error here, not on a cluster that was started for it
    return device


def _check_connected(ray: Any, on: str) -> None:
    """Raise unless the cluster that this process is connected to is the one that a user named."""
    if on == AT_HAND:
        return
    known = ray.get_runtime_context().gcs_address
    if on != known:
        problem = f"names {on!r}, but this process is already connected to the Ray cluster {known!r}"
        raise ArgumentError("on", problem, f"give {AT_HAND!r} to use that one, or call ray.shutdown() first")


def _connect(ray: Any, on: str, threads: int | None) -> None:
    address = os.environ.get("RAY_ADDRESS", "auto") if on == AT_HAND else on
    init = functools.partial(ray.init, log_to_driver=False, logging_level="ERROR")
    if address not in ("auto", LOCAL):
        if address.startswith(CLIENT):
            optional_for("on", address, "grpc", "ray")
        _await_answer(address)
        _within_time(address, functools.partial(init, address), ray.shutdown)
        return
    if address != LOCAL:
        with suppress(ConnectionError), _interrupt_held_back():  # none runs here
            init("auto")
            return
    try:
        with _interrupt_held_back():
            init(LOCAL, num_cpus=thread_count(threads), include_dashboard=False)
    except Exception as error:  # of any type, when a process of Ray does not start in time
        problem = f"is {on!r}, and no Ray cluster could be started here ({_first_line(error)})"
        raise ArgumentError("on", problem, "try again when the machine is less busy, or start one yourself") from None


@contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Let ctrl-C come after the `with` block: Ray cannot end what it has half started. A second ctrl-C comes at once.

    Not by a thread that is waited for: what Ray starts ends with the thread that started it.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: object) -> None:
        if held:
            raise KeyboardInterrupt
        held.append(number)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held:
            raise KeyboardInterrupt


def _await_answer(address: str) -> None:
    """Raise unless something listens at an address."""
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _silent(address, str(error)) from None


def _within_time(address: str, connect: Callable[[], object], disconnect: Callable[[], object]) -> None:
    """Connect, in a thread that is left alone if it takes too long, and that then leaves no connection."""
    errors: list[BaseException | None] = []
    late = threading.Event()

    def call() -> None:
        try:
            connect()
            errors.append(None)
        except BaseException as error:
            errors.append(error)
        if late.is_set():
            disconnect()

    thread = threading.Thread(target=call, daemon=True)
    seconds = CLIENT_SECONDS if address.startswith(CLIENT) else ANSWER_SECONDS
    try:
        thread.start()
        thread.join(seconds)
    except BaseException:
        late.set()
        raise
    if not errors:
        late.set()
        if errors:  # in between
            disconnect()
        raise _silent(address, f"no answer in {seconds} seconds")
    if errors[0] is not None:
        raise _silent(address, _first_line(errors[0])) from None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _silent(address: str, why: str) -> ArgumentError:
    problem = f"names {address!r}, where no Ray cluster answers ({why})"
    return ArgumentError("on", problem, "start it, or correct the address")


def _with_processors(ray: Any) -> list[Any]:
    """Return the machines of a cluster that can compute."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]


class _Lent(dict[int, tuple[object, Any]]):
    """What is in the object store, by its id here."""


class Cluster:
    """A Ray cluster as a Runner; counts the bytes that leave this process and that come in."""

    def __init__(self, ray: Any, on: str) -> None:
        self._ray, self._on = ray, on
        nodes = _with_processors(ray)
        if not nodes:
            raise ArgumentError("on", f"is {on!r}, a cluster without processors", "add machines to it")
        self._nodes = [node["NodeID"] for node in nodes]
        self.machines = [int(node["Resources"]["CPU"]) for node in nodes]
        self.slots = sum(self.machines)
        self.sent = self.received = 0
        self._keepers: dict[int, Any] = {}
        self._put = _Lent()  # for good
        self._at = optional("ray.util.scheduling_strategies", "ray", on).NodeAffinitySchedulingStrategy
        self._board = optional("ray.experimental.internal_kv", "ray", on)
        self._work = ray.remote(max_retries=0, num_cpus=1, scheduling_strategy="SPREAD")(_work)
        self._check_versions()

    @property
    def note(self) -> str:
        """How many workers there are, and the bytes through this process."""
        processors = "1 processor" if self.slots == 1 else f"{self.slots} processors"
        workers = f"{processors} of {'1 machine' if len(self.machines) == 1 else f'{len(self.machines)} machines'}"
        return (
            f"{ON_CLUSTER}{workers}: {self.sent / 1e6:,.1f} MB left this process, {self.received / 1e6:,.1f} MB came in"
        )

    def run(self, jobs: Sequence[Job[T]], tick: Tick) -> list[T]:
        """Run the jobs, each on one processor; a job whose worker died is run again.

        If they are given up, a notice on the cluster's board tells them to stop. Not `ray.cancel`: with or without
        force, Ray aborts this process if a job ends at the moment when it is cancelled.
        """
        lent, notice = _Lent(), uuid.uuid4().bytes
        asks = [functools.partial(self._work.remote, *self._packed(job, lent), notice) for job in jobs]
        pending: list[Any] = []
        try:
            return self.gather(asks, pending, tick, [job.size for job in jobs])
        except BaseException:
            with suppress(Exception):  # a cluster that is gone runs no jobs
                self._board._internal_kv_put(notice, b"stop")
                if self._settle(pending):
                    self._board._internal_kv_del(notice)
            raise

    @contextmanager
    def keep(self, makers: Sequence[Callable[[], object]], tick: Tick) -> Iterator[KeptThere]:
        """Keep an object on each machine; one whose worker died is made anew. The workers stay for the next time."""
        lent = _Lent()
        kept = KeptThere(self, [self._packed(maker, lent) for maker in makers], tick)
        try:
            yield kept
        except BaseException:
            for number in range(len(makers)):
                self.end_keeper(number)
            with suppress(Exception):
                self._settle(kept.pending)
            raise
        kept.forget()

    def _settle(self, pending: Sequence[Any]) -> bool:
        """Wait for calls that were given up, for some time, and return whether all have ended."""
        if not pending:
            return True
        wait = functools.partial(self._ray.wait, timeout=SETTLE_SECONDS, fetch_local=False)
        return not wait(list(pending), num_returns=len(pending))[1]

    def keeper(self, number: int) -> Any:
        """Return the worker that keeps an object on the machine of this number; another machine if that one is gone."""
        if number not in self._keepers:
            alive = [node["NodeID"] for node in _with_processors(self._ray)]
            if not alive:
                raise ArgumentError("on", f"is {self._on!r}, a cluster where no machine is left", "add machines to it")
            own = self._nodes[number % len(self._nodes)]
            where = self._at(own if own in alive else alive[number % len(alive)], soft=False)
            # It asks for no processor, so that it can move to a machine where another one already is.
            start = self._ray.remote(num_cpus=0, max_restarts=0, scheduling_strategy=where)(_Keeper)
            self._keepers[number] = start.remote()
        return self._keepers[number]

    def end_keeper(self, number: int) -> None:
        """End a worker that keeps an object, whatever it does."""
        with suppress(Exception):  # one that is gone need not be ended
            self._ray.kill(self._keepers.pop(number))

    def lend(self, array: NDArray[np.generic]) -> Any:
        """Put an array into the object store, for as long as the reference lives."""
        self.sent += array.nbytes
        return self._stored(array)

    def _stored(self, value: object) -> Any:
        try:
            return self._ray.put(value)
        except self._ray.exceptions.RayError as error:
            raise self._broken(error) from None

    def put(self, array: NDArray[np.generic], lent: _Lent | None = None) -> Any:
        """Put an array into the object store once, until the end, or for as long as `lent` lives."""
        known = self._put if lent is None else lent
        if id(array) not in known:
            known[id(array)] = array, self.lend(array)
        return known[id(array)][1]

    def _packed(self, value: object, lent: _Lent) -> tuple[bytes, list[Any]]:
        """Return something as bytes, and what they refer to in the object store; `lent` is shared by one pass."""
        file, pickler = io.BytesIO(), None
        try:
            pickler = _Sender(file, self, lent)
            pickler.dump(value)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            remedy = "give arrays, mapped files or what `read_vectors` returns"
            raise ArgumentError("on", f"cannot be used with rows that cannot be sent ({error})", remedy) from None
        self.sent += len(file.getbuffer())
        return file.getvalue(), pickler.references

    def described(self, rows: object) -> Any:
        """Put rows that are no array, such as a folder of shards, into the object store as they pickle themselves."""
        if id(rows) not in self._put:
            file = io.BytesIO()
            pickler = _Sender(file, self, source=rows.rows if isinstance(rows, Gathered) else None)
            pickler.dump(rows)
            self.sent += len(file.getbuffer())
            self._put[id(rows)] = rows, self._stored((file.getvalue(), pickler.references))
        return self._put[id(rows)][1]

    def gather(
        self, asks: Sequence[Callable[[], Any]], pending: list[Any], tick: Tick, sizes: Sequence[int] | None = None
    ) -> list[Any]:
        """Return the answers in order; ask again where a worker died. `pending` holds what has not been answered."""
        ray = self._ray
        owners: dict[Any, tuple[int, int]] = {}

        def ask(number: int, attempt: int) -> None:
            reference = asks[number]()
            pending.append(reference)  # at once: the next one may be interrupted
            owners[reference] = number, attempt

        for number in range(len(asks)):
            ask(number, 1)
        found: list[Any] = [None] * len(asks)
        while owners:
            pending[:] = owners
            ready, _ = ray.wait(pending, timeout=POLL_SECONDS)
            tick(0)
            for reference in ready:
                number, attempts = owners.pop(reference)
                try:
                    answer = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise self._broken(error.cause or error) from None
                except ray.exceptions.OutOfMemoryError as error:
                    raise self._broken(error) from None
                except ray.exceptions.RayError as error:
                    if attempts == ATTEMPTS:
                        raise self._broken(error) from None
                    ask(number, attempts + 1)
                else:
                    self.received += len(answer)
                    found[number] = pickle.loads(answer)
                    tick(0 if sizes is None else sizes[number])
        return found

    def _broken(self, error: BaseException) -> BaseException:
        """Return the error for the user: their own, or one line on what happened in the cluster."""
        exceptions = self._ray.exceptions
        full = (MemoryError, exceptions.OutOfMemoryError, exceptions.ObjectStoreFullError, exceptions.OutOfDiskError)
        if isinstance(error, full):
            remedy = "use machines with more of it, or fewer processors on each, or a lower limit for `memory`"
            return ArgumentError("on", f"is {self._on!r}, where a worker is out of memory", remedy)
        if not isinstance(error, exceptions.RayError):
            return error
        problem = f"is {self._on!r}, where a worker died {ATTEMPTS} times at the same work ({_first_line(error)})"
        return ArgumentError("on", problem, "look at the logs of Ray; a machine without memory kills its workers")

    def _check_versions(self) -> None:
        """Raise unless every machine has this version of unhub and of numpy."""

        def versions() -> dict[str, str]:  # inside a function, so that Ray sends its code: unhub may not be there
            from importlib import metadata

            found = {}
            for name in ("unhub", "numpy"):
                try:
                    found[name] = metadata.version(name)
                except metadata.PackageNotFoundError:
                    found[name] = "none"
            return found

        here = versions()
        ask = self._ray.remote(num_cpus=0, max_retries=ATTEMPTS)(versions)
        asked = [ask.options(scheduling_strategy=self._at(node, soft=False)).remote() for node in self._nodes]
        try:
            found = self._ray.get(asked, timeout=START_SECONDS)
        except self._ray.exceptions.RayError as error:
            problem = f"is {self._on!r}, where a machine starts no worker ({_first_line(error)})"
            raise ArgumentError("on", problem, "look at the logs of Ray") from None
        for there in found:
            for name, version in here.items():
                if there[name] != version:
                    problem = f"is {self._on!r}, where a worker has {name} {there[name]}, and this process {version}"
                    raise ArgumentError("on", problem, REINSTALL)


class KeptThere:
    """Objects that the keepers of a cluster keep, each on a machine."""

    def __init__(self, home: Cluster, makers: Sequence[tuple[bytes, list[Any]]], tick: Tick) -> None:
        self._home, self._makers, self._tick = home, makers, tick
        self._name = uuid.uuid4().hex  # tells these objects from those of another time
        self.pending: list[Any] = []  # calls that have not been answered

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every object with the same arrays."""
        lent = [self._home.lend(one) for one in arguments]
        asked: set[int] = set()

        def call(number: int) -> Any:
            if number in asked:  # and it died
                self._home.end_keeper(number)
            asked.add(number)
            return self._home.keeper(number).call.remote(self._name, *self._makers[number], method, *lent)

        asks = [functools.partial(call, number) for number in range(len(self._makers))]
        self.pending = []
        return self._home.gather(asks, self.pending, self._tick)

    def forget(self) -> None:
        """Let the objects go."""
        for number in range(len(self._makers)):
            self._home.keeper(number).forget.remote()


class _Sender(pickle.Pickler):
    """Pickles for the workers of a cluster; `references` are to what it left in the object store.

    Rows stay there for good. What else is large, such as the weights of the queries, is lent to one pass. Without
    `lent`, it pickles rows that consist of others, which may share what they keep; but `source`, of which they are a
    part, goes by itself, once for all of its parts.
    """

    def __init__(
        self, file: io.BytesIO, home: Cluster, lent: _Lent | None = None, source: object | None = None
    ) -> None:
        super().__init__(file, protocol=5)
        self._home, self._lent, self._source = home, lent, source
        self.references: list[Any] = []

    def persistent_id(self, value: Any) -> object:
        """Return how to find a value that is not pickled itself: large arrays, mapped files, and other rows."""
        if isinstance(value, np.ndarray):
            if value.nbytes <= SMALL_BYTES or value.dtype.hasobject:
                return None
            lent = None if value.ndim == 2 else self._lent
            return _place_in_file(value) or self._refer(self._home.put(value, lent))
        shape = getattr(value, "shape", None)
        if not (isinstance(shape, tuple) and len(shape) == 2 and hasattr(value, "dtype")):
            return None
        if self._lent is None and value is not self._source:
            return None
        return self._refer(self._home.described(value))

    def _refer(self, reference: Any) -> int:
        self.references.append(reference)
        return len(self.references) - 1


class _Receiver(pickle.Unpickler):
    """Unpickles in a worker."""

    def __init__(self, data: bytes, references: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._references = references

    def persistent_load(self, place: Any) -> object:
        """Return the value that stands at a place in a file or in the object store."""
        return _opened(self._references[place]) if isinstance(place, int) else _map_again(*place)


def _place_in_file(array: NDArray[np.generic]) -> tuple[object, ...] | None:
    """Return where an array stands in a file that it is mapped from, or None."""
    base: Any = array
    while isinstance(base, np.ndarray) and getattr(base, "_mmap", None) is None:
        base = base.base
    # A file without a name is gone when this process ends, and what was written to a private map is not in the file.
    if not isinstance(base, np.memmap) or base.mode == "c" or not base.filename or not Path(base.filename).is_file():
        return None
    pages: Any = base
    page = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
    held = np.frombuffer(pages._mmap, np.uint8)
    path = Path(base.filename).resolve()
    if not _is_open(path):
        problem = f"would have workers read {path}, which was replaced since it was mapped here"
        raise ArgumentError("on", problem, "open it again")
    # The ends are of what is mapped, and tell a copy on another machine from another file.
    known = str(path), page, len(held), path.stat().st_mtime_ns, edges_of(held)
    return known, array.ctypes.data - held.ctypes.data, array.shape, array.strides, array.dtype


def _is_open(path: Path) -> bool:
    """Return whether this process holds the file at a path open, as a map of it does; True where no system tells."""
    if not Path(OPEN_FILES).is_dir():
        return True
    about = path.stat()
    for number in os.listdir(OPEN_FILES):
        with suppress(OSError):  # one that was closed since
            if os.path.samestat(os.fstat(int(number)), about):
                return True
    return False


def edges_of(held: NDArray[np.uint8] | mmap.mmap) -> bytes:
    """Return a digest of the first and the last bytes of what is mapped."""
    return hashlib.blake2b(bytes(held[:EDGE_BYTES]) + bytes(held[-EDGE_BYTES:]), digest_size=16).digest()


def _map_again(
    known: tuple[str, int, int, int, bytes],
    start: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[np.generic],
) -> NDArray[np.generic]:
    return np.ndarray(shape, dtype, _mapped(*known), start, strides)


@functools.lru_cache(MOST_MAPPED)
def _mapped(path: str, start: int, size: int, written: int, edges: bytes) -> NDArray[np.uint8]:
    """Map a part of a file; `written` tells a file from a later one at the same place, `edges` from any other."""
    there = Path(path).stat().st_size if Path(path).is_file() else -1
    held = np.memmap(path, np.uint8, "r", start, size) if there >= start + size else None
    if held is None or edges_of(held) != edges:
        problem = "does not have" if there < 0 else "has with other contents"
        remedy = "put it on a shared disk, or open it again here if it was replaced"
        raise ArgumentError("on", f"needs {path} on every machine, which {socket.gethostname()} {problem}", remedy)
    return held


_open_rows: OrderedDict[str, object] = OrderedDict()


def _opened(reference: Any) -> object:
    """Return what a reference stands for; rows that describe themselves stay open in this process."""
    import ray

    key = reference.hex()
    if key not in _open_rows:
        value = ray.get(reference)
        if isinstance(value, np.ndarray):
            return value
        _open_rows[key] = _Receiver(*value).load()
        if len(_open_rows) > MOST_OPENED:
            _open_rows.popitem(last=False)
    _open_rows.move_to_end(key)
    return _open_rows[key]


def _work(data: bytes, references: Sequence[Any], notice: bytes) -> bytes:
    """Run a job in a worker; nobody waits for what it returns if it is given up."""
    listen = _Listener(notice)
    try:
        listen(0)  # a job that waited for a processor may be given up already
        with one_blas_thread():
            return pickle.dumps(_Receiver(data, references).load()(listen), protocol=5)
    except Stopped:
        return b""


class _Listener:
    """A tick for a job in a worker. It shows no progress, and stops the job once it is given up."""

    def __init__(self, notice: bytes) -> None:
        self._notice, self._next = notice, 0.0

    def __call__(self, amount: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            from ray.experimental import internal_kv

            self._next = now + LISTEN_SECONDS
            given_up = False
            with suppress(Exception):  # a board that does not answer now may do so later
                given_up = internal_kv._internal_kv_exists(self._notice)
            if given_up:
                raise Stopped


class _Keeper:
    """A worker that keeps an object."""

    def __init__(self) -> None:
        self._name, self._kept = "", None

    def call(self, name: str, data: bytes, references: Sequence[Any], method: str, *arguments: object) -> bytes:
        """Call a method of the object of this name, which is made when it is first asked."""
        if name != self._name:
            self._kept = None  # before there is another
            self._name, self._kept = name, _Receiver(data, references).load()()
        return pickle.dumps(getattr(self._kept, method)(*arguments), protocol=5)

    def forget(self) -> None:
        """Let the object go."""
        self._name, self._kept = "", None
