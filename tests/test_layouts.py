"""The extra dimensions: whatever the form, the engine's number turns back into s - w h."""

import dataclasses
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import cast

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import unhub
from tests.small_disk import run_on_small_disk
from unhub.arrays import Kind
from unhub.correction import Bias, Correction
from unhub.data.vectors import Vectors
from unhub.layouts import (
    ENGINE_FORMS,
    METRICS,
    Form,
    Layout,
    augment,
    augment_queries,
    augment_radius,
    augment_scores,
    rotation,
)

pytestmark = pytest.mark.once

Floats = NDArray[np.float64]
FORMS: tuple[Form, ...] = ("ip", "l2", "cosine")
KINDS: tuple[Kind, ...] = ("cosine", "dot")


def make(seed: int, similarity: Kind, n: int = 30, q: int = 7, d: int = 5) -> tuple[Floats, Floats, Bias]:
    """Return items of unequal length, queries, and a correction with a bias that is as large as the similarities."""
    rng = np.random.default_rng(seed)
    items = rng.standard_normal((n, d)) * rng.uniform(0.5, 3, (n, 1))
    queries = rng.standard_normal((q, d)) * rng.uniform(0.5, 3, (q, 1))
    fitted = unhub.fit(items, queries, method="is", similarity=similarity)
    bias = rng.standard_normal(n) * 0.5
    return items, queries, dataclasses.replace(cast("Bias", fitted), arrays={"bias": bias})


def similarities(queries: Floats, items: Floats, similarity: Kind) -> Floats:
    if similarity == "dot":
        return queries @ items.T
    return similarities(
        queries / np.linalg.norm(queries, axis=1)[:, None], items / np.linalg.norm(items, axis=1)[:, None], "dot"
    )


def engine(form: Form, stored: NDArray[np.float32], asked: NDArray[np.float32]) -> tuple[NDArray[np.intp], Floats]:
    """What an engine of each kind returns: items, best first, and inner products, squared distances or cosines."""
    values = compare(form, stored, asked)
    found = np.argsort(values if form == "l2" else -values, axis=1)
    return found, np.take_along_axis(values, found, axis=1)


def compare(form: Form, stored: NDArray[np.float32], asked: NDArray[np.float32]) -> Floats:
    g, q = stored.astype(np.float64), asked.astype(np.float64)
    if form == "ip":
        return q @ g.T
    if form == "l2":
        return cast("Floats", ((q[:, None] - g[None]) ** 2).sum(axis=2))
    return similarities(q, g, "cosine")


def test_two_items_by_hand() -> None:
    items, queries = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.6, 0.8]])
    fitted = dataclasses.replace(
        cast("Bias", unhub.fit(items, queries, method="is")), arrays={"bias": np.array([-0.25, 0.25])}
    )
    np.testing.assert_array_equal(augment(items, fitted), np.array([[1, 0, 0.25], [0, 1, -0.25]], np.float32))
    np.testing.assert_allclose(augment_queries(queries, fitted, strength=2), [[0.6, 0.8, 2.0]], rtol=1e-6)
    radius = augment_radius(items, fitted)
    assert radius == pytest.approx(1.05 * np.sqrt(1 + 0.0625))
    rest = np.sqrt(radius**2 - 1.0625)
    np.testing.assert_allclose(augment(items, fitted, form="l2"), [[1, 0, 0.25, rest], [0, 1, -0.25, rest]], rtol=1e-6)
    np.testing.assert_allclose(augment_queries(queries, fitted, form="l2"), [[0.6, 0.8, 1, 0]], rtol=1e-6)


