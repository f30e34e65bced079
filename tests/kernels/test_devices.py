"""Devices: every method, evaluation and search on torch's CPU device agree with numpy, whatever the inputs are."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unhub
from tests import oracles
from tests.bank_cases import BIASES, GATED
from unhub import kernels
from unhub.arrays import Float32, Kind
from unhub.compute import passes, sinkhorn
from unhub.compute.passes import Want, reduce
from unhub.compute.precision import BF16_BOUND
from unhub.compute.workers import Workers
from unhub.correction import Bias, Correction
from unhub.data.relevance import Relevance
from unhub.data.similarity import Dense, Dot
from unhub.data.tensors import TensorRows
from unhub.data.vectors import as_vectors
from unhub.errors import ArgumentError
from unhub.evaluation.placing import Placed, place
from unhub.kernels import torch_device
from unhub.kernels.torch_kernel import TorchKernel
from unhub.tuning import trials

pytestmark = pytest.mark.once

FP32_SHARE = 1e-5  # of the largest h: how far h may be from numpy's
SPECS = [*BIASES, *GATED, "is:tau=1000", "is:tau=0.003", "sn:tau=2", "sn:tau=0.05", "nnn:k=300"]


def rows(count: int, seed: int, dimensions: int = 24) -> Float32:
    """Return rows around a shared direction, of different lengths."""
    return (np.random.default_rng(seed).standard_normal((count, dimensions)) + 0.3).astype(np.float32)


ITEMS, BANK, BANK_ITEMS, QUERIES = rows(310, 0), rows(700, 1), rows(150, 2), rows(90, 3)


def relevant(pairs: list[tuple[int, int]]) -> Relevance:
    """Return which item answers which query."""
    queries, items = zip(*pairs, strict=True)
    return Relevance(np.array(queries), np.array(items))


def fits(device: str | None, method: list[str], kind: Kind = "cosine", **more: Any) -> list[Correction]:
    given = {"bank_items": BANK_ITEMS, "similarity": kind, "device": device, "threads": 2, **more}
    return unhub.fit(ITEMS, BANK, method=method, **given)


def assert_alike(one: Correction, other: Correction, share: float = FP32_SHARE) -> None:
    """Compare all that two corrections keep: numbers up to rounding, the rest exactly."""
    assert one.arrays.keys() == other.arrays.keys()
    assert_array_equal(one.item_hashes, other.item_hashes)
    for name, kept in one.arrays.items():
        array: Any = kept
        if array.dtype.kind == "f" and array.size:
            assert_allclose(
                np.asarray(other.arrays[name], float), array, atol=share * max(np.abs(array).max(), 1e-9), err_msg=name
            )
        else:
            assert_array_equal(other.arrays[name], array, err_msg=name)


# Fits.


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("mergeable", [False, True])
def test_every_method_agrees_with_numpy(kind: Kind, mergeable: bool) -> None:
    specs = [*SPECS, "dualdis", "gc", "gc:quantiles=20"]
    if kind == "dot":  # temperatures are for cosines
        specs = [spec for spec in specs if "0.0" not in spec]
    here, there = (fits(device, specs, kind, mergeable=mergeable) for device in ("numpy", "cpu"))
    for one, other in zip(here, there, strict=True):
        assert_alike(one, other)
        on_numpy = one.method.name in ("gc", "dn", "cent")
        assert other.cost.kernel == (kernels.choose().NAME if on_numpy else "torch:cpu")


@pytest.mark.parametrize("method", ["is:tau=0.02", "nnn:k=7,alpha=1.25", "csls:k=1"])
def test_a_fit_on_a_device_is_the_formula_in_float64(method: str) -> None:
    scores = oracles.cosine(BANK.astype(np.float64), ITEMS.astype(np.float64))
    h = {"is": oracles.is_(scores, 0.02), "nnn": oracles.nnn(scores, 7, 1.25), "csls": oracles.csls(scores, 1)}
    expected = h[method.partition(":")[0]]
    (found,) = fits("cpu", [method])
    assert isinstance(found, Bias)
    assert_allclose(found.bias, expected - expected.mean(), atol=2e-6)


@pytest.mark.parametrize("tau", [0.01, 0.05])
@pytest.mark.parametrize("keep", ["fp32", "16-bit", "none"])
def test_sinkhorn_on_a_device_is_that_of_float64_however_k_is_kept(tau: float, keep: str) -> None:
    scores = oracles.cosine(BANK.astype(np.float64), ITEMS.astype(np.float64))
    similarity = Dot(as_vectors(BANK, "bank"), as_vectors(ITEMS, "items"))
    solution = sinkhorn.balance(similarity, sinkhorn.Schedule(tau, 10, keep=keep), Workers(2, device="cpu"))
    expected = oracles.sn(scores, tau, 10)[0]
    atol = 2e-4 if keep == "16-bit" else 2e-6
    assert_allclose(solution.h - solution.h.mean(), expected - expected.mean(), atol=atol)


@pytest.mark.parametrize("method", ["is", "nnn", "sn", "dis"])
def test_a_given_matrix_is_fitted_on_a_device(method: str) -> None:
    matrix = oracles.cosine(BANK.astype(np.float64), ITEMS.astype(np.float64))
    here, there = (unhub.fit(Dense(matrix), method=method, device=device) for device in ("numpy", "cpu"))
    assert_alike(here, there)


@given(seed=st.integers(0, 2**32 - 1), items=st.integers(1, 90), bank=st.integers(1, 400), threads=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_a_pass_with_weights_agrees_with_numpy_at_any_size(seed: int, items: int, bank: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    similarity = Dot(as_vectors(rows(bank, seed), "bank"), as_vectors(rows(items, seed + 1), "items"))
    weights = rng.integers(1, 4, bank).astype(np.float64)
    want = Want(betas=(1.0, 20.0, 300.0), top_means=(1, min(bank, 9)), top_values=min(bank, 4), best_items=2)
    offsets = rng.standard_normal(bank)
    for given_offsets in (None, offsets):
        here, there = (
            reduce(similarity, want, Workers(threads, device=device), given_offsets, weights)
            for device in ("numpy", "cpu")
        )
        for beta in want.betas:
            assert_allclose(there.log_sums[beta], here.log_sums[beta], rtol=2e-6, atol=2e-5)
        for k in want.top_means:
            assert_allclose(there.top_means[k], here.top_means[k], atol=1e-6)
        assert_allclose(there.top_values, here.top_values, atol=1e-6)
        assert_allclose(there.best_scores, here.best_scores, atol=1e-6)


def test_small_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fits("cpu", ["is", "nnn:k=20", "dis", "sn"])
    monkeypatch.setattr(torch_device, "CPU_TILE_ROWS", 32)
    monkeypatch.setattr(torch_device, "CPU_TILE_ENTRIES", 32 * 48)
    monkeypatch.setattr(torch_device, "CPU_STATE_BYTES", 60_000)
    for one, other in zip(whole, fits("cpu", ["is", "nnn:k=20", "dis", "sn"]), strict=True):
        assert_alike(one, other)


def test_torch_keeps_its_number_of_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        fits("cpu", ["is"])
        assert torch.get_num_threads() == 2
        assert Workers(1).map(lambda _: torch.get_num_threads(), [0]) == [2]  # a thread that starts later
    finally:
        torch.set_num_threads(before)


# bf16.


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_bf16_keeps_h_within_the_bound_that_it_states(kind: Kind) -> None:
    specs = ["is", "csls", "nnn:k=20,alpha=1", "dualis", "dis"] if kind == "dot" else [*SPECS, "nnn:k=20,alpha=1"]
    exact, short = fits("cpu", specs, kind), fits("cpu", specs, kind, precision="bf16")
    sizes = [float(np.linalg.norm(one, axis=1).max()) for one in (ITEMS, np.concatenate([BANK, BANK_ITEMS]))]
    bound = BF16_BOUND * (1 if kind == "cosine" else sizes[0] * sizes[1])
    for one, other in zip(exact, short, strict=True):
        assert isinstance(one, Bias) and isinstance(other, Bias)
        assert np.abs(one.bias - other.bias).max() <= 2 * bound, one.spec  # centring may double it
        unmultiplied = one.method.name in ("raw", "dn", "cent")
        assert any("bf16" in note for note in other.cost.notes) != unmultiplied
        assert not any("bf16" in note for note in one.cost.notes)
        assert other.cost.kernel.startswith("torch:cpu/bf16") != (one.method.name in ("dn", "cent"))
    note = next(note for note in short[0].cost.notes if "bf16" in note) if kind == "dot" else short[1].cost.notes[0]
    measured = float(note.split(", and ")[1].split(" ")[0])
    assert 0 < measured <= BF16_BOUND


@pytest.mark.parametrize("alpha", [0.5, 1.0, 5.0])
def test_bf16_rounds_by_up_to_a_part_in_256_and_a_method_may_scale_that(alpha: float) -> None:
    draw = np.random.default_rng(1)
    draw.integers(4)
    items, bank = (draw.random((300, 3)).astype(np.float32) for _ in range(2))  # few dimensions, so little evens out
    exact, short = (
        unhub.fit(items, bank, f"nnn:k=1,alpha={alpha}", device="cpu", precision=precision)
        for precision in ("fp32", "bf16")
    )
    assert isinstance(exact, Bias) and isinstance(short, Bias)
    off = np.abs(exact.bias + exact.offset - short.bias - short.offset).max()
    assert 3 / 512 < off / alpha <= 3 / 256
    note = next(note for note in short.cost.notes if "bf16" in note)
    assert "within 0.012 of those in fp32" in note
    assert f"h may be {'' if alpha == 1 else f'{alpha:g} times '}as far off before it is centred" in note


@pytest.mark.parametrize(
    ("method", "far"),
    [
        ("is", "may be as far off"),
        ("dis", "may be as far off"),
        ("dualis", "may be as far off"),
        ("csls", "may be 0.5 times"),
        ("nnn", "may be 0.75 times"),
        ("sn", "has no known bound"),
        ("dbsn", "has no known bound"),
    ],
)
def test_bf16_says_of_each_method_what_it_makes_of_h(method: str, far: str) -> None:
    (short,) = fits("cpu", [method], precision="bf16")
    assert any("bf16" in note and f"; h {far}" in note for note in short.cost.notes)


@pytest.mark.parametrize("error", [0.02, 1e-9])
def test_a_fit_in_bf16_within_an_error_says_that_the_error_leaves_bf16_out(error: float) -> None:
    items, bank = rows(600, 4), rows(1500, 5)
    fitted = unhub.fit(items, bank, method=["is", "nnn", "dn"], device="cpu", precision="bf16", error=error)
    for one in fitted[:2]:
        (note,) = (note for note in one.cost.notes if "bf16" in note)
        assert note.endswith(", which the stated error leaves out")
    assert not any("bf16" in note for note in fitted[2].cost.notes)


def test_bf16_is_really_used() -> None:
    exact, short = (fits("cpu", ["is"], precision=precision)[0] for precision in ("fp32", "bf16"))
    assert not np.allclose(np.asarray(exact.arrays["bias"], float), np.asarray(short.arrays["bias"], float), atol=1e-5)


# Inputs.


class Exported:
    """An array of another library, known by DLPack alone."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


