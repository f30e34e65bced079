"""The retriever of LangChain: what a store returns, in the order of the correction."""

import asyncio
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

import unhub
from unhub.correction import Bias
from unhub.integrations import CorrectedRetriever

pytestmark = pytest.mark.once

RANDOM = np.random.default_rng(0)
ITEMS, BANK, QUERIES = (RANDOM.normal(size=(count, 8)).astype(np.float32) for count in (40, 60, 6))
ITEMS[3] = BANK.mean(axis=0)


class Numbered(Embeddings):
    """Embeds the texts `item 3` and `query 2` as the rows of these numbers."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [ITEMS[int(text.split()[1])].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return list(map(float, QUERIES[int(text.split()[1])]))


class Distances(InMemoryVectorStore):
    """A store whose scores are cosine distances, as those of most stores are."""

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        return [(one, 1 - score) for one, score in super().similarity_search_with_score(query, k, **kwargs)]


def filled(store: VectorStore) -> VectorStore:
    documents = [Document(f"item {one}", id=f"d{one}", metadata={"row": one}) for one in range(len(ITEMS))]
    store.add_documents(documents)
    return store


@pytest.fixture
def fitted() -> Bias:
    named = unhub.Vectors(np.array([f"d{one}" for one in range(len(ITEMS))]), ITEMS)
    correction = unhub.fit(named, BANK, "is:tau=0.1")
    assert isinstance(correction, Bias)
    return correction


def test_documents_come_in_the_order_of_a_searcher_with_their_scores(fitted: Bias) -> None:
    store = filled(InMemoryVectorStore(Numbered()))
    retriever = CorrectedRetriever(vectorstore=store, correction=fitted, k=5)
    named = unhub.Vectors(fitted.ids, ITEMS)
    hits = unhub.searcher(named, fitted).search(QUERIES, k=5)
    for query, ids in enumerate(hits.ids):
        found = retriever.invoke(f"query {query}")
        assert [one.id for one in found] == ids.tolist()
        np.testing.assert_allclose([one.metadata["score"] for one in found], hits.scores[query], atol=1e-6)
        raw = {one.id: score for one, score in store.similarity_search_with_score(f"query {query}", k=40)}
        assert [one.metadata["raw_score"] for one in found] == [raw[one.id] for one in found]
        assert asyncio.run(retriever.ainvoke(f"query {query}")) == found
    assert "score" not in store.similarity_search("query 0")[0].metadata, "the documents of the store stay as they are"
    raw_best = [[one.id for one in store.similarity_search(f"query {query}", k=5)] for query in range(len(QUERIES))]
    assert raw_best != hits.ids.tolist()


def test_ids_from_the_metadata_distances_and_a_filter(fitted: Bias) -> None:
    numbered = unhub.fit(ITEMS, BANK, "is:tau=0.1")
    assert isinstance(numbered, Bias)
    retriever = CorrectedRetriever(
        vectorstore=filled(Distances(Numbered())),
        correction=numbered,
        k=3,
        scores="cosine distance",
        id_key="row",
        search_kwargs={"filter": lambda document: document.metadata["row"] % 2 == 0},
    )
    even = range(0, len(ITEMS), 2)
    hits = unhub.searcher(ITEMS, numbered).search(QUERIES[:1], k=3, among=list(even))
    assert [one.metadata["row"] for one in retriever.invoke("query 0")] == hits.ids[0].tolist()
    with pytest.raises(ValueError, match=r"scores is 'similarity', but the scores of the store rise, from"):
        retriever.model_copy(update={"scores": "similarity"}).invoke("query 0")
    nothing = retriever.model_copy(update={"search_kwargs": {"filter": lambda document: False}})
    assert nothing.invoke("query 0") == []


def test_several_documents_may_be_parts_of_one_item(fitted: Bias) -> None:
    parts = [Document(f"item {one}", id=f"{one}-{part}", metadata={"of": f"d{one}"}) for one in (3, 4) for part in "ab"]
    store = InMemoryVectorStore(Numbered())
    store.add_documents(parts)
    found = CorrectedRetriever(vectorstore=store, correction=fitted, id_key="of").invoke("query 0")
    assert {one.id for one in found} == {one.id for one in parts}
    scores = [one.metadata["score"] for one in found]
    assert scores == sorted(scores, reverse=True)


def test_a_document_that_is_not_covered_is_refused_or_kept_at_its_similarity(fitted: Bias) -> None:
    store = filled(InMemoryVectorStore(Numbered()))
    store.add_documents([Document("item 3", id="new")])
    retriever = CorrectedRetriever(vectorstore=store, correction=fitted, k=41)
    with pytest.raises(ValueError, match=r"returned a document with the id 'new', which the correction does not cover"):
        retriever.invoke("query 0")
    kept = retriever.model_copy(update={"uncovered": "keep"}).invoke("query 0")
    (new,) = (one for one in kept if one.id == "new")
    assert len(kept) == 41 and new.metadata["score"] == new.metadata["raw_score"]
    scores = [one.metadata["score"] for one in kept]
    assert scores == sorted(scores, reverse=True)


def test_what_cannot_work_is_refused(fitted: Bias) -> None:
    store = filled(InMemoryVectorStore(Numbered()))
    with pytest.raises(ValueError, match=r"fetch_k is 3, fewer than the 4 documents to return"):
        CorrectedRetriever(vectorstore=store, correction=fitted, fetch_k=3)
    with pytest.raises(ValueError, match="instance of Bias"):
        CorrectedRetriever(vectorstore=store, correction="gallery.unhub")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"returned a document without metadata 'key'"):
        CorrectedRetriever(vectorstore=store, correction=fitted, id_key="key").invoke("query 0")
    with pytest.raises(ValueError, match=r"fetchk\n  Extra inputs are not permitted"):
        CorrectedRetriever(vectorstore=store, correction=fitted, fetchk=100)  # type: ignore[call-arg]


class Answering(InMemoryVectorStore):
    """A store that returns the same documents for any query."""

    given: list[tuple[Document, float]]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        return self.given


def answering(*given: tuple[Document, float]) -> Answering:
    store = Answering(Numbered())
    store.given = list(given)
    return store


def test_squared_distances_of_long_vectors_are_refused_under_cosine(fitted: Bias) -> None:
    far = answering((Document("item 1", id="d1"), 0.5), (Document("item 2", id="d2"), 9.0))  # 1 - 9 / 2 = -3.5
    retriever = CorrectedRetriever(vectorstore=far, correction=fitted, scores="squared distance")
    with pytest.raises(
        ValueError, match=r"^scores is 'squared distance', which gives -3\.5, and the correction was fitted"
    ):
        retriever.invoke("query 0")
    dot = unhub.fit(unhub.Vectors(fitted.ids, ITEMS), BANK, "is:tau=1", similarity="dot")
    assert len(retriever.model_copy(update={"correction": dot}).invoke("query 0")) == 2


@pytest.mark.parametrize("given", [1.9, True, "1_2", " 7 ", "7.0", "\u0667"])
def test_what_is_no_whole_number_is_no_id(given: object) -> None:
    numbered = unhub.fit(ITEMS, BANK, "is:tau=0.1")
    assert isinstance(numbered, Bias)
    store = answering((Document("item 1", metadata={"row": given}), 0.5))
    with pytest.raises(ValueError, match="but the ids of the correction are whole numbers"):
        CorrectedRetriever(vectorstore=store, correction=numbered, id_key="row").invoke("query 0")
    plain = [(Document("item 1", metadata={"row": one}), 0.5) for one in (7, "8", np.int64(9))]
    found = CorrectedRetriever(vectorstore=answering(*plain), correction=numbered, id_key="row").invoke("query 0")
    assert len(found) == 3
