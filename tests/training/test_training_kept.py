"""What training keeps: the best of what stayed finite, validated as it is used, and resumed only where it belongs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch", reason="torch is not installed: the extra train has it")

import torch
from torch import Tensor, nn

import unhub
from tests.captioned import Captioned, captioned
from tests.training.test_training import DATA, OTHERS, D, assert_same_bits, rows_of, small, stop_at, unit_queries, weigh
from unhub.arrays import unit
from unhub.data.captions import Captions
from unhub.data.relevance import as_relevance
from unhub.model import Model, Tower
from unhub.training import prepare
from unhub.training.batches import NOBODY, validation_sets
from unhub.training.heads import HEADS
from unhub.training.network import Data, Network
from unhub.training.rows import TrainingRows
from unhub.training.settings import Settings
from unhub.training.towers import TOWERS, TowerSide

pytestmark = pytest.mark.once


def recall_of(model: Model, data: Captioned, sizes: tuple[int, ...], seed: int = 0) -> float:
    """Return R@1 of a model on the sets of validation, by numpy and one set at a time."""
    texts, items = rows_of(model.encode_texts(data.texts)), rows_of(model.encode_items(data.items))
    shares = []
    for size in sizes:
        truth = as_relevance(data.relevance).against(data.texts.ids, data.items.ids)
        sets = validation_sets(Captions.of(truth), size, seed)
        found = []
        for item, row in zip(sets.items.tolist(), sets.texts, strict=True):
            queries = texts[row[row != NOBODY]]
            found.append(int(np.argmax(items @ (model.combination.weights(queries[None])[0] @ queries))) == item)
        shares.append(np.mean(found))
    return float(100 * np.mean(shares))


@pytest.mark.parametrize("head", ["mf", "cg-wf"])
def test_the_weights_that_are_kept_are_those_of_the_best_epoch(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[float] = []
    honest = Network.recall

    def pretend(network: Network, data: Data, settings: Settings) -> float:
        """Measure, and call the second epoch of the first rate the best, however much was learnt after it."""
        measured.append(honest(network, data, settings))
        return 90.0 if len(measured) == 2 else 10.0

    monkeypatch.setattr(Network, "recall", pretend)
    model = small(head=head, queries=3, validation=OTHERS.all, rate=(0.01, 0.02), epochs=5, dropout=0.3)
    chosen = model.training.chosen
    assert chosen is not None and (chosen.rate, chosen.best) == (0.01, 2)
    assert recall_of(model, OTHERS, (1, 3)) == pytest.approx(measured[1])
    assert measured[1] not in (measured[0], *measured[2:])  # or other weights would have passed


@pytest.mark.parametrize("head", ["mf", "lg-wf"])
def test_the_recall_that_is_kept_is_that_of_the_model(head: str) -> None:
    model = small(head=head, queries=3, validation=OTHERS.all, rate=(0.05, 0.01), epochs=6)
    assert model.training.chosen is not None
    assert recall_of(model, OTHERS, (1, 3)) == pytest.approx(model.training.chosen.kept.recall)


def test_of_equal_epochs_and_rates_the_first_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "recall", lambda *_: 50.0)
    training = small(validation=OTHERS.all, rate=(0.01, 0.02)).training
    assert [one.best for one in training.tried] == [1, 1] and training.rate == 0.01


def test_validation_leaves_nothing_out() -> None:
    settings = Settings(head="cg-wf", dimensions=D, hidden=24, dropout=0.5, queries=3)
    data = prepare.read(*OTHERS.all, settings)
    network, _ = prepare.build(data, settings, None, torch.device("cpu"))
    seen = []
    drops = [one for one in network.modules.modules() if isinstance(one, nn.Dropout)]
    for one in drops:
        one.register_forward_hook(lambda module, *_: seen.append(module.training))
    network.modules.train()
    network.recall(data, settings)
    assert len(drops) > 4 and len(seen) >= len(drops) and not any(seen)


def test_dropout_leaves_out_inputs_and_hidden_units() -> None:
    torch.manual_seed(0)
    tower = TOWERS["mlp"](400, Settings(dimensions=400, hidden=400, dropout=0.5)).train()
    rows, zero = torch.ones(1, 400), torch.zeros(400, 400)

    def out(**weights: Tensor) -> list[float]:
        state = {name: torch.zeros_like(weight) for name, weight in tower.state_dict().items()}
        tower.load_state_dict({**state, **{name.replace("_", "."): weight for name, weight in weights.items()}})
        return torch.as_tensor(tower(rows)).flatten().tolist()

    straight = out(linear_weight=torch.eye(400), out_weight=zero)
    assert set(straight) == {0.0, 2.0} and 0.4 < np.mean(np.array(straight) > 0) < 0.6
    around = out(hidden_weight=torch.eye(400), out_weight=torch.eye(400))
    assert set(around) == {0.0, 4.0} and 0.15 < np.mean(np.array(around) > 0) < 0.35


def test_features_are_standardised_by_the_captions_and_items_of_training_alone() -> None:
    named = [pair for pair in DATA.relevance if pair[1] != "item 39"]  # which leaves captions and an item out
    twice = [*named, (named[0][0], named[1][1])]
    model = small(replace(DATA, relevance=twice), validation=OTHERS.all, epochs=1, root=False)
    for tower, vectors, used in (
        (model.towers.text, DATA.texts, {text for text, _ in named}),
        (model.towers.item, DATA.items, {item for _, item in named}),
    ):
        rows = rows_of(vectors)[np.isin(vectors.ids, list(used))].astype(np.float64)
        assert isinstance(tower, Tower) and tower.preparation is not None and len(rows) < len(vectors)
        np.testing.assert_allclose(tower.preparation.mean, rows.mean(axis=0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(tower.preparation.scale, 1 / rows.std(axis=0), rtol=1e-5)


@pytest.mark.parametrize(("given", "most"), [({}, 1e-4), ({"head_rate": 1e-6}, 1e-6), ({"head_rate": 1.0}, 0.02)])
def test_the_head_learns_at_its_own_rate_which_for_a_transformer_is_low(given: dict[str, float], most: float) -> None:
    steps = 4  # of Adam, each of which moves a weight by about the rate
    before, after = (
        small(head="cg-wf", queries=3, rate=rate, epochs=2, batch=20, weight_decay=0, warmup=0, **given).head.arrays
        for rate in (1e-30, 0.02)
    )
    moved = max(float(np.abs(after[name] - before[name]).max()) for name in before)
    assert most / 2 < moved < 1.5 * steps * most


@pytest.mark.parametrize("rates", [(0.01, 1e38), (1e38, 0.01), (1e30, 0.01, 1e20)])
def test_a_rate_that_fails_is_noted_and_the_others_go_on(tmp_path: Path, rates: tuple[float, ...]) -> None:
    model = small(validation=OTHERS.all, rate=rates, epochs=2)
    assert_same_bits(model, small(validation=OTHERS.all, rate=0.01, epochs=2))
    failed = [one for one in model.training.tried if one.failed]
    assert failed and all(one.rate > 1 and one.best == 0 for one in failed)
    assert model.notes[-len(failed) :] == tuple(f"rate {one.rate:g} failed: {one.failed}" for one in failed)
    unhub.save(model, tmp_path / "m.safetensors")
    assert unhub.load(tmp_path / "m.safetensors", "model").training == model.training


def test_a_rate_that_failed_is_not_tried_again_on_resuming(tmp_path: Path) -> None:
    options = {"validation": OTHERS.all, "rate": (1e38, 0.01)}
    whole = small(**options)
    with pytest.raises(KeyboardInterrupt):  # 9 steps of the first rate, which fails, 3 of the first epoch, 1 more
        small(checkpoint=tmp_path / "c", progress=stop_at(13), **options)
    seen: list[float] = []
    again = small(checkpoint=tmp_path / "c", resume=True, progress=lambda step: seen.append(step.rate), **options)
    assert set(seen) == {0.01}
    assert_same_bits(again, whole)
    assert again.training == whole.training


def test_where_every_rate_fails_all_are_named_also_on_resuming(tmp_path: Path) -> None:
    words = r"rate is too high: with 1e\+38 the loss is nan in epoch 1, with 1e\+30 the loss is nan in epoch 1; give a"
    for resume in (False, True):
        with pytest.raises(ValueError, match=words):
            small(validation=OTHERS.all, rate=(1e38, 1e30), checkpoint=tmp_path / "c", resume=resume)


def test_weights_that_the_last_step_broke_are_no_model() -> None:
    with pytest.raises(ValueError, match=r"with 1e\+38 the vectors are not finite after epoch 1"):
        small(rate=1e38, epochs=1, batch=64)


class Broken(nn.Linear):
    """A module whose vectors are finite while it learns, and not when it is used."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) if self.training else super().forward(rows) * torch.nan