FORMS: dict[str, Callable[[Float32], Any]] = {
    "with a gradient": lambda given: torch.tensor(given, requires_grad=True),
    "a computed one": lambda given: torch.tensor(given, requires_grad=True) * 1,
    "bfloat16": lambda given: torch.tensor(given).bfloat16(),
    "float16": lambda given: torch.tensor(given).half(),
    "transposed": lambda given: torch.tensor(np.ascontiguousarray(given.T)).T,
    "by DLPack": lambda given: Exported(torch.tensor(given)),
    "by DLPack in bfloat16": lambda given: Exported(torch.tensor(given).bfloat16()),
    "a list of them": lambda given: list(torch.tensor(given)),
    "a tuple of them with gradients": lambda given: tuple(torch.tensor(given, requires_grad=True)),
    "a list of them in bfloat16": lambda given: list(torch.tensor(given).bfloat16()),
    "where it is": lambda given: TensorRows(torch.tensor(given)),
    "read-only": lambda given: np.frombuffer(given.tobytes(), np.float32).reshape(given.shape),
}


def as_numbers(form: Any) -> Float32:
    """Return the numbers that a form holds, in float32."""
    form = torch.stack(form) if isinstance(form, list | tuple) else form
    tensor = (
        form.tensor
        if isinstance(form, Exported | TensorRows)
        else torch.as_tensor(np.array(form))
        if isinstance(form, np.ndarray)
        else form
    )
    return np.asarray(tensor.detach().float().numpy())


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("form", FORMS)
def test_tensors_of_every_kind_are_fitted_evaluated_and_searched(form: str, device: str | None) -> None:
    items, bank, queries = (FORMS[form](one) for one in (ITEMS, BANK, QUERIES))
    plain_items, plain_bank, plain_queries = (as_numbers(one) for one in (items, bank, queries))
    found = unhub.fit(items, bank, method="nnn:k=9", device=device)
    expected = unhub.fit(plain_items, plain_bank, method="nnn:k=9")
    assert_alike(expected, found)
    hits = unhub.searcher(items, found).search(queries, k=5)
    known = unhub.searcher(plain_items, expected).search(plain_queries, k=5)
    assert_array_equal(hits.ids, known.ids)
    counts = unhub.hubness(queries, items, found, 5, device=device).counts
    assert_array_equal(counts, unhub.hubness(plain_queries, plain_items, expected, 5).counts)


