"""The whole table of the Flickr8k embeddings' README, from unhub's own fits."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import flickr8k, oracles
from tests.bank_cases import Floats
from unhub.correction import Correction
from unhub.fitting import fit

# R@1, R@10, skewness at k = 10, of text to image on the test split.
COLUMNS = (
    "raw",
    "is:tau=0.05",
    "is:tau=0.02",
    "csls:k=10",
    "nnn:k=128,alpha=0.75",
    "sn:tau=0.01",
    "sn:tau=0.05",
    "dbsn:tau=0.01",
    "dbsn:tau=0.05",
    "on the test queries",
)
TABLE = {
    "ridge": (
        (12.88, 47.64, 1.97),
        (19.64, 59.58, 0.31),
        (18.36, 57.64, 2.86),
        (18.06, 56.76, 1.42),
        (19.40, 59.26, 0.85),
        (18.68, 58.40, 0.99),
        (19.58, 60.02, 0.55),
        (18.62, 58.10, 0.92),
        (19.84, 60.10, 0.27),
        (20.60, 60.78, -0.06),
    ),
    "vse_holdout": (
        (21.70, 64.22, 0.68),
        (23.10, 66.02, 0.33),
        (20.88, 64.60, 1.22),
        (23.70, 66.46, 0.62),
        (23.52, 66.50, 0.53),
        (22.92, 66.14, 0.58),
        (23.50, 66.34, 0.47),
        (22.44, 65.92, 0.65),
        (23.24, 66.82, 0.29),
        (24.12, 67.18, -0.22),
    ),
}


@dataclass(frozen=True)
class Fitted:
    """The test queries' similarities in one space, each column's correction, and the true image of each text."""

    scores: Floats
    corrections: dict[str, Correction]
    truth: NDArray[np.int64]


@cache
def fitted(space: str) -> Fitted:
    data = flickr8k.load(space)
    on_bank = fit(data.test_images, data.bank_texts, method=list(COLUMNS[:-1]), bank_items=data.bank_images)
    on_queries = fit(data.test_images, data.test_texts, method="sn:tau=0.05")
    return Fitted(
        oracles.cosine(data.test_texts, data.test_images),
        dict(zip(COLUMNS, [*on_bank, on_queries], strict=True)),
        data.truth,
    )


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("space", TABLE)
def test_the_table_is_reproduced(space: str, column: str) -> None:
    fits = fitted(space)
    recall_1, recall_10, skewness = TABLE[space][COLUMNS.index(column)]
    scores = np.asarray(fits.corrections[column].apply(fits.scores), np.float64)
    assert recall_at(scores, fits.truth, 1) == pytest.approx(recall_1, abs=0.1)
    assert recall_at(scores, fits.truth, 10) == pytest.approx(recall_10, abs=0.1)
    top = np.argpartition(-scores, 9, axis=1)[:, :10]
    assert oracles.skewness(np.bincount(top.ravel(), minlength=1000)) == pytest.approx(skewness, abs=0.05)


def recall_at(scores: Floats, truth: NDArray[np.int64], k: int) -> float:
    """Return R@k in percent: with b items better than the true one and e equal to it, clip((k - b) / e, 0, 1)."""
    true = np.take_along_axis(scores, truth[:, None], axis=1)
    better, equal = (scores > true).sum(axis=1), (scores == true).sum(axis=1)
    return float(100 * np.clip((k - better) / equal, 0, 1).mean())
