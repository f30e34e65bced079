"""Saved files with a right checksum and wrong contents: a ValueError that names the file, and never another error."""

import random
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file

import unhub
from tests.bank_cases import BIASES, GATED, PLANS, RESCORES, drawn, fitted
from tests.corrections import assert_same
from tests.forging import Edit, Tensors, forge, write
from tests.model.test_model import model
from unhub.cli.display import facts, model_facts
from unhub.correction import Bias, Correction, Plan, Rescore
from unhub.files import load, read_manifest, read_model_manifest, save

pytestmark = pytest.mark.once

T = TypeVar("T")
SETS = drawn(items=11, bank=30, bank_items=7, queries=5, dimensions=6)
EVERY = (*BIASES, *GATED, *RESCORES, "gc:quantiles=4", *PLANS)
FEW = {"nnn": "nnn:k=9", "csls": "csls:k=4"}


def small(spec: str, mergeable: bool = False) -> Correction:
    return fitted(FEW.get(spec, spec), SETS, mergeable=mergeable)


def on_a_matrix(spec: str) -> Correction:
    matrix = unhub.Dense(SETS.bank_scores.astype(np.float32))
    beside = SETS.joint_scores if spec.startswith("dbsn") else SETS.target_scores
    needs = spec.startswith(("dual", "dbsn"))
    return unhub.fit(matrix, method=spec, bank_items=unhub.Dense(beside.astype(np.float32)) if needs else None)


@pytest.mark.parametrize("mergeable", [False, True])
@pytest.mark.parametrize("spec", EVERY)
def test_what_a_fit_makes_is_what_its_method_declares(tmp_path: Path, spec: str, mergeable: bool) -> None:
    correction = small(spec, mergeable)
    save(correction, tmp_path / "one.unhub")
    assert_same(load(tmp_path / "one.unhub"), correction)
    assert read_manifest(tmp_path / "one.unhub")["method"] == correction.spec


@pytest.mark.parametrize("spec", EVERY)
def test_so_is_what_a_fit_makes_of_a_given_matrix(tmp_path: Path, spec: str) -> None:
    correction = on_a_matrix(FEW.get(spec, spec))
    save(correction, tmp_path / "one.unhub")
    assert_same(load(tmp_path / "one.unhub"), correction)


@pytest.mark.parametrize("mergeable", [False, True])
@pytest.mark.parametrize("spec", [*BIASES, *GATED])
def test_so_is_what_upkeep_makes(tmp_path: Path, spec: str, mergeable: bool) -> None:
    first = small(spec, mergeable)
    more = drawn(1, items=2, bank=5, dimensions=6)
    grown = unhub.extend(first, unhub.Vectors(np.array([50, 51]), more.items), SETS.bank, bank_items=SETS.bank_items)
    changed = [grown, unhub.remove(first, [3, 5], items=SETS.items, bank=SETS.bank, bank_items=SETS.bank_items)]
    if mergeable:
        changed.append(unhub.merge(first, SETS.items, more.bank, bank_items=SETS.bank_items))
    for correction in changed:
        save(correction, tmp_path / "one.unhub")
        assert_same(load(tmp_path / "one.unhub"), correction)


