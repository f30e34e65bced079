"""Training: heads against numpy, batches, the recipe, checkpoints that resume to the bit, and what is refused."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("torch", reason="torch is not installed: the extra train has it")

import torch
from torch import Tensor, nn

import unhub
from tests.captioned import Captioned, captioned
from unhub.arrays import unit
from unhub.combine import distinct_weights
from unhub.data.captions import Captions
from unhub.model import Model, Preparation, Training
from unhub.training import prepare
from unhub.training.batches import NOBODY, batches, validation_sets
from unhub.training.curve import curve
from unhub.training.heads import HEADS, Weighing, exported
from unhub.training.loop import Step
from unhub.training.rows import TrainingRows
from unhub.training.settings import RATE, RATES, Settings
from unhub.training.towers import TOWERS, TowerSide
from unhub.training.towers import exported as exported_tower
from unhub.training.train import train

pytestmark = pytest.mark.once

DATA, OTHERS = captioned(), captioned(24, seed=1)
SMALL = {"dimensions": 16, "hidden": 24, "epochs": 3, "batch": 16, "threads": 1}
D = 16


def small(data: Captioned = DATA, /, **changes: object) -> Model:
    """Train for a moment on one thread."""
    return train(*data.all, **{"head": "mf", "rate": 0.01, **SMALL, **changes})  # type: ignore[arg-type]


def rows_of(vectors: unhub.Vectors) -> NDArray[np.float32]:
    return vectors.block(0, len(vectors))


def weights_of(model: Model) -> dict[str, NDArray[np.float32]]:
    towers = {
        f"{side}.{name}": array
        for side in ("text", "item")
        for name, array in getattr(model.towers, side).arrays.items()
    }
    return {**towers, **{f"head.{name}": array for name, array in model.head.arrays.items()}}


def assert_same_bits(one: Model, other: Model) -> None:
    first, second = weights_of(one), weights_of(other)
    assert first.keys() == second.keys() and first
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    assert one.history == other.history


def made_head(name: str, dimensions: int = D, seed: int = 0) -> Weighing:
    torch.manual_seed(seed)
    head = HEADS[name](dimensions)
    for weight in head.parameters():  # away from the start, where norms are ones and biases zeros
        nn.init.normal_(weight, std=0.3)
    return head.eval()


def unit_queries(sets: int, k: int, dimensions: int = D, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).normal(size=(sets, k, dimensions))
    return np.asarray(rows / np.linalg.norm(rows, axis=2, keepdims=True), np.float32)


def weigh(head: Weighing, queries: NDArray[np.float32], here: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    mask = np.ones(queries.shape[:2], bool) if here is None else here
    with torch.no_grad():
        return np.asarray(head.weights(torch.from_numpy(queries), torch.from_numpy(mask)))


@pytest.mark.parametrize("name", HEADS)
@settings(max_examples=8)
@given(sets=st.integers(1, 6), k=st.integers(1, 7), width=st.sampled_from([8, 16, 40]), seed=st.integers(0, 99))
def test_numpy_weighs_as_torch_does(name: str, sets: int, k: int, width: int, seed: int) -> None:
    head, queries = made_head(name, width, seed), unit_queries(sets, k, width, seed)
    got = exported(head, name, width).combination.weights(queries)
    np.testing.assert_allclose(got, weigh(head, queries), atol=1e-5)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_numpy_combines_as_torch_does(name: str) -> None:
    head, queries = made_head(name), unit_queries(4, 5)
    items = np.eye(D)
    with torch.no_grad():
        combined = head(torch.from_numpy(queries), torch.ones(4, 5, dtype=torch.bool)).numpy()
    model = Model(small().towers, exported(head, name, D))
    hits = unhub.searcher(items, unhub.fit(items, method="raw")).search_sets(list(queries), k=D, combine=model)
    np.testing.assert_allclose(hits.scores, -np.sort(-combined, axis=1), atol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_the_order_of_the_queries_does_not_matter(name: str) -> None:
    head, queries, order = made_head(name), unit_queries(3, 5), [3, 0, 4, 1, 2]
    np.testing.assert_allclose(weigh(head, queries)[:, order], weigh(head, queries[:, order]), atol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_a_masked_query_is_as_one_that_is_not_there(name: str) -> None:
    head, queries = made_head(name), unit_queries(4, 5)
    here = np.arange(5) < np.array([[1], [2], [4], [5]])
    masked = weigh(head, queries, here)
    assert np.all(masked[~here] == 0)
    for row, size in enumerate((1, 2, 4, 5)):
        np.testing.assert_allclose(masked[row, :size], weigh(head, queries[row : row + 1, :size])[0], atol=1e-6)
    assert masked[0, 0] == 1


def test_distinct_weights_are_those_without_training() -> None:
    queries = unit_queries(5, 4)
    np.testing.assert_allclose(weigh(made_head("ts-wf"), queries), distinct_weights(queries), atol=1e-6)


@pytest.mark.parametrize("towers", ["linear", "mlp"])
@pytest.mark.parametrize("head", HEADS)
def test_gradients_reach_every_weight(head: str, towers: str) -> None:
    torch.manual_seed(0)
    chosen = Settings(dimensions=D, hidden=24)
    module, weighing = TOWERS[towers](12, chosen), HEADS[head](D)
    flat = nn.functional.normalize(module(torch.randn(20, 12)), dim=1).reshape(4, 5, D)
    here = torch.arange(5) < torch.tensor([[5], [3], [2], [4]])
    (weighing(flat, here) @ torch.randn(D, 4)).logsumexp(dim=1).sum().backward()
    for name, weight in [*module.named_parameters(), *weighing.named_parameters()]:
        if name == "score.2.bias":
            continue  # one number added to all scores, which a softmax does not see
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize("kind", ["linear", "mlp", "none"])
def test_numpy_encodes_as_torch_does(kind: str) -> None:
    torch.manual_seed(0)
    rows = np.abs(np.random.default_rng(0).normal(size=(30, 16))).astype(np.float32)
    vectors = unhub.Vectors(np.arange(30), rows)
    module = TOWERS[kind](16, Settings(dimensions=D, hidden=24, dropout=0.5)).eval()
    side = TowerSide(module, unit if kind == "none" else Preparation.of(vectors), torch.device("cpu"))
    with torch.no_grad():
        wanted = side.unit(TrainingRows(vectors.ids, rows), np.arange(30)).numpy()
    got = exported_tower(side, kind, 16, D).encode(vectors, "texts")
    np.testing.assert_allclose(rows_of(got), wanted, atol=1e-5)


def test_pairs_find_the_captions_of_each_item_and_count_what_is_left_out() -> None:
    texts, items = np.array(["a", "b", "c", "d"]), np.array([10, 20, 30])
    rows = unhub.Vectors(texts, np.eye(4)), unhub.Vectors(items, np.eye(3))
    data = prepare.read(*rows, [("a", 30), ("c", 10), ("d", 30), ("d", 10)], Settings(queries=1))
    assert data.captions.items.tolist() == [0, 2]
    assert [data.captions.texts[data.captions.span(at, at + 1)].tolist() for at in (0, 1)] == [[2, 3], [0, 3]]
    assert data.notes == (
        "1 of 3 items have no caption and are left out",
        "1 of 4 captions describe no item and are left out",
    )


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 7), min_size=1, max_size=20),
    size=st.integers(2, 6),
    queries=st.integers(1, 5),
    combination=st.booleans(),
    seed=st.integers(0, 99),
    epoch=st.integers(1, 9),
)
def test_an_epoch_has_every_item_once_with_captions_of_its_own(
    counts: list[int], size: int, queries: int, combination: bool, seed: int, epoch: int
) -> None:
    starts = np.cumsum([0, *counts])
    captions = Captions(starts, np.arange(len(counts)) * 2, np.arange(starts[-1]) + 100)
    chosen = Settings(seed=seed, batch=size, queries=queries, combination=combination)
    drawn_batches = list(batches(captions, chosen, epoch))
    assert sorted(np.concatenate([one.items for one in drawn_batches]).tolist()) == captions.items.tolist()
    assert all(len(one.items) <= size for one in drawn_batches)
    for batch in drawn_batches:
        for item, texts in zip(batch.items.tolist(), batch.texts, strict=True):
            drawn = texts[texts != NOBODY]
            assert len(set(drawn.tolist())) == len(drawn)
            assert all(starts[item // 2] <= text - 100 < starts[item // 2 + 1] for text in drawn)
            whole = min(queries, counts[item // 2])
            assert len(drawn) == whole or (combination and len(drawn) == 1)


def test_combination_draws_one_caption_about_as_often_as_all() -> None:
    captions = Captions(np.arange(0, 5001, 5), np.arange(1000), np.arange(5000))
    drawn = batches(captions, Settings(batch=48, queries=5, combination=True), 1)
    sizes = np.concatenate([(one.texts != NOBODY).sum(axis=1) for one in drawn])
    assert set(sizes.tolist()) == {1, 5}
    assert 0.45 < (sizes == 1).mean() < 0.55


def test_captions_are_drawn_evenly_and_anew_in_every_epoch() -> None:
    captions = Captions(np.arange(0, 1001, 5), np.arange(200), np.arange(1000))
    chosen = Settings(seed=3, batch=50, queries=2, combination=False)
    seen = np.zeros(5)
    for epoch in range(1, 11):
        for batch in batches(captions, chosen, epoch):
            seen += np.bincount(batch.texts.ravel() % 5, minlength=5)
    assert np.all(np.abs(seen / seen.sum() - 0.2) < 0.02)


def test_validation_sets_are_disjoint_and_of_the_size() -> None:
    captions = Captions(np.array([0, 2, 3, 10]), np.array([4, 5, 6]), np.arange(10))
    sets = validation_sets(captions, 3, seed=0)
    assert sets.items.tolist() == [4, 5, 6, 6]
    assert [sorted(row[row != NOBODY].tolist()) for row in sets.texts[:2]] == [[0, 1], [2]]
    assert len(set(sets.texts[2:].ravel().tolist())) == 6 and sets.texts[2:].min() >= 3
    assert sorted(validation_sets(captions, 1, 0).texts[:, 0].tolist()) == list(range(10))


def test_the_rate_rises_from_above_zero_and_falls_along_a_cosine() -> None:
    chosen = Settings()
    rates = [chosen.rate_at(1.0, step, 30) for step in range(30)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[5] == pytest.approx(1.0) and rates[17] == pytest.approx((1 + np.cos(np.pi * 12 / 25)) / 2)
    assert all(one > 0 for one in rates) and rates[-1] < 0.01


def test_the_loss_is_the_sum_of_the_two_cross_entropies() -> None:
    settings_ = Settings(head="mf", dimensions=D, hidden=24, queries=3)
    data = prepare.read(*DATA.all, settings_)
    with prepare.own_randomness(torch.device("cpu"), 0):
        network, _ = prepare.build(data, settings_, None, torch.device("cpu"))
    batch = next(iter(batches(data.captions, replace(settings_, batch=10), 1)))
    got = network.loss(data, batch, settings_).item()
    model = prepare.export(network, data, settings_, Training())
    texts, items = rows_of(model.encode_texts(DATA.texts)), rows_of(model.encode_items(DATA.items))
    queries = np.stack([texts[row[row != NOBODY]].mean(axis=0) for row in batch.texts]).astype(np.float64)
    logits = queries / np.linalg.norm(queries, axis=1, keepdims=True) @ items[batch.items].T / 0.05
    wanted = sum(np.mean(np.log(np.exp(one).sum(axis=1)) - np.diag(one)) for one in (logits, logits.T))
    assert got == pytest.approx(wanted, rel=1e-5)


def test_validation_recall_is_that_of_an_evaluation() -> None:
    model = small(validation=OTHERS.all, queries=1, combination=False, epochs=2)
    texts, items = model.encode_texts(OTHERS.texts), model.encode_items(OTHERS.items)
    result = unhub.evaluate(texts, items, OTHERS.relevance, measures=["R@1"])
    assert model.training.chosen is not None
    assert model.training.chosen.kept.recall == pytest.approx(result.rows[0].values["R@1"].value)


def test_training_learns_and_keeps_the_best_epoch_of_the_best_rate() -> None:
    model = small(validation=OTHERS.all, rate=(1e-5, 0.02), epochs=8)
    slow, fast = model.training.tried
    assert model.training.rate == fast.rate == 0.02
    assert fast.kept.recall == max(one.recall or 0 for one in fast.epochs) > (slow.kept.recall or 0) + 20
    assert fast.epochs[-1].loss < 0.5 * fast.epochs[0].loss
    assert model.history == fast.epochs
    only = small(validation=OTHERS.all, rate=0.02, epochs=8)
    assert_same_bits(model, only)  # the second rate starts where the first one did


def test_without_a_rate_three_are_tried_on_validation_and_one_without() -> None:
    tried = small(validation=OTHERS.all, rate=None, epochs=1).training
    assert tuple(one.rate for one in tried.tried) == RATES
    alone = small(rate=None, epochs=2, queries=1)
    assert alone.training.rate == RATE and alone.training.tried[0].best == 2
    assert alone.notes == (f"no validation to choose a rate by: it is {RATE:g}",)


def test_training_stops_early_where_validation_stops_rising() -> None:
    model = small(validation=OTHERS.all, epochs=40, patience=2, rate=0.05)
    chosen = model.training.chosen
    assert chosen is not None and len(chosen.epochs) == chosen.best + 2 < 40


@pytest.mark.parametrize("head", HEADS)
def test_the_same_seed_gives_the_same_bits_and_another_one_others(head: str) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = small(head=head, dropout=0.2, epochs=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert_same_bits(one, small(head=head, dropout=0.2, epochs=2))
    other = small(head=head, dropout=0.2, epochs=2, seed=1)
    assert not np.array_equal(weights_of(one)["text.linear.weight"], weights_of(other)["text.linear.weight"])


def test_a_trained_model_is_saved_and_searches_without_its_trainer(tmp_path: Path) -> None:
    model = small(head="cg-wf", validation=OTHERS.all)
    unhub.save(model, tmp_path / "model.safetensors")
    loaded = unhub.load(tmp_path / "model.safetensors", "model")
    assert_same_bits(loaded, model)
    assert loaded.training == model.training
    queries = unit_queries(3, 4)
    np.testing.assert_array_equal(loaded.combination.weights(queries), model.combination.weights(queries))


def test_only_the_head_learns_where_the_vectors_share_a_space() -> None:
    same = captioned(features=(16, 16))
    model = train(*same.all, "lg-wf", towers="none", rate=0.01, epochs=2, threads=1)
    assert (model.towers.text.kind, model.dimensions) == ("none", 16)
    with pytest.raises(ValueError, match="head 'mf' with these towers has nothing to learn"):
        train(*same.all, "mf", towers="none", rate=0.01)


class Words(nn.Module):
    """A text encoder that takes token ids, as a language model does; 0 fills up."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(30, 8, padding_idx=0)
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.as_tensor(self.dropout(self.vectors(tokens))).sum(dim=1)


