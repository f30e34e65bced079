"""Rounds of deployments that are killed: what each command begins with, what must hold after it, and what is left."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np

import unhub
from kills_places import CLIENT, NUMBERS, KilledEngine, opened
from unhub.arrays import Float32, Ids
from unhub.correction import Bias
from unhub.data.vectors import Vectors
from unhub.deploying.deployment import FIELD_PREFIX, Live, made_of
from unhub.deploying.live import live_of
from unhub.search.in_store import digest_of
from unhub.stores.store import Store, StoredItems

Command: TypeAlias = Literal["vectors", "payload", "rollback", "sync", "drop_old", "first"]
When: TypeAlias = Literal["before", "during", "after"]

# Deployments of both modes, and now and then something else; `first` is the first one in a new place.
CYCLE: tuple[Command, ...] = (
    *("vectors", "payload", "drop_old", "vectors", "sync", "drop_old"),
    *("payload", "vectors", "rollback", "payload", "sync", "first"),
)
# What is killed at every step, last, and what comes before it.
STEPPED: tuple[tuple[Command, ...], ...] = (
    ("first",),
    ("vectors", "vectors"),
    ("vectors", "payload"),
    ("payload", "payload"),
    ("payload", "vectors", "drop_old"),
    ("vectors", "payload", "drop_old"),
    ("vectors", "sync"),
    ("payload", "sync"),
    ("vectors", "payload", "rollback"),
)
DIMENSIONS, QUERIES, K = 12, 60, 10
LEAST_RECALL = 0.97  # of the top 10 against exact search, of what is live
MOST_ALIKE = 0.8  # of two corrections' top 10, or a search could not tell which is live
LONGER = 1.05  # than the usual time, so that the end is met too
GOLDEN = 0.618034
CHANGED, ADDED = 10, 15  # items of the source before a sync
COLOURS = ("red", "green", "blue")


def gallery(count: int, seed: int) -> Float32:
    """Return items of length one, some near the first axis."""
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSIONS))
    rows[:, 0] += np.where(np.arange(count) % 20 == 0, 2.5, 0.4)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def asking(count: int, seed: int, axis: int = 0) -> Float32:
    """Return queries of length one near an axis, so that a bank of another axis makes other hubs."""
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSIONS))
    rows[:, axis] += 2.0
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def share(right: Ids, found: Ids) -> float:
    """Return the share of the right ids that were found."""
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))


class Held(dict[int, tuple[Float32, dict[str, Any]]]):
    """The items of a source by id: vector, and payload without the fields of deployments."""

    @property
    def vectors(self) -> Vectors:
        ids = np.array(sorted(self), np.int64)
        return Vectors(ids, np.stack([self[one][0] for one in ids.tolist()]))


def held_by(store: Store) -> tuple[Held, dict[str, int]]:
    """Return the items of a collection, and how many have each field of a deployment."""
    held, fields = Held(), dict[str, int]()
    for batch in store.batches(payload=True):
        for one, row, payload in zip(batch.ids.tolist(), batch.rows, batch.payload or (), strict=True):
            kept = {name: value for name, value in payload.items() if not name.startswith(FIELD_PREFIX)}
            held[one] = row.copy(), kept
            for name, value in payload.items():
                if name not in kept and value is not None:
                    fields[name] = fields.get(name, 0) + 1
    return held, fields


@dataclass(frozen=True)
class Child:
    """What became of a command: seconds, whether it said that it was done, and what went wrong."""

    seconds: float
    done: bool
    problem: str = ""


class Children:
    """A process that runs commands in forks, to be killed or awaited."""

    def __init__(self, engine: KilledEngine) -> None:
        script = Path(__file__).with_name("kills_child.py")
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "UNHUB_NO_NUMBA": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(script), engine.modules[0]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **one_thread, "PGAPPNAME": CLIENT},
        )
        self._line()

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, told: dict[str, Any], kill_after: float | None = None) -> Child:
        """Run a command to its end, or kill it so many seconds after it began."""
        assert self._process.stdin is not None
        began = time.perf_counter()
        print(json.dumps({**told, "kill_after": kill_after}), file=self._process.stdin, flush=True)
        said = [line for line in self._until_it_ended() if line]
        problems = [str(json.loads(line)) for line in said if line != "done"]
        return Child(time.perf_counter() - began, "done" in said, problems[0] if problems else "")

    def _until_it_ended(self) -> Iterator[str]:
        while not (line := self._line()).startswith("ended"):
            yield line

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process with the commands ended, with exit code {self._process.wait()}")
        return line.rstrip("\n")


@dataclass(frozen=True)
class Killed:
    """A kill: of which command, after how long, what state it met, and what did not hold afterwards."""

    engine: str
    command: Command
    step: int | None
    child: Child
    usual: float
    when: When
    met: str
    violations: tuple[str, ...]

    def __str__(self) -> str:
        verdict = "; ".join(self.violations) or "ok"
        moment = (
            f"after {self.child.seconds:5.2f} of {self.usual:5.2f} s" if self.step is None else f"at step {self.step}"
        )
        return f"{self.engine:11} {self.command:8} killed {moment:20}  {self.when:6} {self.met:40} {verdict}"


@dataclass(eq=False)
class Source:
    """A collection in a place of its own, with the corrections that were fitted on it."""

    address: str
    folder: Path
    held: Held = field(default_factory=Held)
    corrections: dict[str, Bias] = field(default_factory=dict)
    banks: dict[str, Float32] = field(default_factory=dict)
    latest: str = ""

    @classmethod
    def filled(cls, engine: KilledEngine, folder: Path, items: int) -> Source:
        """Make a collection of so many items."""
        self = cls(engine.address(folder), folder)
        rows, ids = gallery(items, 0), np.arange(1000, 1000 + items)
        with opened(self.address) as store:
            store.create(DIMENSIONS, "cosine")
            store.write(StoredItems(ids, rows, [{"colour": COLOURS[i % 3], "number": i} for i in range(items)]))
            store.finish()
            self.held, _ = held_by(store)
        np.save(self.queries_file, asking(QUERIES, 2))
        return self

    @property
    def queries_file(self) -> Path:
        return self.folder / "queries.npy"

    def refitted(self) -> str:
        """Fit another correction, which returns other items than the one before, and return its file."""
        number = len(self.corrections)
        bank = asking(400, number, number % DIMENSIONS)
        held = self.held.vectors
        made = cast("Bias", unhub.fit(held, bank, method=f"nnn:k={(8, 64, 2)[number % 3]}", threads=1))
        if self.latest:
            before = self.corrections[self.latest]
            alike = share(self.exact(before, held.ids), self.exact(made, held.ids))
            if alike > MOST_ALIKE:
                raise SystemExit(f"two corrections share {alike:.2f} of the top {K}, so they cannot be told apart")
        return self.kept(made, bank)

    def kept(self, made: Bias, bank: Float32) -> str:
        """Save a correction and remember it, with its bank, by its digest."""
        self.latest = digest_of(made)
        self.corrections[self.latest], self.banks[self.latest] = made, bank
        file = self.folder / f"{next(NUMBERS)}.unhub"
        unhub.save(made, file)
        return str(file)

    def exact(self, correction: Bias | None, ids: Ids) -> Ids:
        """Return the top 10 of some items for the queries; None: uncorrected."""
        vectors = self.held.vectors
        rows = np.asarray(vectors.rows)[np.searchsorted(vectors.ids, ids)]
        scores = asking(QUERIES, 2) @ rows.T
        if correction is not None:
            places = {one: row for row, one in enumerate(correction.ids.tolist())}
            scores = scores - correction.bias[[places[one] for one in ids.tolist()]]
        return ids[np.argsort(-scores, axis=1, kind="stable")[:, :K]]


@dataclass(frozen=True)
class State:
    """What is in a place: collections with their counts, records by what they name, fields, and what else lies there.

    Two states are the same if nobody can tell them apart but by times and measurements.
    """

    collections: tuple[tuple[str, int], ...]
    records: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, int], ...]
    leftovers: tuple[str, ...]

    @classmethod
    def of(cls, engine: KilledEngine, store: Store, fields: dict[str, int]) -> State:
        names, records = store.names(), store.records()
        counts = tuple((name, _count(store.sibling(name))) for name in names)
        told = tuple(sorted((key, _told(one)) for key, one in records.items()))
        return cls(counts, told, tuple(sorted(fields.items())), tuple(engine.leftovers(store)))

    def against(self, before: State) -> str:
        """Return what differs from another state, in a few words."""
        said = [f"+{name}" for name, _ in self.collections if name not in dict(before.collections)]
        said += [f"-{name}" for name, _ in before.collections if name not in dict(self.collections)]
        said += [f"{name} changed" for name, n in self.collections if dict(before.collections).get(name, n) != n]
        said += [f"{name}: {n}" for name, n in self.fields if dict(before.fields).get(name) != n]
        said += [f"-{name}" for name, _ in before.fields if name not in dict(self.fields)]
        changed = [key for key, _ in set(self.records) ^ set(before.records)]
        said += [f"record {one}" for one in sorted({one.partition(":")[0] for one in changed})]
        said += [f"{len(self.leftovers)} left over"] if self.leftovers else []
        return ", ".join(said).replace("photos_unhub_", "v").replace(FIELD_PREFIX, "h")


def _count(store: Store) -> int:
    try:
        return store.describe().count
    except ValueError:
        return -1  # half-made


def _told(record: dict[str, Any]) -> str:
    if "now" in record:
        return f"{_told(record['now'])} before {[_told(one) for one in record['before']]}"
    return " ".join(str(record.get(name, "")) for name in ("mode", "collection", "field", "digest", "items"))


class Rounds:
    """Kills in one engine, one after the other, in places that live on between them."""

    def __init__(
        self,
        engine: KilledEngine,
        folder: Path,
        children: Children,
        items: int,
        seed: int,
        earlier: Sequence[Command] = ("vectors", "payload"),
    ) -> None:
        self.engine, self.folder, self.children, self.items = engine, folder, children, items
        self._chance = np.random.default_rng(seed)
        self._usual: dict[str, float] = {}
        self._moments: dict[str, float] = {}  # of the next kill of each command, in its usual time
        self.source = Source.filled(engine, folder, items)
        for command in earlier:
            self._usual[command] = self._run(self.source, command)

    def kill(self, command: Command, step: int | None = None) -> Killed:
        """Kill a command, look at what is left, run it again, and look at what that leaves.

        At a random moment, or before the step of this number: a call that changes the store.
        """
        source = Source.filled(self.engine, self.folder, self.items) if command == "first" else self.source
        old = source.latest
        told, common = self._prepared(source, command)
        usual = self._usual_of(command) if step is None else 0.0
        before, _ = self._looked(source, [])
        violations: list[str] = []
        if step is None:
            moment = self._moments.setdefault(command, float(self._chance.uniform()))
            self._moments[command] = (moment + GOLDEN) % 1  # the next is far from this one
            killed = self.children.run(told, moment * LONGER * usual)
        else:
            killed = self.children.run({**told, "step": step})
        if killed.problem:
            violations.append(f"failed before the kill: {killed.problem}")
        with opened(source.address) as store:
            self.engine.released(store)
        met, live = self._looked(source, violations, common)
        self._check_live(live, {old, source.latest}, command, violations)
        if not (command == "rollback" and met != before):  # one more would go back one further
            again = self.children.run(told)
            violations += [f"the same command again: {again.problem}"] if again.problem else []
            self._usual[command] = 0.5 * (usual + again.seconds)
        after, now = self._looked(source, violations)
        self._check_finished(source, command, after, now, violations)
        when: When = "before" if met == before else "after" if met == after else "during"
        seen = tuple(dict.fromkeys(violations))
        return Killed(self.engine.name, command, step, killed, usual, when, met.against(before), seen)

    def _told(self, source: Source, command: Command, file: str = "") -> dict[str, Any]:
        told: dict[str, Any] = {"do": command, "store": source.address, "correction": file}
        if command in ("vectors", "payload", "first"):
            mode = "vectors" if command == "first" else command
            told |= {"do": "deploy", "mode": mode, "queries": str(source.queries_file)}
        return told

    def _prepared(self, source: Source, command: Command) -> tuple[dict[str, Any], Ids]:
        """Return the command, and the items that are in the source before and after it."""
        ids = source.held.vectors.ids
        if command == "sync":
            return self._changed(source)
        if command == "rollback":
            with opened(source.address) as store:
                served = live_of(store)
            assert served is not None
            source.latest = served.before[-1].digest
        return self._told(source, command, "" if command in ("rollback", "drop_old") else source.refitted()), ids

    def _changed(self, source: Source) -> tuple[dict[str, Any], Ids]:
        """Change, remove and add items of the source, and return the command to sync them."""
        ids, number = source.held.vectors.ids, len(source.corrections)
        chosen = self._chance.permutation(ids)[: 2 * CHANGED]
        changed, removed = chosen[:CHANGED], chosen[CHANGED:]
        new = np.concatenate([changed, np.arange(ADDED) + 100_000 * number])
        rows = gallery(len(new), number)
        with opened(source.address) as store:
            store.remove(removed)
            store.write(StoredItems(new, rows, [{"colour": "new", "number": int(one)} for one in new]))
            source.held, _ = held_by(store)
        correction = unhub.remove(source.corrections[source.latest], chosen)
        held = source.held.vectors
        some = held.gather(np.searchsorted(held.ids, new))
        bank = source.banks[source.latest]
        file = source.kept(cast("Bias", unhub.extend(correction, some, bank)), bank)
        return self._told(source, "sync", file), np.setdiff1d(ids, chosen)

    def _usual_of(self, command: Command) -> float:
        """Return how long a command takes: as the last of its kind took, the first time as a like one in another place.

        A command changes the place, so the undisturbed run is made in one of its own.
        """
        if command not in self._usual:
            other = Source.filled(self.engine, self.folder, self.items)
            commands: Sequence[Command] = ("vectors", "payload") if command != "first" else ()
            if command in ("vectors", "sync"):
                commands = commands[:1]
            for one in commands:
                self._run(other, one)
            self._usual[command] = self._run(other, command)
        return self._usual[command]

    def _run(self, source: Source, command: Command) -> float:
        """Run a command undisturbed and return how long it took."""
        ended = self.children.run(self._prepared(source, command)[0])
        if ended.problem:
            raise SystemExit(f"{self.engine.name}: {command} failed without a kill: {ended.problem}")
        return ended.seconds

    # What must hold

    def _looked(self, source: Source, violations: list[str], common: Ids | None = None) -> tuple[State, Live | None]:
        """Return the state of a place, and add what is wrong with the source or with what is live."""
        with opened(source.address) as store:
            held, fields = held_by(store)
            if held.keys() != source.held.keys() or any(
                not np.array_equal(row, source.held[one][0]) or payload != source.held[one][1]
                for one, (row, payload) in held.items()
            ):
                violations.append("the source has changed")
            if (count := store.describe().count) != len(source.held):
                violations.append(f"the source counts {count} items, not {len(source.held)}")
            live = None
            try:
                live = live_of(store)
                self._search(source, store, live, held.vectors.ids if common is None else common, violations)
            except Exception as error:
                violations.append(f"what is live does not answer: {error}")
            return State.of(self.engine, store, fields), live

    def _search(self, source: Source, store: Store, live: Live | None, ids: Ids, violations: list[str]) -> None:
        queries = asking(QUERIES, 2)
        if live is None:
            found = store.search(queries, K, among=ids).ids
            recall = share(source.exact(None, ids), found)
        else:
            correction = source.corrections[live.now.digest]
            searcher = unhub.searcher(store, correction)
            searcher.search(queries, K)
            found = searcher.search(queries, K, among=ids).ids
            recall = share(source.exact(correction, ids), found)
            if self.engine.name == "postgres":
                width = store.sibling(live.name).describe().dimensions
                if width != (live.now.layout.width if live.now.layout else DIMENSIONS):
                    violations.append(f"the live view has {width} dimensions, not those of the record")
        if recall < LEAST_RECALL:
            violations.append(f"recall {recall:.3f} of what is live")

    def _check_live(self, live: Live | None, allowed: set[str], command: Command, violations: list[str]) -> None:
        if live is None:
            violations += [] if command == "first" else ["nothing is live any more"]
        elif live.now.digest not in allowed:
            violations.append("what is live is neither the old nor the new correction")

    def _check_finished(
        self, source: Source, command: Command, state: State, live: Live | None, violations: list[str]
    ) -> None:
        """Check what is there once the command has run undisturbed: what it should make live, and nothing half-made."""
        with opened(source.address) as store:
            made = made_of(store)
            keys = {one.key for one in made} | ({live.key} if live else set())
            unknown = sorted(set(store.records()) - keys)
        if live is None or live.now.digest != source.latest:
            violations.append("the command did not make live what it should")
        counts, fields = dict(state.collections), dict(state.fields)
        wanted = {"photos", *(one.collection for one in made)}
        wanted_fields = {one.field for one in made if one.mode == "payload"}
        violations += [f"debris: {one}" for one in sorted(set(counts) - wanted)]
        violations += [f"{one} is gone" for one in sorted(wanted - set(counts))]
        violations += [f"debris: field {one}" for one in sorted(set(fields) - wanted_fields)]
        violations += [f"debris: record {one}" for one in unknown]
        # Postgres keeps fields in a table of their own, which stays while there are any.
        violations += [f"debris: {one}" for one in state.leftovers if not one.startswith("unhub_fields_")]
        if len(latest := [one.what for one in made if one.digest == source.latest]) != 1:
            violations.append(f"deployed {len(latest)} times: {', '.join(latest)}")
        for one in made:
            if one.digest == source.latest and counts.get(one.collection) != len(source.held):
                violations.append(f"{one.collection} holds {counts.get(one.collection)} of {len(source.held)}")
            if one.digest == source.latest and one.field and fields.get(one.field) != len(source.held):
                violations.append(f"field {one.field} of {fields.get(one.field)} of {len(source.held)} items")
        if command == "drop_old" and len(made) != 1:
            violations.append(f"{len(made)} deployments after drop_old")


def kills(
    engine: KilledEngine,
    folder: Path,
    commands: Sequence[Command],
    items: int,
    seed: int,
    tell: Callable[[Killed], object],
) -> list[Killed]:
    """Kill each of these commands in an engine, tell of each kill, and return them."""
    with Children(engine) as children:
        rounds = Rounds(engine, folder, children, items, seed)
        done = []
        for command in commands:
            done.append(rounds.kill(command))
            tell(done[-1])
    return done


def kills_at_steps(engine: KilledEngine, folder: Path, items: int, tell: Callable[[Killed], object]) -> list[Killed]:
    """Kill every command once before each of its calls that change the store, each time in a new place."""
    with Children(engine) as children:
        done: list[Killed] = []
        for *earlier, command in STEPPED:
            for step in itertools.count():
                rounds = Rounds(engine, folder, children, items, 0, earlier)
                done.append(rounds.kill(command, step))
                tell(done[-1])
                if done[-1].child.done:
                    break
    return done
