"""Files with bytes changed, lost or added at random: a ValueError that names the file, or a read, and nothing else."""

import gzip
import json
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.io
from pyarrow.feather import write_feather
from safetensors.numpy import save_file

import unhub
from tests.array_files import write_h5, write_mat_73, write_torch
from tests.vector_files import NAMES, NUMBERS, ROWS, fixed, write_arrow, write_clip, write_parquet
from unhub.data.draws import Draws
from unhub.files import (
    read_draws,
    read_ids,
    read_log,
    read_relevance,
    read_run,
    read_sets,
    read_texts,
    read_vectors,
    write_draws,
)

pytestmark = pytest.mark.once

ROUNDS = 60  # of each reader; a hundred times as many were run when these were written


@dataclass(frozen=True)
class Sample:
    """A small valid file: its name, what writes it, and what reads all of it, perhaps by way of another path."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object] = read_vectors
    whole: Callable[[Path], Path] = lambda path: path


def embedded(path: Path) -> None:
    """Write a folder as `unhub embed` does, of which `path` is one file."""
    folder = path.parent
    np.save(folder / "embeddings.npy", ROWS)
    (folder / "ids.json").write_text(json.dumps(NAMES), encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "rows": 13, "dimensions": 4}), encoding="utf-8")


def table(separator: str, *heads: str) -> Callable[[Path], object]:
    lines = [heads, *((f"q{row}", NAMES[row], "1") for row in range(9))]
    return lambda path: path.write_text("\n".join(separator.join(line[: len(heads)]) for line in lines))


def objects(*keys: str) -> Callable[[Path], object]:
    lines = [dict(zip(keys, (f"q{row}", NAMES[row], row), strict=False)) for row in range(9)]
    return lambda path: path.write_text("\n".join(map(json.dumps, lines)))


def lines(line: str) -> Callable[[Path], object]:
    return lambda path: path.write_text("".join(line.format(row) for row in range(9)))


def draws(path: Path) -> None:
    texts, items = np.ones((24, 2)), np.ones((6, 2))
    write_draws(Draws.of(texts, items, [(text, text // 4) for text in range(24)], sizes=(1, 3), draws=2), path)


def touch(path: Path) -> unhub.Vectors:
    """Read vectors, and every number of them."""
    vectors = read_vectors(path)
    for _, block in vectors.blocks():
        block.sum()
    return vectors


def packed(write: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return what writes a file packed by gzip."""

    def write_packed(path: Path) -> None:
        write(path)
        path.write_bytes(gzip.compress(path.read_bytes(), mtime=0))

    return write_packed


def logged(suffix: str) -> Callable[[Path], object]:
    """Return what writes a query log with every column."""
    columns = {
        "query_id": NUMBERS,
        "query": NAMES,
        "ts": [1_700_000_000 + row for row in NUMBERS],
        "vector": [row.tolist() for row in ROWS],
        "ids": [[row, 7] for row in NUMBERS],
        "clicked": [[7]] * 13,
    }
    if suffix == ".parquet":
        return lambda path: write_parquet(path, **columns)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if suffix == ".jsonl":
        return lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cells = [[str(cell).replace(",", "").strip("[]") for cell in row.values()] for row in rows]
    return lambda path: path.write_text("\n".join(",".join(row) for row in [[*columns], *cells]) + "\n")


