"""An estimator of scikit-learn: vectors with the correction inside, for its nearest neighbours and classifiers."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from unhub.arrays import Float32, Kind
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, optional
from unhub.fitting import fit
from unhub.layouts import layout

optional("sklearn", "sklearn", "HubnessCorrector")  # says what to install where the imports below would fail

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

if TYPE_CHECKING:
    from unhub.correction import Bias
    from unhub.layouts import Layout

NO_BANK = "bank is None, so the items are their own bank, which corrects less; give the embeddings of past queries"


class HubnessCorrector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn items and queries into vectors whose distances rank by s - h.

    `fit(X)` learns h of the items X from the bank of past queries. `fit_transform(X)` and `transform_items(X)` return
    the vectors to index, `transform(Q)` and `transform_queries(Q)` the vectors to search with. So in a pipeline what is
    fitted on are the items, and what is asked are the queries: a KNeighborsClassifier after it needs nothing else. The
    vectors rank right by euclidean distance, by cosine and by inner product.

    method: a name or a spec such as `nnn:k=32,alpha=0.5`, of a method that gives one number per item. bank: (m, d) past
    queries; None takes the items as their own bank, and warns of it. bank_items: training items, for the dual methods.
    similarity: what h is fitted on, `cosine` or `dot`. strength: how much of the correction to apply, 0 for none.
    threads: None means all cores.

    After the fit: `correction_`, `layout_` (see `unhub.layout`), `bias_` (h), `n_features_in_`.
    """

    correction_: Bias
    layout_: Layout

    def __init__(
        self,
        method: str = "nnn",
        bank: VectorsLike | None = None,
        bank_items: VectorsLike | None = None,
        similarity: Kind = "cosine",
        strength: float = 1.0,
        threads: int | None = None,
    ) -> None:
        self.method = method
        self.bank = bank
        self.bank_items = bank_items
        self.similarity = similarity
        self.strength = strength
        self.threads = threads

    def fit(self, X: ArrayLike, y: object = None) -> HubnessCorrector:
        """Learn h of the items X, (items, d); y is not used."""
        items = validate_data(self, X, dtype="numeric")
        if self.bank is None:
            warnings.warn(NO_BANK, UserWarning, stacklevel=2)
        fitted = fit(
            items,
            items if self.bank is None else self.bank,
            self.method,
            bank_items=self.bank_items,
            similarity=self.similarity,
            threads=self.threads,
        )
        try:
            made = layout(fitted, items)
        except ArgumentError as error:
            raise error.of("method") if error.name == "correction" else error from None
        if made.gated:
            problem = f"{fitted.spec!r} corrects some queries only, and which ones only a first search tells"
            raise ArgumentError("method", problem, "take another, or unhub.searcher, which searches twice")
        self.correction_, self.layout_ = fitted, made  # type: ignore[assignment]  # a layout is of a Bias
        return self

    def fit_transform(self, X: ArrayLike, y: object = None) -> Float32:
        """Learn h of the items X and return the vectors to index."""
        return self.fit(X, y).transform_items(X)

    def transform(self, X: ArrayLike) -> Float32:
        """Return the vectors to search with for the queries X, (queries, d)."""
        return self.transform_queries(X)

    def transform_items(self, X: ArrayLike) -> Float32:
        """Return the vectors to index for the items of the fit, (items, d), or for the first of them."""
        check_is_fitted(self)
        return self.layout_.items(self._checked(X), self.correction_)

    def transform_queries(self, X: ArrayLike) -> Float32:
        """Return the vectors to search with for the queries X, (queries, d)."""
        check_is_fitted(self)
        return self.layout_.queries(self._checked(X), self.strength)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # engines take nothing else
        return tags

    def _checked(self, X: ArrayLike) -> Any:
        return validate_data(self, X, dtype="numeric", reset=False)

    @property
    def bias_(self) -> Any:
        """h, one number per item of the fit."""
        return self.correction_.bias

    @property
    def _n_features_out(self) -> int:
        return self.layout_.width
