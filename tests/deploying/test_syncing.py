"""What changes in the source follows into what is live."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import unhub
from tests.deploying.cases import DIMENSIONS, ITEMS, asking, gallery, in_engine
from tests.stores.engines import COLOURS, Engine, engines
from unhub.data.vectors import Vectors
from unhub.deploying.deployment import Mode
from unhub.deploying.syncing import UNSURE
from unhub.stores.store import Payload, Store, StoredItems

pytestmark = pytest.mark.once

modes = pytest.mark.parametrize("mode", ["vectors", "payload"])


@engines
@modes
def test_added_changed_and_removed_items_follow(engine: Engine, mode: Mode, tmp_path: Path) -> None:
    engine.needs("replacing")
    engine.needs(*["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path)
    unhub.deploy(case.correction, case.store, mode, switch=True)
    new = gallery(20, seed=5)
    case.store.remove(np.array([1001, 1002]))
    case.store.write(StoredItems(np.arange(5000, 5019), new[:19], [{"colour": "new", "number": i} for i in range(19)]))
    with pytest.raises(ValueError, match="lacks 2 of the 300"):
        unhub.sync(case.store, case.correction)
    fewer = unhub.remove(case.correction, [1001, 1002])
    with pytest.raises(ValueError, match=r"19 items .* does not cover"):
        unhub.sync(case.store, fewer)
    bank = asking(500, 1)
    held = case.store.fetch(np.arange(5000, 5019))
    grown = unhub.extend(fewer, case.store, bank)  # by those that are new
    assert grown.cost.notes[-1] == "298 of 317 items in the store were skipped: the correction has them"
    named = unhub.extend(fewer, Vectors(held.ids, held.rows), bank)
    order = np.argsort(grown.ids), np.argsort(named.ids)
    assert np.array_equal(grown.ids[order[0]], named.ids[order[1]])
    assert isinstance(grown, unhub.Bias) and isinstance(named, unhub.Bias)
    assert np.allclose(grown.bias[order[0]], named.bias[order[1]])
    done = unhub.sync(case.store, grown)
    assert (done.added, done.removed) == (19, 2)
    assert done.notes == ((UNSURE,) if mode == "payload" else ())  # two of the 19 might be items written anew
    found = unhub.searcher(case.store, grown).search(np.asarray(held.rows), 5)
    assert (found.ids == held.ids[:, None]).any(axis=1).mean() > 0.9  # new items are found by what they are
    assert not np.isin(found.ids, [1001, 1002]).any()
    again = unhub.sync(case.store, grown)
    assert (again.added, again.changed, again.removed) == (0, 0, 0)


@engines
def test_a_vector_that_changed_is_written_again(engine: Engine, tmp_path: Path) -> None:
    engine.needs("replacing")
    case = in_engine(engine, tmp_path)
    done = unhub.deploy(case.correction, case.store, switch=True)
    other = gallery(1, seed=9)
    case.store.write(StoredItems(np.array([1200]), other, [{"colour": "red", "number": 200}]))
    synced = unhub.sync(case.store, case.correction)
    assert (synced.added, synced.changed, synced.removed) == (0, 1, 0)
    target = case.store.sibling(done.collection)
    assert done.layout is not None
    assert np.allclose(done.layout.originals(target.fetch(np.array([1200])).rows), other, atol=1e-4)
    assert target.describe().count == ITEMS


@engines
@modes
def test_a_replaced_item_follows_with_its_bias(engine: Engine, mode: Mode, tmp_path: Path) -> None:
    engine.needs("replacing")
    engine.needs(*["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path)
    done = unhub.deploy(case.correction, case.store, mode, switch=True)
    case.store.write(StoredItems(np.array([1200]), gallery(1, seed=9), [{"colour": "red", "number": 200}]))
    after = unhub.replace(case.correction, case.store, asking(500, 1))
    assert isinstance(after, unhub.Bias) and isinstance(case.correction, unhub.Bias)
    moved = np.flatnonzero(after.bias != case.correction.bias)
    assert after.ids[moved].tolist() == [1200]
    synced = unhub.sync(case.store, after)
    if done.layout is None:  # the engine dropped the field with the rest of the old item
        assert payloads(case.store)[1200][done.field] == pytest.approx(after.bias[moved][0], rel=1e-6)
    assert (synced.added, synced.changed, synced.removed, synced.notes) == (0, 1, 0, ())
    if done.layout is not None:
        stored = case.store.sibling(done.collection).fetch(np.array([1200])).rows
        assert np.allclose(done.layout.biases(stored), done.layout.stored_biases(after.bias[moved]), atol=1e-3)


def payloads(store: Store) -> dict[int, Payload]:
    return {
        one: payload
        for batch in store.batches(payload=True)
        for one, payload in zip(batch.ids.tolist(), batch.payload or (), strict=True)
    }


@engines
def test_a_payload_that_changed_is_written_again(engine: Engine, tmp_path: Path) -> None:
    engine.needs("replacing")
    case = in_engine(engine, tmp_path)
    done = unhub.deploy(case.correction, case.store, switch=True)
    held = case.store.fetch(np.array([1007, 1200]))
    case.store.write(held._replace(payload=[{"colour": "grey", "number": 7}, {"colour": "blue", "number": -1}]))
    synced = unhub.sync(case.store, case.correction)
    assert (synced.added, synced.changed, synced.removed) == (0, 2, 0)
    told = payloads(case.store.sibling(done.collection))
    assert [(told[one]["colour"], told[one]["number"]) for one in (1007, 1200, 1201)] == [
        ("grey", 7),
        ("blue", -1),
        (COLOURS[201 % 3], 201),
    ]
    case.store.set_field("mine", np.array([1003]), np.array([0.5]))
    assert unhub.sync(case.store, case.correction).changed == 1
    assert payloads(case.store.sibling(done.collection))[1003]["mine"] == 0.5
    unhub.deploy(case.correction, case.store, "payload")  # whose field is not part of it
    assert unhub.sync(case.store, case.correction).changed == 0


@engines
def test_items_that_came_to_the_source_are_new_under_the_live_name_too(engine: Engine, tmp_path: Path) -> None:
    engine.needs("replacing")
    case = in_engine(engine, tmp_path)
    live = case.store.sibling(unhub.deploy(case.correction, case.store, switch=True).live)
    case.store.write(StoredItems(np.arange(5000, 5007), gallery(7, seed=5)))
    grown = unhub.extend(case.correction, live, asking(500, 1))
    assert len(grown) == ITEMS + 7
    assert grown.cost.notes[-1] == f"{ITEMS} of {ITEMS + 7} items in the store were skipped: the correction has them"
    again = unhub.extend(grown, live, asking(500, 1))  # whose notes are not those of the time before as well
    assert len(again) == len(grown) and [note for note in again.cost.notes if "skipped" in note] == [
        f"{ITEMS + 7} of {ITEMS + 7} items in the store were skipped: the correction has them"
    ]


@engines
def test_a_refit_is_no_sync(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    with pytest.raises(ValueError, match="nothing was deployed here"):
        unhub.sync(case.store, case.correction)
    unhub.deploy(case.correction, case.store)
    other = unhub.fit(case.store, asking(300, 8), method="nnn:k=4")
    with pytest.raises(ValueError, match="other biases"):
        unhub.sync(case.store, other)


@pytest.mark.parametrize("datatype", ["Float32", "Float16"])
def test_a_refit_is_told_from_rounding_where_small_biases_are_shifted(datatype: str, tmp_path: Path) -> None:
    import qdrant_edge as edge

    kind = getattr(edge.VectorStorageDatatype, datatype)
    vectors = edge.EdgeVectorParams(size=DIMENSIONS, distance=edge.Distance.Cosine, datatype=kind)
    edge.EdgeShard.create(str(tmp_path / "photos"), edge.EdgeConfig(vectors=vectors)).close()
    store = unhub.store(f"qdrant-edge:{tmp_path}#photos")
    store.write(StoredItems(np.arange(ITEMS), gallery()))
    store.finish()
    correction = cast("unhub.Bias", unhub.fit(store, asking(500, 1), method="nnn:k=16,alpha=0.1"))
    done = unhub.deploy(correction, store)
    assert done.layout is not None and done.layout.shift > 20 * np.abs(correction.bias).max()
    assert unhub.sync(store, correction).changed == 0
    if datatype == "Float32":
        other = dataclasses.replace(correction, arrays={"bias": correction.bias * 1.01})
        with pytest.raises(ValueError, match="other biases"):
            unhub.sync(store, other)
