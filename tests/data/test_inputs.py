"""What bad input gets: a ValueError that names the argument, the value seen and the remedy, before any work."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tests.bank_cases import BIASES, GATED, ON_A_BANK, PLANS, Floats, drawn
from unhub.arrays import Ids, Kind
from unhub.compute.workers import byte_count
from unhub.correction import Bias, Correction
from unhub.data import fingerprint
from unhub.data.similarity import Dense
from unhub.data.vectors import Vectors, VectorsLike
from unhub.evaluation.hubness import hubness
from unhub.fitting import fit
from unhub.methods import METHODS, parse
from unhub.methods.method import Value

pytestmark = pytest.mark.once

SETS = drawn(items=12, bank=40, bank_items=9, dimensions=6)
ITEMS, BANK, BANK_ITEMS = SETS.items, SETS.bank, SETS.bank_items


def refused(match: str, call: Callable[[], object]) -> str:
    """Run the call, which must raise a ValueError of one line that matches, and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=match) as caught:
            call()
    text = str(caught.value)
    assert "\n" not in text
    return text


def spoiled(rows: Floats, row: int, value: float, dtype: DTypeLike = np.float64) -> ArrayLike:
    copy = np.array(rows, dtype)
    copy[row, 2] = value
    return copy


def fit_with(
    items: ArrayLike = ITEMS,
    bank: ArrayLike | None = BANK,
    bank_items: ArrayLike | None = None,
    method: str = "is",
    similarity: Kind = "cosine",
) -> Correction:
    return fit(items, bank, method=method, bank_items=bank_items, similarity=similarity)


# Shapes and numbers.


@pytest.mark.parametrize("shape", [(), (6,), (2, 3, 6)])
def test_wrong_rank_is_refused(shape: tuple[int, ...]) -> None:
    wrong = np.ones(shape)
    shown = str(shape).replace("(", r"\(").replace(")", r"\)")
    refused(rf"^items must be a matrix \(rows, dimensions\), got shape {shown}", lambda: fit_with(items=wrong))
    refused(rf"^bank must be a matrix .*{shown}", lambda: fit_with(bank=wrong))
    refused(rf"^bank_items must be a matrix .*{shown}", lambda: fit_with(bank_items=wrong, method="dualis"))
    refused(rf"^the similarity matrix must be a matrix \(queries, items\), .*{shown}", lambda: Dense(wrong))


def test_rows_of_different_length_are_refused() -> None:
    refused("^items is not a matrix: its rows differ in length", lambda: fit_with(items=[[1.0, 2.0], [3.0]]))


def test_a_masked_array_is_refused() -> None:
    masked = np.ma.masked_greater(np.ones((3, 6)), 2)
    message = "is a masked array, whose mask would be ignored; fill it, or drop the masked rows"
    refused(f"^items {message}", lambda: fit_with(items=masked))
    refused(f"^bank {message}", lambda: fit(ITEMS, Vectors(np.arange(3), masked)))


def test_different_dimensions_are_refused() -> None:
    refused("^bank has 5 dimensions, the items 6; embed both with one model", lambda: fit_with(bank=BANK[:, :5]))
    refused(
        "^bank_items has 4 dimensions, the items 6", lambda: fit_with(bank_items=BANK_ITEMS[:, :4], method="dualis")
    )


def test_empty_sets_are_refused() -> None:
    refused(r"^bank is empty: shape \(0, 6\)", lambda: fit_with(bank=BANK[:0]))
    refused(r"^items is empty: shape \(0, 6\)", lambda: fit_with(items=ITEMS[:0]))
    refused(r"^items is empty: shape \(12, 0\)", lambda: fit_with(items=ITEMS[:, :0]))
    refused(r"^bank_items is empty", lambda: fit_with(bank_items=BANK_ITEMS[:0], method="dbsn"))
    refused(r"^the similarity matrix is empty: shape \(0, 3\) \(queries, items\)", lambda: Dense(np.empty((0, 3))))


