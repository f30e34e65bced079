"""What deploy chooses so that a corrected search finds enough: the effort of searches, and how codes are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.deploying.cases import DIMENSIONS, ITEMS, asking, gallery, in_engine
from tests.stores.engines import ENGINES
from unhub.data.vectors import Vectors
from unhub.deploying import deploy as deploy_module
from unhub.deploying.deployment import BESIDE, Deployment
from unhub.layouts import Layout, Shape, layout_of
from unhub.stores.store import Store, StoredItems

pytestmark = pytest.mark.once

ENOUGH = 200  # the effort from which on the engine of these tests finds anything


def spoil(monkeypatch: pytest.MonkeyPatch, kind: type, enough: int) -> None:
    """Let searches of what deploy made miss half of the items unless they make an effort."""
    search = kind.search  # type: ignore[attr-defined]

    def spoiled(
        self: Any, queries: Any, k: int, where: Any = None, among: Any = None, effort: int | None = None
    ) -> Any:
        found = search(self, queries, k, where, among, effort)
        if BESIDE in self.name and (effort or 0) < enough:
            found.ids[:, k // 2 :] = -1
        return found

    monkeypatch.setattr(kind, "search", spoiled)


def test_the_effort_that_finds_enough_is_recorded_and_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = in_engine(ENGINES["qdrant-edge"], tmp_path)
    spoil(monkeypatch, type(case.store), ENOUGH)
    done = unhub.deploy(case.correction, case.store, queries=case.queries, switch=True)
    assert done.effort == ENOUGH and done.measured is not None and done.measured.good
    assert any(f"the effort {ENOUGH}" in note for note in done.notes)
    assert Deployment.from_json(done.to_json()) == done and done.plain().effort is None
    hits = unhub.searcher(case.store, case.correction).search(case.queries, 10)
    assert (hits.ids != -1).all()
    assert unhub.doctor(case.store, case.correction, case.queries).good


def test_no_effort_is_recorded_where_none_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = in_engine(ENGINES["qdrant-edge"], tmp_path)
    spoil(monkeypatch, type(case.store), 1 << 30)
    done = unhub.deploy(case.correction, case.store, queries=case.queries)
    assert done.effort is None and done.measured is not None and not done.measured.good


@pytest.mark.parametrize(
    ("default", "low", "high", "chosen"),
    [
        (20, 20, 20, None),  # of 3,000 places: good, with nothing to spare, and no effort finds more
        (20, 20, 17, ENOUGH),  # an effort finds more
        (60, 31, 29, ENOUGH),  # 30 are promised
    ],
)
def test_an_effort_is_asked_for_only_where_it_keeps_the_promise_or_finds_more(
    default: int, low: int, high: int, chosen: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = in_engine(ENGINES["qdrant-edge"], tmp_path)
    search, count = type(case.store).search, 300

    def missing(
        self: Any, queries: Any, k: int, where: Any = None, among: Any = None, effort: int | None = None
    ) -> Any:
        found = search(self, queries, k, where, among, effort)
        if BESIDE in self.name and len(queries) == count:
            found.ids[: default if effort is None else low if effort < ENOUGH else high, 0] = -1
        return found

    monkeypatch.setattr(type(case.store), "search", missing)
    done = unhub.deploy(case.correction, case.store, queries=asking(count, 2))
    assert done.effort == chosen and done.measured is not None and done.measured.good


def test_the_engines_default_is_kept_where_it_finds_enough(tmp_path: Path) -> None:
    case = in_engine(ENGINES["qdrant-edge"], tmp_path)
    assert unhub.deploy(case.correction, case.store, queries=case.queries).effort is None


def test_codes_are_rotated_unless_that_is_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few items are not coded yet, so that a trial shows no difference; they may become many."""
    import qdrant_edge as edge

    config = edge.EdgeConfig(
        vectors=edge.EdgeVectorParams(size=DIMENSIONS, distance=edge.Distance.Cosine),
        quantization_config=edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8),
    )
    (tmp_path / "place").mkdir()
    edge.EdgeShard.create(str(tmp_path / "place" / "photos"), config).close()
    store = unhub.store(f"qdrant-edge:{tmp_path}/place#photos")
    store.write(StoredItems(np.arange(ITEMS), gallery()))
    store.finish()
    correction = unhub.fit(store, gallery(200, seed=1), method="nnn:k=16")
    tried: list[bool] = []
    found = deploy_module._Work._found

    def told(work: Any, layout: Layout, like: Store) -> float:
        tried.append(layout.rotate)
        return found(work, layout, like)

    monkeypatch.setattr(deploy_module._Work, "_found", told)
    done = unhub.deploy(correction, store)
    assert sorted(tried) == [False, True] and done.layout is not None and done.layout.rotate


@pytest.mark.parametrize("form", ["l2", "cosine"])
def test_codes_are_stored_with_balanced_biases(form: Any) -> None:
    items = Vectors(np.arange(ITEMS), gallery())
    correction = unhub.fit(items, gallery(200, seed=1), method="nnn:k=16")
    assert isinstance(correction, unhub.Bias)
    largest = float(np.abs(correction.bias).max())
    balanced = layout_of(items, correction, correction.bias, Shape.of(DIMENSIONS, form), "lancedb", coded=True)
    assert balanced.ratio == pytest.approx(largest**-0.5)
    assert layout_of(items, correction, correction.bias, Shape.of(DIMENSIONS, form), "lancedb").ratio == 1
    queries = gallery(20, seed=2)
    stored, asked = balanced.items(items, correction), balanced.queries(queries)
    right = queries @ np.asarray(items.rows).T - correction.bias
    products = asked @ stored.T
    values = products / np.outer(np.linalg.norm(asked, axis=1), np.linalg.norm(stored, axis=1))
    if form == "l2":
        values = np.square(asked[:, None] - stored[None]).sum(axis=2)
    assert np.allclose(balanced.scores(values, queries), right, atol=1e-4)