def put(name: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Edit:
    """Return the edit that changes a tensor."""
    return lambda manifest, tensors: tensors.update({name: np.ascontiguousarray(change(tensors[name]))})


def say(**values: object) -> Edit:
    """Return the edit that changes keys of the manifest, `items__count` that of `items`."""

    def edit(manifest: dict[str, Any], tensors: Tensors) -> None:
        for name, value in values.items():
            *outer, key = name.split("__")
            part = manifest[outer[0]] if outer else manifest
            part[key] = value

    return edit


def drop(key: str) -> Edit:
    return lambda manifest, tensors: manifest.pop(key)


def lose(name: str) -> Edit:
    return lambda manifest, tensors: tensors.pop(name)


def add(name: str, array: NDArray[np.generic]) -> Edit:
    return lambda manifest, tensors: tensors.update({name: array})


BAD: list[tuple[str, Edit, str]] = [
    ("is", drop("kind"), "has no key 'kind'"),
    ("is", say(kind="rescore"), "kind is 'rescore', that of is 'bias'"),
    ("is", say(kind=["bias"]), r"kind is a list of 1; a text is required"),
    ("is", say(format=float("inf")), "Infinity is not finite"),
    ("is", say(format=0), "format is 0; a number of at least 1"),
    ("is", say(format=True), "format is True; a whole number"),
    ("is", say(method="is:tau=-1"), "no method 'is:tau=-1'"),
    ("is", say(method=7), "method is 7; a text"),
    ("is", say(parameters={"tau": 0.5}), "parameter tau is 0.5, the method is:tau=0.05"),
    ("is", say(parameters={"k": 3}), "parameter k is 3"),
    ("is", say(similarity="cosmic"), "similarity is 'cosmic'; one of cosine, dot, given"),
    ("is", say(similarity="given"), "must be null"),
    ("is", say(dimensions=-6), "dimensions is -6; a number of at least 1"),
    ("is", say(dimensions=None), "dimensions is None"),
    ("is", say(dimensions=6.0), "dimensions is 6.0; a whole number"),
    ("is", say(bank=None), "bank is None, and is needs one"),
    ("dualis", say(bank_items=None), "bank_items is None, and dualis needs them"),
    ("is", say(bank__count=0), "bank.count is 0"),
    ("is", say(bank__digest="xyz"), "bank.digest is 'xyz'"),
    ("is", say(items__count=10**13), "items.count is 10000000000000, and there are 11 hashes"),
    ("is", say(items__count=10**30), "a whole number of 100 bits"),
    ("is", say(items__digest="0" * 16), "items.digest is not that"),
    ("is", say(ids="strings"), "ids is 'strings'"),
    ("is", say(ids_hash=""), "ids_hash is not that"),
    ("is", say(offset=None), "offset is None; a finite number"),
    ("is", say(offset="0"), "offset is '0'"),
    ("is", say(cost={}), "cost has no key 'passes'"),
    ("is", say(cost__notes="none"), "cost.notes is 'none'; a list"),
    ("is", say(cost__notes=[1]), r"cost.notes\[0\] is 1; a text"),
    ("is", say(versions={"numpy": 2}), "versions.numpy is 2"),
    ("is", put("array.bias", lambda bias: bias[:10]), r"bias has shape \(10,\), expected \(11\)"),
    ("is", put("array.bias", lambda bias: np.zeros(5000)), r"bias has shape \(5000,\)"),
    ("is", put("array.bias", lambda bias: bias[:, None]), r"bias has shape \(11, 1\)"),
    ("is", put("array.bias", lambda bias: bias * np.nan), "bias must be finite, got nan"),
    ("is", put("array.bias", lambda bias: bias - np.inf), "bias must be finite, got -inf"),
    (
        "is",
        put("array.bias", lambda bias: bias * 0 + 1e40),
        r"bias holds 1e\+40, expected a number that is finite in float32",
    ),
    ("is", put("array.bias", lambda bias: bias.astype(np.float32)), "bias has type float32, expected float64"),
    ("is", lose("array.bias"), "needs an array named bias"),
    ("is", lose("item_hashes"), "item_hashes is missing"),
    ("is", put("item_hashes", lambda hashes: hashes[:3]), "items.count is 11, and there are 3"),
    ("is", put("item_hashes", lambda hashes: hashes.astype(np.int64)), "item_hashes has type int64"),
    ("is", add("array.active", np.ones(11, np.bool_)), "array active is not expected"),
    ("is", add("more", np.ones(11)), "cannot have a tensor 'more'"),
    ("is", add("ids", np.arange(11)), "ids is '0..n-1'"),
    ("dis", put("array.active", lambda active: ~active), "active does not match the array best_items"),
    ("dis", put("array.active", lambda active: active[:4]), r"active has shape \(4,\)"),
    ("dis", put("array.active", lambda active: active.astype(np.int64)), "active has type int64, expected bool"),
    (
        "dis",
        put("array.best_items", lambda best: best + np.int32(11)),
        "expected a whole number of at least -1 and below 11",
    ),
    ("dis", put("array.best_items", lambda best: best[:7]), r"best_items has shape \(7, 1\), expected \(30, 1\)"),
    ("dis", say(method="dis:tau=0.05,k=3", parameters={}), r"best_items has shape \(30, 1\), expected \(30, 3\)"),
    ("nnn:k=9", say(method="nnn:k=99,alpha=0.75", parameters={}), "k=99, which is over the number of bank, 30"),
    ("csls:k=4", say(method="csls:k=99", parameters={}), "k=99, which is over"),
    ("dualdis", say(method="dualdis:k=99", parameters={}), "k=99, which is over the number of items, 11"),
    ("gc", put("array.bank", lambda bank: bank * np.nan), "bank holds nan"),
    ("gc", put("array.bank", lambda bank: bank[:, :4]), r"bank has shape \(30, 4\), expected \(30, 6\)"),
    ("gc", say(bank__count=29), r"bank\.hashes has shape \(30,\), expected \(29\)"),
    (
        "gc:quantiles=4",
        put("array.tables", lambda tables: tables[:3]),
        r"tables has shape \(3, 4\), expected \(11, 4\)",
    ),
    (
        "gc:quantiles=4",
        put("array.tables", lambda tables: tables[:, ::-1]),
        "tables holds a row of quantiles that decreases",
    ),
    (
        "gc:quantiles=4",
        put("array.bank_size", lambda size: size + 1),
        "bank_size holds 31, but the bank has 30 queries",
    ),
    ("sn", put("array.log_alpha", lambda alpha: alpha[1:]), r"log_alpha has shape \(29,\)"),
    ("sn", put("array.bank_item_h", lambda h: np.zeros(7)), r"bank_item_h has shape \(7,\), expected \(0\)"),
    ("dbsn", put("array.bank_item_h", lambda h: h[:3]), r"bank_item_h has shape \(3,\), expected \(7\)"),
    ("dbsn", put("array.columns", lambda columns: columns * 0 + 7), "columns holds 7, expected more than the"),
    ("hn", say(method="is:tau=0.05", parameters={}), "kind is 'plan', that of is 'bias'"),
]


@pytest.mark.parametrize(("spec", "edit", "words"), BAD)
def test_wrong_contents_are_named(tmp_path: Path, spec: str, edit: Edit, words: str) -> None:
    save(small(spec), tmp_path / "good.unhub")
    bad = forge(tmp_path / "good.unhub", tmp_path / "bad.unhub", edit)
    with pytest.raises(ValueError, match=rf"bad\.unhub: .*{words}"):
        load(bad)
    with pytest.raises(ValueError, match=rf"bad\.unhub: .*{words}"):
        read_manifest(bad)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("ids.text", lambda text: text[:-1], "does not rise from 0 to the length"),
        ("ids.text", lambda text: text | 0xC0, "not UTF-8"),
        ("ids.text", lambda text: text * 0 + 97, "repeated ids"),
        ("ids.starts", lambda starts: starts[:-1], r"ids.starts has shape \(11,\), expected \(12\)"),
        ("ids.starts", lambda starts: starts[::-1], "does not rise"),
        ("ids.starts", lambda starts: starts.astype(np.float64), "ids.starts has type float64"),
    ],
)
def test_wrong_ids_are_named(
    tmp_path: Path, name: str, change: Callable[[NDArray[Any]], NDArray[Any]], words: str
) -> None:
    named = unhub.Vectors(np.array([f"n{number:02}" for number in range(11)]), SETS.items)
    save(unhub.fit(named, SETS.bank), tmp_path / "good.unhub")
    with pytest.raises(ValueError, match=rf"bad\.unhub: .*{words}"):
        load(forge(tmp_path / "good.unhub", tmp_path / "bad.unhub", put(name, change)))


