"""Errors are values: fields that every shell renders in its own words."""

import pickle
from typing import cast

import numpy as np
import pytest

from unhub.errors import ArgumentError, MissingLibrary, check_whole, nearest_name, seen, unknown

pytestmark = pytest.mark.once


def test_an_argument_error_is_one_sentence() -> None:
    error = ArgumentError("items", "has 3 dimensions, the bank 4", "embed both with one model")
    assert isinstance(error, ValueError)
    assert str(error) == "items has 3 dimensions, the bank 4; embed both with one model"
    assert str(ArgumentError("k", "must be at least 1, got 0")) == "k must be at least 1, got 0"


def test_an_argument_error_is_told_of_another_name() -> None:
    error = ArgumentError("bank_items", "is missing", "give it").of("--bank-items")
    assert (error.name, error.problem, error.remedy) == ("--bank-items", "is missing", "give it")


def test_an_argument_error_survives_a_process_border() -> None:
    error = pickle.loads(pickle.dumps(ArgumentError("k", "must be at least 1, got 0", "give one")))
    assert (error.name, error.problem, error.remedy) == ("k", "must be at least 1, got 0", "give one")


def test_a_missing_library_survives_a_process_border_under_another_name() -> None:
    error = pickle.loads(pickle.dumps(MissingLibrary("on", "is 'ray', which needs ray: pip install"))).of("--on")
    assert isinstance(error, ImportError) and str(error) == "--on is 'ray', which needs ray: pip install"


def test_an_array_is_shown_by_its_shape() -> None:
    assert seen(np.zeros((200, 30))) == "ndarray of shape (200, 30)"
    assert (seen("a"), seen(np.int64(3)), seen([1])) == ("'a'", repr(np.int64(3)), "[1]")
    with pytest.raises(ArgumentError, match=r"^k must be a whole number of at least 1, got ndarray of shape \(9,\)$"):
        check_whole(cast("int", np.ones(9)), "k", 1)


@pytest.mark.parametrize(("value", "near"), [("Shapes", "shape"), ("colour", "color"), ("zzz", None), (None, None)])
def test_the_nearest_name_is_found(value: object, near: str | None) -> None:
    assert nearest_name(value, ["shape", "color"]) == near


def test_an_unknown_name_is_told_with_the_nearest_and_all() -> None:
    assert str(unknown("method", "nn", ["nnn", "is"], "methods")) == (
        "method 'nn' is unknown; did you mean 'nnn'? the methods are nnn, is"
    )
    assert str(unknown("method", 5, ["nnn", "is"], "methods")) == "method 5 is unknown; the methods are nnn, is"


def test_a_number_that_is_not_whole_is_an_error_of_its_argument() -> None:
    with pytest.raises(ArgumentError) as caught:
        check_whole(1.5, "k", 1)  # type: ignore[arg-type]
    assert (caught.value.name, caught.value.problem) == ("k", "must be a whole number of at least 1, got 1.5")
