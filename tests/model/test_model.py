"""A trained model without torch: what its towers and heads compute, what it refuses, and its file."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests.corrections import bias
from unhub.files import read_manifest, read_model_manifest
from unhub.model import HEADS, Epoch, Head, Model, Preparation, Tower, Towers, Training, Tried

pytestmark = pytest.mark.once

Array = NDArray[np.float32]
D = 16


def random_arrays(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {name: 0.3 * random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def rows_of(vectors: unhub.Vectors) -> Array:
    return vectors.block(0, len(vectors))


def mlp_tower(features: int = 5, seed: int = 0, root: bool = True) -> Tower:
    arrays = random_arrays(
        {
            "linear.weight": (D, features),
            "linear.bias": (D,),
            "hidden.weight": (7, features),
            "hidden.bias": (7,),
            "out.weight": (D, 7),
        },
        seed,
    )
    prepared = random_arrays({"mean": (features,), "scale": (features,)}, seed + 1)
    return Tower("mlp", features, D, arrays, Preparation(prepared["mean"], np.abs(prepared["scale"]), root))


def local_arrays(seed: int = 0) -> dict[str, Array]:
    return random_arrays(
        {"score.0.weight": (512, D), "score.0.bias": (512,), "score.2.weight": (1, 512), "score.2.bias": (1,)}, seed
    )


def model(head: str = "lg-wf") -> Model:
    arrays = local_arrays() if head == "lg-wf" else {}
    tried = Tried(1e-3, 2, (Epoch(1, 3.5, 10.0), Epoch(2, 2.5, 12.5)))
    training = Training(
        {"queries": 5, "combination": True, "seed": 0},
        {"training": {"items": 9, "captions": 30}},
        {"torch": "2"},
        (tried,),
        1e-3,
        ("a note",),
    )
    return Model(Towers(mlp_tower(), mlp_tower(8, 1, root=False)), Head(head, D, arrays), training)


def test_a_preparation_centres_scales_and_ignores_what_never_varied() -> None:
    rows = np.array([[0.0, 7.0, 4.0], [2.0, 7.0, 0.0]], np.float32)
    prepared = Preparation.of(unhub.Vectors(np.arange(2), rows), root=False)
    np.testing.assert_allclose(prepared(rows), [[-1, 0, 1], [1, 0, -1]])
    np.testing.assert_allclose(prepared(np.array([[0, 1000, 2]], np.float32)), [[-1, 0, 0]])


def test_the_root_keeps_the_sign_and_is_taken_where_nothing_is_negative() -> None:
    positive = np.array([[0.0, 4.0], [16.0, 4.5]], np.float32)
    ids = np.arange(2)
    assert Preparation.of(unhub.Vectors(ids, positive)).root
    assert not Preparation.of(unhub.Vectors(ids, positive - 1)).root
    rooted = Preparation(np.zeros(2, np.float32), np.ones(2, np.float32), root=True)
    np.testing.assert_allclose(rooted(np.array([[-9, 16]], np.float32)), [[-3, 4]])
    np.testing.assert_allclose(Preparation.of(unhub.Vectors(ids, positive)).mean, [2, (2 + np.sqrt(4.5)) / 2])


def test_a_tower_is_the_formula_of_its_kind() -> None:
    tower = mlp_tower()
    assert tower.preparation is not None
    rows = np.random.default_rng(3).normal(size=(6, 5))
    x = (np.sign(rows) * np.sqrt(np.abs(rows)) - tower.preparation.mean) * tower.preparation.scale
    a = {name: array.astype(np.float64) for name, array in tower.arrays.items()}
    hidden = np.maximum(x @ a["hidden.weight"].T + a["hidden.bias"], 0)
    wanted = {"linear": x @ a["linear.weight"].T + a["linear.bias"]}
    wanted["mlp"] = wanted["linear"] + hidden @ a["out.weight"].T
    for kind, out in wanted.items():
        got = Tower(kind, 5, D, tower.arrays, tower.preparation).encode(rows, "texts")
        np.testing.assert_allclose(rows_of(got), out / np.linalg.norm(out, axis=1, keepdims=True), atol=1e-6)
    none = Tower("none", 5, 5).encode(rows, "texts")
    np.testing.assert_allclose(rows_of(none), rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-6)


def test_encoding_keeps_ids_and_does_not_hang_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float16)
    named = unhub.Vectors(np.array([f"t{number}" for number in range(50)]), rows)
    whole = model().encode_texts(named)
    monkeypatch.setattr("unhub.arrays.BLOCK_BYTES", 4 * 16 * 7)
    parts = model().encode_texts(named)
    assert parts.ids.tolist() == named.ids.tolist()
    assert parts.rows.dtype == np.float32
    np.testing.assert_allclose(rows_of(parts), rows_of(whole), atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.ones((3, 4)), r"^texts has 4 dimensions, this tower was trained on 5; "),
        (np.array([[1, 2, 3, 4, np.nan]]), "^texts holds nan in row 0"),
        (np.ones(5), "^texts must be a matrix"),
        ("file.npy", "^texts must be vectors"),
    ],
)
def test_what_a_tower_cannot_take_is_refused(rows: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model().encode_texts(rows)  # type: ignore[arg-type]


def test_a_row_that_loses_its_direction_is_named() -> None:
    zero = Tower("linear", 2, 2, {"linear.weight": np.eye(2, dtype=np.float32), "linear.bias": np.zeros(2, np.float32)})
    with pytest.raises(
        ValueError, match=r"^items has row 1, which its tower maps to a vector without direction; check"
    ):
        zero.encode(np.array([[1, 2], [0, 0]]), "items")
    with pytest.raises(ValueError, match="items has only zeros in row 0"):
        Tower("none", 2, 2).encode(np.zeros((1, 2)), "items")


def test_local_weights_are_a_softmax_of_an_mlp() -> None:
    arrays = local_arrays()
    queries = unit(np.random.default_rng(1).normal(size=(3, 4, D)))
    a = {name: array.astype(np.float64) for name, array in arrays.items()}
    scores = (np.maximum(queries @ a["score.0.weight"].T + a["score.0.bias"], 0) @ a["score.2.weight"].T)[..., 0]
    wanted = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(Head("lg-wf", D, arrays).weigh(queries.astype(np.float32)), wanted, atol=1e-6)


def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def test_a_model_searches_as_its_weights_say() -> None:
    random = np.random.default_rng(5)
    items, sets = random.normal(size=(30, D)), [random.normal(size=(k, D)) for k in (1, 3, 3, 2)]
    trained = model()
    found = unhub.searcher(items, unhub.fit(items, method="raw")).search_sets(sets, k=5, combine=trained)
    for one, ids in zip(sets, found.ids, strict=True):
        queries = unit(one)
        alpha = trained.head.weigh(queries[None].astype(np.float32))[0]
        scores = unit(items) @ (alpha @ queries)
        assert ids.tolist() == np.argsort(-scores)[:5].tolist()


def test_a_head_of_other_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the head 'lg-wf', trained for 16 dimensions, but the queries have 4"):
        unhub.searcher(np.eye(4), unhub.fit(np.eye(4), method="raw")).search_sets([np.eye(4)], combine=model())


@pytest.mark.parametrize(
    ("name", "dimensions", "arrays", "words"),
    [
        ("zz", 5, {}, r"^head 'zz' is unknown; the heads are mf, ts-wf, lg-wf, cg-wf"),
        ("lg-wf", 5, {}, r"^arrays must hold score\.0\.weight of shape \(512, 5\) for the head 'lg-wf', got none"),
        ("lg-wf", 5, local_arrays(), r"score\.0\.weight of shape \(512, 5\) for the head 'lg-wf', got \(512, 16\)"),
        ("cg-wf", D, local_arrays(), r"must hold encoder\.layers\.0\..* for the head 'cg-wf'"),
        ("cg-wf", 12, {}, r"^dimensions must be a multiple of 8 for the 8 attention heads of 'cg-wf', got 12"),
    ],
)
def test_a_head_without_what_it_needs_is_refused(
    name: str, dimensions: int, arrays: dict[str, Array], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Head(name, dimensions, arrays)


def test_a_head_alone_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"saved must be a correction or a model, got a Head; a head is saved"):
        unhub.save(Head("mf", D), tmp_path / "head.safetensors")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_rate_that_failed_has_nothing_that_was_kept(tmp_path: Path) -> None:
    failed = Tried(0.1, 0, (), "the loss is nan in epoch 1")
    with pytest.raises(ValueError, match=r"nothing of the rate 0\.1 was kept: the loss is nan in epoch 1"):
        _ = failed.kept
    saved = Model(model().towers, Head("mf", D), Training(tried=(failed, Tried(0.2, 1, (Epoch(1, 2.0),))), rate=0.2))
    unhub.save(saved, tmp_path / "model.safetensors")
    assert unhub.load(tmp_path / "model.safetensors", "model").training == saved.training


def test_towers_and_head_must_share_a_space() -> None:
    with pytest.raises(ValueError, match=r"the text tower has 16 dimensions, the item tower 3, the head 16"):
        Model(Towers(mlp_tower(), Tower("none", 3, 3)), Head("mf", D))
    with pytest.raises(ValueError, match=r"^head 'max' is unknown; the heads are mf, "):
        Model(Towers(mlp_tower(), mlp_tower()), Head("max", D))


@pytest.mark.parametrize("head", ["mf", "ts-wf", "lg-wf"])
def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path, head: str) -> None:
    saved = model(head)
    unhub.save(saved, tmp_path / "model.safetensors")
    loaded = unhub.load(tmp_path / "model.safetensors")
    assert isinstance(loaded, Model)
    assert loaded.training == saved.training
    assert loaded.history == (Epoch(1, 3.5, 10.0), Epoch(2, 2.5, 12.5)) and loaded.notes == ("a note",)
    rows = np.random.default_rng(2).normal(size=(9, 5))
    np.testing.assert_array_equal(rows_of(loaded.encode_texts(rows)), rows_of(saved.encode_texts(rows)))
    items = np.random.default_rng(2).normal(size=(9, 8))
    np.testing.assert_array_equal(rows_of(loaded.encode_items(items)), rows_of(saved.encode_items(items)))
    queries = unit(np.random.default_rng(3).normal(size=(2, 3, D))).astype(np.float32)
    np.testing.assert_array_equal(loaded.combination.weights(queries), saved.combination.weights(queries))
    assert repr(loaded) == f"<Model {head}: mlp towers, 16 dimensions>"


def test_towers_that_do_nothing_are_saved_too(tmp_path: Path) -> None:
    unhub.save(Model(Towers(Tower("none", D, D), Tower("none", D, D)), Head("mf", D)), tmp_path / "m.safetensors")
    assert unhub.load(tmp_path / "m.safetensors", "model").towers.text.kind == "none"


def test_a_model_and_a_correction_are_not_taken_for_each_other(tmp_path: Path) -> None:
    unhub.save(model(), tmp_path / "model.safetensors")
    unhub.save(bias(np.arange(3)), tmp_path / "bias.unhub")
    with pytest.raises(ValueError, match=r"model\.safetensors: is a saved model, not a correction"):
        unhub.load(tmp_path / "model.safetensors", "correction")
    with pytest.raises(ValueError, match=r"model\.safetensors: is a saved model, not a correction"):
        read_manifest(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"bias\.unhub: is a saved correction, not a model"):
        unhub.load(tmp_path / "bias.unhub", "model")
    with pytest.raises(ValueError, match=r"bias\.unhub: is a saved correction, not a model"):
        read_model_manifest(tmp_path / "bias.unhub")
    with pytest.raises(ValueError, match=r"model\.safetensors: is a saved correction or model, not vectors"):
        unhub.read_vectors(tmp_path / "model.safetensors")


def test_a_changed_byte_of_a_model_is_called_corruption(tmp_path: Path) -> None:
    unhub.save(model(), tmp_path / "model.safetensors")
    content = bytearray((tmp_path / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="corrupted, its checksum"):
        unhub.load(tmp_path / "model.safetensors")


def test_the_manifest_of_a_model_says_what_it_is(tmp_path: Path) -> None:
    unhub.save(model(), tmp_path / "model.safetensors")
    manifest = read_model_manifest(tmp_path / "model.safetensors")
    assert (manifest["what"], manifest["head"], manifest["dimensions"]) == ("model", "lg-wf", D)
    assert manifest["text"] == {"kind": "mlp", "features": 5, "root": True}
    assert manifest["training"] == json.loads(json.dumps(model().training.to_dict()))


def test_every_head_has_words_and_a_forward() -> None:
    assert list(HEADS) == ["mf", "ts-wf", "lg-wf", "cg-wf"]
    assert all((kind.weights is None) != (kind.scores is None) and kind.what for kind in HEADS.values())


def test_a_model_runs_without_torch(tmp_path: Path) -> None:
    unhub.save(model(), tmp_path / "model.safetensors")
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(4, 5)))
    program = """
import sys
sys.modules["torch"] = None
import numpy as np, unhub
model = unhub.load("model.safetensors")
texts = model.encode_texts(np.load("t.npy"))
searcher = unhub.searcher(texts, unhub.fit(texts, method="raw"))
hits = searcher.search_sets([texts.rows[:2], texts.rows[2:3]], k=2, combine=model)
print(hits.ids.tolist())
try:
    unhub.training.train(np.eye(2), np.eye(2), [(0, 0)])
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "training needs torch: " in done.stdout and "[train]" in done.stdout