@pytest.mark.parametrize("similarity", KINDS)
@pytest.mark.parametrize("form", FORMS)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 20),
    d=st.integers(1, 9),
    rotate=st.booleans(),
    padding=st.none() | st.integers(0, 6),
    strength=st.sampled_from([0.0, 0.3, 1.0, 2.5, -1.0]) | st.just("each"),
)
def test_every_form_gives_back_the_corrected_score(
    similarity: Kind, form: Form, seed: int, n: int, d: int, rotate: bool, padding: int | None, strength: float | str
) -> None:
    items, queries, fitted = make(seed, similarity, n=n, d=d)
    weights = np.linspace(-0.5, 2, len(queries)) if isinstance(strength, str) else np.full(len(queries), strength)
    asked_strength = weights if isinstance(strength, str) else strength
    pad_to = None if padding is None else d + 2 + padding
    stored = augment(items, fitted, form=form, rotate=rotate, pad_to=pad_to)
    asked = augment_queries(queries, fitted, asked_strength, form=form, rotate=rotate, pad_to=pad_to)
    assert stored.dtype == asked.dtype == np.float32
    assert stored.shape[1] == asked.shape[1] == (pad_to or d + (1 if form == "ip" else 2))
    radius = None if form == "ip" else augment_radius(items, fitted)
    found, values = engine(form, stored, asked)
    scores = augment_scores(values, queries, fitted, asked_strength, form=form, radius=radius)
    expected = similarities(queries, items, similarity) - weights[:, None] * fitted.bias
    np.testing.assert_allclose(
        scores, np.take_along_axis(expected, found, axis=1), atol=2e-4 if similarity == "dot" else 5e-6
    )


@pytest.mark.parametrize("form", ["l2", "cosine"])
@pytest.mark.parametrize("similarity", KINDS)
def test_stored_vectors_are_equally_long(form: Form, similarity: Kind) -> None:
    items, _, fitted = make(0, similarity)
    lengths = np.linalg.norm(augment(items, fitted, form=form, rotate=True), axis=1)
    np.testing.assert_allclose(lengths, augment_radius(items, fitted), rtol=1e-5)


def test_rotation_is_orthogonal_and_always_the_same() -> None:
    matrix = rotation(40)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(40), atol=1e-5)
    assert not np.allclose(matrix, np.eye(40), atol=0.5)
    before = matrix.copy()
    rotation.cache_clear()
    np.testing.assert_array_equal(rotation(40), before)


def test_rotation_spreads_the_extra_dimension() -> None:
    items, _, fitted = make(1, "cosine", n=200, d=30)
    plain, rotated = augment(items, fitted).std(axis=0), augment(items, fitted, rotate=True).std(axis=0)
    assert plain.max() / np.median(plain) > 2 > rotated.max() / np.median(rotated)


def test_later_items_share_the_first_ones_radius() -> None:
    items, _, fitted = make(2, "cosine")
    ids = np.array([f"item {i}" for i in range(len(items))])
    named = dataclasses.replace(fitted, ids=ids)
    radius = augment_radius(Vectors(ids, items), named)
    whole = augment(Vectors(ids, items), named, form="l2", radius=radius)
    later = augment(Vectors(ids[20:], items[20:]), named, form="l2", radius=radius)
    np.testing.assert_array_equal(later, whole[20:])
    np.testing.assert_array_equal(augment(Vectors(ids, items), named, form="l2"), whole)


def test_items_in_another_order_keep_their_own_bias() -> None:
    items, _, fitted = make(3, "cosine")
    order = np.random.default_rng(0).permutation(len(items))
    moved = augment(Vectors(order, items[order]), fitted)
    np.testing.assert_array_equal(moved, augment(items, fitted)[order])