@pytest.mark.parametrize("validated", [True, False])
def test_a_module_that_breaks_where_it_is_used_never_wins(validated: bool) -> None:
    towers = (Broken(12, 8), nn.Linear(20, 8))
    before = towers[1].weight.detach().clone()
    with pytest.raises(ValueError, match=r"rate is too high: with 0\.01 the vectors .*are not finite after epoch 1"):
        small(towers=towers, validation=OTHERS.all if validated else None)
    assert torch.equal(towers[1].weight, before)  # back where it started


def test_similarities_that_are_not_finite_count_as_nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HEADS["mf"], "forward", lambda self, queries, here: queries[:, 0] * torch.nan)
    settings = Settings(head="mf", dimensions=D, hidden=24)
    data = prepare.read(*DATA.all, settings)
    network, _ = prepare.build(data, settings, None, torch.device("cpu"))
    assert np.isnan(network.recall(data, settings))


def test_rows_without_a_direction_after_a_module_are_named() -> None:
    towers = (nn.Linear(12, 8), nn.Linear(20, 8, bias=False))
    model = small(towers=towers, epochs=1)
    with pytest.raises(
        ValueError, match="items has row 1, for which the module returns only zeros or a number that is not finite"
    ):
        model.encode_items(np.stack([np.ones(20), np.zeros(20)]))