def test_a_bank_is_needed() -> None:
    refused("^bank must be given for 'is'; give the embeddings of past queries$", lambda: fit_with(bank=None))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_a_number_that_is_not_finite_is_refused_with_its_row(
    value: float, shown: str, dtype: DTypeLike, similarity: Kind
) -> None:
    refused(f"^items holds {shown} in row 7", lambda: fit_with(spoiled(ITEMS, 7, value, dtype), similarity=similarity))
    refused(
        f"^bank holds {shown} in row 39", lambda: fit_with(bank=spoiled(BANK, 39, value, dtype), similarity=similarity)
    )
    refused(
        f"^bank_items holds {shown} in row 0",
        lambda: fit_with(bank_items=spoiled(BANK_ITEMS, 0, value, dtype), method="dbsn", similarity=similarity),
    )


def test_a_number_that_float32_cannot_hold_is_refused_with_its_row() -> None:
    text = r"^items holds -1e\+39 in row 3, which is beyond float32 \(3\.40282e\+38 at most\); scale the numbers$"
    refused(text, lambda: fit_with(spoiled(ITEMS, 3, -1e39)))
    refused(text, lambda: fit_with(spoiled(ITEMS, 3, -1e39), similarity="dot"))


def test_a_row_that_is_zero_only_in_float32_is_told_from_one_that_is_zero() -> None:
    small = ITEMS.astype(np.float64)
    small[4] = np.linspace(-3e-60, 2e-60, ITEMS.shape[1])
    refused(
        "^items has only zeros in row 4 as float32: its largest number is 3e-60; scale the rows$",
        lambda: fit_with(small),
    )


def test_a_bad_row_is_found_in_a_later_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhub.arrays.BLOCK_BYTES", 5 * 4 * 6)
    refused("^bank holds nan in row 33", lambda: fit_with(bank=spoiled(BANK, 33, np.nan)))


GIVEN = ["raw", "is", "dis", "csls", "gc", "gc:quantiles=3", "nnn:k=3", "dn", "cent", "sn", "dbsn", "otn", "hn"]