class Patches(nn.Module):
    """A picture encoder that takes (pictures, 3, 4, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        return torch.as_tensor(self.patch(pictures)).flatten(1)


class Decoded:
    """Pictures that exist only when they are asked for."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype

    def __getitem__(self, key: slice) -> NDArray[np.float32]:
        return self.rows[key]


def worded(lazy: bool = False) -> tuple[NDArray[np.int64], object, list[tuple[int, int]]]:
    """Return token ids and pictures whose colour the tokens name."""
    random = np.random.default_rng(0)
    tokens = 1 + np.arange(60)[:, None] // 3 + np.zeros((60, 4), np.int64)
    tokens[:, 2:] *= random.integers(0, 2, size=(60, 2))
    pictures = random.normal(size=(20, 3, 4, 4)).astype(np.float32)
    return tokens, Decoded(pictures) if lazy else pictures, [(row, row // 3) for row in range(60)]


def modules() -> tuple[Words, Patches]:
    torch.manual_seed(0)
    return Words(), Patches()


@pytest.mark.parametrize("lazy", [False, True])
def test_modules_of_ones_own_are_trained_on_rows_of_any_shape(tmp_path: Path, lazy: bool) -> None:
    tokens, pictures, pairs = worded(lazy)
    own = modules()
    before = own[0].vectors.weight.detach().clone()
    data = (tokens, pictures, pairs)
    model = train(*data, "lg-wf", 3, towers=own, validation=data, rate=0.03, epochs=20, batch=10, threads=1)  # type: ignore[arg-type]
    assert not torch.equal(before, own[0].vectors.weight)
    kept = model.training.chosen
    assert kept is not None and kept.kept.recall is not None and kept.kept.recall > 90
    texts, items = model.encode_texts(tokens), model.encode_items(pictures)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.linalg.norm(rows_of(texts), axis=1), 1, atol=1e-6)
    hits = unhub.searcher(items, unhub.fit(items, method="raw")).search_sets([texts.rows[:3]], k=1, combine=model)
    assert hits.ids.tolist() == [[0]]
    with pytest.raises(ValueError, match="modules of your own, which one file for numpy cannot hold"):
        unhub.save(model, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_modules_resume_in_the_very_process_that_was_interrupted(tmp_path: Path) -> None:
    tokens, pictures, pairs = worded()
    options = {"head": "mf", "rate": (0.001, 0.03), "epochs": 3, "batch": 10, "threads": 1}
    data = (tokens, pictures, pairs)
    whole = train(*data, towers=modules(), validation=data, **options)  # type: ignore[arg-type]
    own = modules()
    with pytest.raises(KeyboardInterrupt):
        train(*data, towers=own, validation=data, checkpoint=tmp_path / "c", progress=stop_at(5), **options)  # type: ignore[arg-type]
    again = train(*data, towers=own, validation=data, checkpoint=tmp_path / "c", resume=True, **options)  # type: ignore[arg-type]
    assert again.training.tried == whole.training.tried
    np.testing.assert_array_equal(rows_of(again.encode_texts(tokens)), rows_of(whole.encode_texts(tokens)))


def stop_at(done: int) -> object:
    def stop(step: Step) -> None:
        if step.done == done:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("at", [2, 4, 10])
def test_an_interrupted_training_resumes_to_the_same_bits(tmp_path: Path, at: int) -> None:
    options = {"head": "cg-wf", "validation": OTHERS.all, "rate": (0.01, 0.002), "dropout": 0.3}
    whole = small(**options)  # 3 epochs of 3 steps, twice
    with pytest.raises(KeyboardInterrupt):
        small(checkpoint=tmp_path / "c", progress=stop_at(at), **options)
    assert (tmp_path / "c").exists() == (at > 3)
    again = small(checkpoint=tmp_path / "c", resume=True, **options)
    assert_same_bits(again, whole)
    assert again.training == whole.training
    assert_same_bits(small(checkpoint=tmp_path / "c", resume=True, **options), whole)  # which was done already


KILLED = """
import os, signal, sys
from tests.training.test_training import OTHERS, small
def die(step):
    if step.done == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
small(head="lg-wf", validation=OTHERS.all, dropout=0.3, checkpoint=sys.argv[1], progress=die)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_killed_training_resumes_to_the_same_bits(tmp_path: Path) -> None:
    options = {"head": "lg-wf", "validation": OTHERS.all, "dropout": 0.3}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "c"), "8"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=90, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert_same_bits(small(checkpoint=tmp_path / "c", resume=True, **options), small(**options))


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    small(checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match=r"checkpoint .*c exists; resume from it"):
        small(checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match=r"is of another training: epochs was 3, now it is 4"):
        small(checkpoint=tmp_path / "c", resume=True, epochs=4)
    with pytest.raises(ValueError, match=r"is of another training: training texts_hash was '"):
        small(captioned(seed=9), checkpoint=tmp_path / "c", resume=True)
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes()[:-900])
    with pytest.raises(ValueError, match=r"checkpoint .*c is damaged or not a checkpoint"):
        small(checkpoint=tmp_path / "c", resume=True)
    torch.save({"some": 1}, tmp_path / "c")
    with pytest.raises(ValueError, match=r"c was not written by this version of unhub"):
        small(checkpoint=tmp_path / "c", resume=True)


def test_progress_tells_the_loss_and_the_last_validation() -> None:
    steps: list[Step] = []
    model = small(validation=OTHERS.all, progress=steps.append)
    assert [one.done for one in steps] == list(range(1, 10)) and {one.total for one in steps} == {9}
    assert [one.epoch for one in steps] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert steps[2].recall is None and steps[-1].recall == model.history[1].recall
    assert steps[-1].loss == pytest.approx(model.history[-1].loss)


def test_threads_are_given_back() -> None:
    held = torch.get_num_threads()
    small(epochs=1, threads=1)
    assert torch.get_num_threads() == held


def test_mixed_precision_computes_otherwise_and_learns_too() -> None:
    mixed, plain = small(mixed=True, epochs=8), small(epochs=8)
    assert mixed.training.settings["mixed"] and not plain.training.settings["mixed"]
    assert mixed.history[-1].loss == pytest.approx(plain.history[-1].loss, rel=0.2)
    assert mixed.history[-1].loss != plain.history[-1].loss


def with_nan(data: Captioned) -> Captioned:
    rows = np.array(rows_of(data.texts))
    rows[3, 1] = np.nan
    return replace(data, texts=unhub.Vectors(data.texts.ids, rows))


@pytest.mark.parametrize(
    ("data", "changes", "words"),
    [
        (DATA, {"head": "cgwf"}, r"head 'cgwf' is unknown; did you mean 'cg-wf'\? the heads are mf, ts-wf, lg-wf"),
        (DATA, {"queries": 0}, "queries must be a whole number of at least 1, got 0"),
        (DATA, {"batch": 1}, "batch must be a whole number of at least 2"),
        (DATA, {"dropout": 1.0}, "dropout must be a number of at least 0 and under 1, got 1.0"),
        (DATA, {"temperature": 0}, "temperature must be a number over 0, got 0"),
        (DATA, {"rate": -1.0}, "rate must be a number over 0, got -1.0"),
        (DATA, {"rate": [0.1, 0.1], "validation": OTHERS.all}, "rate must be one number or several different ones"),
        (DATA, {"rate": [0.1, 0.2]}, "rate must be one number without validation to choose by, got 2"),
        (DATA, {"rate": 1e30}, "rate is too high: with 1e\\+30 the loss is nan in epoch"),
        (DATA, {"rate": np.array([[0.1]])}, "rate must be a number over 0, got \\[0.1\\]"),
        (DATA, {"combination": 2}, "combination must be True or False, got 2"),
        (DATA, {"epochs": 2.0}, "epochs must be a whole number of at least 1, got 2.0"),
        (DATA, {"patience": 3}, "patience needs validation"),
        (DATA, {"towers": "deep"}, "towers must be one of none, linear, mlp or a pair of modules, got 'deep'"),
        (DATA, {"towers": (nn.Linear(2, 2),)}, "towers must be one of none, linear, mlp or a pair of modules"),
        (DATA, {"towers": "none"}, "texts has 12 dimensions, the items 20; use 'linear' or 'mlp' towers"),
        (
            DATA,
            {"dimensions": 12, "head": "cg-wf"},
            "dimensions must be a multiple of 8 for the 8 attention heads of 'cg-wf', got 12",
        ),
        (DATA, {"towers": (nn.Linear(12, 4), nn.Linear(20, 5))}, "text module returns 4 dimensions, the item module 5"),
        (DATA, {"towers": (nn.Linear(12, 4), nn.Linear(20, 4)), "rate": None}, "rate must be given for modules"),
        (DATA, {"device": "abacus"}, "device must be one that torch can use here, got 'abacus'"),
        (DATA, {"threads": 0}, "threads must be"),
        (with_nan(DATA), {}, "texts holds nan in row 3"),
        (DATA, {"validation": with_nan(OTHERS).all}, "validation_texts holds nan in row 3"),
        (DATA, {"validation": captioned(features=(9, 20)).all}, "validation_texts has 9 dimensions, texts has 12"),
        (replace(DATA, relevance=[("x", "item 1")]), {}, "relevance names none of the"),
        (replace(DATA, relevance=[("caption 1", "y")]), {}, "relevance names none of the 40 items as an answer"),
        (replace(DATA, relevance=DATA.relevance[:1]), {}, "items must be at least two items with captions, got one"),
        (DATA, {"validation": captioned(1).all}, "validation_items must be at least two items with captions, got one"),
        (replace(DATA, relevance=[]), {}, "relevance holds no pair"),
    ],
)
def test_what_cannot_be_trained_is_refused(data: Captioned, changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small(data, **changes)


def test_what_is_left_out_is_counted_and_said() -> None:
    named = [pair for pair in DATA.relevance if pair[1] not in {"item 3", "item 4"}]
    lost = len(DATA.relevance) - len(named)
    model = small(
        replace(DATA, relevance=[*named, ("caption 0", "x"), ("x", "item 0"), ("x", "x")]),
        validation=OTHERS.all,
        epochs=1,
        queries=2,
    )
    assert model.notes == (
        f"3 of {len(named) + 3} pairs name a caption or an item that was not given, and are left out",
        "2 of 40 items have no caption and are left out",
        f"{lost} of {len(DATA.relevance)} captions describe no item and are left out",
        "9 of 38 items have fewer than 2 captions; all of theirs are used",
        "6 of 24 items of validation have fewer than 2 captions; all of theirs are used",
    )
    assert model.training.data["training"]["items"] == 38  # type: ignore[index]


def test_items_that_no_caption_of_validation_asks_for_are_in_the_way_and_said() -> None:
    alone = replace(OTHERS, relevance=[pair for pair in OTHERS.relevance if pair[1] != "item 3"])
    model = small(validation=alone.all, epochs=1, queries=1)
    assert model.notes[0] == "1 of 24 items of validation have no caption and are not searched for, but can be returned"


def test_a_curve_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    model = small(validation=OTHERS.all, rate=(0.01, 0.001))
    unhub.training.draw_curve(model, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    unhub.training.draw_curve(small(), tmp_path / "loss.svg")
    assert "epoch" in (tmp_path / "loss.svg").read_text()
    with pytest.raises(ValueError, match="no history to draw"):
        unhub.training.draw_curve(replace(model, training=type(model.training)()), tmp_path / "none.png")


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_the_epochs_of_a_curve_are_whole_numbers(epochs: int) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    curve(small(epochs=epochs)).draw(figure)
    shown = [tick for tick in figure.axes[-1].get_xticks() if 1 <= tick <= epochs]
    assert shown
    assert all(tick == int(tick) for tick in shown)
