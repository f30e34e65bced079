"""A correction on disk: what was saved comes back to the bit, or not at all."""

import contextlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from tests.corrections import ID_KINDS, SOURCE, assert_same, bias, of_every_kind
from unhub.correction import Bias, Cost
from unhub.files import container, load, read_manifest, replacing, save
from unhub.methods import parse

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved correction that no test changes."""
    path = tmp_path_factory.mktemp("saved") / "good.unhub"
    save(bias(ID_KINDS["strings"]), path)
    return path


def rewrite(source: Path, target: Path, change: Callable[[dict[str, object]], object]) -> Path:
    """Copy a saved file with another manifest and a checksum that is right for it."""
    with safe_open(source, framework="numpy") as opened:
        manifest = json.loads(opened.metadata()["unhub"])
    change(manifest)
    tensors = load_file(source)
    text = json.dumps(manifest)
    save_file(tensors, target, {"unhub": text, "checksum": container.checksum(text, tensors)})
    return target


@pytest.mark.parametrize("kind", ["bias", "rescore", "plan"])
@pytest.mark.parametrize("ids", ID_KINDS)
def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path, ids: str, kind: str) -> None:
    correction = of_every_kind(ID_KINDS[ids])[kind]
    save(correction, tmp_path / "one.unhub")
    assert_same(load(tmp_path / "one.unhub"), correction)
    assert os.listdir(tmp_path) == ["one.unhub"]


def test_what_is_loaded_is_read_only(file: Path) -> None:
    loaded = load(file)
    assert not any(array.flags.writeable for array in (loaded.ids, loaded.item_hashes, *loaded.arrays.values()))


@pytest.mark.parametrize(
    "layout", [np.asfortranarray, lambda array: array.astype(">f4"), lambda array: np.repeat(array, 2, 1)[::-1, ::2]]
)
def test_arrays_in_any_layout_keep_their_values(
    tmp_path: Path, layout: Callable[[NDArray[np.float32]], NDArray[np.float32]]
) -> None:
    array = layout(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))
    arrays: dict[str, NDArray[np.generic]] = {"bias": np.zeros(3), "top_values": array}
    given = Bias(parse("nnn:k=4"), np.arange(3), np.arange(3, dtype=np.uint64), SOURCE, Cost(), arrays)
    save(given, tmp_path / "one.unhub")
    np.testing.assert_array_equal(load(tmp_path / "one.unhub").arrays["top_values"], array)


def test_ids_that_count_from_zero_take_no_room(tmp_path: Path) -> None:
    save(bias(np.arange(5)), tmp_path / "range.unhub")
    assert not [name for name in load_file(tmp_path / "range.unhub") if name.startswith("ids")]


def test_the_manifest_says_what_was_fitted(file: Path) -> None:
    manifest = read_manifest(file)
    assert manifest["format"] == 1
    assert (manifest["kind"], manifest["method"]) == ("bias", parse("dis:tau=0.02").spec)
    assert manifest["parameters"]["tau"] == 0.02
    assert (manifest["similarity"], manifest["dimensions"]) == ("cosine", 64)
    assert manifest["bank"] == {"count": 100, "digest": "fffffffffffffffd"}
    assert manifest["items"]["count"] == 6
    assert manifest["offset"] == 0.1 + 0.2
    assert manifest["cost"]["kept"] == "fp32"
    assert manifest["versions"]["numpy"] == np.__version__


def test_ids_and_contents_have_hashes_of_their_own(tmp_path: Path) -> None:
    first, ids, contents = bias(np.arange(5)), bias(np.arange(5)[::-1]), bias(np.arange(5), seed=1)
    manifests = []
    for correction in (first, ids, contents):
        save(correction, tmp_path / "one.unhub")
        manifests.append(read_manifest(tmp_path / "one.unhub"))
    assert manifests[0]["ids_hash"] == manifests[2]["ids_hash"] != manifests[1]["ids_hash"]
    assert manifests[0]["items"] == manifests[1]["items"] != manifests[2]["items"]


@settings(max_examples=400)
@given(data=st.data())
def test_a_flipped_byte_is_an_error_or_changes_nothing(
    file: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(file.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    flipped = tmp_path_factory.getbasetemp() / "flipped.unhub"
    flipped.write_bytes(content)
    with contextlib.suppress(ValueError):
        assert_same(load(flipped), bias(ID_KINDS["strings"]))


def test_a_file_cut_anywhere_is_an_error(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()
    cut = tmp_path / "cut.unhub"
    for length in [*range(1, len(content), 37), len(content) - 1]:
        cut.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"cut\.unhub: truncated"):
            load(cut)


def test_a_changed_number_is_called_corruption(file: Path, tmp_path: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    (tmp_path / "bad.unhub").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.unhub: corrupted, its checksum"):
        load(tmp_path / "bad.unhub")
    with pytest.raises(ValueError, match="corrupted"):
        read_manifest(tmp_path / "bad.unhub")


def test_a_newer_format_asks_for_an_upgrade(file: Path, tmp_path: Path) -> None:
    newer = rewrite(file, tmp_path / "newer.unhub", lambda manifest: manifest.update(format=2))
    with pytest.raises(ValueError, match=r"newer\.unhub: written by a newer unhub \(format 2.*upgrade"):
        load(newer)


def test_an_unknown_method_is_named(file: Path, tmp_path: Path) -> None:
    foreign = rewrite(file, tmp_path / "foreign.unhub", lambda manifest: manifest.update(method="frobnicate:k=3"))
    with pytest.raises(ValueError, match=r"foreign\.unhub: this unhub has no method 'frobnicate:k=3'"):
        load(foreign)


def test_a_manifest_without_a_format_is_corrupted(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="corrupted, its manifest"):
        load(rewrite(file, tmp_path / "one.unhub", lambda manifest: manifest.pop("format")))


def test_another_safetensors_file_is_not_a_correction(tmp_path: Path) -> None:
    save_file({"vectors": np.ones((2, 2))}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="not a correction or a model that unhub saved"):
        load(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "is empty"), (b"some text", "truncated"), (bytes(99), "truncated")]
)
def test_a_file_of_another_kind_is_an_error(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(ValueError, match=f"odd.*{words}"):
        load(tmp_path / "odd")


def test_a_folder_is_not_a_correction(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder"):
        load(tmp_path)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.unhub")


def test_saving_into_no_folder_or_onto_one_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        save(bias(np.arange(3)), tmp_path / "nowhere" / "one.unhub")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        save(bias(np.arange(3)), tmp_path)


def test_saving_without_permission_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # chmod would not stop root
    with pytest.raises(PermissionError, match="no permission"):
        save(bias(np.arange(3)), tmp_path / "one.unhub")


@pytest.mark.parametrize("raised", [KeyboardInterrupt, OSError, MemoryError])
@pytest.mark.parametrize("moment", ["chmod", "fsync", "replace"])
def test_a_save_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, raised: type[BaseException]
) -> None:
    target = tmp_path / "one.unhub"
    save(bias(np.arange(3)), target)
    before = target.read_bytes()

    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(os, moment, fail)
    with pytest.raises(raised):
        save(bias(np.arange(3), seed=1), target)
    assert os.listdir(tmp_path) == ["one.unhub"]
    assert target.read_bytes() == before


def test_a_saved_file_has_the_rights_of_any_new_file_or_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    save(bias(np.arange(3)), tmp_path / "one.unhub")
    assert (tmp_path / "one.unhub").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "one.unhub").chmod(0o640)
    save(bias(np.arange(3)), tmp_path / "one.unhub")
    assert stat.S_IMODE((tmp_path / "one.unhub").stat().st_mode) == 0o640


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.unhub").symlink_to(tmp_path / "real.unhub")
    save(bias(np.arange(3)), tmp_path / "link.unhub")
    assert (tmp_path / "link.unhub").is_symlink()
    assert_same(load(tmp_path / "real.unhub"), bias(np.arange(3)))


def test_a_correction_replaces_what_unhub_saved_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.unhub"
    for saved in list(of_every_kind(np.arange(6)).values()) * 8:
        save(saved, path)  # again and again, as the metadata come in an order of their own
    (tmp_path / "empty").touch()
    save(bias(np.arange(6)), tmp_path / "empty")
    np.save(tmp_path / "rows.npy", np.ones((2, 3)))
    save_file({"vectors": np.ones((2, 3))}, tmp_path / "rows.safetensors")
    words = {"unhub": json.dumps({"format": 1, "what": "model"}), "checksum": "0"}
    save_file({"vectors": np.ones((2, 3))}, tmp_path / "model.unhub", words)
    save(bias(np.arange(6)), tmp_path / "model.unhub")
    (tmp_path / "cut.unhub").write_bytes(path.read_bytes()[:-5])  # of ours, if not whole
    save(bias(np.arange(6)), tmp_path / "cut.unhub")
    (tmp_path / "words.json").write_text('{"__metadata__": {"unhub": "mine"}}')
    (tmp_path / "zeros").write_bytes(bytes(100))
    (tmp_path / "short").write_bytes(b"\x05")
    (tmp_path / "list").write_bytes((2).to_bytes(8, "little") + b"[]")
    (tmp_path / "deep").write_bytes((100_000).to_bytes(8, "little") + b"[" * 100_000)
    np.savez(tmp_path / "mine.npz", unhub=np.ones(3), unhub_draws=np.ones(3))
    for name in ("rows.npy", "rows.safetensors", "words.json", "zeros", "short", "list", "deep", "mine.npz"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(ValueError, match=rf"{name} exists and is not a file that unhub saved; .*name another file"):
            save(bias(np.arange(6)), tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(ValueError, match="/dev/null is a pipe or a device"):
        save(bias(np.arange(6)), "/dev/null")


def test_replacing_leaves_nothing_after_an_interrupt(tmp_path: Path) -> None:
    def write_half() -> None:
        with replacing(tmp_path / "out.npz") as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert os.listdir(tmp_path) == []
