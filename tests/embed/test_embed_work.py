"""Embedding that is stopped: it goes on where it was, ends as if nothing had happened, and never shows a half."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import unhub
from tests.tiny_encoders import Toy
from unhub.embed import output as embed_output
from unhub.embed import work
from unhub.embed.work import HEADER_BYTES
from unhub.files.embedded import IDS, MANIFEST, ROWS

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]

TEXTS = [f"text number {number}" * (1 + number % 3) if number % 7 else " " for number in range(40)]
BATCH = 4

EMBED_AND_DIE = """
import os, signal, sys
from pathlib import Path
from tests.embed.test_embed_work import BATCH, TEXTS, Toy, unhub
from unhub.embed import work

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def at_call(number, action, then):
    left = [number]
    def call(*arguments, **options):
        left[0] -= 1
        return action(*arguments, **options) if left[0] else then(*arguments, **options)
    return call

def half_a_line(content):
    journal = work_now[0]._journal
    journal.write(b'{"stop": 16, "ro')
    journal.flush()
    die()

work_now = []
begin = work.Work.__init__
def noted(self, *arguments):
    begin(self, *arguments)
    work_now.append(self)
work.Work.__init__ = noted

moment = sys.argv[2]
if moment == "rows without a line":
    work.zlib.crc32 = at_call(4, work.zlib.crc32, die)
elif moment == "half a line":
    work.zlib.crc32 = at_call(4, work.zlib.crc32, half_a_line)
elif moment == "before the manifest":
    work.os.fsync = at_call(3, os.fsync, die)
elif moment == "before it takes its place":
    Path.rename = die
elif moment == "just after that":
    Path.unlink = die
unhub.embed_texts(TEXTS, Toy(), sys.argv[1], batch=BATCH)
"""


def contents(folder: Path) -> dict[str, object]:
    """Return all that a finished folder holds, without the date."""
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["created"]
    return {"rows": (folder / ROWS).read_bytes(), "ids": json.loads((folder / IDS).read_text()), "manifest": manifest}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return what a run that nobody stops writes."""
    folder = tmp_path_factory.mktemp("whole") / "captions"
    unhub.embed_texts(TEXTS, Toy(), folder, batch=BATCH)
    return contents(folder)


