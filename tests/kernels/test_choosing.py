"""Which kernel a call uses: the one it names, else the default, which is asked for when it is needed."""

import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import unhub
from unhub import kernels
from unhub.compute.passes import Want, reduce
from unhub.compute.workers import Resources, Workers
from unhub.data.similarity import Dense, Dot
from unhub.data.vectors import as_vectors
from unhub.errors import ArgumentError
from unhub.kernels import plain

pytestmark = pytest.mark.once

ROWS = np.random.default_rng(0).standard_normal((60, 8))


@pytest.mark.parametrize("name", kernels.KERNELS)
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
    assert str(raised.value) == "device 'nunpy' is unknown; did you mean 'numpy'? the devices are numpy, numba"


def test_a_named_kernel_multiplies_and_reduces(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()

    def noted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        return lambda *given: used.add(name) or real(*given)  # type: ignore[func-returns-value]

    names = {"multiply", "add_powers", "add_top", "cut_top", "unit_rows"}
    for name in names:
        monkeypatch.setattr(plain, name, noted(name, getattr(plain, name)))
    similarity = Dot(as_vectors(ROWS, "bank"), as_vectors(ROWS, "items"))
    reduce(similarity, Want(betas=(20.0,), top_means=(3,)), Workers(1, device="numpy"))
    assert used == names


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
