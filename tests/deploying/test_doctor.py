"""The doctor says what is wrong; each silent mistake is caught by the call that makes it or by the doctor."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import unhub
from tests.deploying.cases import DIMENSIONS, ITEMS, asking, gallery, in_engine
from tests.stores.engines import ENGINES, Engine, engines
from unhub.arrays import Float32, Kind
from unhub.correction import Bias
from unhub.data.vectors import Vectors
from unhub.deploying.deployment import Mode
from unhub.layouts import Form
from unhub.stores.store import Metric, Store, StoredItems

pytestmark = pytest.mark.once

modes = pytest.mark.parametrize("mode", ["vectors", "payload"])


@engines
@modes
def test_a_good_deployment_is_good(engine: Engine, mode: Mode, tmp_path: Path) -> None:
    engine.needs(*["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path)
    unhub.deploy(case.correction, case.store, mode, switch=True)
    found = unhub.doctor(case.store, case.correction, case.queries)
    assert found.good, str(found)
    assert found.measured is not None and found.measured.corrected_recall >= 0.99
    what = found.judged[0].what
    assert str(found).endswith(f"Verdict on {what}, which is live: it works.") and found.to_dict()["good"] is True


@engines
def test_plain_vectors_are_told(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    found = unhub.doctor(case.store, case.correction, case.queries)
    assert found.good and "nothing is deployed" in str(found) and "of the corrected best" in str(found)


@engines
def test_what_waits_to_be_switched_is_judged(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    first = unhub.deploy(case.correction, case.store)
    waits = f"Verdict on {first.what}, which waits to be switched: it works."
    assert str(unhub.doctor(case.store, case.correction)).endswith(waits)
    unhub.switch(case.store)
    unhub.rollback(case.store)
    found = unhub.doctor(case.store, case.correction, case.queries)
    assert found.good and found.measured is not None and f"plain is live; {first.what} waits" in str(found)
    assert str(found).endswith(waits) and "nothing is deployed" not in str(found)


@engines
def test_before_a_switch_each_correction_shows_its_own_deployment(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    first = unhub.deploy(case.correction, case.store, switch=True)
    other = unhub.fit(case.store, asking(300, 8), method="nnn:k=4")
    second = unhub.deploy(other, case.store)
    live, waiting = unhub.doctor(case.store, case.correction), unhub.doctor(case.store, other)
    assert [(one.what, one.state, one.good) for one in live.judged] == [(first.what, "live", True)]
    assert [(one.what, one.state, one.good) for one in waiting.judged] == [(second.what, "waits", True)]
    assert f"waits to be switched: vectors, {second.what}, {second.spec}; of another correction" in str(live)
    assert f"live: vectors, {first.what}, {first.spec}; of another correction" in str(waiting)
    neither = unhub.doctor(case.store, unhub.fit(case.store, asking(300, 9), method="nnn:k=2"))
    assert not neither.good and "another one was deployed" in str(neither)


def test_of_two_deployments_of_one_correction_the_broken_one_is_named(tmp_path: Path) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path)
    unhub.deploy(case.correction, case.store, "payload", switch=True)
    second = unhub.deploy(case.correction, case.store)
    case.store.sibling(second.collection).remove(np.array([1001]))
    found = unhub.doctor(case.store, case.correction, case.queries)
    assert not found.good and [one.good for one in found.judged] == [True, False]
    assert "Verdict on photos, field unhub_h_1, which is live: it works." in str(found)
    assert str(found).endswith("Verdict on photos_unhub_2, which waits to be switched: it does not work as it should.")
    assert [one["state"] for one in found.to_dict()["judged"]] == ["live", "waits"]


@engines
def test_what_changed_in_the_source_or_in_the_deployment_is_seen(engine: Engine, tmp_path: Path) -> None:
    engine.needs("replacing")
    case = in_engine(engine, tmp_path)
    done = unhub.deploy(case.correction, case.store, switch=True)
    other = unhub.fit(case.store, asking(300, 8), method="nnn:k=4")
    assert "another one was deployed" in str(unhub.doctor(case.store, other))
    case.store.write(StoredItems(np.arange(1000, 1050), gallery(50, seed=9), [{}] * 50))
    found = unhub.doctor(case.store, case.correction)
    assert not found.good and "run sync" in str(found)
    case.store.sibling(done.collection).remove(np.array([1001]))
    assert f"it holds {ITEMS - 1} items" in str(unhub.doctor(case.store, case.correction))


@engines
@modes
def test_items_that_came_since_are_told(engine: Engine, mode: Mode, tmp_path: Path) -> None:
    engine.needs("replacing")
    case = in_engine(engine, tmp_path)
    done = unhub.deploy(case.correction, case.store, mode, switch=True)
    unhub.searcher(case.store, case.correction)  # in silence
    case.store.write(StoredItems(np.arange(5000, 5007), gallery(7, seed=5), [{}] * 7))
    found = unhub.doctor(case.store, case.correction)
    words = f"{ITEMS} items, and its source {ITEMS + 7}: at least 7 added since, "
    assert not found.good and words in str(found) and "unhub sync '" in str(found)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ready = unhub.searcher(case.store, case.correction)
        assert len(caught) == case.store.counts_cheaply  # once, and never for a query
        ready.search(case.queries)
    for one in caught:
        assert words in str(one.message) and one.filename == __file__
    grown = unhub.extend(case.correction, Vectors(np.arange(5000, 5007), gallery(7, seed=5)), asking(500, 1))
    unhub.sync(case.store, grown)
    unhub.searcher(case.store, grown)
    case.store.remove(np.array([1001]))
    late = f"{ITEMS + 7} items, and its source {ITEMS + 6}: at least 1 removed since, still found"
    assert (late in str(unhub.doctor(case.store, grown))) == (done.mode == "vectors")


def by_hand(folder: Path, engine: str, metric: Metric, rows: Float32) -> Store:
    """Store vectors as a user would who augments them without a layout."""
    store = ENGINES[engine].open(folder)
    store.create(rows.shape[1], metric)
    store.write(StoredItems(np.arange(len(rows)), rows, [{}] * len(rows)))
    store.finish()
    return store


def fitted(method: str = "nnn:k=16") -> tuple[Float32, Bias, Float32]:
    items = gallery()
    return items, cast("Bias", unhub.fit(items, asking(500, 1), method=method)), asking(60, 2)


def test_a_right_form_by_hand_is_good(tmp_path: Path) -> None:
    items, correction, queries = fitted()
    store = by_hand(tmp_path, "qdrant", "dot", unhub.augment(items, correction, "ip"))
    found = unhub.doctor(store, correction, queries)
    assert found.good and found.measured is not None and found.measured.corrected_recall > 0.99, str(found)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("form", ["ip", "l2"])
def test_a_layout_by_hand_is_good_and_wrong_items_in_it_are_counted(
    form: Form, similarity: Kind, tmp_path: Path
) -> None:
    items = gallery() * np.linspace(1, 2, ITEMS)[:, None].astype(np.float32) if similarity == "dot" else gallery()
    correction = unhub.fit(items, asking(400, 1), method="nnn:k=16", similarity=similarity)
    rows = unhub.layout(correction, items, form=form).items(items, correction)
    store = by_hand(tmp_path / "right", "qdrant", "dot" if form == "ip" else "l2", rows)
    found = unhub.doctor(store, correction, asking(100, 2))
    assert found.good, str(found)
    measured = found.judged[0].measured
    assert measured is not None and measured.corrected_recall > 0.99
    rows[:40, DIMENSIONS] *= 2
    store = by_hand(tmp_path / "wrong", "qdrant", "dot" if form == "ip" else "l2", rows)
    assert f"{ITEMS - 40} of {ITEMS} items have the bias" in str(unhub.doctor(store, correction))


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("form", ["ip", "cosine"])
def test_a_rotation_by_hand_is_undone_and_another_correction_is_wrong(form: Form, rotate: bool, tmp_path: Path) -> None:
    items = gallery()
    mine, other = unhub.fit(items, asking(400, 1), method="nnn:k=16"), unhub.fit(items, asking(400, 7), method="is")
    rows = unhub.layout(mine, items, form=form, rotate=rotate).items(items, mine)
    store = by_hand(tmp_path, "qdrant", "dot" if form == "ip" else "cosine", rows)
    found = unhub.doctor(store, mine, asking(100, 2))
    assert found.good and ("once the rotation is undone" in str(found)) == rotate, str(found)
    assert found.measured is not None and found.measured.corrected_recall > 0.99
    assert not unhub.doctor(store, other, asking(100, 2)).good


@pytest.mark.parametrize("count", [1, 300])
def test_a_layout_by_hand_of_biases_that_are_all_alike_is_good(count: int, tmp_path: Path) -> None:
    items = gallery()[:count]
    correction = cast("Bias", unhub.fit(items, asking(400, 1), method="nnn:k=16"))
    correction = dataclasses.replace(correction, arrays={"bias": np.zeros(count)})
    rows = unhub.layout(correction, items, form="ip").items(items, correction)
    assert unhub.doctor(by_hand(tmp_path, "qdrant", "dot", rows), correction, asking(100, 2)).good


def test_biases_by_hand_of_half_the_strength_are_wrong(tmp_path: Path) -> None:
    items = gallery()
    half, whole = (unhub.fit(items, asking(400, 1), method=f"nnn:k=16,alpha={alpha}") for alpha in (0.5, 1))
    store = by_hand(tmp_path, "qdrant", "dot", unhub.augment(items, half))
    found = unhub.doctor(store, whole, asking(100, 2))
    assert not found.good and "stored 0.5 times as large" in str(found)
    assert unhub.doctor(store, half, asking(100, 2)).good


def test_biases_by_hand_that_differ_by_less_than_a_shift_are_wrong(tmp_path: Path) -> None:
    items = gallery()
    correction = cast("Bias", unhub.fit(items, asking(400, 1), method="nnn:k=16,alpha=0.1"))
    moved = correction.bias + np.random.default_rng(0).choice((-5e-4, 5e-4), ITEMS)
    other = dataclasses.replace(correction, arrays={"bias": moved})
    rows = unhub.layout(correction, items, form="ip").items(items, other)
    found = unhub.doctor(by_hand(tmp_path, "qdrant", "dot", rows), correction, asking(100, 2))
    assert f"{ITEMS} of {ITEMS} items have the bias" not in str(found) and not found.good


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_mistake_the_ip_form_under_another_metric(metric: Metric, tmp_path: Path) -> None:
    """Caught by the doctor."""
    items, correction, queries = fitted()
    store = by_hand(tmp_path, "qdrant", metric, unhub.augment(items, correction, "ip"))
    found = unhub.doctor(store, correction, queries)
    assert not found.good and f"the ip form, and the collection compares by {metric}" in str(found)


def test_mistake_new_items_with_another_radius(tmp_path: Path) -> None:
    """Caught by the call; where a radius was made up, by the doctor."""
    items, correction, queries = fitted()
    with pytest.raises(ValueError, match="radius is missing, and these are 100 of the 300 items"):
        unhub.augment(items[:100], correction, "cosine")
    first = unhub.augment(items[:200], unhub.remove(correction, np.arange(200, ITEMS)), "cosine")
    later = unhub.augment(Vectors(np.arange(200, ITEMS), items[200:]), correction, "cosine", radius=3.0)
    store = by_hand(tmp_path, "qdrant", "cosine", np.concatenate([first, later]))
    found = unhub.doctor(store, correction, queries)
    assert not found.good and "different radii" in str(found)


def test_mistake_queries_that_are_not_of_length_one() -> None:
    """The layout scales them; a client in another language is told by the doctor's remark."""
    items, correction, queries = fitted()
    layout = unhub.layout(correction, items)
    assert np.allclose(np.linalg.norm(layout.queries(queries)[:, :DIMENSIONS], axis=1), 1, atol=1e-5)


