"""Changes to the items: applied again all at once, they give what they gave one after the other."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unhub import Vectors
from unhub.errors import ArgumentError
from unhub.search.hits import Id
from unhub.service.kept.item_changes import ItemChange, KeptChanges
from unhub.service.served import Gallery

pytestmark = pytest.mark.once

NONE = np.empty(0, np.str_), np.empty((0, 2), np.float32)


def first() -> Gallery:
    texts: dict[Id, str] = {"a": "first", "b": "second"}
    return Gallery(Vectors(np.array(["a", "b", "c", "d"]), np.arange(8, dtype=np.float32).reshape(4, 2) + 1), texts)


def added(*ids: str, value: float = 9.0, text: str = "") -> ItemChange:
    texts: dict[Id, str] = dict.fromkeys(ids, text) if text else {}
    return ItemChange(np.array(ids), np.full((len(ids), 2), value, np.float32), texts)


def removed(*ids: str) -> ItemChange:
    return ItemChange(*NONE, gone=ids)


names = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True)
one_change = st.tuples(st.booleans(), names, st.floats(1, 5, width=32), st.sampled_from(["", "new"]))


@settings(max_examples=60, deadline=None)
@given(wanted=st.lists(one_change, max_size=12))
def test_all_at_once_is_as_one_after_the_other(wanted: list[tuple[bool, list[str], float, str]]) -> None:
    with TemporaryDirectory() as folder:
        kept, now = KeptChanges(Path(folder)), first()
        for adds, ids, value, text in wanted:
            change = added(*ids, value=value, text=text) if adds else removed(*ids)
            try:
                now = change.applied(now)
            except ArgumentError:
                continue  # as the service refuses it
            kept.keep(change, now.revision)
        again = kept.replay(first())
    assert again.held.ids.tolist() == now.held.ids.tolist()
    assert np.array_equal(again.held.block(0, len(again.held)), now.held.block(0, len(now.held)))
    assert (again.texts, again.revision) == (now.texts, now.revision)


@pytest.mark.parametrize(
    "change",
    [added("a"), removed("z"), ItemChange(np.array([1]), np.ones((1, 2), np.float32)), added("n", "m")],
    ids=["there", "absent", "integer", "twice"],
)
def test_changes_of_other_items_name_the_file(change: ItemChange, tmp_path: Path) -> None:
    kept = KeptChanges(tmp_path)
    kept.keep(added("m"), 1)
    kept.keep(change, 2)
    with pytest.raises(ValueError, match=r"000002\.npz: cannot be applied to these items"):
        kept.replay(first())


def test_a_change_after_one_that_was_deleted_takes_a_new_number(tmp_path: Path) -> None:
    kept = KeptChanges(tmp_path)
    for number, one in enumerate(("m", "n", "o"), start=1):
        kept.keep(added(one), number)
    (tmp_path / "000002.npz").unlink()
    assert kept.replay(first()).revision == 3
