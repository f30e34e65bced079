"""Which kernel a call uses: the one it names, else the default, which is asked for when it is needed."""

import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unhub
from unhub import kernels
from unhub.arrays import Float64
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Resources, Workers
from unhub.data.fingerprint import ReadOnce, inspect
from unhub.data.similarity import Dense, Dot, steady_products
from unhub.data.vectors import as_vectors
from unhub.errors import ArgumentError
from unhub.kernels import plain

pytestmark = pytest.mark.once

ROWS = np.random.default_rng(0).standard_normal((60, 8))


def noted(used: list[str], name: str, real: Callable[..., object]) -> Callable[..., object]:
    """Return a function that does the same and adds a name to the list."""

    def called(*given: object) -> object:
        used.append(name)
        return real(*given)

    return called


@pytest.mark.parametrize("name", ["numpy", "numba", "torch:cpu", "torch:cpu/bf16"])
def test_a_kernel_knows_its_name(name: str) -> None:
    assert name == kernels.choose(name).NAME
    assert Workers(1, device=name).kernel is kernels.choose(name)
    assert name == Resources(1, device=name).workers().kernel.NAME


def test_the_default_is_asked_for_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNHUB_NO_NUMBA", raising=False)
    assert unhub.fit(ROWS, ROWS).cost.kernel == "numba"
    monkeypatch.setenv("UNHUB_NO_NUMBA", "1")
    assert unhub.fit(ROWS, ROWS).cost.kernel == "numpy"
    assert kernels.choose("numba").NAME == "numba"  # which is named


def test_a_preferred_kernel_is_the_default_of_the_calls_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNHUB_NO_NUMBA", raising=False)
    with kernels.prefer("numpy"):
        assert kernels.choose() is plain
        assert Workers(2).map(lambda _: kernels.choose().NAME, range(3)) == ["numpy"] * 3
        assert Workers(1, device="numba").kernel.NAME == "numba"
        elsewhere: list[str] = []
        thread = threading.Thread(target=lambda: elsewhere.append(kernels.choose().NAME))
        thread.start()
        thread.join()
        assert elsewhere == ["numba"]  # a thread of somebody else
    assert kernels.choose().NAME == "numba"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: kernels.choose("nunpy"),
        lambda: Workers(device="nunpy"),
        lambda: Resources(device="nunpy").workers(),
        lambda: kernels.prefer("nunpy").__enter__(),
    ],
)
def test_an_unknown_device_is_refused_with_the_nearest_name(wrong: object) -> None:
    with pytest.raises(ArgumentError) as raised:
        wrong()  # type: ignore[operator]
    assert str(raised.value) == (
        "device 'nunpy' is unknown; did you mean 'numpy'? the devices are cuda, mps, cpu, auto, numpy, numba"
    )


def test_a_named_kernel_multiplies_and_reduces(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    names = {"multiply", "add_powers", "add_top", "cut_top", "unit_rows", "hash_rows"}
    for name in names:
        monkeypatch.setattr(plain, name, noted(used, name, getattr(plain, name)))
    similarity = Dot(ReadOnce(as_vectors(ROWS, "bank"), "bank", "cosine"), as_vectors(ROWS, "items"))
    reduce(similarity, Want(betas=(20.0,), top_means=(3,)), Workers(1, device="numpy"))
    assert set(used) == names


def test_rows_are_hashed_by_the_kernel_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    for name in kernels.HERE:
        kernel = kernels.choose(name)
        monkeypatch.setattr(kernel, "hash_rows", noted(used, name, kernel.hash_rows))
    hashes = [
        inspect(as_vectors(ROWS, "items"), "items", "cosine", Workers(2, device=name).map).hashes
        for name in kernels.HERE
    ]
    assert used == list(kernels.HERE)
    assert_array_equal(hashes[0], hashes[1])


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 3, len(ROWS))])
def test_means_and_steady_products_are_multiplied_by_the_kernel_and_have_the_bits_of_matmul(
    monkeypatch: pytest.MonkeyPatch, weights: Float64 | None
) -> None:
    used: list[str] = []
    monkeypatch.setattr(plain, "multiply", noted(used, "multiply", plain.multiply))
    rows = ROWS.astype(np.float32)
    vectors = as_vectors(rows, "items")
    total = rows.sum(axis=0, dtype=np.float64) if weights is None else weights @ rows
    mean = total / (len(rows) if weights is None else weights.sum())
    assert_array_equal(Dot(vectors, vectors, "dot", "numpy").mean_scores(weights), np.matmul(rows, mean))
    expected = np.matmul(rows.astype(np.float64), rows.T.astype(np.float64)).astype(np.float32)
    assert_array_equal(steady_products(rows, rows, plain), expected)
    assert len(used) == (2 if weights is None else 3)


def test_a_given_matrix_notes_what_was_read_whatever_multiplies_it() -> None:
    matrix = Dense(ROWS)
    reduce(matrix, Want(betas=(1.0,)), Workers(1, device="numpy"))
    assert matrix._finite.all()


def test_numpy_alone_needs_no_numba_and_a_named_numba_says_how_to_install_it() -> None:
    program = """
import sys
sys.modules["numba"] = None
import numpy as np, unhub
from unhub import kernels
rows = np.random.default_rng(0).standard_normal((60, 8))
print(unhub.fit(rows, rows).cost.kernel)
try:
    kernels.choose("numba")
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    first, second = run.stdout.splitlines()
    assert first == "numpy"
    assert second.startswith("the numba kernel needs numba: ") and "[fast]" in second


def test_numba_is_not_loaded_before_it_is_needed() -> None:
    program = """
import sys, numpy as np, unhub
from unhub import fit, kernels, searcher, evaluate
import unhub.compute.passes, unhub.compute.sinkhorn
print("numba" in sys.modules)
with kernels.prefer("numpy"):
    rows = np.random.default_rng(0).standard_normal((600, 8))
    unhub.searcher(rows, unhub.fit(rows, rows, method=["is", "sn"])[1]).search(rows, k=3)
print("numba" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["False", "False"]