def test_numbers_of_numpy_are_taken_and_saved(tmp_path: Path) -> None:
    options = {"epochs": 2, "seed": 3, "batch": 16, "patience": 1, "combination": True, "root": False, "mixed": False}
    given = {
        "epochs": np.int8(2),
        "seed": np.int64(3),
        "batch": np.uint16(16),
        "patience": np.int32(1),
        "combination": np.bool_(True),
        "root": np.bool_(False),
        "mixed": np.bool_(False),
    }
    floats = {"temperature": 0.0625, "dropout": 0.25, "weight_decay": 0.5, "warmup": 0.125}  # exact in float32
    plain = small(validation=OTHERS.all, rate=(0.25, 0.0078125), **options, **floats)
    model = small(
        validation=OTHERS.all,
        rate=np.array([0.25, 0.0078125], np.float32),
        checkpoint=tmp_path / "c",
        **given,
        **{name: np.float32(value) for name, value in floats.items()},
    )
    assert_same_bits(model, plain)
    assert model.training == plain.training
    assert json.loads(json.dumps(model.training.to_dict())) == json.loads(json.dumps(plain.training.to_dict()))
    unhub.save(model, tmp_path / "m.safetensors")


@pytest.mark.parametrize("side", ["texts", "items"])
@pytest.mark.parametrize("validation", [False, True])
def test_a_checkpoint_of_other_values_under_the_same_ids_is_refused(
    tmp_path: Path, side: str, validation: bool
) -> None:
    small(validation=OTHERS.all, checkpoint=tmp_path / "c", epochs=1)
    data = OTHERS if validation else DATA
    rows = np.array(rows_of(getattr(data, side)))
    rows[-1, -1] += 1
    changed = unhub.Vectors(getattr(data, side).ids, rows)
    other = replace(data, texts=changed) if side == "texts" else replace(data, items=changed)
    part = "validation" if validation else "training"
    with pytest.raises(ValueError, match=rf"is of another training: {part} {side}_hash was '"):
        small(
            DATA if validation else other,
            validation=(other if validation else OTHERS).all,
            checkpoint=tmp_path / "c",
            resume=True,
            epochs=1,
        )