def test_an_item_over_the_radius_is_refused() -> None:
    items, _, fitted = make(4, "dot")
    with pytest.raises(ValueError, match=r"^radius is 0.5, and item \d+ is longer \(.*\); store all items again"):
        augment(items, fitted, form="l2", radius=0.5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_inputs_stay_as_they_are(dtype: type[np.floating]) -> None:
    items, queries, _ = make(5, "cosine")
    items, queries = np.asfortranarray(items, dtype=dtype), queries.astype(dtype)
    fitted = unhub.fit(items, queries, method="is")
    before = items.copy(), queries.copy()
    items.setflags(write=False)
    queries.setflags(write=False)
    for form in FORMS:
        augment(items, fitted, form=form, rotate=True)
        augment_queries(queries, fitted, form=form)
    np.testing.assert_array_equal(items, before[0])
    np.testing.assert_array_equal(queries, before[1])


def test_a_correction_of_whole_rows_cannot_be_augmented() -> None:
    items, queries, _ = make(6, "cosine")
    fitted: Correction = unhub.fit(items, queries, method="gc")
    with pytest.raises(ValueError, match=r"^correction of 'gc' re-scores whole rows.*searcher"):
        augment(items, fitted)
    with pytest.raises(ValueError, match="'gc' re-scores whole rows"):
        augment_queries(queries, fitted)


def test_a_correction_of_a_given_matrix_cannot_be_augmented() -> None:
    fitted = unhub.fit(unhub.Dense(np.random.default_rng(0).standard_normal((5, 4))), method="is")
    with pytest.raises(
        ValueError, match=r"was fitted on a similarity matrix and has no vectors; apply it to a matrix of scores"
    ):
        augment(np.ones((4, 3)), fitted)


def test_what_does_not_fit_is_named() -> None:
    items, queries, fitted = make(7, "cosine")
    with pytest.raises(ValueError, match="form 'dot' is unknown; the forms are ip, l2, cosine"):
        augment(items, fitted, form=cast("Form", "dot"))
    with pytest.raises(ValueError, match=r"form .* is unknown; the forms are"):
        augment_scores(np.zeros((7, 1)), queries, fitted, form=cast("Form", "dot"))
    with pytest.raises(ValueError, match=r"pad_to must be at least 7.*got 6"):
        augment(items, fitted, form="l2", pad_to=6)
    with pytest.raises(ValueError, match="queries has 4 dimensions, the items 5; embed both with one model"):
        augment_queries(queries[:, :4], fitted)
    with pytest.raises(ValueError, match=r"strength must be one number or one per query \(7\), got shape \(3,\)"):
        augment_queries(queries, fitted, strength=[1, 2, 3])
    with pytest.raises(ValueError, match="radius is missing, and the l2 form needs it to compute scores"):
        augment_scores(np.zeros((7, 1)), queries, fitted, form="l2")
    with pytest.raises(ValueError, match=r"values must be \(7, k\)"):
        augment_scores(np.zeros((3, 1)), queries, fitted)
    with pytest.raises(ValueError, match=r"^items differs from the items of the fit in row 0 \(item 0\) and in"):
        augment(items[::-1], fitted)


def test_the_line_of_the_issue_finds_the_best_in_a_faiss_index() -> None:
    items, queries, fitted = make(8, "cosine", n=300, q=20, d=16)
    expected = similarities(queries, items, "cosine") - fitted.bias
    for form, opened in (("ip", faiss.IndexFlatIP(17)), ("l2", faiss.IndexFlatL2(18))):
        index = opened
        index.add(unhub.augment(items, fitted, form=cast("Form", form)))
        _, places = index.search(unhub.augment_queries(queries, fitted, form=cast("Form", form)), 1)
        np.testing.assert_array_equal(places[:, 0], expected.argmax(axis=1))


def reference(rows: Floats, bias: Floats, form: Form, width: int, radius: float) -> Floats:
    """Return the stored vectors by the formula: [g, -h], and sqrt(R^2 - |g|^2 - h^2) where lengths are equal."""
    out = np.zeros((len(rows), width))
    for row, (g, h) in enumerate(zip(rows, bias, strict=True)):
        out[row, : len(g)] = g
        out[row, len(g)] = -h
        if form != "ip":
            out[row, len(g) + 1] = np.sqrt(radius**2 - (g**2).sum() - h**2)
    return out


@pytest.mark.parametrize("similarity", KINDS)
@pytest.mark.parametrize("form", FORMS)
@given(
    seed=st.integers(0, 2**32 - 1),
    rotate=st.booleans(),
    padding=st.none() | st.integers(0, 5),
    strength=st.sampled_from([0.0, 0.4, 1.0, 2.0]),
)
def test_a_layout_is_the_formula(
    similarity: Kind, form: Form, seed: int, rotate: bool, padding: int | None, strength: float
) -> None:
    items, queries, fitted = make(seed, similarity, n=12, d=4)
    made = unhub.layout(fitted, items, form=form, rotate=rotate, pad_to=None if padding is None else 6 + padding)
    turn = np.eye(made.width) if made.rotation is None else made.rotation.astype(np.float64)
    ready = items if similarity == "dot" else items / np.linalg.norm(items, axis=1)[:, None]
    right = reference(ready, made.ratio * (fitted.bias - made.shift), form, made.width, made.radius) @ turn
    stored = made.items(items, fitted)
    np.testing.assert_allclose(stored, right, atol=1e-4 if similarity == "dot" else 1e-5)
    asked = made.queries(queries, strength)
    ready_queries = queries if similarity == "dot" else queries / np.linalg.norm(queries, axis=1)[:, None]
    wide = np.zeros((len(queries), made.width))
    wide[:, :4], wide[:, 4] = ready_queries, strength / made.ratio
    np.testing.assert_allclose(asked, wide @ turn, atol=1e-5)
    found, values = engine(form, stored, asked)
    expected = similarities(queries, items, similarity) - strength * fitted.bias
    np.testing.assert_allclose(
        made.scores(values, queries, strength),
        np.take_along_axis(expected, found, axis=1),
        atol=5e-4 if similarity == "dot" else 1e-5,
    )
    np.testing.assert_allclose(made.originals(stored), ready, atol=1e-4 if similarity == "dot" else 1e-5)
    assert Layout.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize("form", FORMS)
def test_an_engine_that_scales_its_vectors_gives_back_the_items(form: Form) -> None:
    items, _, fitted = make(10, "cosine")
    made = unhub.layout(fitted, items, form=form, rotate=True)
    stored = made.items(items, fitted)
    held = stored if form == "ip" else stored / np.linalg.norm(stored, axis=1, keepdims=True)
    ready = items / np.linalg.norm(items, axis=1, keepdims=True)
    np.testing.assert_allclose(made.originals(held.astype(np.float32)), ready, atol=1e-5)


def test_a_layout_is_saved_with_its_correction(tmp_path: Path) -> None:
    items, _, fitted = make(11, "dot")
    fitted = dataclasses.replace(fitted, arrays={"bias": fitted.bias - fitted.bias.mean()})
    made = unhub.layout(fitted, items, engine="lancedb", rotate=True, pad_to=16)
    unhub.save(fitted, tmp_path / "c.unhub", layout=made)
    assert unhub.load_layout(tmp_path / "c.unhub") == made
    assert unhub.load(tmp_path / "c.unhub").spec == fitted.spec
    unhub.save(fitted, tmp_path / "c.unhub")
    with pytest.raises(ValueError, match=r"c\.unhub: was saved without a layout; make one with unhub\.layout"):
        unhub.load_layout(tmp_path / "c.unhub")


@pytest.mark.parametrize("change", [{"similarity": "l1"}, {"width": 6}, {"form": "dot"}])
def test_what_is_no_layout_is_refused(change: dict[str, object]) -> None:
    items, _, fitted = make(12, "cosine")
    with pytest.raises(ValueError, match=r"it is no layout|is unknown"):
        Layout.from_json({**unhub.layout(fitted, items).to_json(), **change})


@pytest.mark.parametrize("form", FORMS)
def test_vectors_are_written_to_a_mapped_file_whole_or_not_at_all(form: Form, tmp_path: Path) -> None:
    items, _, fitted = make(15, "dot", n=50)
    made, target = unhub.layout(fitted, items, form=form, rotate=True), tmp_path / "stored.npy"
    written = made.items(items, fitted, out=target)
    assert isinstance(written, np.memmap)
    np.testing.assert_array_equal(written, made.items(items, fitted))
    np.testing.assert_array_equal(np.load(target), written)
    np.testing.assert_array_equal(unhub.augment(items, fitted, form, out=target), unhub.augment(items, fitted, form))
    before = target.read_bytes()
    with pytest.raises(ValueError, match=r"^out must be a \.npy file, got '.*stored\.bin'"):
        made.items(items, fitted, out=tmp_path / "stored.bin")
    with pytest.raises(ValueError, match=r"^out must be a \.npy file, got ndarray of shape \(40, 9\)$"):
        made.items(items, fitted, out=cast("str", np.zeros((40, 9))))
    mapped = np.load(target, mmap_mode="r")
    own = unhub.fit(mapped, np.asarray(mapped[:5]), method="is", similarity="dot")
    with pytest.raises(ValueError, match=r"^out is a file of the items"):
        unhub.layout(own, mapped).items(mapped, own, out=target)
    with pytest.raises(ValueError, match=r"^out must be a \.npy file, got 5"):
        made.items(items, fitted, out=5)  # type: ignore[arg-type]
    if form != "ip":
        short = dataclasses.replace(made, radius=made.radius / 2)
        with pytest.raises(ValueError, match=r"^radius is .* is longer"):
            short.items(items, fitted, out=target)
    assert target.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["stored.npy"]


def test_vectors_are_not_written_over_the_items_by_any_of_their_names(tmp_path: Path) -> None:
    shards = tmp_path / "items"
    shards.mkdir()
    for number in range(2):
        np.save(shards / f"{number}.npy", np.random.default_rng(number).standard_normal((20, 4)).astype(np.float32))
    folder, file = unhub.read_vectors(shards), shards / "1.npy"
    mapped = np.load(file, mmap_mode="r")
    (tmp_path / "link.npy").hardlink_to(file)
    before = file.read_bytes()
    given = [(folder, file), (folder, tmp_path / "link.npy"), (mapped, tmp_path / "link.npy")]
    given += [(np.asarray(mapped)[5:], file), (unhub.Vectors(np.arange(20), mapped).gather(np.arange(9)), file)]
    for items, out in given:
        with pytest.raises(ValueError, match=r"^out is a file of the items"):
            unhub.augment(items, unhub.fit(items, np.asarray(mapped[:5])), out=out)
    assert file.read_bytes() == before


def test_only_an_empty_file_and_a_matrix_of_the_same_width_are_replaced(tmp_path: Path) -> None:
    items, _, fitted = make(15, "cosine", n=50)
    made, bank = unhub.layout(fitted, items, form="ip"), np.ones((9, items.shape[1]))
    kept: dict[str, Callable[[Path], object]] = {
        "bank": lambda path: np.save(path, bank.astype(np.float32)),
        "type": lambda path: np.save(path, np.ones((9, made.width))),
        "columns": lambda path: np.save(path, np.ones((made.width, 9), np.float32).T),
        "text": lambda path: path.write_text("notes"),
    }
    for name, write in kept.items():
        path = tmp_path / f"{name}.npy"
        write(path)
        before = path.read_bytes()
        words = rf"^out is '.*{name}\.npy', which exists and is not a matrix of float32 with 6 columns"
        for call in (made.items, unhub.augment):
            with pytest.raises(ValueError, match=words):
                call(items, fitted, out=path)
        assert path.read_bytes() == before
    (tmp_path / "empty.npy").touch()
    np.save(tmp_path / "old.npy", np.ones((9, made.width), np.float32))
    for name in ("empty", "old"):
        written = made.items(items, fitted, out=tmp_path / f"{name}.npy")
        np.testing.assert_array_equal(written, made.items(items, fitted))


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    script = """
import sys, numpy as np, unhub
items = np.random.default_rng(0).standard_normal((30_000, 64), dtype=np.float32)
unhub.augment(items, unhub.fit(items, items[:60]), out=sys.argv[1] + "/stored.npy")
"""
    process = run_on_small_disk(tmp_path, script)
    assert process.returncode == 1 and "No space left on device" in process.stderr
    assert process.stdout == ""


@pytest.mark.parametrize("form", FORMS)
def test_the_memory_to_write_a_file_does_not_grow_with_it(form: Form, tmp_path: Path) -> None:
    rng, most = np.random.default_rng(0), {}
    for count in (70_000, 280_000):
        path = tmp_path / f"{count}.npy"
        np.save(path, rng.standard_normal((count, 64), dtype=np.float32).astype(np.float16))
        items = np.load(path, mmap_mode="r")
        fitted = unhub.fit(items, np.asarray(items[:3]), method="is")
        tracemalloc.start()
        made = unhub.layout(fitted, items, form=form, rotate=True)
        made.items(items, fitted, out=tmp_path / "stored.npy")
        unhub.augment(items, fitted, form, out=tmp_path / "augmented.npy")
        most[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    few, many = most.values()
    assert many - few < 60 * 210_000  # some numbers for each item, such as its id and hash; a row would be 264 bytes
    assert few < 6 << 24  # blocks of 16 MB


def test_a_later_item_that_is_too_long_is_refused() -> None:
    items, queries, fitted = make(13, "dot")
    made = unhub.layout(fitted, items, form="l2")
    grown = unhub.extend(unhub.fit(items, queries, method="is", similarity="dot"), 2 * made.radius * items[:1], queries)
    later = unhub.Vectors(grown.ids[-1:], 2 * made.radius * items[:1])
    with pytest.raises(ValueError, match=r"^radius is .*, and item 30 is longer \(.*\); store all items again"):
        made.items(later, grown)
    assert unhub.layout(fitted, items, form="ip").radius == np.inf


@pytest.mark.parametrize("similarity", KINDS)
@given(seed=st.integers(0, 2**32 - 1), factor=st.sampled_from([0.0, 0.01, 1.0, 30.0]))
def test_in_the_ip_form_every_number_stored_for_a_bias_is_between_0_and_the_longest_item(
    similarity: Kind, seed: int, factor: float
) -> None:
    items, _, fitted = make(seed, similarity, n=12, d=4)
    fitted = dataclasses.replace(fitted, arrays={"bias": factor * fitted.bias})
    made = unhub.layout(fitted, items, form="ip")
    stored = made.items(items, fitted)[:, 4]
    longest = 1.0 if similarity == "cosine" else float(np.linalg.norm(items, axis=1).max())
    assert stored.min() >= -1e-5 * longest and stored.max() <= (1 + 1e-5) * longest
    if factor:
        assert stored.max() == pytest.approx(longest, rel=1e-5) and stored.argmax() == fitted.bias.argmin()


def test_a_graph_finds_more_by_the_ip_form_than_by_biases_alone() -> None:
    rng = np.random.default_rng(0)
    mean, drawn = np.eye(32)[0], rng.standard_normal((8_000, 32)) / np.sqrt(np.arange(1, 33))
    items = (drawn + np.abs(rng.standard_normal(8_000))[:, None] * mean).astype(np.float32)
    asked = rng.standard_normal((1_200, 32)) / np.sqrt(np.arange(1, 33)) + 1.5 * mean
    bank, queries = asked[:1_000].astype(np.float32), asked[1_000:].astype(np.float32)
    fitted = cast("Bias", unhub.fit(items, bank, method="nnn:k=32,alpha=0.75"))
    right = unhub.searcher(items, fitted).search(queries, 10).ids

    def recall(made: Layout) -> float:
        index = faiss.IndexHNSWFlat(made.width, 8, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efSearch = 16
        index.add(made.items(items, fitted))
        _, found = index.search(made.queries(queries), 10)
        return float(np.mean([np.isin(one, other).mean() for one, other in zip(right, found, strict=True)]))

    made = unhub.layout(fitted, items, form="ip")
    plain = recall(dataclasses.replace(made, ratio=1.0, shift=0.0))
    assert recall(made) > plain + 0.02


def test_the_form_of_a_layout_suits_the_engine() -> None:
    items, _, fitted = make(14, "cosine")
    assert unhub.layout(fitted, items).form == "cosine"
    assert unhub.layout(fitted, items).metric == "cosine"
    for name, form in ENGINE_FORMS.items():
        made = unhub.layout(fitted, items, engine=name)
        assert (made.form, made.engine, made.metric) == (form, name, METRICS[form])
    assert unhub.layout(fitted, items, form="l2", engine="qdrant").metric == "l2"
    with pytest.raises(ValueError, match=r"engine 'qdrnt' is unknown; did you mean 'qdrant'\?"):
        unhub.layout(fitted, items, engine="qdrnt")


def test_a_gate_needs_a_strength_for_each_query() -> None:
    items, queries, _ = make(15, "cosine")
    made = unhub.layout(unhub.fit(items, queries, method="dis"), items)
    assert made.gated
    with pytest.raises(ValueError, match=r"^strength is 1 for every query, but the correction has a gate; search at"):
        made.queries(queries)
    assert made.queries(queries, 0).shape == made.queries(queries, np.ones(7)).shape == (7, 7)


def test_a_layout_of_other_vectors_is_refused() -> None:
    items, queries, fitted = make(16, "cosine")
    made = unhub.layout(fitted, items)
    with pytest.raises(ValueError, match=r"^queries has 4 dimensions under cosine, the layout 5 under cosine"):
        made.queries(queries[:, :4])
    by_dot = unhub.fit(items, queries, method="is", similarity="dot")
    with pytest.raises(ValueError, match=r"^correction has 5 dimensions under dot, the layout 5 under cosine"):
        made.items(items, by_dot)
    with pytest.raises(ValueError, match=r"^strength must be one finite number or one per query \(7\)"):
        made.queries(queries, np.nan)


def test_rising_scores_are_distances() -> None:
    items, queries, fitted = make(17, "cosine")
    rising = np.sort(np.random.default_rng(0).random((7, 5)), axis=1)
    with pytest.raises(ValueError, match=r"^engine_scores rise from the best on, so they are distances"):
        unhub.layout(fitted, items).scores(rising, queries)
    assert unhub.layout(fitted, items, form="l2").scores(rising, queries).shape == (7, 5)