def test_scores_may_be_tensors_too() -> None:
    scores = torch.tensor(oracles.cosine(QUERIES.astype(np.float64), ITEMS.astype(np.float64)), requires_grad=True)
    correction = unhub.fit(ITEMS, BANK)
    assert_array_equal(correction.apply(scores), correction.apply(scores.detach().numpy()))
    short = scores.detach().bfloat16()
    assert_array_equal(correction.apply(short), correction.apply(short.float().numpy()))
    given = unhub.fit(Dense(scores.float()), method="nnn:k=9")
    assert_alike(unhub.fit(Dense(scores.detach().float().numpy()), method="nnn:k=9"), given)


@pytest.mark.parametrize("method", ["dn", "cent", "is", "nnn:k=9", "gc"])
def test_a_given_matrix_may_be_a_tensor_in_bfloat16(method: str) -> None:
    short = torch.tensor(QUERIES @ ITEMS.T).bfloat16()
    for weights in (None, np.arange(1.0, len(QUERIES) + 1)):
        kinds = (Dense(scores) for scores in (short.float().numpy(), short))
        one, other = (unhub.fit(scores, method=method, weights=weights) for scores in kinds)
        assert_array_equal(one.apply(short), other.apply(short))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([torch.ones(3), torch.ones(4)], "items is a list of tensors that cannot be stacked as rows"),
        ((torch.ones(3), [1, 2, 3]), "items is a tuple of tensors that cannot be stacked as rows"),
        ([torch.ones(2, 3), torch.ones(2, 3)], r"items must be a matrix \(rows, dimensions\), got shape \(2, 2, 3\)"),
        ([torch.ones(3).to_sparse()], "items is a tensor of layout torch.sparse_coo"),
    ],
)
def test_a_list_of_tensors_that_are_no_rows_is_one_line(rows: Any, why: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{why}[^\n]*$"):
        unhub.fit(rows, rows)


@pytest.mark.parametrize("none", [torch.empty(0, 24), torch.empty(0, 24).bfloat16(), Exported(torch.empty(0, 24))])
def test_no_queries_of_a_tensor_have_no_answers(none: Any) -> None:
    assert unhub.searcher(ITEMS, unhub.fit(ITEMS, BANK)).search(none, k=3).ids.shape == (0, 3)


def test_a_tensor_that_is_there_is_not_copied() -> None:
    tensor = torch.tensor(ITEMS)
    block = as_vectors(tensor, "items").ready_block(10, 20, "dot", kernels.choose("torch:cpu"))
    assert block.data_ptr() == tensor[10:].data_ptr()
    rows_there = as_vectors(TensorRows(tensor), "items").ready_block(10, 20, "dot", kernels.choose("torch:cpu"))
    assert rows_there.data_ptr() == tensor[10:].data_ptr()


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 40), dimensions=st.integers(1, 33))
@settings(max_examples=30, deadline=None)
def test_a_row_has_the_same_hash_on_a_device(seed: int, count: int, dimensions: int) -> None:
    block = rows(count, seed, dimensions)
    block[np.random.default_rng(seed).random(block.shape) < 0.2] = -0.0
    block[:, 0] = 1.0
    here, there = (unhub.fit(one, block, method="raw").item_hashes for one in (block, TensorRows(torch.tensor(block))))
    assert_array_equal(here, there)


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (torch.zeros(3, 2), "items has only zeros in row 0"),
        (torch.full((3, 2), torch.nan), "items holds nan in row 0"),
        (torch.ones(3, 2, dtype=torch.complex64), "items must hold real numbers"),
        (torch.ones(3, 2).to_sparse(), "items is a tensor of layout torch.sparse_coo"),
        (torch.ones(3, 2, device="meta"), "items is a tensor on the device 'meta'"),
        (torch.ones(3), "items must be a matrix"),
        (torch.ones(3, 2).to(torch.float8_e4m3fn), "items must hold real numbers .* got torch.float8_e4m3fn"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_a_bad_tensor_is_one_clear_line(tensor: torch.Tensor, problem: str, there: bool) -> None:
    strided = tensor.layout == torch.strided and tensor.device.type == "cpu" and tensor.dtype == torch.float32
    with pytest.raises(ArgumentError, match=problem) as raised:
        unhub.fit(TensorRows(tensor) if there and strided else tensor, rows(5, 0, 2))
    assert "\n" not in str(raised.value)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_rows_of_several_lengths_are_one_clear_line() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(ArgumentError, match=r"^items is a nested tensor, whose rows differ in length"):
        unhub.fit(nested, rows(5, 0, 2))


class Elsewhere(Exported):
    """An array on a device that torch was not built for."""

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("Torch not compiled with CUDA enabled\nand more")

    def __dlpack_device__(self) -> Any:
        return 2, 0


def test_an_array_on_a_device_that_torch_lacks_is_one_clear_line() -> None:
    with pytest.raises(
        ArgumentError, match=r"^items is of type Elsewhere, which .* \(Torch not compiled .*\); copy it"
    ) as raised:
        unhub.fit(Elsewhere(torch.ones(3, 2)), rows(5, 0, 2))
    assert "\n" not in str(raised.value)


# What comes after a fit, and before it.


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("spec", [*BIASES, *GATED])
def test_extending_and_merging_on_a_device_are_those_of_numpy(spec: str, kind: Kind) -> None:
    new, more = rows(40, 5), rows(60, 6)
    (fitted,) = fits("numpy", [spec], kind, mergeable=True)
    for here, there in zip(*(_changes(fitted, new, more, device) for device in ("numpy", "cpu")), strict=True):
        assert_alike(here, there)
        on_numpy = fitted.method.name in ("dn", "cent")
        assert there.cost.kernel == (kernels.choose().NAME if on_numpy else "torch:cpu")


def _changes(fitted: Correction, new: Float32, more: Float32, device: str) -> tuple[Correction, Correction]:
    """Return a correction with more items and with more bank queries."""
    warm = 3 if fitted.method.name in ("sn", "dbsn") else 0
    given: dict[str, Any] = {"bank_items": BANK_ITEMS, "device": device}
    return unhub.extend(fitted, new, BANK, items=ITEMS, warm=warm, **given), unhub.merge(fitted, ITEMS, more, **given)


def test_a_change_in_bf16_says_what_it_does_once() -> None:
    (fitted,) = fits("cpu", ["is"], precision="bf16")
    short: dict[str, Any] = {"device": "cpu", "precision": "bf16"}
    grown = unhub.extend(unhub.extend(fitted, rows(5, 6), BANK, **short), rows(5, 7), BANK, **short)
    merged = unhub.merge(fits("cpu", ["is"])[0], ITEMS, rows(9, 8), **short)
    for changed in (grown, merged, unhub.extend(fitted, rows(5, 6), BANK)):
        assert len([note for note in changed.cost.notes if "bf16" in note]) == 1
    exact = unhub.extend(fits("cpu", ["is"])[0], rows(5, 6), BANK)
    assert not any("bf16" in note for note in exact.cost.notes)
    assert isinstance(grown, Bias) and isinstance(exact, Bias)
    assert_allclose(grown.bias[:315] + grown.offset, exact.bias + exact.offset, atol=BF16_BOUND)


@pytest.mark.parametrize("labelled", [False, True])
def test_tuning_on_a_device_is_that_of_numpy(labelled: bool) -> None:
    relevance = relevant([(query, query) for query in range(len(QUERIES))]) if labelled else None
    given: dict[str, Any] = {"methods": "is,nnn:k=9,dis:k=2,sn", "bank_items": BANK_ITEMS, "threads": 2}
    here, there = (unhub.tune(ITEMS, BANK, QUERIES, relevance, device=device, **given) for device in ("numpy", "cpu"))
    assert here.reason == there.reason
    assert_alike(here.best, there.best)
    assert {one.spec for one in here.table} == {one.spec for one in there.table}
    transport = {one.spec: one.transport for one in here.table}
    for one in there.table:
        assert one.transport == pytest.approx(transport[one.spec], abs=1e-6)


def test_tuning_fits_in_bf16_and_compares_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked_by = []

    def placing(*given: Any) -> list[Placed]:
        ranked_by.append(given[3].kernel.NAME)
        return place(*given)

    monkeypatch.setattr(trials, "place", placing)
    tuning = unhub.tune(ITEMS, BANK, methods="is:tau=0.05", device="cpu", precision="bf16")
    assert tuning.table and set(ranked_by) == {"torch:cpu"}
    assert tuning.best.method.name == "raw" or tuning.best.cost.kernel == "torch:cpu/bf16"


@pytest.mark.parametrize(
    "work",
    [
        lambda given: unhub.extend(unhub.fit(ITEMS, BANK), rows(3, 5), BANK, **given),
        lambda given: unhub.merge(unhub.fit(ITEMS, BANK), ITEMS, rows(3, 5), **given),
        lambda given: unhub.tune(ITEMS, BANK, **given),
    ],
)
def test_a_change_on_no_device_is_one_clear_line(work: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(ArgumentError, match=r"^device 'gpu' is unknown; a GPU is 'cuda', [^\n]*$"):
        work({"device": "gpu"})
    with pytest.raises(ArgumentError, match=r"^precision is 'bf16', which needs a device of torch[^\n]*$"):
        work({"precision": "bf16"})
    if not torch.cuda.is_available() and not torch.backends.mps.is_available():
        with pytest.raises(ArgumentError, match=r"^precision is 'bf16', .*device='auto' finds none but the processor"):
            work({"precision": "bf16", "device": "auto"})


# Evaluation and search.


@pytest.mark.parametrize("exclude", [None, "self"])
def test_evaluation_on_a_device_is_that_of_numpy(exclude: str | None) -> None:
    items = np.concatenate([ITEMS, ITEMS[:20]])  # with copies, which must tie
    corrections = unhub.fit(items, BANK, method=["is", "dis:k=2", "nnn", "dualdis", "hn"], bank_items=BANK_ITEMS)
    pairs = [(query, item) for query in range(len(QUERIES)) for item in (query, query + 7, 310 + query % 20)]
    relevance = relevant(pairs)
    here, there = (
        unhub.evaluate(QUERIES, items, relevance, corrections, exclude=exclude, resamples=20, device=device)
        for device in ("numpy", "cpu")
    )
    assert_array_equal(here.ranks, there.ranks)
    assert here.to_dict() == there.to_dict()
    hubs = [unhub.worst_hubs(QUERIES, items, corrections[0], device=device).to_dict() for device in ("numpy", "cpu")]
    assert hubs[0] == hubs[1]


@pytest.mark.parametrize("kind", ["cosine", "dot"])
@pytest.mark.parametrize("method", ["raw", "is", "dis", "nnn"])
def test_an_index_on_a_device_answers_as_the_exact_one(kind: Kind, method: str) -> None:
    (correction,) = fits(None, [method], kind)
    exact, there = (unhub.searcher(ITEMS, correction, index=index) for index in ("exact", "torch:cpu"))
    for more in ({}, {"strength": 0.5}, {"among": [1, 5, 9, 200, 250, 301]}, {"exclude": [[3]] * len(QUERIES)}):
        one, other = exact.search(QUERIES, k=6, **more), there.search(QUERIES, k=6, **more)
        assert_array_equal(one.ids, other.ids)
        assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-6)


def test_an_index_on_a_device_follows_items_that_come_and_go() -> None:
    new = rows(25, 9)
    correction = unhub.fit(ITEMS, BANK, method="is")
    grown = unhub.extend(correction, new, BANK)
    searcher = unhub.searcher(ITEMS, correction, index="torch:cpu")
    searcher.add(new, grown)
    smaller = unhub.remove(grown, [0, 5, 320])
    searcher.remove([0, 5, 320], smaller)
    kept = np.delete(np.arange(335), [0, 5, 320])
    known = unhub.searcher(unhub.Vectors(kept, np.concatenate([ITEMS, new])[kept]), smaller)
    assert_array_equal(searcher.search(QUERIES, k=8).ids, known.search(QUERIES, k=8).ids)


def test_an_addition_without_memory_leaves_the_index_as_it_was(limited: Callable[[int], list[int]]) -> None:
    correction = unhub.fit(ITEMS, BANK, method="is")
    searcher = unhub.searcher(ITEMS, correction, index="torch:cpu")
    before = searcher.search(QUERIES, k=4)
    limited(35_000)  # enough for what is new, not for all
    with pytest.raises(ArgumentError, match="out of memory, with 410 items of 24 dimensions"):
        searcher.add(rows(100, 9), unhub.extend(correction, rows(100, 9), BANK))
    limited(1 << 40)
    assert len(searcher) == 310
    assert_array_equal(searcher.search(QUERIES, k=4).ids, before.ids)


def test_equal_items_are_found_in_their_order_on_a_device() -> None:
    items = np.repeat(ITEMS[:3], 40, axis=0)
    correction = unhub.fit(items, BANK, method="raw")
    hits = unhub.searcher(items, correction, index="torch:cpu").search(ITEMS[:3], k=30)
    assert_array_equal(hits.ids, np.arange(30) + np.array([[0], [40], [80]]))


# Out of memory.


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Let the device hold no array of more than some bytes; return a function that sets them, and notes refusals."""
    real = TorchKernel.empty

    def limit(most: int) -> list[int]:
        refused: list[int] = []

        def empty(self: TorchKernel, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            if size > most:
                refused.append(size)
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate too much.")
            return real(self, shape, dtype)

        monkeypatch.setattr(TorchKernel, "empty", empty)
        return refused

    return limit


def test_a_device_that_is_out_of_memory_gets_smaller_tiles(limited: Callable[[int], list[int]]) -> None:
    expected = fits("cpu", ["is", "nnn:k=20", "dis", "sn"])
    relevance = relevant([(query, query) for query in range(len(QUERIES))])
    known = unhub.evaluate(QUERIES, ITEMS, relevance, expected, resamples=20).to_dict()
    hits = unhub.searcher(ITEMS, expected[0], index="torch:cpu").search(QUERIES, k=4)
    refused = limited(300_000)
    found = fits("cpu", ["is", "nnn:k=20", "dis", "sn"])
    for one, other in zip(expected, found, strict=True):
        assert_alike(one, other)
    assert found[-1].cost.kept == "recomputed"  # K of 868,000 bytes had no room
    assert refused
    refused = limited(20_000)
    assert unhub.evaluate(QUERIES, ITEMS, relevance, expected, resamples=20, device="cpu").to_dict() == known
    assert refused
    refused = limited(60_000)
    assert_array_equal(unhub.searcher(ITEMS, expected[0], index="torch:cpu").search(QUERIES, k=4).ids, hits.ids)
    assert refused


@pytest.mark.parametrize(
    "work",
    [
        lambda: fits("cpu", ["is"]),
        lambda: fits("cpu", ["sn"]),
        lambda: unhub.hubness(QUERIES, ITEMS, device="cpu"),
        lambda: unhub.searcher(ITEMS, unhub.fit(ITEMS, BANK), index="torch:cpu"),
    ],
)
def test_a_device_without_any_memory_is_one_clear_line(
    work: Callable[[], object], limited: Callable[[int], list[int]]
) -> None:
    limited(10)
    with pytest.raises(ArgumentError, match=r"device .cpu. is out of memory, .*; free some of it") as raised:
        work()
    assert "\n" not in str(raised.value)


def test_what_torch_says_on_a_full_processor_is_known() -> None:
    kernel = kernels.choose("torch:cpu")
    with pytest.raises(RuntimeError) as raised:
        kernel.empty((1 << 30, 1 << 20))
    assert kernel.is_full(raised.value)


def test_another_error_of_torch_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def multiply(self: TorchKernel, left: Any, right: Any, out: Any) -> None:
        calls.append(1)
        raise RuntimeError("the device is on fire")

    monkeypatch.setattr(TorchKernel, "multiply", multiply)
    with pytest.raises(RuntimeError, match="on fire"):
        fits("cpu", ["is"], threads=1)
    assert len(calls) == 1


@given(rows=st.integers(1, 100_000), divisor=st.sampled_from([1, 4, 16, 64, 256]), free=st.integers(1 << 20, 1 << 40))
def test_tiles_follow_the_memory_that_is_free(rows: int, divisor: int, free: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_device, "free_memory", lambda device: free)
        limits = torch_device.limits_of(torch.device("cuda"), short=False)
    sizes = passes.TileSizes(limits, divisor)
    entries = min(rows, sizes.rows) * sizes.columns(rows)
    assert 1 <= sizes.columns(rows) <= limits.most_columns
    assert entries * 4 * torch_device.TILE_SHARE * limits.threads <= max(free, 1 << 22) * 2
    assert limits.threads * limits.state_bytes <= free


# Names, and what is not there.


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"device": "cuda"}, "device 'cuda' is not there: torch finds no cuda; here is cpu"),
        ({"device": "mps"}, "device 'mps' is not there: torch finds no mps; here is cpu"),
        ({"device": "cpu:1"}, "device 'cpu:1' is not there: torch finds 1 of cpu; they count from 0"),
        (
            {"device": "gpu"},
            "device 'gpu' is unknown; a GPU is 'cuda', or 'mps' on a Mac, and 'auto' takes what is there",
        ),
        ({"device": "cuda:one"}, "device 'cuda:one' is unknown"),
        ({"device": "cpu:"}, "device 'cpu:' is unknown; write it as one of cuda, mps, cpu, or as cuda:1"),
        ({"device": "cpu:00"}, "device 'cpu:00' is unknown"),
        ({"device": "cpu:٠"}, "device 'cpu:٠' is unknown"),
        ({"device": "auto:0"}, "device 'auto:0' is unknown"),
        ({"device": "torch:"}, "device 'torch:' is unknown"),
        ({"device": "torch:cpu/bogus"}, "device 'torch:cpu/bogus' is unknown"),
        ({"device": "torch:cpu/"}, "device 'torch:cpu/' is unknown"),
        ({"device": "cpu:0/bf16"}, "device 'cpu:0/bf16' is unknown"),
        ({"device": 3}, "device '3' is unknown"),
        ({"precision": "bf16"}, "precision is 'bf16', which needs a device of torch"),
        ({"device": "cpu", "precision": "fp16"}, "precision 'fp16' is unknown"),
    ],
)
def test_a_device_that_is_not_there_is_one_clear_line(
    given: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_device, "present", lambda: ["cpu"])  # also where there is a GPU
    kernels._torch.cache_clear()
    with pytest.raises(ArgumentError) as raised:
        unhub.fit(ITEMS, BANK, **given)
    assert str(raised.value).startswith(problem)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("index", ["torch:cuda", "torch:tpu", "torch:numpy", "torch:cpu/bf16", "torch:cpu:"])
def test_an_index_on_no_device_is_an_error_about_the_index(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_device, "present", lambda: ["cpu"])
    kernels._torch.cache_clear()
    with pytest.raises(ArgumentError, match=r"^index "):
        unhub.searcher(ITEMS, unhub.fit(ITEMS, BANK), index=index)


def test_the_name_of_a_kernel_is_that_of_its_device_too() -> None:
    assert kernels.name_of("torch:cpu") == kernels.name_of("cpu") == "torch:cpu"
    assert kernels.name_of("torch:cpu/bf16", "bf16") == kernels.name_of("cpu", "bf16") == "torch:cpu/bf16"


def test_auto_is_the_fastest_device_or_else_our_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_device, "present", lambda: ["cpu"])
    assert kernels.name_of("auto") is None
    assert kernels.check_name("auto") is None
    monkeypatch.setattr(torch_device, "present", lambda: ["mps", "cpu"])
    assert kernels.check_name("auto") == "torch:mps"


def run_without_torch(program: str) -> str:
    """Run a program where torch cannot be imported, and return what it prints."""
    hidden = f"import sys\nsys.modules['torch'] = None\n{program}"
    run = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=120, check=False)
    return run.stdout + run.stderr.strip().splitlines()[-1] if run.returncode else run.stdout


def test_without_torch_a_device_names_the_extra_and_auto_is_our_own_kernel() -> None:
    rows_text = "import numpy as np, unhub\nrows = np.eye(4)\n"
    shown = run_without_torch(f"{rows_text}unhub.fit(rows, rows, device='cuda')")
    assert shown.startswith("unhub.errors.MissingLibrary: device is 'cuda', which needs torch: ") and "[train]" in shown
    assert run_without_torch(f"{rows_text}print(unhub.fit(rows, rows, device='auto').cost.kernel)") in (
        "numba\n",
        "numpy\n",
    )


def test_torch_is_imported_only_if_it_is_asked_for() -> None:
    program = (
        "import sys, numpy as np, unhub\nrows = np.eye(4)\nunhub.fit(rows, rows, method=['is', 'sn'])\n"
        "print('torch' in sys.modules)\nunhub.fit(rows, rows, device='cpu')\nprint('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["False", "True"]