def test_a_checkpoint_of_modules_of_another_architecture_is_refused(tmp_path: Path) -> None:
    small(towers=(nn.Linear(12, 8), nn.Linear(20, 8)), checkpoint=tmp_path / "c")
    deeper = nn.Sequential(nn.Linear(12, 4), nn.Linear(4, 8))
    with pytest.raises(ValueError, match=r"of another training: weights text\.weight was \[8, 12\], now it is None"):
        small(towers=(deeper, nn.Linear(20, 8)), checkpoint=tmp_path / "c", resume=True)


def test_strays_of_a_killed_writer_go_when_the_checkpoint_is_opened(tmp_path: Path) -> None:
    mine, others = ".c.0123abcd.tmp", (".d.0123abcd.tmp", ".c.x.tmp", ".c.d.0123abcd.tmp")
    for name in (mine, *others):
        (tmp_path / name).touch()
    small(checkpoint=tmp_path / "c", epochs=1)
    assert {one.name for one in tmp_path.iterdir()} == {"c", *others}
    (tmp_path / mine).touch()
    with pytest.raises(ValueError, match="exists; resume from it"):  # a training may be writing it this very moment
        small(checkpoint=tmp_path / "c", epochs=1)
    assert (tmp_path / mine).exists()


def test_validation_on_what_was_trained_on_is_said() -> None:
    words = "of validation are those trained on: R@1 on them says nothing about other items"
    same = small(validation=DATA.all, queries=1, epochs=1)
    assert same.notes == (f"the texts {words}", f"the items {words}")
    assert small(validation=OTHERS.all, queries=1, epochs=1).notes == ()


@pytest.mark.parametrize("length", [1e20, 1e-15, 1.0])
def test_rows_of_any_length_are_the_same_to_torch_and_numpy(length: float) -> None:
    same = captioned(features=(16, 16))
    rows = rows_of(same.texts) * np.float32(length)
    side = TowerSide(TOWERS["none"](16, Settings()), unit, torch.device("cpu"))
    got = side.unit(TrainingRows(same.texts.ids, rows), np.arange(len(rows))).numpy()
    np.testing.assert_allclose(got, rows_of(Tower("none", 16, 16).encode(rows, "texts")), atol=1e-6)
    assert np.linalg.norm(got, axis=1) == pytest.approx(1)
    options = {"head": "lg-wf", "towers": "none", "epochs": 1}
    scaled = replace(same, texts=unhub.Vectors(same.texts.ids, rows))
    losses = [small(data, **options).history[0].loss for data in (same, scaled)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_numpy_weighs_as_torch_does_with_trained_weights() -> None:
    trained = small(head="cg-wf", epochs=12, rate=0.003).head
    head = HEADS["cg-wf"](D).eval()
    start = {name: weight.clone() for name, weight in head.state_dict().items()}
    head.load_state_dict({name: torch.from_numpy(array) for name, array in trained.arrays.items()})
    assert not torch.equal(start["encoder.layers.0.norm1.weight"], head.state_dict()["encoder.layers.0.norm1.weight"])
    queries: NDArray[np.float32] = unit_queries(40, 5)
    np.testing.assert_allclose(trained.weigh(queries), weigh(head, queries), atol=1e-5)