TABLE = pa.table({"id": NAMES, "embedding": pa.array(ROWS.tolist(), pa.list_(pa.float32()))})
PAIRS, SETS = ("query_id", "item_id", "grade"), ("set_id", "query_id")
SAMPLES = [
    Sample("rows.npy", lambda path: np.save(path, ROWS), touch),
    Sample("rows.npz", lambda path: np.savez(path, vectors=ROWS, ids=np.array(NAMES)), touch),
    Sample("packed.npz", lambda path: np.savez_compressed(path, vectors=ROWS, ids=np.array(NUMBERS)), touch),
    Sample("rows.safetensors", lambda path: save_file({"vectors": ROWS, "ids": np.array(NUMBERS)}, path), touch),
    Sample("rows.parquet", lambda path: write_parquet(path, id=NAMES, embedding=fixed(ROWS)), touch),
    Sample("rows.arrow", lambda path: write_arrow(path, id=NAMES, embedding=fixed(ROWS)), touch),
    Sample("plain.feather", lambda path: write_feather(TABLE, path, "uncompressed"), touch),
    Sample("packed.feather", lambda path: write_feather(TABLE, path, "lz4"), touch),
    Sample("rows.mat", lambda path: scipy.io.savemat(path, {"vectors": ROWS, "other": ROWS[:3]}), touch),
    Sample("packed.mat", lambda path: scipy.io.savemat(path, {"vectors": ROWS}, do_compression=True), touch),
    Sample("rows.h5", lambda path: write_h5(path, {"vectors": ROWS, "other": ROWS[:3]}), touch),
    Sample("packed.h5", lambda path: write_h5(path, {"vectors": ROWS}, compression="gzip"), touch),
    Sample("new.mat", lambda path: write_mat_73(path, {"vectors": ROWS}), touch),
    Sample("rows.pt", lambda path: write_torch(path, {"vectors": ROWS, "other": ROWS[:3]}), touch),
    Sample("old.pth", lambda path: write_torch(path, {"vectors": ROWS}, zipped=False), touch),
    Sample("ids.txt", lambda path: path.write_text("\n".join(NAMES)), read_ids),
    Sample("ids.npy", lambda path: np.save(path, np.array(NAMES)), read_ids),
    Sample("embeddings.npy", embedded, touch, lambda path: path.parent),
    Sample("ids.json", embedded, touch, lambda path: path.parent),
    Sample("manifest.json", embedded, touch, lambda path: path.parent),
    Sample("pairs.csv", table(",", *PAIRS), read_relevance),
    Sample("pairs.tsv", table("\t", *PAIRS), read_relevance),
    Sample("pairs.jsonl", objects(*PAIRS), read_relevance),
    Sample("pairs.parquet", lambda path: write_parquet(path, query_id=NUMBERS, item_id=NAMES), read_relevance),
    Sample("trec.qrels", lines("q{0} 0 d{0} 1\n"), read_relevance),
    Sample("trec.run", lines("q{0} Q0 d 1 0.{0} x\n"), read_run),
    Sample("sets.csv", table(",", *SETS), read_sets),
    Sample("sets.jsonl", objects(*SETS), read_sets),
    Sample("sets.parquet", lambda path: write_parquet(path, set_id=[1] * 13, query_id=NUMBERS), read_sets),
    Sample("texts.txt", lambda path: path.write_text("\n".join(NAMES)), read_texts),
    Sample("texts.csv", table(",", "id", "text"), read_texts),
    Sample("texts.jsonl", objects("id", "text"), read_texts),
    Sample("texts.parquet", lambda path: write_parquet(path, id=NUMBERS, text=NAMES), read_texts),
    Sample("draws.npz", draws, read_draws),
    Sample("log.jsonl", logged(".jsonl"), read_log),
    Sample("log.csv", logged(".csv"), read_log),
    Sample("log.jsonl.gz", packed(logged(".jsonl")), read_log),
    Sample("log.parquet", logged(".parquet"), read_log),
]


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Return bytes with a few changed, some left out or doubled, or the end cut off."""
    kind = draw.randrange(5)
    if kind == 0:
        return content[: draw.randrange(len(content))]
    at, length = draw.randrange(len(content)), draw.randrange(1, 30)
    if kind == 1:
        return content[:at] + content[at + length :]
    if kind == 2:
        return content[:at] + content[at : at + length] * 2 + content[at + length :]
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 3])):
        # A change at the beginning or at the end, where the headers are, more often than in between.
        place = draw.choice([draw.randrange(len(changed)), draw.randrange(min(128, len(changed)))])
        changed[draw.choice([place, -1 - place])] = draw.choice([0, 1, 0x7F, 0xFF, draw.randrange(256)])
    return bytes(changed)


def outcome(sample: Sample, path: Path) -> str:
    """Return what a ValueError says, or nothing where the file was read."""
    try:
        sample.read(sample.whole(path))
    except ValueError as error:
        return str(error)
    return ""


def torture(sample: Sample, folder: Path, rounds: int, seed: int) -> int:
    """Damage a file so many times, and return how often it was refused."""
    draw, path, refused = random.Random(seed), folder / sample.name, 0
    sample.write(path)
    assert outcome(sample, path) == ""
    content = path.read_bytes()
    for _ in range(rounds):
        path.write_bytes(damaged(draw, content))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy and Python, about an odd header or an odd number
            words = outcome(sample, path)
        assert not words or str(sample.whole(path)) in words, words
        refused += bool(words)
    return refused


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
def test_a_damaged_file_is_refused_by_name_or_read(tmp_path: Path, sample: Sample) -> None:
    assert torture(sample, tmp_path, ROUNDS, seed=0) > 0


def test_a_damaged_part_of_a_clip_folder_is_refused_by_name_or_read(tmp_path: Path) -> None:
    folder = write_clip(tmp_path / "clip", metadata=lambda span: {"image_path": NAMES[span], "key": NUMBERS[span]})
    for name in ("img_emb/img_emb_0.npy", "metadata/metadata_0.parquet"):
        sound = (folder / name).read_bytes()
        part = Sample(name, lambda path, content=sound: path.write_bytes(content), touch, lambda path: folder)  # type: ignore[misc]
        assert torture(part, folder, ROUNDS, seed=1) > 0
        (folder / name).write_bytes(sound)
