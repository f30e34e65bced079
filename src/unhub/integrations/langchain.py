"""A retriever of LangChain that corrects what any of its vector stores returns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from unhub.correction import Bias
from unhub.errors import ArgumentError, optional
from unhub.search.hits import Id, Names
from unhub.search.rerank import rerank

optional("langchain_core", "langchain", "CorrectedRetriever")  # says what to install where the imports would fail

from langchain_core.callbacks import (  # noqa: E402
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from langchain_core.vectorstores import VectorStore  # noqa: E402
from pydantic import ConfigDict, Field, GetPydanticSchema, model_validator  # noqa: E402
from pydantic_core import core_schema  # noqa: E402

Found: TypeAlias = Sequence[tuple[Document, float]]
ScoreKind: TypeAlias = Literal["similarity", "cosine distance", "squared distance"]
# As it is: pydantic would look into a dataclass, and check its arrays for types.
FittedBias: TypeAlias = Annotated[Bias, GetPydanticSchema(lambda _, __: core_schema.is_instance_schema(Bias))]

# What a store calls a score, as a similarity. A squared distance is of vectors of length one: |q - g|^2 = 2 - 2 q.g.
SIMILARITIES: Mapping[str, Callable[[float], float]] = {
    "similarity": lambda score: score,
    "cosine distance": lambda score: 1 - score,
    "squared distance": lambda score: 1 - score / 2,
}
BEST_FIRST_TOLERANCE = 1e-4
DECIMAL = re.compile(r"-?[0-9]{1,18}")  # what `int` reads besides, such as "1_2", is no id
COSINE_TOLERANCE = 1e-2  # beyond 1 and -1, for vectors that are kept in half precision
DISTANCES = 'say which distances they are: scores="cosine distance" or "squared distance"'


class CorrectedRetriever(BaseRetriever):
    """Fetch `fetch_k` documents from a vector store and return the `k` best by s - h.

    vectorstore: any store of LangChain that returns scores (`similarity_search_with_score`). correction: one number per
    item, fitted on the vectors of the store's documents. k: how many documents to return. fetch_k: how many to fetch;
    the corrected best are only found among them. strength: how much of the correction to apply. scores: what the
    store's scores are; most of LangChain's stores return distances. id_key: the key of the metadata that holds the id
    of the item; None takes the id of the document. uncovered: what becomes of a document that the correction does not
    cover: `refuse` it with an error, or `keep` it as if its h were 0, the mean. search_kwargs: for the store, such as a
    filter.

    The documents that are returned are copies whose metadata has `score`, corrected, and `raw_score`, the similarity.
    """

    model_config = ConfigDict(extra="forbid")  # a misspelt argument is an error

    vectorstore: VectorStore
    correction: FittedBias
    k: int = Field(default=4, ge=1)
    fetch_k: int = Field(default=100, ge=1)
    strength: float = 1.0
    scores: ScoreKind = "similarity"
    id_key: str | None = None
    uncovered: Literal["refuse", "keep"] = "refuse"
    search_kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fetches_enough(self) -> CorrectedRetriever:
        if self.fetch_k < self.k:
            problem = f"is {self.fetch_k}, fewer than the {self.k} documents to return"
            raise ArgumentError("fetch_k", problem, "fetch many more, a hundred or a thousand")
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self._corrected(self.vectorstore.similarity_search_with_score(query, **self._asked(kwargs)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self._corrected(await self.vectorstore.asimilarity_search_with_score(query, **self._asked(kwargs)))

    def _asked(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.search_kwargs, **kwargs, "k": self.fetch_k}

    def _corrected(self, found: Found) -> list[Document]:
        """Return the best of the documents that a store found, by s - h, best first."""
        similarities = self._similarities([float(score) for _, score in found])
        ids = [self._id_of(document) for document, _ in found]
        covered = ~Names(self.correction.ids).looked_up(np.array(ids))[1] if ids else np.empty(0, np.bool_)
        if self.uncovered == "refuse" and not covered.all():
            raise ArgumentError(
                "vectorstore",
                f"returned a document with the id {ids[int(covered.argmin())]!r}, which the correction does not cover",
                'extend the correction by the new items, or give uncovered="keep"',
            )
        ranked = [(score, score, at) for at, score in enumerate(similarities) if not covered[at]]
        ranked += self._reranked(np.flatnonzero(covered).tolist(), ids, similarities)
        ranked.sort(key=lambda one: -one[0])
        return [_scored(found[at][0], score, raw) for score, raw, at in ranked[: self.k]]

    def _reranked(self, places: list[int], ids: list[Id], similarities: list[float]) -> list[tuple[float, float, int]]:
        """Return (s - h, s, place) of the documents at these places, best first."""
        if not places:
            return []
        # Several documents may be parts of one item; in the order of their similarity they stay.
        waiting = defaultdict(list)
        for at in places:
            waiting[ids[at]].append(at)
        given = [ids[at] for at in places], [similarities[at] for at in places]
        hits = rerank([given[0]], [given[1]], self.correction, strength=self.strength)
        order = [waiting[one].pop(0) for one in hits.ids[0].tolist()]
        return [(score, similarities[at], at) for score, at in zip(hits.scores[0].tolist(), order, strict=True)]

    def _similarities(self, scores: list[float]) -> list[float]:
        """Return scores of a store, best first, as similarities; raise if the best would be the worst."""
        similarities = [SIMILARITIES[self.scores](score) for score in scores]
        if similarities and similarities[0] < similarities[-1] - BEST_FIRST_TOLERANCE:
            way, remedy = ("rise", DISTANCES) if self.scores == "similarity" else ("fall", 'give scores="similarity"')
            problem = f"is {self.scores!r}, but the scores of the store {way}, from {scores[0]:g} to {scores[-1]:g}"
            raise ArgumentError("scores", problem, remedy)
        if self.correction.source.similarity == "cosine":
            farthest = max(similarities, key=abs, default=0.0)
            if abs(farthest) > 1 + COSINE_TOLERANCE:
                problem = f"is {self.scores!r}, which gives {farthest:g}, and the correction was fitted by cosine"
                remedy = "let the store compare by cosine, or keep vectors of length one in it"
                raise ArgumentError("scores", problem, remedy)
        return similarities

    def _id_of(self, document: Document) -> Id:
        """Return the id that the item of a document has in the correction."""
        given: object
        if self.id_key is None:
            given, where, remedy = document.id, "id", "name the key of the metadata that holds it: id_key"
        else:
            given, where, remedy = document.metadata.get(self.id_key), f"metadata {self.id_key!r}", "store it there"
        if given is None:
            raise ArgumentError("vectorstore", f"returned a document without {where}", remedy)
        if self.correction.ids.dtype.kind != "i":
            return str(given)
        if isinstance(given, Integral) and not isinstance(given, bool):
            return int(given)
        if isinstance(given, str) and DECIMAL.fullmatch(given):
            return int(given)
        problem = f"returned a document with the {where} {given!r}, but the ids of the correction are whole numbers"
        raise ArgumentError("vectorstore", problem, "fit with the ids that the documents have")


def _scored(document: Document, score: float, raw: float) -> Document:
    """Return a copy of a document with its scores in the metadata."""
    return document.model_copy(update={"metadata": {**document.metadata, "score": score, "raw_score": raw}})