@pytest.mark.parametrize(
    ("moment", "embedded_again"),
    [
        ("rows without a line", 24),
        ("half a line", 24),
        ("before the manifest", 0),
        ("before it takes its place", 0),
        ("just after that", 0),
    ],
)
def test_a_kill_costs_at_most_a_batch_and_changes_nothing(
    tmp_path: Path, whole: dict[str, object], moment: str, embedded_again: int
) -> None:
    output = tmp_path / "captions"
    child = subprocess.run(
        [sys.executable, "-c", EMBED_AND_DIE, output, moment],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert output.exists() == (moment == "just after that")
    toy = Toy()
    made = unhub.embed_texts(TEXTS, toy, output, batch=BATCH)
    assert toy.calls == embedded_again
    assert contents(output) == whole
    assert len(made.vectors) == 34
    assert sorted(os.listdir(tmp_path)) == ["captions"]


def embed_a_part(output: Path, inputs: list[str] = TEXTS, until: int = 12, restart: bool = False) -> Path:
    """Embed texts, stop as ctrl-C does once `until` are done, and return the folder of the unfinished work."""

    def stop(done: int, total: int) -> None:
        if done >= until:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unhub.embed_texts(inputs, Toy(), output, batch=BATCH, restart=restart, progress=stop)
    return output.with_name(f"{output.name}.unfinished")


def test_what_is_unfinished_is_not_read_as_vectors(tmp_path: Path) -> None:
    unfinished = embed_a_part(tmp_path / "captions")
    assert os.listdir(tmp_path) == ["captions.unfinished"]
    with pytest.raises(ValueError, match="`unhub embed` has not finished this folder"):
        unhub.read_vectors(unfinished)


def test_progress_goes_on_from_what_was_done(tmp_path: Path, whole: dict[str, object]) -> None:
    embed_a_part(tmp_path / "captions")
    seen: list[tuple[int, int]] = []
    unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", batch=8, progress=lambda *one: seen.append(one))
    assert seen == [(20, 40), (28, 40), (36, 40), (40, 40)]
    assert contents(tmp_path / "captions") == whole


def test_rows_that_were_damaged_are_made_again(tmp_path: Path, whole: dict[str, object]) -> None:
    rows = embed_a_part(tmp_path / "captions") / ROWS
    content = bytearray(rows.read_bytes())
    content[HEADER_BYTES + 4 * 6 * 2] ^= 1  # a row of the second of three batches
    rows.write_bytes(content)
    toy = Toy()
    unhub.embed_texts(TEXTS, toy, tmp_path / "captions", batch=BATCH)
    assert toy.calls == 31
    assert contents(tmp_path / "captions") == whole


def test_what_is_added_after_half_a_line_is_not_lost(tmp_path: Path, whole: dict[str, object]) -> None:
    unfinished = embed_a_part(tmp_path / "captions")
    for name, part in (("journal.jsonl", b'{"stop": 16, "ro'), (ROWS, b"half a row")):
        with (unfinished / name).open("ab") as file:
            file.write(part)
    embed_a_part(tmp_path / "captions", until=24)
    toy = Toy()
    unhub.embed_texts(TEXTS, toy, tmp_path / "captions", batch=BATCH)
    assert toy.calls == 14
    assert contents(tmp_path / "captions") == whole


@pytest.mark.parametrize("side", [30, 9])  # 9: the file has the size that it had
def test_a_file_that_changed_is_another_input(tmp_path: Path, side: int) -> None:
    (tmp_path / "images").mkdir()
    for number in range(4):
        Image.new("RGB", (9, 9), (number, 99, 1)).save(tmp_path / "images" / f"{number}.bmp")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unhub.embed_images(tmp_path / "images", Toy(), tmp_path / "gallery", batch=2, progress=stop)
    whole = (tmp_path / "images" / "0.bmp").read_bytes()
    Image.new("RGB", (side, side)).save(tmp_path / "images" / "0.bmp")
    with pytest.raises(ValueError, match=r"other inputs \(4 then, 4 now\): an id, or what a text or a file holds"):
        unhub.embed_images(tmp_path / "images", Toy(), tmp_path / "gallery")
    (tmp_path / "images" / "0.bmp").write_bytes(whole)  # what a file holds decides, not when it was written
    unhub.embed_images(tmp_path / "images", Toy(), tmp_path / "gallery")


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    ("texts", "name", "word"),
    [
        (["another text", *TEXTS[1:]], "toy", "other inputs"),
        (TEXTS[:-1], "toy", r"other inputs \(40 then, 39 now\)"),
        (TEXTS, "other", r"another model \(toy\)"),
    ],
)
def test_other_inputs_or_another_model_are_refused_until_told_to_restart(
    tmp_path: Path, texts: list[str], name: str, word: str, finished: bool
) -> None:
    output, other = tmp_path / "captions", tmp_path / "other"
    if finished:
        unhub.embed_texts(TEXTS, Toy(), output, batch=BATCH)
    else:
        embed_a_part(output)
    with pytest.raises(ValueError, match=word) as refused:
        unhub.embed_texts(texts, Toy(name), output, batch=BATCH)
    assert "or restart to begin again" in str(refused.value)
    unhub.embed_texts(texts, Toy(name), output, batch=BATCH, restart=True)
    unhub.embed_texts(texts, Toy(name), other, batch=BATCH)
    assert contents(output) == contents(other)
    assert sorted(os.listdir(tmp_path)) == ["captions", "other"]


def test_images_do_not_go_on_where_texts_were_stopped(tmp_path: Path) -> None:
    embed_a_part(tmp_path / "out")
    with pytest.raises(ValueError, match="was begun with texts, not images"):
        unhub.embed_images([Path(__file__)], Toy(), tmp_path / "out")


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    first = unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions")
    toy = Toy()
    again = unhub.embed_texts(TEXTS, toy, tmp_path / "captions")
    assert toy.calls == 0
    assert again.manifest == first.manifest


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    def meet(done: int, total: int) -> None:
        unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions")

    with pytest.raises(ValueError, match="another process is at work"):
        unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", batch=BATCH, progress=meet)