def test_ids_that_a_small_file_makes_larger_than_memory_are_refused(tmp_path: Path) -> None:
    count, long = 1 << 16, 1 << 24  # four terabytes, as numpy holds texts
    save(unhub.fit(np.random.default_rng(0).normal(size=(count, 2)), method="raw"), tmp_path / "good.unhub")

    def edit(manifest: dict[str, Any], tensors: Tensors) -> None:
        manifest["ids"] = "strings"
        tensors["ids.text"] = np.full(count - 1 + long, 97, np.uint8)
        tensors["ids.starts"] = np.append(np.arange(count), count - 1 + long)

    with pytest.raises(ValueError, match=r"bad\.unhub: .*do not fit into memory"):
        load(forge(tmp_path / "good.unhub", tmp_path / "bad.unhub", edit))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (lambda text: '{"kind": "bias", ' + text[1:], "the key 'kind' occurs twice"),
        (lambda text: text.replace('"seconds": ', '"seconds": 1e999, "then": '), "1e999 is not finite"),
        (lambda text: text.replace('"seconds": ', '"seconds": NaN, "then": '), "NaN is not finite"),
        (lambda text: text.replace('"iterations": 0', f'"iterations": {"9" * 5000}'), "cannot be read"),
        (lambda text: f"[{text}]", "it is a list of 1; an object is required"),
    ],
)
def test_a_manifest_that_is_no_plain_json_is_an_error(tmp_path: Path, change: Callable[[str], str], words: str) -> None:
    save(small("is"), tmp_path / "good.unhub")
    with safe_open(tmp_path / "good.unhub", framework="numpy") as opened:
        text = opened.metadata()["unhub"]
    bad = write(tmp_path / "bad.unhub", change(text), load_file(tmp_path / "good.unhub"))
    with pytest.raises(ValueError, match=rf"bad\.unhub: .*{words}"):
        load(bad)


