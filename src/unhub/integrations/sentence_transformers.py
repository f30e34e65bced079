"""`semantic_search` of sentence-transformers, with the correction: the same arguments, and the same lists back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unhub.arrays import Kind
from unhub.correction import Bias, Correction, check_correction, strengths
from unhub.data.vectors import Vectors
from unhub.errors import ArgumentError, check_whole, optional
from unhub.matching import ONE_MODEL_REMEDY, vector_similarity

optional("sentence_transformers", "sentences", "semantic_search")  # says what to install where the import would fail

import torch  # noqa: E402
from sentence_transformers import util  # noqa: E402

Tensor: TypeAlias = Any  # of torch; the library takes lists and arrays as well
Score: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Found: TypeAlias = list[list[dict[str, int | float]]]

KINDS: Mapping[Any, Kind] = {util.cos_sim: "cosine", util.pytorch_cos_sim: "cosine", util.dot_score: "dot"}
LENGTH_TOLERANCE = 1e-2  # for vectors of length one in float16 and bfloat16
SAME_COSINE = 0.999  # below it, an item in its place is another: bfloat16 keeps more


def semantic_search(
    query_embeddings: Tensor | ArrayLike,
    corpus_embeddings: Tensor | ArrayLike,
    query_chunk_size: int = 100,
    corpus_chunk_size: int = 500000,
    top_k: int = 10,
    score_function: Score = util.cos_sim,
    *,
    correction: Correction | None = None,
    strength: ArrayLike = 1.0,
) -> Found:
    """Return the `top_k` best of the corpus for each query, as sentence-transformers does, ranked by score - h.

    The first six arguments are those of `sentence_transformers.util.semantic_search`, which does the search, on the
    device of the corpus. Each entry is a list of {"corpus_id", "score"}, best first; `corpus_id` is the row of the
    corpus and `score` the corrected score. correction: fitted on the corpus, with its rows in this order, by the
    similarity that `score_function` gives, which must be `cos_sim` or `dot_score`; None does what the library does.
    strength: how much of it to apply, one number or one per query; 0 is the raw ranking.
    """
    search = _Search(query_chunk_size, corpus_chunk_size, top_k, score_function)
    if correction is None:
        return search.raw(query_embeddings, corpus_embeddings)
    check_whole(corpus_chunk_size, "corpus_chunk_size", 1)
    corpus, queries = _as_rows(corpus_embeddings), _as_rows(query_embeddings)
    fitted = _checked(correction, queries, corpus, score_function)
    weights = strengths(strength, len(queries), fitted)
    if fitted.active is not None:
        best = [found[0]["corpus_id"] for found in search.only(1).raw(queries, corpus)]
        weights = fitted.weights(np.asarray(best, np.int64), weights)
    return search.corrected(queries.to(corpus.device), corpus, fitted.bias, weights)


class _Search:
    """The library's search with these settings, of a corpus and of one with a number more in each row."""

    def __init__(self, queries: int, corpus: int, top_k: int, score: Score) -> None:
        self._queries, self._corpus, self._top_k, self._score = queries, corpus, top_k, score

    def only(self, top_k: int) -> _Search:
        """Return the same search for another number of items."""
        return _Search(self._queries, self._corpus, top_k, self._score)

    def raw(self, queries: Any, corpus: Any) -> Found:
        """Return what the library finds."""
        found: Found = util.semantic_search(
            queries, corpus, self._queries, self._corpus, top_k=self._top_k, score_function=self._score
        )
        return found

    def corrected(self, queries: Tensor, corpus: Tensor, bias: Any, weights: Any) -> Found:
        """Return what the library finds by score - weight * bias.

        The corpus goes in by its chunks, each with -h as a last column, so that no copy of all of it is made.
        """
        ready = _unit if KINDS[self._score] == "cosine" else torch.Tensor.float
        asked = _widened(ready(queries), weights)
        inner = _Search(self._queries, self._corpus, self._top_k, util.dot_score)
        best: Found = [[] for _ in range(len(queries))]
        for start in range(0, len(corpus), self._corpus):
            stop = start + self._corpus
            found = inner.raw(asked, _widened(ready(corpus[start:stop]), -bias[start:stop]))
            for row, hits in enumerate(found):
                here = [{"corpus_id": int(hit["corpus_id"]) + start, "score": hit["score"]} for hit in hits]
                best[row] = nlargest(self._top_k, best[row] + here, key=itemgetter("score"))
        return best


def _as_rows(given: Any) -> Tensor:
    """Return embeddings as a tensor of rows, where they are; the library takes one query as a vector."""
    if isinstance(given, Sequence) and len(given) and isinstance(given[0], torch.Tensor):
        given = torch.stack(list(given))
    rows = torch.as_tensor(given)
    rows = rows.to_dense() if rows.is_sparse else rows
    return rows if rows.ndim > 1 else rows[None]


def _unit(rows: Tensor) -> Tensor:
    return util.normalize_embeddings(rows.float())


def _widened(rows: Tensor, column: Any) -> Tensor:
    """Return rows with one more column."""
    last = torch.as_tensor(np.array(column, np.float32), device=rows.device)
    return torch.cat([rows, last[:, None]], dim=1)


def _checked(correction: Correction, queries: Tensor, corpus: Tensor, score: Score) -> Bias:
    """Return the correction; raise unless it is one number per item, and was fitted on this corpus and score."""
    check_correction(correction, "search with")
    if not isinstance(correction, Bias):
        problem = f"of {correction.spec!r} needs whole rows of similarities, and is not one number per item"
        raise ArgumentError("correction", problem, "search with unhub.searcher")
    fitted = vector_similarity(correction)
    shape = (len(correction), correction.source.dimensions)
    if tuple(corpus.shape) != shape:
        problem = f"is {tuple(corpus.shape)}, and the correction was fitted on {shape}"
        raise ArgumentError("corpus_embeddings", problem, "give the items of the fit, or extend the correction")
    if queries.shape[1] != shape[1]:
        problem = f"has {queries.shape[1]} dimensions, the corpus {shape[1]}"
        raise ArgumentError("query_embeddings", problem, ONE_MODEL_REMEDY)
    _check_scored(fitted, score, queries, corpus)
    witness = correction.source.witness
    if witness is not None:  # a file of an early version has none
        same = witness.cosines(Vectors(correction.ids, corpus), "cosine")
        if same.min() < SAME_COSINE:
            row = int(witness.places[same.argmin()])
            problem = f"differs from the items of the fit in row {row}"
            raise ArgumentError("corpus_embeddings", problem, "give the items of the fit, in its order, or refit")
    return correction


def _check_scored(fitted: Kind, score: Score, queries: Tensor, corpus: Tensor) -> None:
    """Raise if h is for another similarity than the score: the two are one for vectors of length one alone."""
    use, name = f"use util.{'cos_sim' if fitted == 'cosine' else 'dot_score'}", getattr(score, "__name__", str(score))
    if score not in KINDS:
        problem = f"is {name}, which is not known to give the {fitted} similarity of the fit"
        raise ArgumentError("score_function", problem, use)
    if KINDS[score] == fitted:
        return
    for rows in (queries.float(), corpus[:: max(1, len(corpus) // 500)].float()):
        if not torch.allclose(rows.norm(dim=1), torch.ones(len(rows), device=rows.device), atol=LENGTH_TOLERANCE):
            problem = f"is {name}, and the correction was fitted by {fitted} on vectors of other lengths than one"
            raise ArgumentError("score_function", problem, use)
