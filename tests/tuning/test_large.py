"""Tune on a large gallery: a sample chooses about as the whole would, and the whole confirms it on other queries."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import unhub
import unhub.tuning.large as large
import unhub.tuning.tune as tuning_module
from tests import flickr8k
from tests.tuning.test_tune import FEW, chosen, recall, world
from unhub.data.fingerprint import inspect
from unhub.data.relevance import as_relevance
from unhub.data.vectors import as_vectors
from unhub.matching import Matched
from unhub.tuning.outcome import Tuning
from unhub.tuning.trials import Trials, compare

pytestmark = pytest.mark.once  # what is chosen, not how it is computed

SAMPLED = "Settings were compared on a sample: "


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the gallery of `world`, 200 items, as large."""
    monkeypatch.setattr(tuning_module, "MOST_ITEMS", 199)
    monkeypatch.setattr(large, "SAMPLED_ITEMS", 80)
    monkeypatch.setattr(large, "SAMPLED_BANK", 600)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("given", ["nothing", "queries", "labels"])
def test_a_sample_chooses_and_the_whole_is_fitted(given: str) -> None:
    w = world()
    queries, truth = None if given == "nothing" else w.queries, w.truth if given == "labels" else None
    tuning = unhub.tune(w.items, w.bank, queries, truth, methods="nnn,is")
    assert tuning.best.spec != "raw"
    assert "on all 200 items" in tuning.reason
    assert tuning.notes[0].startswith(SAMPLED)
    best = chosen(tuning)
    assert len(best.bias) == 200
    np.testing.assert_array_equal(best.bias, chosen_again(best, w.items, w.bank))
    assert recall(w, best) > 10 + recall(w, chosen(unhub.tune(w.items, w.bank[:50])))
    assert (tuning.gain is not None) == (given == "labels")


def chosen_again(best: unhub.Bias, items: np.ndarray, bank: np.ndarray) -> np.ndarray:
    fitted = unhub.fit(items, bank, method=best.spec)
    assert isinstance(fitted, unhub.Bias)
    return fitted.bias


def test_a_small_gallery_is_searched_as_a_whole() -> None:
    w = world()
    assert not any(note.startswith(SAMPLED) for note in unhub.tune(w.items, w.bank, w.queries, methods=FEW).notes)


@pytest.mark.usefixtures("small_limits")
def test_items_left_out_for_single_queries_need_the_whole() -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries, methods=FEW, exclude=[[] for _ in w.queries])
    assert not any(note.startswith(SAMPLED) for note in tuning.notes)


@pytest.mark.usefixtures("small_limits")
def test_a_choice_that_the_whole_does_not_confirm_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()

    def without_gain(*given: Any) -> Trials:
        trials = compare(*given)
        return dataclasses.replace(trials, tried=[trials.tried[0], trials.tried[0]])

    monkeypatch.setattr(tuning_module, "compare", without_gain)
    tuning = unhub.tune(w.items, w.bank, w.queries, methods=FEW)
    assert tuning.best.spec == "raw" and not chosen(tuning).bias.any()
    assert "was chosen on a sample, but on all 200 items" in tuning.reason


@pytest.mark.usefixtures("small_limits")
def test_without_hubs_a_large_gallery_stays_raw() -> None:
    w = world(lean=0.0, shared=0.0)
    tuning = unhub.tune(w.items, w.bank, w.queries, w.truth, methods=FEW)
    assert tuning.best.spec == "raw" and len(chosen(tuning).bias) == 200


@pytest.mark.usefixtures("small_limits")
def test_the_same_seed_gives_the_same_sample_and_choice() -> None:
    w = world()
    first, second = (unhub.tune(w.items, w.bank, w.queries, methods=FEW, seed=3) for _ in range(2))
    assert first.reason == second.reason and first.notes == second.notes


