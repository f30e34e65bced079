"""Logs of queries whose answers are drawn from a known law."""

import numpy as np
from numpy.typing import NDArray

import unhub
from unhub.data.runs import Answers

ITEMS, PLACES = 120, 3
UNEVEN = 1 / np.arange(1, ITEMS + 1) ** 0.7
EVEN = np.ones(ITEMS)


def drawn(queries: int, law: NDArray[np.float64], seed: int) -> list[list[int]]:
    """Return what is returned for queries: PLACES different items each, drawn by their weights."""
    random = np.random.default_rng(seed)
    keys = np.log(random.random((queries, ITEMS))) / law  # the largest keys are a draw without replacement
    return np.argsort(-keys, axis=1)[:, :PLACES].tolist()  # type: ignore[no-any-return]


def answers(queries: int, law: NDArray[np.float64] = UNEVEN, seed: int = 0) -> Answers:
    return Answers.of(unhub.QueryLog.of(returned=drawn(queries, law, seed)), ITEMS)


def day_log(days: dict[str, list[list[int]]]) -> unhub.QueryLog:
    """Return a log of these answers, one a minute; each query is another one."""
    times = [
        np.datetime64(day) + np.timedelta64(minute, "m") for day, lists in days.items() for minute in range(len(lists))
    ]
    return unhub.QueryLog.of(times=np.array(times), returned=[one for lists in days.values() for one in lists])
