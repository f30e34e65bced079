"""Labels from clicks: worked out by hand on three queries."""

import pytest

import unhub

pytestmark = pytest.mark.once


def by_pair(labels: unhub.ClickLabels) -> dict[tuple[object, object], float]:
    found = labels.relevance
    pairs = zip(found.query_ids.tolist(), found.item_ids.tolist(), strict=True)
    return dict(zip(pairs, found.grades.tolist(), strict=True))


LOG = unhub.QueryLog.of(
    query_ids=["a", "b", "a", "c"],
    returned=[["x", "y", "z"], ["y", "x"], ["z", "y", "x"], ["x", *(f"w{place}" for place in range(20)), "z"]],
    clicked=[["x"], ["x"], ["x", "y"], ["z"]],
)


def test_three_queries_by_hand() -> None:
    # a was logged twice: x was clicked in place 1 and in place 3, (1 + 3) / 2; y in place 2, 2 / 2.
    # b was logged once: x in place 2. c once: z in place 22, cut to 10.
    labels = unhub.clicks_to_relevance(LOG)
    assert by_pair(labels) == {("a", "x"): 2.0, ("a", "y"): 1.0, ("b", "x"): 2.0, ("c", "z"): 10.0}
    assert labels.notes[0].startswith("A click in place p counts p ** 1, at most 10")
    assert "1 of 5 clicks were cut" in labels.notes[0]


def test_eta_0_counts_clicks_and_clip_bounds_them() -> None:
    assert by_pair(unhub.clicks_to_relevance(LOG, eta=0)) == {
        ("a", "x"): 1.0,
        ("a", "y"): 0.5,
        ("b", "x"): 1.0,
        ("c", "z"): 1.0,
    }
    assert by_pair(unhub.clicks_to_relevance(LOG, eta=2, clip=4))["a", "x"] == (1 + 4) / 2


def test_a_click_without_a_place_counts_once_and_is_noted() -> None:
    log = unhub.QueryLog.of(texts=["p", "q"], clicked=[[7], [7, 8]])
    labels = unhub.clicks_to_relevance(log)
    assert by_pair(labels) == {(0, 7): 1.0, (1, 7): 1.0, (1, 8): 1.0}
    assert labels.notes[1] == "3 clicks have no known place and count once."


def test_what_cannot_be_labelled_is_an_error() -> None:
    with pytest.raises(ValueError, match="log has no clicks"):
        unhub.clicks_to_relevance(unhub.QueryLog.of(texts=["a"]))
    with pytest.raises(ValueError, match="eta must be a finite number of at least 0, got -1"):
        unhub.clicks_to_relevance(LOG, eta=-1)
    with pytest.raises(ValueError, match=r"clip must be .* at least 1, got 0"):
        unhub.clicks_to_relevance(LOG, clip=0)
