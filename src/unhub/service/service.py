"""Service: what is served, by which version, and every question that can be asked of it; the API only translates."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import cast

import numpy as np

from unhub.arrays import Float32
from unhub.combine import CombinationLike
from unhub.errors import ArgumentError, unknown
from unhub.search.hits import Id
from unhub.service.bodies import QueryBody, SearchBody
from unhub.service.hit_lists import Describing, Json, answer_of
from unhub.service.joining import Joiner
from unhub.service.questions import Found, Question, check_vectors, find_all
from unhub.service.safety import ServiceLimits
from unhub.service.served import ServedSpace
from unhub.service.version import Version
from unhub.stores.store import Store

ENCODED_TOGETHER = 32  # texts


class Service:
    """One space, served. `live` is the version that answers; a request reads it once, so that nothing is mixed."""

    def __init__(self, space: ServedSpace, limits: ServiceLimits, joins: bool = True) -> None:
        self.space, self.limits = space, limits
        self.live = Version.of("v1", space.gallery, space.correction, space.bank, space.index, space.threads)
        self._searching: Joiner[Question, Found] = Joiner("search", find_all, limits.joined if joins else 1)
        self._encoding: Joiner[str, Float32] = Joiner("encode", self._encode, ENCODED_TOGETHER if joins else 1)

    def close(self) -> None:
        """Answer what waits, and end."""
        self._encoding.close()
        self._searching.close()

    def about(self) -> Json:
        """Return what is served and what can be asked."""
        version, space = self.live, self.space
        source = version.correction.source
        return {
            "name": space.name,
            "items": len(version),
            "dimensions": source.dimensions,
            "similarity": source.similarity,
            "version": version.name,
            "method": version.correction.spec,
            "kind": version.correction.kind,
            "bank": None if space.bank is None else {"queries": len(space.bank)},
            "can": {
                "text": space.encoder is not None,
                "picture": space.encoder is not None and space.encoder.takes_pictures,
                "samples": 0 if space.samples is None else len(space.samples),
                "combine": list(space.combinations),
                "mark": False,
                "refit": space.bank is not None,
                "log": False,
                "state": False,
            },
            "limits": {"k": self.limits.k, "vectors": self.limits.vectors, "strength": self.limits.strength},
            "demo": space.demo,
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

    async def search(self, body: SearchBody) -> Json:
        """Return the best items for a query, by one version."""
        version = self.live
        k, strength = self.limits.check_k(body.k), self.limits.check_strength(body.strength)
        vectors = await self.vectors_of(body, version)
        exclude = tuple(body.exclude) if body.item is None else (*body.exclude, body.item)
        question = Question(
            version,
            vectors,
            k,
            strength,
            self._combination(body),
            None if body.among is None else tuple(body.among),
            exclude,
            body.where,
            body.raw,
        )
        found = await self._searching.ask(question)
        answer = answer_of(question, found, self.describing(version))
        return {**answer, "unknown": self._unknown(body)}

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

    def describing(self, version: Version) -> Describing:
        """Return what tells about items of a version."""
        return Describing(version, version.largely_biased, None, self.space.image_url)

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
            remedy = "send a vector or a sample, or start the service with --encoder"
            raise ArgumentError(name, "cannot be turned into a vector: no encoder was named", remedy)
        self.limits.check_count(name, len(texts))
        self.limits.check_text(name, texts)
        return np.concatenate([await self._encoding.ask(text) for text in texts])

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
        return await asyncio.to_thread(encoder.picture, content)

    def _unknown(self, body: QueryBody) -> list[str]:
        texts = body.texts if body.texts is not None else [] if body.text is None else [body.text]
        encoder = self.space.encoder
        return [] if encoder is None else [word for text in texts for word in encoder.unknown(text)]

    @property
    def in_store(self) -> bool:
        """Whether the items are in a store."""
        return isinstance(self.live.gallery.items, Store)