@pytest.mark.parametrize("place", [(), ("cost",), ("items",)])
def test_a_key_that_nobody_declared_is_an_error(tmp_path: Path, place: tuple[str, ...]) -> None:
    """A later version that writes more gives its files a later format."""
    save(small("dis"), tmp_path / "good.unhub")

    def edit(manifest: dict[str, Any], tensors: Tensors) -> None:
        (manifest[place[0]] if place else manifest)["later"] = [1]

    with pytest.raises(
        ValueError, match=r"more\.unhub: .* has a key 'later', which this version of unhub does not know"
    ):
        load(forge(tmp_path / "good.unhub", tmp_path / "more.unhub", edit))


def test_a_correction_that_could_not_be_read_again_is_not_saved(tmp_path: Path) -> None:
    good = small("is")
    bad = Bias(good.method, good.ids, good.item_hashes, good.source, good.cost, {"bias": np.zeros(3)})
    with pytest.raises(
        ValueError, match=r"correction \(is:tau=0\.05\) cannot be saved.*: the array bias has shape \(3,\)"
    ):
        save(bad, tmp_path / "bad.unhub")
    assert not list(tmp_path.iterdir())


BAD_MODELS: list[tuple[Edit, str]] = [
    (drop("head"), "has no key 'head'"),
    (say(head="max"), "no 'max'"),
    (say(dimensions=10**12), "head.score.0.weight has shape"),
    (say(dimensions=-1), "dimensions is -1"),
    (say(text__kind="linear"), "text.hidden.bias is not expected"),
    (say(text__kind="none"), "is not expected"),
    (say(text__features=10**12), "text.linear.weight has shape"),
    (say(text__root=None), "text.mean is not expected"),
    (say(text__root=1), "text.root is 1; true or false"),
    (lose("item.mean"), "item.mean is missing"),
    (lose("head.score.2.bias"), "head.score.2.bias is missing"),
    (put("head.score.0.bias", lambda bias: bias * np.nan), "head.score.0.bias holds nan"),
    (put("text.scale", lambda scale: scale.astype(np.int32)), "text.scale has type int32, expected floating"),
    (put("item.out.weight", lambda weight: weight[:, :3]), r"item.out.weight has shape \(16, 3\), expected \(16, 7\)"),
    (add("other", np.ones(2)), "cannot have a tensor 'other'"),
    (say(training={}), "training has no key"),
    (say(training__tried=[{}]), r"training.tried\[0\] has no key"),
    (say(training__notes=3), "training.notes is 3; a list"),
    (say(training__settings={"queries": 5}), "training.settings has no key"),
    (say(training__data={"training": 3}), "training.data.training is 3; an object"),
    (lambda manifest, tensors: manifest["training"]["tried"][0].update(best=9), "best is 9, of 2 epochs"),
]


@pytest.mark.parametrize(("edit", "words"), BAD_MODELS)
def test_wrong_contents_of_a_model_are_named(tmp_path: Path, edit: Edit, words: str) -> None:
    unhub.save(model(), tmp_path / "good.model")
    bad = forge(tmp_path / "good.model", tmp_path / "bad.model", edit)
    with pytest.raises(ValueError, match=rf"bad\.model: .*{words}"):
        load(bad, "model")
    with pytest.raises(ValueError, match=rf"bad\.model: .*{words}"):
        read_model_manifest(bad)


