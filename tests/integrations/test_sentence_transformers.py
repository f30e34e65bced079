"""`semantic_search` with a correction: the library's own lists, ranked as the correction says."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub

pytestmark = pytest.mark.once

Drawn = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


# The library is imported when a test needs it: it takes seconds, which a run of other tests need not wait for.
@pytest.fixture(scope="module")
def util() -> Any:
    return import_module("sentence_transformers.util")


@pytest.fixture(scope="module")
def semantic_search(util: Any) -> Any:
    return import_module("unhub.integrations").semantic_search


@pytest.fixture
def drawn() -> Drawn:
    """Items with a hub, a bank and queries, of any length."""
    random = np.random.default_rng(0)
    items, bank, queries = (random.normal(size=(count, 8)).astype(np.float32) for count in (40, 60, 15))
    items[3] = bank.mean(axis=0)
    return items, bank, queries


def ids_of(found: list[list[dict[str, Any]]]) -> list[list[int]]:
    return [[hit["corpus_id"] for hit in hits] for hits in found]


def scores_of(found: list[list[dict[str, Any]]]) -> list[list[float]]:
    return [[hit["score"] for hit in hits] for hits in found]


def test_without_a_correction_it_is_the_library_s_own(util: Any, semantic_search: Any, drawn: Drawn) -> None:
    items, _, queries = drawn
    assert semantic_search(queries, items, top_k=3) == util.semantic_search(queries, items, top_k=3)


@pytest.mark.parametrize("chunks", [(100, 500_000), (4, 7)])
@pytest.mark.parametrize("form", ["array", "tensor", "tensors", "lists"])
@pytest.mark.parametrize("method", ["is:tau=0.1", "dis:tau=0.1"])
def test_it_ranks_as_a_searcher(
    semantic_search: Any, drawn: Drawn, method: str, form: str, chunks: tuple[int, int]
) -> None:
    items, bank, queries = drawn
    tensor = import_module("torch").tensor
    forms = {
        "array": np.asarray,
        "tensor": tensor,
        "tensors": lambda rows: list(tensor(rows)),
        "lists": np.ndarray.tolist,
    }
    fitted = unhub.fit(items, bank, method)
    found = semantic_search(*map(forms[form], (queries, items)), *chunks, top_k=5, correction=fitted)
    hits = unhub.searcher(items, fitted).search(queries, k=5)
    assert ids_of(found) == hits.ids.tolist()
    np.testing.assert_allclose(scores_of(found), hits.scores, atol=1e-6)
    assert {type(value) for value in found[0][0].values()} == {int, float}
    assert ids_of(found) != ids_of(semantic_search(queries, items, top_k=5))


def test_a_dot_product_a_strength_per_query_and_one_query_as_a_vector(
    util: Any, semantic_search: Any, drawn: Drawn
) -> None:
    items, bank, queries = drawn
    fitted = unhub.fit(items, bank, "is:tau=1", similarity="dot")
    strength = np.linspace(0, 1, len(queries))
    found = semantic_search(queries, items, 4, 7, 5, util.dot_score, correction=fitted, strength=strength)
    hits = unhub.searcher(items, fitted).search(queries, k=5, strength=strength)
    assert ids_of(found) == hits.ids.tolist()
    alone = semantic_search(queries[-1], items, top_k=5, score_function=util.dot_score, correction=fitted)
    assert ids_of(alone) == [hits.ids[-1].tolist()]
    assert len(semantic_search(queries[0], items, top_k=99, score_function=util.dot_score, correction=fitted)[0]) == 40


def test_a_corpus_of_half_precision_and_length_one_is_the_corpus_of_the_fit(
    util: Any, semantic_search: Any, drawn: Drawn
) -> None:
    items, bank, queries = drawn
    fitted = unhub.fit(items, bank, "is:tau=0.1")
    torch = import_module("torch")
    unit = util.normalize_embeddings(torch.tensor(items)).bfloat16()
    asked = util.normalize_embeddings(torch.tensor(queries)).bfloat16()
    found = semantic_search(asked, unit, top_k=1, score_function=util.dot_score, correction=fitted)
    best = fitted.apply((asked.float() @ unit.float().T).numpy()).argmax(axis=1)
    assert ids_of(found) == best[:, None].tolist()


def test_what_does_not_belong_together_is_refused(util: Any, semantic_search: Any, drawn: Drawn) -> None:
    items, bank, queries = drawn
    fitted = unhub.fit(items, bank, "is:tau=0.1")
    with pytest.raises(ValueError, match=r"corpus_embeddings is \(39, 8\), and the correction was fitted on \(40, 8\)"):
        semantic_search(queries, items[1:], correction=fitted)
    with pytest.raises(ValueError, match=r"corpus_embeddings differs from the items of the fit in row"):
        semantic_search(queries, np.roll(items, 1, axis=0), correction=fitted)
    with pytest.raises(ValueError, match=r"query_embeddings has 7 dimensions, the corpus 8"):
        semantic_search(queries[:, 1:], items, correction=fitted)
    with pytest.raises(ValueError, match=r"score_function is dot_score, and the correction was fitted by cosine"):
        semantic_search(queries, items, score_function=util.dot_score, correction=fitted)
    for other in (util.euclidean_sim, util.manhattan_sim, lambda one, two: util.cos_sim(one, two)):
        with pytest.raises(ValueError, match=r"not known to give the cosine similarity of the fit; use util\.cos_sim"):
            semantic_search(queries, items, score_function=other, correction=fitted)
    with pytest.raises(ValueError, match=r"correction of 'gc.*' needs whole rows"):
        semantic_search(queries, items, correction=unhub.fit(items, bank, "gc"))
