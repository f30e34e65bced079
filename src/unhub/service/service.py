"""Service: what is served, by which version, and every question that can be asked of it; the API only translates."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numpy as np

import unhub
from unhub.arrays import Float32, Ids, Kind
from unhub.atomic import hold_folder
from unhub.banks.distances import shift
from unhub.banks.judging import BankReport, judge_bank
from unhub.combine import CombinationLike
from unhub.data.ids import is_integer, no_id
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError, unknown
from unhub.files.kept_state import MARKS
from unhub.search.hits import Id
from unhub.search.in_store import live_record
from unhub.service.background import Background, NotWanted
from unhub.service.bodies import ChangedItemsBody, MarkBody, NewItemsBody, QueryBody, RefitBody, RerankBody, SearchBody
from unhub.service.hit_lists import Describing, Json, answer_of, short
from unhub.service.hub_counts import AskedQueries, HubCounts, count_hubs
from unhub.service.joining import Joiner
from unhub.service.kept.log_writer import LogWriter
from unhub.service.kept.marks import Marks
from unhub.service.limits import MOST_IDS, Refused, ServiceLimits
from unhub.service.live_version import LiveVersion
from unhub.service.metrics import Metrics
from unhub.service.questions import Question, Reply, check_vectors, find_all
from unhub.service.refits import Refits, RefitTask, stacked_bank
from unhub.service.served import ServedSpace
from unhub.service.store_probe import StoreProbe
from unhub.service.version import Version
from unhub.stores.store import Store

ENCODED_TOGETHER = 32  # texts
NEIGHBOURS = 10  # of an item, on its page
LONG_ANSWER = 100  # hits; to tell of more takes milliseconds
MOST_SCORE = float(np.finfo(np.float32).max) / 2  # of a candidate, so that a bias still fits
LOOKED_SECONDS = 60  # for which a look at the queries of today is good
FEWEST_TODAY = 50  # queries that can be compared with the bank
MOST_LOGGED = 100_000  # logged queries that a refit takes, the latest


LOGGER = logging.getLogger("unhub.service")

P = ParamSpec("P")
T = TypeVar("T")


class Service:
    """One space, served: every answer comes from one version, which it names."""

    def __init__(
        self,
        space: ServedSpace,
        limits: ServiceLimits,
        *,
        state: Path | None = None,
        log: Path | None = None,
        joins: bool = True,
        allow_where: bool = False,
    ) -> None:
        """Load what was kept in `state`; log queries to the folder `log`. joins: whether queries are joined.

        allow_where: whether callers may send a filter that is a text of the engine's language, such as SQL.
        """
        self.space, self.limits, self.state = space, limits, state
        self._allow_where = allow_where
        self._looked: tuple[float, str, Json] | None = None
        with ExitStack() as ending:  # what was begun ends in the opposite order, also where the rest cannot be begun
            if state is not None:
                ending.callback(os.close, hold_folder(state, "state"))  # before anything in it is read or changed
            self.live = LiveVersion(space, state)
            dimensions = cast("int", self.live.now.correction.source.dimensions)
            self.marks = None if state is None else Marks(state / MARKS, dimensions)
            if self.marks is not None:
                ending.callback(self.marks.close)
            self.log = None if log is None else LogWriter(log, dimensions)
            if self.log is not None:
                ending.callback(self.log.close)
            self.metrics = Metrics(self.live.now)
            self.asked = AskedQueries.of(space)
            items = space.gallery.items
            self._probe = StoreProbe(items) if isinstance(items, Store) else None
            self._searched_there = self._probe is not None and space.index is None
            self._deployed = self._searched_there and live_record(cast("Store", items)) is not None
            if self._probe is not None:
                ending.callback(self._probe.close)
            self._verdicts: Background[BankReport] = Background("bank")
            self._counts: Background[HubCounts] = Background("hub counts")
            self._refits = Refits(self.live.offer, self.live.drop, space.index, space.threads)
            self._searching: Joiner[Question, Reply] = Joiner("search", self._find, limits.joined if joins else 1)
            self._encoding: Joiner[str, Float32] = Joiner("encode", self._encode, ENCODED_TOGETHER if joins else 1)
            self._changing = ThreadPoolExecutor(1, "changes")
            # One at a time: a picture that somebody sends may unfold to hundreds of megabytes.
            self._picturing: Joiner[bytes, Float32] = Joiner("pictures", self._encode_pictures, 1)
            joiners = self._searching, self._encoding, self._picturing
            for one in (self._verdicts, self._counts, self._refits, *joiners):
                ending.callback(one.close)
            ending.callback(self._changing.shutdown)
            self._count()
            self._ending = ending.pop_all()
        self.ready = True

    def close(self) -> None:
        """Answer what waits, and end."""
        self.ready = False
        self._ending.close()

    async def unready(self) -> Refused | None:
        """Return why searches are not answered now, None if they are."""
        if not self.ready:
            return Refused(503, "service", "is ending", "ask another one")
        depends = self._probe is not None and self._searched_there
        return _store_is_down() if depends and not await cast("StoreProbe", self._probe).answers() else None

    def store_failed(self, error: ArgumentError) -> Refused:
        """Return what callers hear of an error of the store, whose address is not theirs to know."""
        if self._probe is not None:
            self._probe.tell(str(error))
        return _store_is_down()

    # What is served

    def about(self) -> Json:
        """Return what is served and what can be asked."""
        version, space = self.live.now, self.space
        source = version.correction.source
        return {
            "name": space.name,
            "items": len(version),
            "dimensions": source.dimensions,
            "similarity": source.similarity,
            "ids": "integers" if version.correction.ids.dtype.kind == "i" else "strings",
            "version": version.name,
            "method": version.correction.spec,
            "kind": version.correction.kind,
            "bank": None if version.bank is None else {"queries": len(version.bank)},
            "can": {
                "text": space.encoder is not None,
                "picture": space.encoder is not None and space.encoder.takes_pictures,
                "samples": 0 if space.samples is None else len(space.samples),
                "combine": list(space.combinations),
                "mark": self.marks is not None,
                "refit": not self._deployed and (version.bank is not None or self.log is not None),
                "log": self.log is not None,
                "state": self.state is not None,
            },
            "limits": {
                "k": self.limits.k,
                "vectors": self.limits.vectors,
                "strength": self.limits.strength,
                "ids": MOST_IDS,
            },
            "demo": space.demo,
            "store": isinstance(space.gallery.items, Store),
            "python": list(space.recipe),
        }

    def samples(self, start: int, count: int) -> Json:
        """Return some of the sample queries."""
        samples = self.space.samples
        if samples is None:
            return {"total": 0, "samples": []}
        rows = range(start, min(start + count, len(samples)))
        ids = samples.vectors.ids
        return {
            "total": len(samples),
            "samples": [{"id": ids[row].item(), "text": samples.text(row)} for row in rows],
        }

    # Search

    async def search(self, body: SearchBody) -> Json:
        """Return the best items for a query, by one version."""
        version = self.live.now
        k, strength = self.limits.check_k(body.k), self.limits.check_strength(body.strength)
        combine = self._combination(body)
        vectors = await self.vectors_of(body, version)
        question = Question(
            version,
            vectors,
            k,
            strength,
            combine,
            None if body.among is None else tuple(body.among),
            tuple(body.exclude) if body.item is None else (*body.exclude, body.item),
            body.where,
            body.raw,
            counted=body.log and body.item is None,
        )
        if body.where is not None:
            self._check_filtering(version)
        _ = question.key  # which checks the filter
        try:
            found = await self._searching.ask(question)
        except ArgumentError as error:
            if error.name == "queries":
                raise error.of(body.way) from error
            # An engine that answers, and refuses a search with a filter, refuses the filter.
            if error.name != "store" or body.where is None or self._probe is None or not await self._probe.answers():
                raise
            told = error.problem.removeprefix(f"{cast('Store', version.gallery.items).address}: ")
            raise ArgumentError("where", f"was refused by the engine: {told}", error.remedy) from error
        except ValueError as error:
            if body.where is None:
                raise
            raise ArgumentError("where", f"was refused by the engine: {error}") from error
        answer = await self._answered(question, found)
        if self.log is not None and body.log and body.is_asked:
            self.log.append(vectors, [one["id"] for one in answer["hits"]], version.name)
        return {**answer, "unknown": self._unknown(body), "asked": self._said(body, version)}

    async def _answered(self, question: Question, found: Reply) -> Json:
        """Return the answer to a question; a long one, or one that looks for pictures, is made on another thread."""
        describing = self.describing(question.version)
        if self.space.pictures is None and question.k <= LONG_ANSWER:
            return answer_of(question, found, describing)
        return await asyncio.to_thread(answer_of, question, found, describing)

    async def vectors_of(self, body: QueryBody, version: Version) -> Float32:
        """Return the query vectors of a body, (queries, dimensions)."""
        dimensions = cast("int", version.correction.source.dimensions)
        if body.text is not None:
            return await self._encoded("text", [body.text])
        if body.texts is not None:
            return await self._encoded("texts", body.texts)
        if body.vector is not None:
            return check_vectors([body.vector], dimensions, "vector")
        if body.vectors is not None:
            self.limits.check_count("vectors", len(body.vectors))
            return check_vectors(body.vectors, dimensions, "vectors")
        if body.sample is not None:
            return self._sample(body.sample)
        if body.picture is not None:
            return await self._picture(body.picture)
        return await asyncio.to_thread(version.vector, cast("Id", body.item))

    def rerank(self, body: RerankBody) -> Json:
        """Return the candidates of another engine in the corrected order."""
        version = self.live.now
        self.limits.check_count("ids", len(body.ids))
        k, strength = self.limits.check_k(body.k), self.limits.check_strength(body.strength)
        if [len(row) for row in body.ids] != [len(row) for row in body.scores]:
            raise ArgumentError("scores", "has rows of other lengths than ids", "give a score for each id")
        for row, given in zip(body.ids, body.scores, strict=True):
            _check_candidates(row, given, version.correction.ids)
        width = max(len(row) for row in body.ids)
        if not width:
            return {"version": version.name, "hits": [[] for _ in body.ids]}
        nobody = no_id(version.correction.ids.dtype)  # fills the shorter rows, so that one call sees them all
        ids = [row + [nobody] * (width - len(row)) for row in body.ids]
        scores = [row + [0.0] * (width - len(row)) for row in body.scores]
        found = unhub.rerank(ids, scores, version.correction, min(k, width), strength)
        answers = [
            [
                {"rank": rank, "id": one, "score": short(score)}
                for rank, (one, score) in enumerate(zip(*row, strict=True), start=1)
                if np.isfinite(score)
            ]
            for row in zip(found.ids.tolist(), found.scores, strict=True)
        ]
        return {"version": version.name, "hits": answers}

    def describing(self, version: Version) -> Describing:
        """Return what tells about items of a version; hubs are those counted, or where nothing is, by their bias."""
        counts = self._counts.there(version.name)
        hubs = counts.marked if counts is not None else frozenset() if self.asked else version.largely_biased
        has_picture = None if self.space.pictures is None else self.space.pictures.has
        return Describing(version, hubs, has_picture, self.space.image_url)

    # Hubs, items and the bank

    def counts(self, version: Version) -> HubCounts | None:
        """Return the hub counts of a version, None while they are computed."""
        asked = self.asked
        if asked is None:
            raise ArgumentError("queries", "are missing, so nothing can be counted", "start with --queries or --bank")
        closed = self._counts.closed

        def stop(share: float) -> None:
            if closed.is_set() or self.live.now.name != version.name:
                raise NotWanted

        return self._counts.get(version.name, lambda: count_hubs(version, asked, stop))

    def hubs(self, k: int) -> Json | None:
        """Return how often the items are returned, None while it is computed."""
        version = self.live.now
        counts = self.counts(version)
        return None if counts is None else counts.page(k, self.describing(version))

    async def item(self, text: str) -> Json:
        """Return what is known of one item, by its id as text."""
        version = self.live.now
        integers = version.correction.ids.dtype.kind == "i"
        one: Id = int(text) if integers and is_integer(text) else text
        position = version.position(one, "id")
        vector = await asyncio.to_thread(version.vector, one)
        question = Question(version, vector, NEIGHBOURS, 1.0, exclude=(one,), both=True, counted=False)
        near = await self._answered(question, await self._searching.ask(question))
        told = await asyncio.to_thread(self._known_of, position, version)
        return {**told, "neighbours": {"raw": near["raw"], "corrected": near["hits"]}}

    def _known_of(self, position: int, version: Version) -> Json:
        """Return what is known of an item without a search."""
        places = version.bias_places
        counts = self.counts(version) if self.asked is not None else None
        found = {"counts": None, "queries": None} if counts is None else counts.item(position)
        return {
            **self.describing(version).item(position),
            "version": version.name,
            "bias_place": None if places is None else int(places[position]),
            **found,
        }

    def bank(self) -> Json | None:
        """Return the verdict on the bank, and how today's queries compare; None while it is computed."""
        version, space = self.live.now, self.space
        bank = version.bank
        if bank is None:
            raise ArgumentError("bank", "is missing, so there is nothing to judge", "start with --bank")
        similarity = cast("Kind", version.correction.source.similarity)
        samples = None if space.samples is None else space.samples.vectors
        report = self._verdicts.get(
            f"{version.gallery.revision} {'' if bank is space.bank else version.correction_name}",
            lambda: judge_bank(
                version.gallery.items,
                bank,
                samples,
                similarity=similarity,
                distances=False,
                threads=space.threads,
            ),
        )
        if report is None:
            return None
        return {
            "ready": True,
            "version": version.name,
            "verdict": report.verdict,
            "conclusion": report.conclusion,
            "cells": [list(row) for row in report.cells()],
            "notes": list(report.notes),
            "queries_today": self._today(version, bank, similarity),
        }

    def _today(self, version: Version, bank: Vectors, similarity: Kind) -> Json | None:
        """Return how many queries were logged today, and how far they are from the bank; None without a log."""
        if self.log is None:
            return None
        now, before = time.monotonic(), self._looked
        if before is not None and before[1] == version.name and now - before[0] < LOOKED_SECONDS:
            return before[2]
        found = self._compared(self.log, bank, similarity)
        self._looked = now, version.name, found
        return found

    def _compared(self, log: LogWriter, bank: Vectors, similarity: Kind) -> Json:
        log.flush()
        rows = log.today()
        if len(rows) < FEWEST_TODAY:
            said = f"{len(rows)} queries were logged today: too few to compare with the bank."
            return {"count": len(rows), "shift": None, "far": None, "sentence": said}
        moved = shift(bank, Vectors(np.arange(len(rows)), rows), similarity)
        word = "are not like the bank: fit again on them" if moved.far else "resemble the bank"
        said = f"The {len(rows):,} queries of today {word} (shift {moved.value:.1%})."
        return {"count": len(rows), "shift": moved.value, "far": moved.far, "sentence": said}

    # Changes

    async def in_turn(self, change: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Run a change after those that wait, on a thread that nothing else needs."""
        call = partial(copy_context().run, change, *given, **named)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._changing, call)
        except OSError as error:
            LOGGER.warning("%s", error)
            problem = f"could not be written, so nothing was changed: {error.strerror or type(error).__name__}"
            raise Refused(503, "state", problem, "look at the disk") from error

    def add_items(self, body: NewItemsBody) -> Json:
        """Add items."""
        self.limits.check_count("ids", len(body.ids))
        done = self.live.add_items(body)
        if self.space.pictures is not None:
            self.space.pictures.forget()
        return self._changed(done)

    def replace_items(self, body: ChangedItemsBody) -> Json:
        """Give items other vectors."""
        self.limits.check_count("ids", len(body.ids))
        done = self.live.replace_items(body)
        if self.space.pictures is not None:
            self.space.pictures.forget()
        return self._changed(done)

    def remove_items(self, ids: Sequence[Id]) -> Json:
        """Remove items."""
        return self._changed(self.live.remove_items(ids))

    def activate(self, name: str) -> Json:
        """Answer by another version from now on; an offer that is taken is none any more."""
        done = self.live.activate(name)
        self._refits.taken(name)
        return self._changed(done)

    def roll_back(self) -> Json:
        """Answer by the version that was active before."""
        return self._changed(self.live.roll_back())

    def _changed(self, told: Json) -> Json:
        self._count()
        return told

    def _count(self) -> None:
        """Begin to count hubs, if there are queries to count with."""
        if self.asked is not None:
            with suppress(Exception):  # of an earlier count of the same version, which who asks for it hears
                self.counts(self.live.now)

    def refit(self, body: RefitBody) -> Json:
        """Begin to fit again, in the background."""
        version = self.live.now
        if self._deployed:
            problem = "cannot be tried: the store searches by the correction that was deployed to it"
            raise ArgumentError("refit", problem, "run `unhub fit`, `unhub deploy` and `unhub switch`, and start again")
        bank, said = self._refit_bank(body.bank, version)
        said = f"{said}, {len(bank):,} queries"
        kept = None if bank is self.space.bank else bank
        return asdict(self._refits.start(RefitTask(version, bank, kept, body.method, self.asked, said)))

    def _refit_bank(self, name: str, version: Version) -> tuple[Vectors, str]:
        """Return the queries to fit on, and what they are in words.

        The bank is that of the active version. Together with the log it is the one of the start: that of the active
        version may be the log.
        """
        bank = version.bank if name == "bank" else self.space.bank
        if name != "log" and bank is None:
            raise ArgumentError("bank", "is missing", "start with --bank, or fit on the log")
        if name == "bank":
            return cast("Vectors", bank), "the bank" if bank is self.space.bank else "the bank of the active version"
        if self.log is None:
            raise ArgumentError("bank", f"is {name!r}, but no queries are logged", "start with --log DIR")
        self.log.flush()
        rows = self.log.latest(MOST_LOGGED)
        if not len(rows):
            raise ArgumentError("bank", f"is {name!r}, but nothing was logged yet", "search first")
        logged = Vectors(np.arange(len(rows)), rows)
        if name == "log":
            return logged, "the log"
        return stacked_bank(cast("Vectors", bank), logged), "the bank of the start and the log"

    def refit_status(self) -> Json:
        """Return how the refit stands."""
        return asdict(self._refits.status)

    def cancel_refit(self) -> Json:
        """Stop the refit."""
        return asdict(self._refits.cancel())

    async def mark(self, body: MarkBody) -> Json:
        """Keep what was meant by a query."""
        if self.marks is None:
            raise ArgumentError("mark", "cannot be kept: the service keeps nothing", "start it with --state DIR")
        version = self.live.now
        version.position(body.item)
        vectors = await self.vectors_of(body.query, version)
        return {"marks": await asyncio.to_thread(self.marks.add, vectors, body.item, version.name)}

    def metrics_text(self) -> bytes:
        """Return the metrics for Prometheus."""

        def also() -> None:
            self.metrics.items.set(len(self.live.now))
            if self.log is not None:
                self.metrics.log_written.set(self.log.written)
                self.metrics.log_dropped.set(self.log.dropped)

        return self.metrics.text(also)

    # Inside

    def _find(self, questions: Sequence[Question]) -> list[Reply | Exception]:
        """Answer questions together, on the thread that searches."""
        answers = find_all(questions)
        self.metrics.multiplies.inc()
        both = zip(questions, answers, strict=True)
        good = [(one, found) for one, found in both if one.counted and isinstance(found, Reply)]
        for version in {one.version for one, _ in good}:
            mine = [(one, found) for one, found in good if one.version is version]
            vectors = np.concatenate([one.vectors for one, _ in mine])
            self.metrics.observe(version, vectors, [found.ids[: one.k] for one, found in mine])
        return answers

    def _check_filtering(self, version: Version) -> None:
        """Raise unless callers may filter: SQL of a caller could read other tables than the one that is searched."""
        items = version.gallery.items
        if not isinstance(items, Store):
            raise ArgumentError("where", "is a filter of an engine, but the items are searched here", "use among")
        if not (items.filters_by_json or self._allow_where):
            problem = f"would be run by {items.engine} as a text of its own language, which callers may not send here"
            raise Refused(403, "where", problem, "start the service with --allow-where if you trust all callers")

    def _combination(self, body: SearchBody) -> CombinationLike | None:
        several = body.texts is not None or body.vectors is not None
        if not several:
            if body.combine is not None:
                raise ArgumentError("combine", "is for several queries, and there is one", "leave it out")
            return None
        name = "sa" if body.combine is None else body.combine
        if name not in self.space.combinations:
            raise unknown("combine", name, self.space.combinations, "combinations here")
        return cast("CombinationLike", self.space.head if name == "head" else name)

    async def _encoded(self, name: str, texts: Sequence[str]) -> Float32:
        if self.space.encoder is None:
            alone = "no encoder was named" if self.space.head is None else "a model was named without its encoder"
            second = "" if self.space.head is None else " for each of the two"
            remedy = f"send a vector or a sample, or start the service with --encoder{second}"
            raise ArgumentError(name, f"cannot be turned into a vector: {alone}", remedy)
        self.limits.check_count(name, len(texts))
        self.limits.check_text(name, texts)
        return np.concatenate(await asyncio.gather(*(self._encoding.ask(text) for text in texts)))

    def _encode(self, texts: Sequence[str]) -> list[Float32 | Exception]:
        """Encode texts together; where that fails, each alone, so that a wrong text fails nobody else."""
        assert self.space.encoder is not None
        try:
            return [*np.split(self.space.encoder.texts(texts), len(texts))]
        except Exception as error:
            return [error] if len(texts) == 1 else [self._encode([text])[0] for text in texts]

    def _sample(self, one: Id) -> Float32:
        if self.space.samples is None:
            raise ArgumentError("sample", "names a sample query, but there are none", "start with --queries")
        row = self.space.samples.row(one)
        return self.space.samples.vectors.block(row, row + 1)

    async def _picture(self, text: str) -> Float32:
        encoder = self.space.encoder
        if encoder is None or not encoder.takes_pictures:
            raise ArgumentError("picture", "cannot be turned into a vector here", "send a text, a vector or an item")
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise ArgumentError("picture", "is not base64", "send the file in base64") from None
        return await self._picturing.ask(content)

    def _encode_pictures(self, contents: Sequence[bytes]) -> list[Float32 | Exception]:
        assert self.space.encoder is not None
        return [self.space.encoder.picture(content) for content in contents]

    def _said(self, body: QueryBody, version: Version) -> str | None:
        """Return the text of the sample or item that was asked with."""
        if body.sample is not None and self.space.samples is not None:
            return self.space.samples.text(self.space.samples.row(body.sample))
        return None if body.item is None else version.gallery.texts.get(body.item)

    def _unknown(self, body: QueryBody) -> list[str]:
        texts = body.texts if body.texts is not None else [] if body.text is None else [body.text]
        encoder = self.space.encoder
        return [] if encoder is None else [word for text in texts for word in encoder.unknown(text)]


def _store_is_down() -> Refused:
    return Refused(503, "store", "does not answer", "try again later; the service printed why")


def _check_candidates(ids: Sequence[Id], scores: Sequence[float], known: Ids) -> None:
    """Raise for candidates that would be lost, returned twice, or taken for others."""
    integers, nobody = known.dtype.kind == "i", no_id(known.dtype)
    strange = next((one for one in ids if isinstance(one, int) != integers or one == nobody), None)
    if strange is not None:
        kind = "an integer" if integers else "a text"
        raise ArgumentError("ids", f"has {strange!r}, which is the id of no item", f"give the id of one, {kind}")
    if len(set(ids)) < len(ids):
        repeated = next(one for one in ids if ids.count(one) > 1)
        raise ArgumentError("ids", f"names {repeated!r} more than once in a row", "give each candidate once")
    large = [score for score in scores if abs(score) > MOST_SCORE]
    if large:
        raise ArgumentError("scores", f"holds {large[0]:g}, a number beyond float32", "scale the numbers")