@pytest.mark.parametrize("method", GIVEN)
def test_a_given_matrix_names_the_row_that_is_not_finite(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhub.data.similarity.READ_BYTES", 5 * 4 * ITEMS.shape[1])  # five rows at a time
    for row, value in ((0, np.nan), (7, np.inf), (len(ITEMS) - 1, -np.inf)):
        matrix = spoiled(ITEMS, row, value)
        text = f"^the similarity matrix holds {value} in row {row}; every number must be finite in float32$"
        refused(text, functools.partial(fit, Dense(matrix), method=method))
    wide = spoiled(ITEMS.astype(np.float64), 2, 1e39)
    text = r"^the similarity matrix holds 1e\+39 in row 2, which is beyond float32 \(3\.40282e\+38 at most\)"
    refused(text, lambda: fit(Dense(wide), method=method))
    fit(Dense(ITEMS), method=method)


def test_given_queries_and_bank_items_name_the_row_that_is_not_finite() -> None:
    bad = Dense(spoiled(ITEMS, 2, np.nan))
    text = "^the similarity matrix holds nan in row 2"
    refused(text, lambda: fit(Dense(ITEMS), bank_items=bad, method="dualis"))
    refused(text, lambda: fit(Dense(ITEMS), bank_items=bad, method="dbsn"))
    refused(text, lambda: hubness(bad, k=3))


def test_a_zero_vector_has_no_direction_under_cosine() -> None:
    zero = ITEMS.copy()
    zero[5] = 0
    text = refused("^items has only zeros in row 5", lambda: fit_with(zero))
    assert "dot similarity" in text
    refused("^bank has only zeros in row 5", lambda: fit_with(bank=zero))
    assert isinstance(fit_with(zero, similarity="dot"), Bias)


def test_very_long_and_very_short_vectors_are_welcome_under_cosine() -> None:
    for scale in (1e-30, 1e-20, 1e18, 1e30):
        found = fit_with(ITEMS * scale, BANK)
        assert_array_equal(np.argsort(cast("Bias", found).bias), np.argsort(cast("Bias", fit_with()).bias))


@pytest.mark.parametrize("method", ["is", "nnn:k=3", "dis:k=3", "gc", "sn", "dn"])
def test_vectors_whose_dot_products_may_overflow_are_refused(method: str) -> None:
    long = ITEMS.copy()
    long[4] *= 1e20
    refused(
        "^items has a vector in row 4 so long that dot products overflow float32",
        lambda: fit_with(long, method=method, similarity="dot"),
    )
    refused("^bank has a vector in row 4 so long", lambda: fit_with(bank=long, method=method, similarity="dot"))
    assert isinstance(fit_with(ITEMS * 1e17, BANK * 1e17, method="nnn:k=3", similarity="dot"), Bias)


@pytest.mark.parametrize("bad", [np.array([["a", "b"]]), np.array([[True, False]]), np.array([[1j, 2]])])
def test_what_is_not_a_real_number_is_refused(bad: ArrayLike) -> None:
    refused("^items must hold real numbers", lambda: fit_with(items=bad))


def test_an_unknown_similarity_is_refused() -> None:
    refused("^similarity must be 'cosine' or 'dot', got 'euclid'", lambda: fit_with(similarity=cast("Kind", "euclid")))


# Methods and parameters.


@pytest.mark.parametrize(("typed", "meant"), [("nn", "nnn"), ("csl", "csls"), ("dual", "dualis")])
def test_an_unknown_method_suggests_the_nearest_and_lists_them_all(typed: str, meant: str) -> None:
    text = refused(f"^method '{typed}' is unknown", lambda: fit_with(method=typed))
    assert f"did you mean '{meant}'?" in text
    assert text.endswith(", ".join(METHODS))


def test_a_method_like_no_other_gets_the_list_alone() -> None:
    text = refused("^method 'xyzzy' is unknown; the methods are raw, is, dis", lambda: fit_with(method="xyzzy"))
    assert "did you mean" not in text


def test_an_unknown_parameter_suggests_the_nearest_and_lists_them() -> None:
    refused(
        r"^method 'nnn' has no parameter 'alfa'; did you mean 'alpha'\? it takes k, alpha$",
        lambda: fit_with(method="nnn:alfa=1"),
    )
    refused("^method 'is' has no parameter 'k'; it takes tau, beta$", lambda: fit(ITEMS, BANK, method="is", k=3))
    refused("^method 'cent' has no parameter 'tau'; it takes none$", lambda: fit_with(method="cent:tau=1"))
    refused("^method 'dn' has no parameter 'weight'", lambda: fit_with(method="dn:weight=1"))
    refused(
        "^method 'nnn' has no parameter 'alfa'; did you mean 'alpha'", lambda: fit(ITEMS, BANK, method="nnn", alfa=1)
    )


@pytest.mark.parametrize(
    ("wrong", "meant"), [("metod", "method"), ("devise", "device"), ("weight", "weights"), ("bank_item", "bank_items")]
)
def test_a_misspelt_argument_of_fit_suggests_the_one_that_was_meant(wrong: str, meant: str) -> None:
    given: Any = {wrong: "nnn"}
    refused(f"^{wrong} is no argument of fit; did you mean '{meant}'\\?$", lambda: fit(ITEMS, BANK, **given))


def test_two_spellings_of_one_thing_are_refused() -> None:
    refused(
        "^method 'is' has beta and tau, two names of the same parameter; give one of them$",
        lambda: fit(ITEMS, BANK, method="is", tau=0.1, beta=10),
    )
    refused("^method 'sn' has beta and tau, two names", lambda: fit(ITEMS, BANK, method="sn:tau=0.1", beta=10))
    refused(
        "^method 'dualis' has beta_query and tau_query, two names",
        lambda: fit_with(method="dualis:beta_query=1,tau_query=1", bank_items=BANK_ITEMS),
    )
    refused("^method 'is' has tau twice; give it once$", lambda: fit(ITEMS, BANK, method="is:tau=0.1", tau=0.2))


@pytest.mark.parametrize("value", ["0", "-0.5", "nan", "inf", "-inf", "warm", "1e400"])
@pytest.mark.parametrize("method", ["is", "dis", "sn", "dbsn"])
def test_a_temperature_must_be_a_finite_number_above_zero(method: str, value: str) -> None:
    refused(
        f"^method '{method}' needs tau to be a finite number above 0", lambda: fit_with(method=f"{method}:tau={value}")
    )


@pytest.mark.parametrize(
    ("method", "given", "spec"),
    [
        ("is", {"beta": np.float32(20)}, "is:tau=0.05"),
        ("is", {"beta": np.int64(20)}, "is:tau=0.05"),
        ("is", {"tau": np.float32(0.05)}, "is:tau=0.05"),
        ("dis", {"tau": np.float16(0.25), "k": np.int32(2)}, "dis:tau=0.25,k=2"),
        ("nnn", {"k": np.int64(5), "alpha": np.float32(0.1)}, "nnn:k=5,alpha=0.1"),
        ("dualis", {"tau_query": np.float32(1), "beta_target": np.uint8(7)}, "dualis:beta_query=1.0,beta_target=7.0"),
        ("sn", {"beta": np.float64(20), "iterations": np.int64(3)}, "sn:tau=0.05,iterations=3"),
        ("gc", {"quantiles": np.int16(9)}, "gc:quantiles=9"),
    ],
)
def test_numbers_of_numpy_are_taken_as_they_print(method: str, given: dict[str, Value], spec: str) -> None:
    assert parse(method, given).spec == spec
    assert parse(spec).spec == spec


def test_true_is_no_temperature() -> None:
    refused(
        "^method 'is' needs tau to be a finite number above 0, got True",
        lambda: fit(ITEMS, BANK, method="is", tau=True),
    )
    refused(
        "^method 'is' needs beta to be a finite number above 0, got True",
        lambda: fit(ITEMS, BANK, method="is", beta=True),
    )


@pytest.mark.parametrize("value", [0, -20.0, float("nan"), float("inf"), "hot"])
def test_beta_must_be_a_finite_number_above_zero(value: float | str) -> None:
    refused(
        "^method 'is' needs (beta|tau) to be a finite number above 0", lambda: fit(ITEMS, BANK, method="is", beta=value)
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nnn:k=0", "^method 'nnn' needs k to be a whole number of at least 1, got 0"),
        ("nnn:k=-3", "^method 'nnn' needs k to be a whole number of at least 1, got -3"),
        ("nnn:k=1.5", "^method 'nnn' needs k to be a whole number of at least 1, got 1.5"),
        ("nnn:k=many", "^method 'nnn' needs k to be a whole number of at least 1, got 'many'"),
        ("nnn:alpha=nan", "^method 'nnn' needs alpha to be a finite number"),
        ("nnn:alpha=-1", "^method 'nnn' needs alpha to be a finite number of at least 0"),
        ("csls:k=0", "^method 'csls' needs k to be "),
        ("dis:k=0", "^method 'dis' needs k to be "),
        ("dn:lambda=inf", "^method 'dn' needs lambda to be a finite number"),
        ("dn:lambda=-1", "^method 'dn' needs lambda to be a finite number of at least 0"),
        ("dualis:beta_query=-1", "^method 'dualis' needs beta_query to be a finite number of at least 0"),
        ("dualis:beta_query=0,beta_target=0", "^method 'dualis' needs beta_query to be above 0 if beta_target is 0"),
        ("dualdis:beta_target=nan", "^method 'dualdis' needs beta_target to be "),
        ("sn:iterations=0", "^method 'sn' needs iterations to be a whole number of at least 1"),
        ("sn:tolerance=0", "^method 'sn' needs tolerance to be a finite number above 0"),
        ("gc:quantiles=1", "^method 'gc' needs quantiles to be a whole number of at least 2, got 1"),
        ("l2n:reg=0", "^method 'l2n' needs reg to be a finite number above 0"),
        ("otn:zeros=maybe", "^method 'otn' needs zeros to be 'raw' .* got 'maybe'"),
        ("is:tau", "^method 'is:tau' holds 'tau', which is not of the form name=value$"),
        ("is:=3", "^method 'is' has no parameter ''"),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(spec: str, message: str) -> None:
    refused(message, lambda: fit_with(method=spec, bank_items=BANK_ITEMS))


def test_an_explicit_k_over_what_exists_is_refused() -> None:
    refused(
        "^method 'nnn' has k=41, which is over the 40 bank queries; give k <= 40", lambda: fit_with(method="nnn:k=41")
    )
    refused("^method 'csls' has k=50, which is over the 40 bank queries", lambda: fit_with(method="csls:k=50"))
    refused("^method 'dis' has k=13, which is over the 12 items", lambda: fit_with(method="dis:k=13"))
    refused("^method 'dualdis' has k=13, which is over", lambda: fit_with(method="dualdis:k=13", bank_items=BANK_ITEMS))
    assert not any("clipped" in note for note in fit_with(method="nnn:k=40").cost.notes)


def test_a_default_k_is_clipped_and_the_result_says_so() -> None:
    nnn = fit_with(method="nnn")
    assert nnn.spec == "nnn:k=40,alpha=0.75"
    assert nnn.cost.notes[0] == "k was clipped from its default 128 to 40, the number of bank queries"
    csls = fit_with(bank=BANK[:4], method="csls")
    assert csls.spec == "csls:k=4"
    assert csls.cost.notes[0] == "k was clipped from its default 10 to 4, the number of bank queries"
    (few,) = fit_with(method="csls").cost.notes
    assert few.startswith("40 bank queries are too few to tell hubs from chance")


@pytest.mark.parametrize("method", ["dualis", "dualdis"])
def test_dual_methods_need_bank_items(method: str) -> None:
    refused(f"^bank_items must be given for '{method}'; give the training items", lambda: fit_with(method=method))
    refused(
        f"^bank_items must be given for '{method}'; give the training items",
        lambda: fit(Dense(SETS.bank_scores), method=method),
    )


def test_an_empty_list_of_methods_is_refused() -> None:
    refused("^method is an empty list", lambda: fit(ITEMS, BANK, method=[]))


@pytest.mark.parametrize("method", [None, 5, {"is": 1}])
def test_what_is_not_a_method_is_refused(method: str) -> None:
    refused("^method must be", lambda: fit(ITEMS, BANK, method=method))


def test_a_list_may_not_hold_what_is_not_a_method() -> None:
    refused("^method must be a text such as", lambda: fit(ITEMS, BANK, method=cast("list[str]", ["is", 3])))


def test_parameters_beside_a_method_that_has_its_own_are_refused() -> None:
    refused(
        "^method 'is:tau=0.05' has its own parameters and got tau as well",
        lambda: fit(ITEMS, BANK, method=parse("is"), tau=0.1),
    )


# Matrices and vectors do not mix.


def test_a_given_matrix_stands_alone() -> None:
    scores = Dense(SETS.bank_scores)
    refused(
        r"^bank must be vectors, got a matrix of similarities \(40, 12\); give",
        lambda: fit(ITEMS, cast("VectorsLike", scores)),
    )
    refused("^bank must be left out when the items are a matrix", lambda: fit(scores, BANK))
    refused(
        "^bank_items must be a matrix of similarities when the items are one",
        lambda: fit(scores, method="dualis", bank_items=BANK_ITEMS),
    )
    refused(
        "^bank_items must be vectors when the items are",
        lambda: fit(ITEMS, BANK, method="dualis", bank_items=Dense(SETS.target_scores)),
    )


def test_a_matrix_of_bank_items_must_fit_the_method() -> None:
    scores = Dense(SETS.bank_scores)
    queries_by_targets, targets_by_items = Dense(SETS.joint_scores), Dense(SETS.target_scores)
    refused(
        r"^bank_items must be \(bank items, 12 items\) for 'dualis', got \(40, ",
        lambda: fit(scores, method="dualis", bank_items=queries_by_targets),
    )
    refused(
        r"^bank_items must be \(40 bank queries, bank items\) for 'dbsn', got ",
        lambda: fit(scores, method="dbsn", bank_items=targets_by_items),
    )
    refused(
        "^bank_items is a different matrix for 'dbsn' than for 'dualis'; fit them separately$",
        lambda: fit(scores, method=["dualis", "dbsn"], bank_items=targets_by_items),
    )


# Ids.


def test_ids_that_repeat_are_refused() -> None:
    refused("repeated ids, for example .*4", lambda: Vectors(np.array([4, 1, 4]), ITEMS[:3]))
    refused("repeated ids, for example .*b", lambda: Vectors(np.array(["b", "a", "b"]), ITEMS[:3]))
    refused("^item_ids has repeated ids", lambda: Dense(np.eye(2), item_ids=[1, 1]))


def test_ids_must_number_the_rows() -> None:
    refused(r"^ids has 2 ids, 3 are needed; give one id for each", lambda: Vectors(np.array([1, 2]), ITEMS[:3]))
    refused(r"^item_ids has 1 id, 2 are needed; give one id for each", lambda: Dense(np.eye(2), item_ids=[1]))


@pytest.mark.parametrize("ids", [[0.5, 1.5], [True, False], [b"a", b"b"], [None, 1], [1, "a"]])
def test_ids_must_be_integers_or_strings(ids: list[object]) -> None:
    wrong = np.array(ids, dtype=object) if None in ids or "a" in ids else np.array(ids)
    words = "^ids has ids of .*; (ids must be|give all) integers or (all )?strings"
    refused(words, lambda: Vectors(cast("Ids", wrong), ITEMS[:2]))


def test_ids_beyond_int64_are_refused_rather_than_wrapped() -> None:
    refused(
        "^ids has the id 9223372036854775813, over",
        lambda: Vectors(cast("Ids", np.array([1, 2**63 + 5], np.uint64)), ITEMS[:2]),
    )
    assert Vectors(cast("Ids", np.array([7, 2**63 - 1], np.uint64)), ITEMS[:2]).ids.tolist() == [7, 2**63 - 1]


# Threads and memory.


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_threads_must_be_a_count(threads: int) -> None:
    refused("^threads must be a whole number of at least 1", lambda: fit(ITEMS, BANK, threads=threads))


@pytest.mark.parametrize("memory", ["lots", "", "GB", "-1GB", "0", 0, -5, "2 potatoes", "nan"])
def test_memory_must_be_a_size(memory: str | int) -> None:
    refused("^memory must be a number of bytes or a text such as '2GB'", lambda: fit(ITEMS, BANK, memory=memory))


@pytest.mark.parametrize(
    ("memory", "size"),
    [("2GB", 2 * 10**9), ("500 MB", 5 * 10**8), ("1.5GiB", 3 << 29), ("64k", 64_000), (" 7 b ", 7), (123, 123)],
)
def test_memory_is_read_as_typed(memory: str | int, size: int) -> None:
    assert byte_count(memory) == size


# At the door.


@pytest.mark.parametrize("spec", ON_A_BANK)
def test_every_method_refuses_bad_rows(spec: str) -> None:
    refused(
        "^bank holds nan in row 3", lambda: fit_with(bank=spoiled(BANK, 3, np.nan), bank_items=BANK_ITEMS, method=spec)
    )


@pytest.mark.parametrize("spec", ON_A_BANK)
def test_apply_refuses_scores_of_another_shape(spec: str) -> None:
    correction = fit_with(bank_items=BANK_ITEMS, method=spec)
    for wrong in (np.ones((2, 11)), np.ones(12), np.ones((2, 3, 12))):
        refused(r"^scores must be \(queries, 12\)", lambda scores=wrong: correction.apply(scores))  # type: ignore[misc]


def scores_with(bad: float, dtype: DTypeLike) -> NDArray[np.floating]:
    scores = np.linspace(-1, 1, 36, dtype=dtype).reshape(3, 12)
    scores[1, 4] = bad
    return scores


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spec", ON_A_BANK + PLANS)
def test_apply_refuses_scores_that_are_no_numbers(spec: str, dtype: DTypeLike) -> None:
    correction = fit_with(bank_items=BANK_ITEMS, method=spec)
    kind = "finite" if spec in PLANS else "numbers"
    refused(
        f"^scores must be {kind}, got nan for query 1, item 4$", lambda: correction.apply(scores_with(np.nan, dtype))
    )


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("spec", BIASES + PLANS)
def test_apply_leaves_an_infinite_score_but_for_a_plan(spec: str, bad: float) -> None:
    correction = fit_with(bank_items=BANK_ITEMS, method=spec)
    scores = scores_with(bad, np.float32)
    if spec in PLANS:
        refused(f"^scores must be finite, got {bad} for query 1, item 4$", lambda: correction.apply(scores))
        return
    corrected, plain = correction.apply(scores), correction.apply(scores_with(0, np.float32))
    assert corrected[1, 4] == bad
    np.testing.assert_array_equal(np.delete(corrected, 16), np.delete(plain, 16))


@pytest.mark.parametrize("spec", BIASES + GATED)
def test_apply_refuses_a_strength_that_is_none(spec: str) -> None:
    correction = fit_with(bank_items=BANK_ITEMS, method=spec)
    assert isinstance(correction, Bias)
    scores = np.linspace(-1, 1, 36).reshape(3, 12)
    for strength, words in (
        (np.nan, "^strength must be finite, got nan$"),
        ([1, np.inf, 1], "^strength must be finite, got inf$"),
        (np.ones(2), r"^strength must be one number or one per query \(3\), got shape \(2,\)$"),
        (np.ones((3, 1)), r"^strength must be one number or one per query \(3\), got shape \(3, 1\)$"),
        ("much", r"^strength must be one number or one per query \(3\), got 'much'$"),
        ("1", r"^strength must be one number or one per query \(3\), got '1'$"),
    ):
        refused(words, lambda: correction.apply(scores, cast("Any", strength)))  # noqa: B023


def test_a_parameter_is_refused_before_any_row_is_read() -> None:
    rows = np.full((5, 6), np.nan)  # which any reading would refuse, too
    refused("^method 'is' needs tau to be", lambda: fit(rows, rows, method="is:tau=0"))
    refused("^threads must be", lambda: fit(rows, rows, threads=0))


@given(seed=st.integers(0, 2**32 - 1), few=st.integers(1, 30), many=st.integers(1, 200))
@settings(max_examples=40)
def test_a_few_hashes_are_found_among_many(seed: int, few: int, many: int) -> None:
    rng = np.random.default_rng(seed)
    wanted, others = (rng.integers(0, 60, count).astype(np.uint64) for count in (few, many))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "LOOKED_UP_AT_ONCE", 7)
        assert_array_equal(fingerprint.among(wanted, others), np.isin(wanted, others))