def test_the_work_is_held_until_it_has_its_name(
    tmp_path: Path, whole: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_place = embed_output.take_place

    def meet(folder: Path, output: Path) -> None:
        with pytest.raises(ValueError, match="another process is at work"):
            unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", restart=True)
        take_place(folder, output)

    monkeypatch.setattr(work, "take_place", meet)
    unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", batch=BATCH)
    assert contents(tmp_path / "captions") == whole
    assert sorted(os.listdir(tmp_path)) == ["captions"]


def test_work_that_was_finished_while_its_lock_was_awaited_is_left_alone(
    tmp_path: Path, whole: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = embed_a_part(tmp_path / "captions")

    def too_late(*_: object) -> None:
        unfinished.rename(tmp_path / "elsewhere")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", too_late)
        with pytest.raises(ValueError, match="another process is at work"):
            unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", restart=True)
    (tmp_path / "elsewhere").rename(unfinished)
    unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", batch=BATCH)
    assert contents(tmp_path / "captions") == whole


def test_rows_that_were_cut_meanwhile_are_not_given_the_name(
    tmp_path: Path, whole: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = work._write

    def cut(path: Path, content: object) -> None:
        write(path, content)
        if path.name == MANIFEST:
            os.truncate(path.with_name(ROWS), HEADER_BYTES + 100)

    with monkeypatch.context() as patch:
        patch.setattr(work, "_write", cut)
        with pytest.raises(OSError, match="has 228 bytes, 536 were written; run it again"):
            unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", batch=BATCH)
    assert os.listdir(tmp_path) == ["captions.unfinished"]
    unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", batch=BATCH)
    assert contents(tmp_path / "captions") == whole


@pytest.mark.parametrize("finished", [False, True])
def test_a_restart_that_was_stopped_goes_on_when_it_is_repeated(
    tmp_path: Path, whole: dict[str, object], finished: bool
) -> None:
    output, toy = tmp_path / "captions", Toy()
    if finished:
        unhub.embed_texts(TEXTS, Toy("other"), output)
    else:
        embed_a_part(output)
    embed_a_part(output, until=12, restart=True)
    embed_a_part(output, until=24, restart=True)
    unhub.embed_texts(TEXTS, toy, output, batch=BATCH, restart=True)
    assert toy.calls == 14  # of the last 16 inputs, two are empty
    assert contents(output) == whole
    assert sorted(os.listdir(tmp_path)) == ["captions"]


def test_a_restart_of_something_else_begins_anew(tmp_path: Path, whole: dict[str, object]) -> None:
    output, toy = tmp_path / "captions", Toy()
    embed_a_part(output, [*TEXTS[:-1], "another end"], restart=True)
    unhub.embed_texts(TEXTS, toy, output, batch=BATCH, restart=True)
    assert toy.calls == 34
    assert contents(output) == whole


def test_an_output_that_would_stand_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    (tmp_path / "hers.unfinished").mkdir()
    (tmp_path / "hers.unfinished" / "letter.txt").write_text("dear")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "manifest.json").write_text("[]")
    for name, error, word in (
        ("mine", ValueError, "holds other files, such as letter.txt"),
        ("hers", ValueError, "hers.unfinished holds other files"),
        ("site", ValueError, "manifest.json: is not a manifest"),
        ("mine/letter.txt", NotADirectoryError, "is a file"),
        ("nowhere/captions", FileNotFoundError, "create it first"),
    ):
        with pytest.raises(error, match=word):
            unhub.embed_texts(TEXTS, Toy(), tmp_path / name, restart=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_files_of_the_user_s_own_are_never_removed_with_ours(tmp_path: Path, whole: dict[str, object]) -> None:
    output, toy = tmp_path / "captions", Toy()
    unfinished = tmp_path / "captions.unfinished"
    embed_a_part(output)
    mine, theirs = f".{MANIFEST}.0123abcd.tmp", ("notes.tmp", ".notes.tmp", f".{MANIFEST}.mine.tmp")
    for name in theirs:  # beside work that is under way, and then beside what is finished
        (unfinished / name).write_text("dear")
        with pytest.raises(ValueError, match=r"unfinished holds other files, such as .*tmp; name a new folder"):
            unhub.embed_texts(TEXTS, toy, output, batch=BATCH)
        assert (unfinished / name).read_text() == "dear"
        (unfinished / name).unlink()
    (unfinished / mine).touch()
    unhub.embed_texts(TEXTS, toy, output, batch=BATCH)
    assert contents(output) == whole and os.listdir(tmp_path) == ["captions"]
    for name in theirs:
        (output / name).write_text("dear")
        with pytest.raises(ValueError, match="captions holds other files"):
            unhub.embed_texts(TEXTS, toy, output, restart=True)
        assert (output / name).read_text() == "dear"
        (output / name).unlink()
    (tmp_path / ".captions.mine.old").mkdir()
    (tmp_path / ".captions.mine.old" / "letter.txt").write_text("dear")
    (tmp_path / ".captions.0123abcd.old").mkdir()
    unhub.embed_texts(TEXTS, toy, output, restart=True)
    assert sorted(os.listdir(tmp_path)) == [".captions.mine.old", "captions"]
    assert (tmp_path / ".captions.mine.old" / "letter.txt").read_text() == "dear"


def test_a_file_that_comes_into_the_output_meanwhile_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "captions"
    unhub.embed_texts(TEXTS, Toy(), output)

    def interfere(done: int, total: int) -> None:
        (output / "letter.txt").write_text("dear")

    with pytest.raises(ValueError, match="captions holds other files, such as letter"):
        unhub.embed_texts(TEXTS, Toy(), output, restart=True, progress=interfere)
    assert (output / "letter.txt").read_text() == "dear"
    (output / "letter.txt").unlink()
    toy = Toy()
    unhub.embed_texts(TEXTS, toy, output, restart=True)
    assert toy.calls == 0  # all rows were there


def test_an_empty_folder_may_become_the_output(tmp_path: Path) -> None:
    (tmp_path / "captions").mkdir()
    assert len(unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions").vectors) == 34
    assert os.listdir(tmp_path) == ["captions"]


def test_the_rows_are_a_plain_npy_file(tmp_path: Path) -> None:
    made = unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions", batch=7)
    rows = np.load(tmp_path / "captions" / ROWS, mmap_mode="r")
    assert (rows.dtype, rows.shape) == (np.float16, (34, 6))
    expected = Toy().texts([text for text in TEXTS if text.strip()])
    np.testing.assert_array_equal(rows, expected.astype(np.float16))
    np.testing.assert_array_equal(made.vectors.rows[:], rows)
    assert made.vectors.ids.tolist() == [number for number, text in enumerate(TEXTS) if text.strip()]


def test_a_folder_that_was_tampered_with_is_not_read(tmp_path: Path) -> None:
    unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions")
    np.save(tmp_path / "captions" / ROWS, np.ones((3, 6), np.float16))
    with pytest.raises(ValueError, match=r"manifest.json says 34 rows .* shape \(3, 6\)"):
        unhub.read_vectors(tmp_path / "captions")
    (tmp_path / "captions" / MANIFEST).write_text(json.dumps({"format": 99, "rows": 3, "dimensions": 6}))
    with pytest.raises(ValueError, match="written by a newer unhub"):
        unhub.read_vectors(tmp_path / "captions")
    (tmp_path / "captions" / MANIFEST).write_text("{}")
    with pytest.raises(ValueError, match="not a manifest"):
        unhub.read_vectors(tmp_path / "captions")


def test_an_error_of_the_model_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Toy, texts: list[str]) -> None:
        raise MemoryError("too much")

    monkeypatch.setattr(Toy, "texts", fail)
    with pytest.raises(MemoryError):
        unhub.embed_texts(TEXTS, Toy(), tmp_path / "captions")
    assert os.listdir(tmp_path) == []
