"""What a fit and an evaluation note of a bank that cannot be meant, and that they note nothing of a good one."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import unhub
from tests import flickr8k
from tests.command import succeed
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once

RANDOM = np.random.default_rng(0)
ITEMS, BANK = RANDOM.normal(size=(300, 8)), RANDOM.normal(size=(400, 8)) + 2 * np.eye(8)[0]  # two kinds of things
ASK = "`unhub bank --items ITEMS --bank BANK --queries QUERIES` says whether a bank is good"


def noted(items: NDArray[np.floating], bank: NDArray[np.floating], **named: object) -> str:
    return "\n".join(unhub.fit(items, bank, "nnn:k=4", **named).cost.notes)  # type: ignore[call-overload]


def test_a_good_bank_is_not_noted() -> None:
    assert noted(ITEMS, BANK) == noted(ITEMS, BANK[:50]) == noted(ITEMS, BANK[:300]) == ""


def test_a_few_queries_are_noted() -> None:
    told = noted(ITEMS, BANK[:20])
    assert told == f"20 bank queries are too few to tell hubs from chance: collect 1,000 or more. {ASK}."
    assert "20 different bank queries are too few" in noted(ITEMS, np.tile(BANK[:20], (10, 1)))
    assert "20 different bank queries are too few" in noted(
        ITEMS, np.tile(BANK[:20], (10, 1)), weights=np.arange(1, 201)
    )


@pytest.mark.parametrize("form", ["same", "shuffled", "half", "float16", "scaled"])
def test_the_items_as_bank_are_noted(form: str) -> None:
    items = ITEMS.astype(np.float32)
    bank = {
        "same": items,
        "shuffled": items[::-1],
        "half": np.concatenate([items[:60], BANK[:50].astype(np.float32)]),
        "float16": items.astype(np.float16),
        "scaled": 3 * items,
    }[form]
    told = noted(items, bank)
    assert "a bank is past queries, so give those" in told and ASK in told


def test_a_gallery_of_copies_is_noted() -> None:
    told = noted(np.tile(ITEMS[:1], (1000, 1)), BANK)
    assert "999 of 1,000 items are copies of others, which no correction can tell apart" in told
    log = BANK[RANDOM.integers(60, size=1000)]
    assert "if they are past queries, items and bank are swapped" in noted(log, ITEMS)


def test_items_and_bank_that_were_swapped_are_told_when_the_items_are_searched() -> None:
    swapped = unhub.fit(BANK, ITEMS, "nnn:k=4")
    for items in (ITEMS, ITEMS[:200]):
        with pytest.raises(ArgumentError, match="were the bank of the fit, and none of its items; items and bank were"):
            unhub.searcher(items, swapped)
        with pytest.raises(ArgumentError, match="items and bank were swapped there: fit again"):
            unhub.evaluate(BANK[:30], items, {0: 0}, [swapped])
    with pytest.raises(ArgumentError, match="differs from the items of the fit"):
        unhub.searcher(RANDOM.normal(size=(400, 8)), swapped)


def test_an_evaluation_notes_that_the_bank_holds_its_queries(tmp_path: Path) -> None:
    truth = {query: query for query in range(100)}
    both = unhub.fit(ITEMS, np.concatenate([BANK[:300], BANK[390:392]]), method=["nnn:k=4", "is"])
    alone = unhub.fit(ITEMS, BANK[:300], "is")
    found = unhub.evaluate(BANK[300:400], ITEMS, truth, both)
    (note,) = found.notes
    assert note.startswith("2 of 100 queries are in the bank of nnn:k=4,alpha=0.75, is:") and ASK in note
    assert unhub.evaluate(BANK[300:400], ITEMS, truth, [alone]).notes == ()
    assert any(n.startswith("100 of 100 queries") for n in unhub.evaluate(BANK[:100], ITEMS, truth, [alone]).notes)
    for name, rows in (("items", ITEMS), ("bank", BANK), ("queries", BANK[:100])):
        np.save(tmp_path / f"{name}.npy", rows)
    (tmp_path / "truth.csv").write_text("query_id,item_id\n" + "".join(f"{row},{row}\n" for row in truth))
    names = ("items.npy", "queries.npy", "bank.npy", "truth.csv")
    options = ("--items", "--queries", "--bank", "--relevance")
    files = [one for both in zip(options, names, strict=True) for one in both]
    printed = json.loads(succeed(tmp_path, "eval", *files, "--json"))
    assert any("100 of 100 queries are in the bank" in note for note in printed["notes"])


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_real_banks_are_not_noted(space: str) -> None:
    here, past = flickr8k.load_split(space, "test"), flickr8k.load_split(space, "bank")
    for items, bank in ((here.images, past.texts), (here.texts, past.images), (here.images, past.texts[::5])):
        assert noted(items, bank) == ""


@pytest.mark.parametrize("space", flickr8k.SPACES)
def test_real_images_are_noted_where_texts_are_wanted_and_the_other_way(space: str) -> None:
    here, past = flickr8k.load_split(space, "test"), flickr8k.load_split(space, "bank")
    for items, bank in ((here.images, past.images), (here.images[:400], past.images[:700]), (here.texts, past.texts)):
        told = noted(items, bank)
        assert told.startswith("The bank looks like more of the items: that is right only where") and ASK in told


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_bank_of_more_items_is_noted(similarity: str) -> None:
    others = RANDOM.normal(size=(400, 8))
    assert "looks like more of the items" in noted(ITEMS, others, similarity=similarity)
    assert noted(ITEMS, others[:299], similarity=similarity) == ""  # too few to tell
    if similarity == "dot":
        assert "looks like more of the items" in noted(np.r_[ITEMS, np.zeros((1, 8))], others, similarity=similarity)
