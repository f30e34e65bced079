"""A correction goes into every engine, is measured there, goes live, and comes back."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import unhub
from tests.deploying.cases import DIMENSIONS, ITEMS, Deployed, asking, gallery, in_engine
from tests.stores.engines import ENGINES, Engine, engines
from unhub.arrays import Kind
from unhub.correction import Bias
from unhub.data.vectors import Vectors
from unhub.data.witness import MOST_ITEMS
from unhub.deploying import deploy as deploy_module
from unhub.deploying.deployment import Measured, Mode
from unhub.deploying.measuring import measure
from unhub.stores.store import StoredItems

pytestmark = pytest.mark.once

modes = pytest.mark.parametrize("mode", ["vectors", "payload"])


def share(found: Any, right: Any) -> float:
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))


@engines
@modes
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_deployment_finds_what_exact_search_finds(
    engine: Engine, mode: Mode, similarity: Kind, tmp_path: Path
) -> None:
    engine.needs(*["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path, similarity)
    done = unhub.deploy(case.correction, case.store, mode, queries=case.queries, switch=True)
    assert done.measured is not None and done.measured.good and done.measured.corrected_recall >= 0.99
    assert done.measured.corrected_skewness < done.measured.plain_skewness
    hits = unhub.searcher(case.store, case.correction).search(case.queries, 10)
    right = case.exact()
    assert share(hits.ids, right.ids) >= 0.99
    same = hits.ids == right.ids
    assert same.mean() > 0.95 and np.allclose(hits.scores[same], right.scores[same], atol=1e-4)


@engines
@modes
def test_nothing_goes_live_or_changes_unless_asked(engine: Engine, mode: Mode, tmp_path: Path) -> None:
    engine.needs(*["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path)
    before = case.store.search(case.queries, 10)
    done = unhub.deploy(case.correction, case.store, mode, queries=case.queries)
    after = case.store.search(case.queries, 10)
    assert np.array_equal(before.ids, after.ids) and case.store.describe().count == ITEMS
    assert not any(key.startswith("live:") for key in case.store.records())
    live = unhub.switch(case.store)
    assert live.now.key == done.key and live.name == "photos_live" and live.before == ()


@engines
def test_a_live_name_that_nobody_switched_to_says_how(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    unhub.deploy(case.correction, case.store)
    live = case.store.sibling("photos_live")
    for ask in (
        lambda: unhub.searcher(live, case.correction),
        lambda: unhub.doctor(live, case.correction),
        lambda: unhub.fit(live, asking(100, 1)),
    ):
        with pytest.raises(ValueError, match=r"nothing was switched yet, .* 'photos_live'; .*: unhub switch '.*photos"):
            ask()
    unhub.switch(case.store, alias="shown")
    with pytest.raises(ValueError, match="nothing is live under 'photos_live'; 'photos' is live as 'shown'"):
        unhub.searcher(live, case.correction)


@engines
def test_a_store_that_carries_a_layout_gives_back_the_items(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    done = unhub.deploy(case.correction, case.store)
    held = case.store.sibling(done.collection).vectors()
    order = np.argsort(held.ids)
    assert held.dimensions == DIMENSIONS and np.array_equal(held.ids[order], case.ids)
    assert np.allclose(np.asarray(held.rows)[order], case.rows, atol=1e-5)


@engines
def test_payload_is_carried_over(engine: Engine, tmp_path: Path) -> None:
    engine.needs("payload")
    case = in_engine(engine, tmp_path)
    unhub.deploy(case.correction, case.store, "payload")  # whose field is not part of it
    done = unhub.deploy(case.correction, case.store)
    kept = {
        one: {name: value for name, value in payload.items() if value is not None}  # some engines have columns
        for batch in case.store.sibling(done.collection).batches(payload=True)
        for one, payload in zip(batch.ids.tolist(), batch.payload or (), strict=True)
    }
    assert kept[1007] == {"colour": "green", "number": 7} and len(kept) == ITEMS
    first = next(iter(case.store.sibling(done.collection).batches(payload=True))).payload or ()
    assert not any(name.startswith("unhub_h_") for one in first for name in one)


@engines
@modes
def test_it_goes_back_and_forth(engine: Engine, mode: Mode, tmp_path: Path) -> None:
    engine.needs(*["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path)
    first = unhub.deploy(case.correction, case.store, mode, switch=True)
    other = cast("Any", unhub.fit(case.store, asking(400, 7), method="nnn:k=4"))
    second = unhub.deploy(other, case.store, mode)
    assert second.replaces == first.what
    live = unhub.switch(case.store, second)
    assert live.now.key == second.key and live.before[-1].key == first.key
    with pytest.raises(ValueError, match="serves a correction of 'nnn:k=4"):
        unhub.searcher(case.store, case.correction)
    back = unhub.rollback(case.store)
    assert back.now.key == first.key
    assert share(unhub.searcher(case.store, case.correction).search(case.queries).ids, case.exact().ids) >= 0.95
    plain = unhub.rollback(case.store)
    assert plain.now.mode == "plain"
    with pytest.raises(ValueError, match="nothing to go back to"):
        unhub.rollback(case.store)
    with pytest.raises(
        ValueError, match=f"deployment 'other' is unknown; the deployments are {first.made}, {second.made}"
    ):
        unhub.switch(case.store, "other")
    assert unhub.switch(case.store, first.made).now.key == first.key
    unhub.switch(case.store, second)
    assert unhub.drop_old(case.store) == [first.what]
    assert first.key not in case.store.records()
    assert second.collection in case.store.names()


@engines
@modes
def test_going_back_to_what_is_behind_its_source_is_told(engine: Engine, mode: Mode, tmp_path: Path) -> None:
    engine.needs("replacing")
    case = in_engine(engine, tmp_path)
    first = unhub.deploy(case.correction, case.store, mode, switch=True)
    other = unhub.fit(case.store, asking(400, 7), method="nnn:k=4")
    unhub.switch(case.store, unhub.deploy(other, case.store, mode))
    assert unhub.rollback(case.store).notes == ()
    assert unhub.switch(case.store).notes == ()
    case.store.write(StoredItems(np.arange(5000, 5004), gallery(4, seed=5), [{}] * 4))
    unhub.sync(case.store, unhub.extend(other, Vectors(np.arange(5000, 5004), gallery(4, seed=5)), asking(400, 7)))
    (note,) = unhub.rollback(case.store).notes
    assert first.what in note and f"{ITEMS} items, and its source {ITEMS + 4}: at least 4 added since" in note
    assert f"unhub sync '{case.store.address}' --correction FILE" in note


def test_going_back_to_before_a_sync_is_told(tmp_path: Path) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path)
    first = unhub.deploy(case.correction, case.store, switch=True)
    other = unhub.fit(case.store, asking(400, 7), method="nnn:k=4")
    second = unhub.deploy(other, case.store)
    unhub.switch(case.store, second)
    case.store.write(StoredItems(np.array([1200]), gallery(1, seed=9), [{}]))
    unhub.sync(case.store, other)
    (note,) = unhub.rollback(case.store).notes
    assert note.startswith(f"{first.what} is of {first.created}, and {second.what} was brought up to date since, on ")
    unhub.sync(case.store, case.correction)
    assert "photos_unhub_1 was brought up to date since" in unhub.switch(case.store, second).notes[0]
    assert unhub.rollback(case.store).notes == ()


@engines
def test_the_same_deployment_is_taken_over_and_a_collection_of_the_user_stays(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    own = case.store.sibling("photos_unhub_1")
    own.create(5, "dot")
    if not own.exists():
        own.drop()
        pytest.skip(f"the engine cannot: {engine.name} makes no empty collection")
    first = unhub.deploy(case.correction, case.store)
    assert own.exists() and first.collection == "photos_unhub_2"
    again = unhub.deploy(case.correction, case.store, queries=case.queries)
    assert again.collection == first.collection and again.measured is not None
    assert "was taken over; 0 items" in again.notes[-1]


@engines
def test_what_stops_a_deployment_leaves_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = in_engine(engine, tmp_path)
    names = sorted(case.store.names())

    def stopped(self: object, progress: object = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(case.store), "finish", stopped)
        with pytest.raises(KeyboardInterrupt):
            unhub.deploy(case.correction, case.store)
    assert sorted(case.store.names()) == names and case.store.records() == {}


@engines
def test_vectors_at_hand_are_put_into_a_store(engine: Engine, tmp_path: Path) -> None:
    store = engine.open(tmp_path)
    items = Vectors(np.arange(5, 205), gallery(200))
    correction = unhub.fit(items, asking(300, 1), method="nnn:k=8")
    done = unhub.deploy(correction, items, to=store, queries=asking(40, 3), switch=True)
    assert done.measured is not None and done.measured.corrected_recall >= 0.99
    right = unhub.searcher(items, correction).search(asking(40, 3))
    assert share(unhub.searcher(store, correction).search(asking(40, 3)).ids, right.ids) >= 0.99
    with pytest.raises(ValueError, match="items from elsewhere"):
        unhub.rollback(store)


@engines
def test_a_gated_correction_is_searched_twice(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path, method="dis:tau=0.02")
    assert case.correction.active is not None and 0 < case.correction.active.mean() < 1
    unhub.deploy(case.correction, case.store, switch=True)
    hits, right = unhub.searcher(case.store, case.correction).search(case.queries), case.exact()
    assert share(hits.ids, right.ids) >= 0.99


@engines
def test_searches_among_some_ids_at_some_strength(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    unhub.deploy(case.correction, case.store, switch=True)
    deployed, here = (
        unhub.searcher(case.store, case.correction),
        unhub.searcher(Vectors(case.ids, case.rows), case.correction),
    )
    for strength in (0.0, 0.5, 1.3):
        found = deployed.search(case.queries, 5, strength=strength, among=case.ids[::3], exclude=[1000] * 60)
        right = here.search(case.queries, 5, strength=strength, among=case.ids[::3], exclude=[1000] * 60)
        assert share(found.ids, right.ids) >= 0.99


@engines
def test_items_that_do_not_match_are_refused(engine: Engine, tmp_path: Path) -> None:
    engine.needs("replacing")
    case = in_engine(engine, tmp_path)
    removed = unhub.remove(case.correction, [1003])
    with pytest.raises(ValueError, match=r"1 items .* that the correction does not cover, for example 1003"):
        unhub.deploy(removed, case.store)
    case.store.remove(np.array([1003, 1004]))
    with pytest.raises(ValueError, match="lacks 2 of the 300 of the correction, for example 1003"):
        unhub.deploy(case.correction, case.store)
    assert case.store.records() == {}


@engines
def test_a_live_name_that_is_a_collection_is_refused(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    with pytest.raises(ValueError, match="alias 'photos' is the name of a collection"):
        unhub.deploy(case.correction, case.store, alias="photos")


def test_what_cannot_be_deployed_is_refused(tmp_path: Path) -> None:
    items, bank = gallery(50), asking(60, 1)
    whole_rows = unhub.fit(items, bank, method="gc")
    with pytest.raises(ValueError, match="whole rows of similarities"):
        unhub.deploy(whole_rows, items)
    bias = unhub.fit(items, bank, method="is")
    with pytest.raises(ValueError, match="to is missing"):
        unhub.deploy(bias, items)
    with pytest.raises(ValueError, match="mode must be 'vectors' or 'payload'"):
        unhub.deploy(bias, items, cast("Any", "both"))


def changed(case: Deployed) -> Vectors:
    return Vectors(case.ids, -case.rows)


@engines
def test_the_items_of_the_fit_are_compared_by_cosine(engine: Engine, tmp_path: Path) -> None:
    """An engine may scale what it holds, so a correction of other numbers is a note, or is compared with the items."""
    case = in_engine(engine, tmp_path)
    scaled = Vectors(case.ids, case.rows * np.float32(3))
    correction = unhub.fit(scaled, asking(500, 1), method="nnn:k=16")
    done = unhub.deploy(correction, case.store)
    assert any("of 300 compared all are those of the fit" in note for note in done.notes)
    assert not any("compared" in note for note in unhub.deploy(correction, case.store, items=scaled).notes)
    with pytest.raises(ValueError, match="of 300 compared"):
        unhub.deploy(correction, case.store, items=changed(case))


def test_items_that_changed_and_are_not_among_those_compared_are_not_called_rounded(tmp_path: Path) -> None:
    rows = gallery(MOST_ITEMS + 100)
    correction = unhub.fit(rows, asking(500, 1), method="nnn:k=16")
    assert correction.source.witness is not None
    rows[np.setdiff1d(np.arange(len(rows)), correction.source.witness.places)[:3]] *= -1
    store = ENGINES["lancedb"].open(tmp_path)
    store.create(rows.shape[1], "cosine")
    store.write(StoredItems(np.arange(len(rows)), rows))
    (note,) = unhub.deploy(correction, store).notes
    assert note.startswith("3 of 600 items in the store have not the very numbers of the fit")
    assert "or they changed. They were matched by id alone" in note


def test_another_length_and_another_model_in_float16_are_refused(tmp_path: Path) -> None:
    pa, lancedb = pytest.importorskip("pyarrow"), pytest.importorskip("lancedb")
    rows = gallery()
    kinds = pa.list_(pa.float16(), rows.shape[1])
    half = pa.array(list(rows.astype(np.float16)), kinds)
    table = pa.table({"id": np.arange(len(rows)), "vector": half})
    lancedb.connect(str(tmp_path)).create_table("photos", table)
    store = unhub.store(f"lancedb:{tmp_path}#photos?metric=dot")
    assert store.describe().codes == "float16"
    for other, problem in ((-rows, "a cosine below"), (2 * rows, "or another length")):
        correction = unhub.fit(other, asking(500, 1), method="nnn:k=16", similarity="dot")
        with pytest.raises(ValueError, match=f"store has other vectors .* {problem}"):
            unhub.deploy(correction, store)


@engines
def test_the_vectors_of_another_model_are_refused(engine: Engine, tmp_path: Path) -> None:
    case = in_engine(engine, tmp_path)
    of_another = unhub.fit(changed(case), asking(500, 1), method="nnn:k=16")
    with pytest.raises(ValueError, match=r"store has other vectors than the correction was fitted on .* 300 compared"):
        unhub.deploy(of_another, case.store)
    assert not [one for one in case.store.records() if one.startswith("made:")]
    some = case.rows.copy()
    some[::10] = -some[::10]
    partly = unhub.fit(Vectors(case.ids, some), asking(500, 1), method="nnn:k=16")
    assert any("of 300 compared 30 changed. Refit." in note for note in unhub.deploy(partly, case.store).notes)
    without = dataclasses.replace(of_another, source=dataclasses.replace(of_another.source, witness=None))
    assert any("matched by id alone" in note for note in unhub.deploy(without, case.store).notes)


def test_from_one_engine_into_another(tmp_path: Path) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path / "one")
    other = ENGINES["qdrant-edge"].open(tmp_path / "other")
    done = unhub.deploy(case.correction, case.store, to=other, queries=case.queries, switch=True)
    assert done.measured is not None and done.measured.corrected_recall >= 0.99
    assert case.store.names() == ["photos"] and case.store.records() == {}
    hits = unhub.searcher(other, case.correction).search(case.queries)
    assert share(hits.ids, case.exact().ids) >= 0.99
    (first,) = other.sibling(done.collection).batches(payload=True, rows=1000)
    assert first.payload is not None and {one["colour"] for one in first.payload} == {"red", "green", "blue"}
    with pytest.raises(ValueError, match="'payload' needs the items in the store itself"):
        unhub.deploy(case.correction, case.store, "payload", to=other)


def test_what_finds_too_little_does_not_go_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path)
    measured = measure

    def poor(*given: Any, **named: Any) -> Measured:
        return dataclasses.replace(measured(*given, **named), corrected_recall=0.5)

    monkeypatch.setattr(deploy_module, "measure", poor)
    done = unhub.deploy(case.correction, case.store, queries=case.queries, switch=True)
    assert "not switched" in done.notes[-1] and not any(key.startswith("live:") for key in case.store.records())


def test_an_alias_of_the_user_is_not_taken(tmp_path: Path) -> None:
    case = in_engine(ENGINES["qdrant"], tmp_path)
    other = case.store.sibling("other")
    other.create(3, "dot")
    case.store.publish("photos_live", "other", "mine", {})
    with pytest.raises(ValueError, match="'photos_live' is the name of a collection"):
        unhub.deploy(case.correction, case.store, switch=True)


def test_squared_distances_of_vectors_of_other_lengths_tell_no_cosine(tmp_path: Path) -> None:
    store = ENGINES["lancedb"].open(tmp_path)
    rows = gallery(100) * np.linspace(0.5, 3, 100, dtype=np.float32)[:, None]
    store.create(DIMENSIONS, "l2")
    store.write(StoredItems(np.arange(100), rows, [{}] * 100))
    store.finish()
    correction = unhub.fit(store, asking(200, 1), method="nnn:k=8")
    for call in (lambda: unhub.searcher(store, correction), lambda: unhub.deploy(correction, store, "payload")):
        with pytest.raises(ValueError, match=r"compares by l2, and has vectors of lengths from 0\.5 to 3"):
            call()
    done = unhub.deploy(correction, store, queries=asking(40, 3))
    assert done.measured is not None and done.measured.corrected_recall >= 0.99


def test_a_deployment_that_was_replaced_is_not_switched_to(tmp_path: Path) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path)
    first = unhub.deploy(case.correction, case.store, switch=True)
    unhub.rollback(case.store)
    unhub.drop_old(case.store)
    unhub.deploy(unhub.fit(case.store, asking(400, 7), method="nnn:k=4"), case.store)
    with pytest.raises(ValueError, match="was deployed again on"):
        unhub.switch(case.store, first)


def check_live(address: str, live_address: str) -> None:
    """Check that a live name serves the correction, then the plain vectors, and can be looked at and brought up."""
    held = unhub.store(address).vectors()
    correction = cast("Bias", unhub.fit(held, asking(300, 1), method="nnn:k=8", similarity="dot"))
    queries = asking(40, 3)
    right = unhub.searcher(held, correction).search(queries)
    unhub.deploy(correction, unhub.store(address), switch=True)
    live = unhub.store(live_address)
    assert share(unhub.searcher(live, correction).search(queries).ids, right.ids) >= 0.99
    seen = unhub.doctor(live, correction, queries)
    assert seen.good, str(seen)
    assert str(unhub.sync(live, correction)) == "0 added, 0 changed, 0 removed"
    assert np.array_equal(np.sort(live.vectors().ids), np.sort(correction.ids))
    assert unhub.rollback(live).now.mode == "plain"
    assert share(unhub.searcher(live, correction).search(queries).ids, right.ids) >= 0.99


def test_an_index_that_cannot_be_made_again_is_said(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    for factory, said in (("NSG16,Flat", True), ("HNSW16", False)):
        index = faiss.index_factory(DIMENSIONS, factory, faiss.METRIC_INNER_PRODUCT)
        index.add(gallery())
        faiss.write_index(index, str(tmp_path / "photos.index"))
        place = unhub.store(f"faiss:{tmp_path}/photos.index")
        done = unhub.deploy(unhub.fit(place, asking(100, 1), method="nnn:k=16"), place)
        assert any("of the kind flat: another of the source's kind, other," in note for note in done.notes) is said


def test_deploying_again_without_queries_keeps_what_was_measured(tmp_path: Path) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path)
    done = unhub.deploy(case.correction, case.store, queries=case.queries)
    made = dataclasses.replace(done, effort=77)
    case.store.put_record(made.key, made.to_json())
    again = unhub.deploy(case.correction, case.store)
    assert again.collection == done.collection and again.measured == done.measured and again.effort == 77
    measured = unhub.deploy(case.correction, case.store, queries=case.queries)
    assert measured.effort is None and measured.measured is not None  # by its own measurement


def test_a_finished_faiss_file_says_to_deploy_again(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(gallery())
    faiss.write_index(index, str(tmp_path / "photos.index"))
    place = unhub.store(f"faiss:{tmp_path}/photos.index")
    correction = unhub.fit(place, asking(100, 1), method="nnn:k=16")
    unhub.deploy(correction, place, switch=True)
    with pytest.raises(ValueError, match="mode 'payload' cannot be used: faiss has no payload; deploy vectors"):
        unhub.deploy(correction, place, "payload")
    index.add(gallery(5, seed=9))
    faiss.write_index(index, str(tmp_path / "photos.index"))
    found = unhub.doctor(place, correction)
    late = next(one for one in found.findings if one.good is False)
    assert "at least 5 added since" in late.text and late.remedy.endswith("then deploy it again")
    grown = unhub.extend(correction, place, asking(100, 1))
    with pytest.raises(ValueError, match="FAISS cannot write items into a finished index; deploy again"):
        unhub.sync(place, grown)


@pytest.mark.parametrize(("scale", "said"), [(1.0, False), (3.0, True)])
def test_a_source_that_ranks_by_another_metric_is_noted(tmp_path: Path, scale: float, said: bool) -> None:
    case = in_engine(ENGINES["lancedb"], tmp_path)
    other = case.store.sibling("others")
    other.create(DIMENSIONS, "l2")
    lengths = np.where(np.arange(ITEMS) % 2, scale, 1.0)[:, None].astype(np.float32)
    other.write(StoredItems(case.ids, case.rows * lengths))
    other.finish()
    correction = unhub.fit(other, asking(500, 1), method="nnn:k=16")
    done = unhub.deploy(correction, other, queries=case.queries)
    assert any("Plain results are those of the source" in note for note in done.notes) is said


def test_a_live_faiss_file_takes_its_ids_where_the_address_of_the_source_had_them(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(gallery(200))
    faiss.write_index(index, str(tmp_path / "photos.index"))
    (tmp_path / "ids.txt").write_text("\n".join(f"photo {i}" for i in range(200)))
    check_live(f"faiss:{tmp_path}/photos.index?ids={tmp_path}/ids.txt", f"faiss:{tmp_path}/photos_live.index")


def test_a_live_table_takes_its_columns_and_metric_where_the_address_of_the_source_had_them(tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb", reason="lancedb is not installed")
    rows = gallery(200) * np.linspace(0.5, 2, 200, dtype=np.float32)[:, None]
    table = [{"key": f"photo {i}", "vector": row, "other_vector": row} for i, row in enumerate(rows)]
    lancedb.connect(tmp_path / "db").create_table("photos", table)
    check_live(f"lancedb:{tmp_path}/db#photos.vector?id=key&metric=dot", f"lancedb:{tmp_path}/db#photos_live")