VALUES: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    1,
    7,
    10**13,
    10**40,
    0.5,
    -1e308,
    "",
    "is",
    "gc",
    "0..n-1",
    "strings",
    "\udce9",
    [],
    [[]],
    {},
    {"a": 1},
)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in a value of JSON."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, one in pairs for place in ((value, key), *places_in(one))]


def mutate(draw: random.Random, manifest: dict[str, Any], tensors: Tensors) -> None:
    """Change one thing, of the manifest or of the tensors."""
    if draw.random() < 0.5:
        holder, key = draw.choice(places_in(manifest))
        if draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = draw.choice(VALUES)
        return
    name = draw.choice(sorted(tensors))
    array: NDArray[Any] = tensors.pop(name)
    changes: list[Callable[[], NDArray[Any]]] = [
        lambda: array[: len(array) // 2],
        lambda: np.repeat(array, 2, axis=0),
        lambda: array[None],
        lambda: array.astype(draw.choice(["f2", "f4", "f8", "i4", "i8", "u1", "?"])),
        lambda: np.full(array.shape, draw.choice([0, 1, 3, 100])).astype(array.dtype),
        lambda: np.full(array.shape, draw.choice([np.nan, np.inf, -np.inf, -1, 1e300])).astype(array.dtype),
        lambda: array[::-1],
        lambda: np.empty((0, *array.shape[1:]), array.dtype),
    ]
    if draw.random() < 0.9:
        other = name if draw.random() < 0.9 else f"{name}s"
        tensors[other] = np.ascontiguousarray(draw.choice(changes)())


def attempted(act: Callable[[], T]) -> tuple[T | None, str]:
    """Return what came of it, or None and what a ValueError said."""
    try:
        return act(), ""
    except ValueError as error:
        return None, str(error)


def load_model(path: Path) -> unhub.Model:
    return load(path, "model")


def use(correction: Correction) -> None:
    """Search with a correction, and hold the answers against its own definition."""
    scores = SETS.query_scores.astype(np.float32)
    if isinstance(correction, Rescore) and correction.source.similarity != "given":
        correction = correction.bind(SETS.items)
    corrected = correction.apply(scores)
    if not isinstance(correction, Plan):
        hits = unhub.searcher(SETS.items, correction).search(SETS.queries, 1)
        first = np.array([correction.ids.tolist().index(one) for one in hits.ids[:, 0].tolist()])
        reached = corrected[np.arange(len(first)), first]
        np.testing.assert_allclose(reached, corrected.max(axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "spec", ["is", "dis", "nnn:k=9", "dualis", "sn", "dbsn", "gc", "gc:quantiles=4", "dualdis", "hn"]
)
def test_any_change_is_a_value_error_or_a_correction_that_works(tmp_path: Path, spec: str) -> None:
    draw, survived = random.Random(spec), 0
    save(small(spec, mergeable=True), tmp_path / "good.unhub")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numbers close to the end of their range
        for _ in range(60):
            bad = forge(tmp_path / "good.unhub", tmp_path / "bad.unhub", partial(mutate, draw))
            correction, words = attempted(partial(load, bad))
            assert (correction is None) == ("bad.unhub" in words), words
            if correction is not None:
                survived += 1
                facts(read_manifest(bad))
                _, words = attempted(partial(use, correction))
                assert not words or "dimensions" in words, words
    assert survived < 30


def test_any_change_is_a_value_error_or_a_model_that_works(tmp_path: Path) -> None:
    draw = random.Random(0)
    unhub.save(model(), tmp_path / "good.model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(150):
            bad = forge(tmp_path / "good.model", tmp_path / "bad.model", partial(mutate, draw))
            loaded, words = attempted(partial(load_model, bad))
            assert (loaded is None) == ("bad.model" in words), words
            if loaded is not None:
                model_facts(read_model_manifest(bad))
                encoded = loaded.encode_texts(np.random.default_rng(0).normal(size=(3, 5)))
                loaded.head.weigh(encoded.block(0, 3)[None])
