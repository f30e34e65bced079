"""Where vectors come from: one source, ready rows by order or by id, and an encoder's work that is done once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unhub
from tests.bench.tiny_sets import part_of, tiny, write_vectors
from tests.tiny_encoders import Toy
from unhub.bench.problems import BenchData
from unhub.bench.protocols import BankChoice
from unhub.bench.sources.choose_source import known_banks, source_of
from unhub.bench.sources.encoder_vectors import EncoderVectors
from unhub.bench.sources.ready_vectors import ReadyVectors
from unhub.bench.sources.vector_source import digest_of
from unhub.datasets.dataset import Kind, Part, Side
from unhub.errors import ArgumentError

pytestmark = pytest.mark.once


def test_one_source_is_chosen_by_what_is_given(tmp_path: Path) -> None:
    ready = write_vectors(tmp_path / "mine", tiny())
    by_files = source_of(tiny(), tmp_path, None, ready, "CLIP", None)
    by_encoder = source_of(tiny(), tmp_path, Toy(), None, None, None)
    assert isinstance(by_files, ReadyVectors)
    assert isinstance(by_encoder, EncoderVectors)
    assert (by_files.name, by_encoder.name) == ("CLIP", "toy")
    for encoder, files in ((None, None), (Toy(), ready)):
        with pytest.raises(ArgumentError, match="give one of encoder and embeddings"):
            source_of(tiny(), tmp_path, encoder, files, None, None)


def test_an_encoder_that_cannot_be_loaded_is_called_the_encoder(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^encoder 'nowhere/at-all' cannot be loaded"):
        source_of(tiny(), tmp_path, "nowhere/at-all", None, None, "cpu")


def test_the_training_part_of_another_data_set_is_a_bank_by_its_name() -> None:
    other = replace(tiny(), name="other", parts={"train": part_of("other", 6)})
    assert [*known_banks(tiny(), [other]).banks] == [*tiny().banks, "other/train"]


def test_rows_have_the_ids_of_the_data_set_and_an_encoder_embeds_once(tmp_path: Path) -> None:
    ready = ReadyVectors.of(write_vectors(tmp_path / "mine", tiny()), None)
    rows, notes = ready.vectors("test", "items", tiny().items, None)
    assert rows.ids.tolist() == tiny().items.ids.tolist()
    assert notes == ()
    toy = Toy()
    source = EncoderVectors(toy, tmp_path / "embedded", "tiny-official", "toy")
    first, _ = source.vectors("test", "queries", tiny().queries, None)
    assert toy.calls == len(tiny().queries)
    again, _ = source.vectors("test", "queries", tiny().queries, None)
    assert toy.calls == len(tiny().queries)
    np.testing.assert_array_equal(first.block(0, len(first)), again.block(0, len(again)))


def pictures_in(folder: Path) -> Side:
    """Write three pictures of one size, and return them."""
    folder.mkdir()
    names = np.array(["a.bmp", "b.bmp", "c.bmp"])
    paths = tuple(folder / name for name in names.tolist())
    for place, path in enumerate(paths):
        Image.new("RGB", (9, 9), (50 * place, 99, 1)).save(path)
    return Side("image", names, paths=paths)


def test_vectors_are_of_what_the_files_hold_now(tmp_path: Path) -> None:
    source = EncoderVectors(Toy(), tmp_path / "embedded", "tiny-official", "toy")
    side = pictures_in(tmp_path / "images")
    first, second = (tmp_path / "images" / name for name in ("a.bmp", "b.bmp"))
    whole = second.read_bytes()
    second.write_bytes(bytes(len(whole)))  # a download that left zeros, of the right size
    broken, notes = source.vectors("test", "items", side, None)
    assert broken.ids.tolist() == ["a.bmp", "c.bmp"] and "1 of 3 test items could not be embedded" in notes[0]
    second.write_bytes(whole)
    mended, notes = source.vectors("test", "items", side, None)
    assert mended.ids.tolist() == ["a.bmp", "b.bmp", "c.bmp"] and not notes
    Image.new("RGB", (9, 9), (250, 0, 250)).save(first)
    changed, _ = source.vectors("test", "items", side, None)
    assert len(first.read_bytes()) == len(whole)
    moved = (changed.block(0, 3) != mended.block(0, 3)).any(axis=1)
    assert moved.tolist() == [True, False, False]


def test_the_same_files_elsewhere_are_embedded_once(tmp_path: Path) -> None:
    toy = Toy()
    for name in ("here", "there"):
        source = EncoderVectors(toy, tmp_path / "embedded", "tiny-official", "toy")
        source.vectors("test", "items", pictures_in(tmp_path / name), None)
    assert toy.calls == 3


def test_another_precision_or_processor_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy, side = Toy(), pictures_in(tmp_path / "images")
    source = EncoderVectors(toy, tmp_path / "embedded", "tiny-official", "toy")
    for precision in ("full", "half", "full"):
        monkeypatch.setattr(toy, "settings", lambda kind, now=precision: {"precision": now})
        source.vectors("test", "items", side, None)
    assert toy.calls == 6


@pytest.mark.parametrize("kind", ["image", "text"])
def test_a_part_that_is_wholly_broken_is_no_bank_and_chooses_nothing(tmp_path: Path, kind: Kind) -> None:
    items, ids = pictures_in(tmp_path / "images"), np.array(["x", "y", "z"])
    queries = Side("text", ids, texts=(("red",), ("green",), ("blue",)))
    test = Part(items, queries, unhub.Relevance(ids, items.ids))
    half = [tmp_path / f"{name}.bmp" for name in "abc"]
    for path in half:
        path.write_bytes(b"half a download")
    broken = replace(items, paths=tuple(half))
    silent = replace(queries, texts=((" ",),) * 3)
    val = replace(test, items=broken) if kind == "image" else replace(test, queries=silent)
    parts = {"val": val, "test": test}
    source = EncoderVectors(Toy(), tmp_path / "embedded", "tiny-official", "toy")
    data = BenchData(tiny(parts=parts, banks=parts), source)
    direction, side = ("i2t", "items") if kind == "image" else ("t2i", "queries")
    assert data.banks(direction) == ["test"]
    assert data.choosing("t2i", BankChoice.of("test"), "val", 0) is None
    (note,) = data.notes
    assert note.startswith(f"None of the 3 val {side} that are there could be embedded, and val is used without them")


def test_a_digest_differs_by_ids_and_by_rows() -> None:
    ids, others = np.array(["a", "b"]), np.array(["a", "c"])
    one = unhub.Vectors(ids, np.eye(2))
    assert digest_of(one) == digest_of(unhub.Vectors(ids, np.eye(2)))
    changed = (unhub.Vectors(others, np.eye(2)), unhub.Vectors(ids, 2 * np.eye(2)))
    assert len({digest_of(one), digest_of(one, None), *map(digest_of, changed)}) == 4
