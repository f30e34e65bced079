"""The estimator of scikit-learn: what it indexes and asks with ranks as the correction says, and its manners."""

import pickle
import warnings
from importlib import import_module

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline

import unhub
from tests import flickr8k
from unhub.integrations import HubnessCorrector

pytestmark = pytest.mark.once

# What fits a pipeline are items, what it is asked with are queries: they become different vectors.
ITEMS_ARE_NOT_QUERIES = "an item and a query become different vectors"
EXPECTED_FAILURES = {
    "check_transformer_general": ITEMS_ARE_NOT_QUERIES,
    "check_transformer_data_not_an_array": ITEMS_ARE_NOT_QUERIES,
    "check_estimators_dtypes": "a row of zeros has no direction under cosine",
}


@pytest.fixture
def drawn() -> dict[str, NDArray[np.float64]]:
    """Items with a hub, a bank and queries."""
    random = np.random.default_rng(0)
    items, bank, queries = (random.normal(size=(count, 8)) for count in (40, 60, 15))
    items[3] = bank.mean(axis=0)
    return {"items": items, "bank": bank, "queries": queries}


@pytest.mark.parametrize(
    ("similarity", "metric"), [("cosine", "euclidean"), ("cosine", "cosine"), ("dot", "euclidean")]
)
def test_nearest_neighbours_rank_as_a_searcher(
    drawn: dict[str, NDArray[np.float64]], similarity: str, metric: str
) -> None:
    items, bank, queries = drawn.values()
    corrector = HubnessCorrector("is:tau=0.1", bank, similarity=similarity)  # type: ignore[arg-type]
    neighbours = NearestNeighbors(n_neighbors=5, metric=metric).fit(corrector.fit_transform(items))
    found = neighbours.kneighbors(corrector.transform(queries), return_distance=False)
    fitted = unhub.fit(items, bank, "is:tau=0.1", similarity=similarity)  # type: ignore[call-overload]
    assert found.tolist() == unhub.searcher(items, fitted).search(queries, k=5).ids.tolist()
    np.testing.assert_array_equal(corrector.bias_, fitted.bias)
    corrector.set_params(strength=0.0)
    raw = neighbours.kneighbors(corrector.transform_queries(queries), return_distance=False)
    assert raw.tolist() == unhub.searcher(items, fitted).search(queries, k=5, strength=0).ids.tolist()
    assert raw.tolist() != found.tolist()


def test_a_classifier_after_it_asks_with_queries(drawn: dict[str, NDArray[np.float64]]) -> None:
    items, bank, queries = drawn.values()
    labels = np.arange(len(items)) % 10
    classifier = make_pipeline(HubnessCorrector(bank=bank), KNeighborsClassifier(1)).fit(items, labels)
    best = unhub.searcher(items, unhub.fit(items, bank, "nnn")).search(queries, k=1).ids[:, 0].astype(np.int64)
    assert classifier.predict(queries).tolist() == (best % 10).tolist()
    search = GridSearchCV(classifier, {"hubnesscorrector__strength": [0.0, 1.0]}, cv=2, error_score="raise")
    assert search.fit(items, labels % 2).best_params_.keys() == {"hubnesscorrector__strength"}


def test_it_is_cloned_pickled_and_named_as_scikit_learn_expects(drawn: dict[str, NDArray[np.float64]]) -> None:
    items, bank, queries = drawn.values()
    corrector = HubnessCorrector("nnn:k=3", bank, strength=0.5).fit(items)
    fresh = clone(corrector)
    assert not hasattr(fresh, "correction_") and fresh.get_params()["method"] == "nnn:k=3"
    again = pickle.loads(pickle.dumps(corrector))
    np.testing.assert_array_equal(again.transform(queries), corrector.transform(queries))
    np.testing.assert_array_equal(again.transform_items(items[:7]), corrector.transform_items(items)[:7])
    assert len(corrector.get_feature_names_out()) == corrector.transform(queries).shape[1]
    with pytest.raises(ValueError, match="differs from the items of the fit in row 0"):
        corrector.transform_items(items[::-1])


def test_it_keeps_the_conventions_of_scikit_learn() -> None:
    check_estimator = import_module("sklearn.utils.estimator_checks").check_estimator  # here: it takes a second or two
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks = check_estimator(HubnessCorrector(threads=1), on_skip=None, expected_failed_checks=EXPECTED_FAILURES)
    assert {one["check_name"] for one in checks if one["status"] == "xfail"} == EXPECTED_FAILURES.keys()


def test_the_items_as_their_own_bank_are_warned_of(drawn: dict[str, NDArray[np.float64]]) -> None:
    with pytest.warns(UserWarning, match="bank is None, so the items are their own bank, which corrects less"):
        made = HubnessCorrector().fit_transform(drawn["items"])
    assert len(made) == 40


@pytest.mark.parametrize(
    ("space", "figures"), [("ridge", (12.88, 15.84, 19.40)), ("vse_holdout", (21.70, 22.26, 23.52))]
)
def test_the_items_as_their_own_bank_correct_less_on_real_data(space: str, figures: tuple[float, ...]) -> None:
    """R@1 of captions that ask for pictures: raw, with the pictures as the bank, with other captions as the bank."""
    data = flickr8k.load(space)
    found = []
    for bank, strength in ((data.test_images, 0.0), (data.test_images, 1.0), (data.bank_texts, 1.0)):
        corrector = HubnessCorrector(bank=bank, strength=strength)
        nearest = NearestNeighbors(n_neighbors=1).fit(corrector.fit_transform(data.test_images))
        best = nearest.kneighbors(corrector.transform(data.test_texts), return_distance=False)[:, 0]
        found.append(100 * float((best == data.truth).mean()))
    assert found == pytest.approx(figures, abs=0.05)  # one caption is 0.02


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("nnm", r"method .nnm. is unknown; did you mean"),
        ("gc", r"method of 'gc' re-scores whole rows of similarities"),
        ("dis", r"method .dis:.*. corrects some queries only"),
    ],
)
def test_a_method_that_no_vector_can_carry_is_refused(
    drawn: dict[str, NDArray[np.float64]], method: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        HubnessCorrector(method, drawn["bank"]).fit(drawn["items"])