def test_mistake_distances_read_as_similarities() -> None:
    """Caught by the call."""
    items, correction, queries = fitted()
    layout = unhub.layout(correction, items, form="cosine")
    stored, asked = layout.items(items, correction), layout.queries(queries)
    cosines = (asked @ stored.T) / np.linalg.norm(asked, axis=1)[:, None] / layout.radius
    best = -np.sort(-cosines, axis=1)[:, :10]
    right = unhub.searcher(items, correction).search(queries, 10).scores
    assert np.allclose(layout.scores(best, queries), right, atol=1e-5)
    with pytest.raises(ValueError, match="they are distances"):
        layout.scores(1 - best, queries)
    with pytest.raises(ValueError, match="they are distances"):
        unhub.augment_scores(1 - best, queries, correction, form="cosine", radius=layout.radius)


def test_mistake_a_gate_searched_once() -> None:
    """Caught by the call."""
    items, correction, queries = fitted("dis:tau=0.02")
    layout = unhub.layout(correction, items)
    with pytest.raises(ValueError, match="the correction has a gate"):
        layout.queries(queries)
    with pytest.raises(ValueError, match="the correction has a gate"):
        unhub.augment_queries(queries, correction)
    raw = layout.queries(queries, 0)
    best = (raw @ layout.items(items, correction).T).argmax(axis=1)
    asked = layout.queries(queries, correction.weights(best))
    found = (asked @ layout.items(items, correction).T).argmax(axis=1)
    assert np.array_equal(found, unhub.searcher(items, correction).search(queries, 1).ids[:, 0])


def test_mistake_a_width_that_does_not_divide() -> None:
    """The layout pads; a narrower width is refused."""
    items, correction, _ = fitted()
    assert unhub.layout(correction, items, pad_to=16).items(items, correction).shape[1] == 16
    with pytest.raises(ValueError, match="pad_to must be at least 14"):
        unhub.layout(correction, items, pad_to=13)


def test_a_store_of_another_width_is_told(tmp_path: Path) -> None:
    _, correction, _ = fitted()
    store = by_hand(tmp_path, "qdrant", "dot", gallery()[:, :5])
    found = unhub.doctor(store, correction)
    assert not found.good and "has 5 dimensions" in str(found)


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path)
    unhub.deploy(case.correction, case.store)
    unmeasured, measured = (
        unhub.doctor(case.store, case.correction),
        unhub.doctor(case.store, case.correction, case.queries),
    )
    assert unmeasured.good and "what it finds was not measured" in str(unmeasured)
    assert "not measured" not in str(measured)