@pytest.mark.usefixtures("small_limits")
def test_a_k_beyond_the_sampled_bank_draws_a_larger_one() -> None:
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries, methods="nnn:k=1000,alpha=0.5,is:tau=0.2")
    assert "1,200 of 1,200 bank queries" in tuning.notes[0]


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("given", ["nothing", "labels"])
def test_progress_goes_forward_and_time_is_kept_to(given: str) -> None:
    w, seen = world(), list[float]()
    queries, truth = (None, None) if given == "nothing" else (w.queries, w.truth)
    unhub.tune(w.items, w.bank, queries, truth, progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen) and seen[-1] == 1
    hurried = unhub.tune(w.items, w.bank, queries, truth, time=1e-6)
    assert hurried.out_of_time and hurried.best.spec == "raw" and len(chosen(hurried).bias) == 200


def test_queries_that_confirm_have_no_part_in_the_choice_and_answers_are_in_the_sample() -> None:
    random = np.random.default_rng(0)
    items, queries = random.normal(size=(5000, 4)), random.normal(size=(900, 4))
    answers = random.integers(0, 300, size=900) * 16
    matched = Matched.of(random.normal(size=(50, 4)), items, queries, "cosine", 1)
    truth = as_relevance(dict(enumerate(answers.tolist()))).against(np.arange(900), np.arange(5000))
    part = large.sample(matched, truth, 0, seed=1)
    assert part.matched.items is not None and part.matched.queries is not None and part.confirming is not None
    choosing = part.matched.queries.ids
    assert not set(answers[choosing]) & set(answers[part.confirming])
    assert set(answers[choosing]) <= set(part.matched.items.ids.tolist())
    assert len(part.confirming) == 300 and part.apart
    rows = as_vectors(items[part.matched.items.ids], "items")
    np.testing.assert_array_equal(part.matched.hashes["items"], inspect(rows, "items", "cosine").hashes)


@pytest.mark.usefixtures("small_limits")
def test_labels_that_share_few_answers_choose_and_confirm_together() -> None:
    w = world()
    shared = {query: query % 3 for query in range(len(w.queries))}
    tuning = unhub.tune(w.items, w.bank, w.queries, shared, methods=FEW)
    assert len(chosen(tuning).bias) == 200 and tuning.gain is None
    assert any("labelled items are needed" in note for note in tuning.notes)


@pytest.mark.usefixtures("small_limits")
def test_the_gain_of_few_labels_is_not_that_on_the_queries_that_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "FEWEST_APART", 10_000)
    found, with_labels = list[Tuning](), tuning_module._with_labels

    def noticed(*given: Any) -> Tuning:
        found.append(with_labels(*given))
        return found[0]

    monkeypatch.setattr(tuning_module, "_with_labels", noticed)
    w = world()
    tuning = unhub.tune(w.items, w.bank, w.queries, w.truth, methods="nnn,is")
    assert tuning.best.spec != "raw" and tuning.gain is not None
    assert tuning.gain == found[0].gain
    assert "for the queries that chose it" in tuning.reason


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_on_real_data_a_sample_chooses_within_the_interval_of_the_whole(
    space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    test, other, bank = (flickr8k.load_split(space, split) for split in ("test", "val", "bank"))
    items, queries = np.concatenate([test.images, other.images]), test.texts[::2]
    truth, past = dict(enumerate(test.truth[::2].tolist())), bank.texts[::2]
    whole = unhub.tune(items, past, queries, methods="nnn,is,sn")
    monkeypatch.setattr(tuning_module, "MOST_ITEMS", 1000)
    monkeypatch.setattr(large, "SAMPLED_ITEMS", len(items) // 4)
    part = unhub.tune(items, past, queries, methods="nnn,is,sn")
    assert part.best.spec != "raw"
    result = unhub.evaluate(queries, items, truth, [whole.best, part.best], "R@1", hubness_k=None)
    by_whole, by_part = (row.gains["R@1"] for row in result.rows[-2:])
    print(space, whole.best.spec, by_whole, part.best.spec, by_part)
    assert by_part.value >= by_whole.low
