"""Small files of vectors in every format, for the tests of their readers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

ROWS = np.random.default_rng(0).normal(size=(13, 4)).astype(np.float32)
NAMES = [f"image {row}.jpg" for row in range(13)]
NUMBERS = [3, 1, 4, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26]


def write_parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


def write_arrow(path: Path, **columns: object) -> Path:
    """Write a stream of Arrow, as Hugging Face does."""
    table = pa.table(columns)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return path


def fixed(rows: NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


def write_clip(
    folder: Path, kind: str = "img_emb", metadata: Callable[[slice], dict[str, object]] | None = None
) -> Path:
    """Write ROWS as a clip-retrieval folder of parts 0 to 10, which do not sort by name."""
    (folder / kind).mkdir(parents=True)
    for number, span in enumerate([slice(0, 3), *(slice(row, row + 1) for row in range(3, 13))]):
        np.save(folder / kind / f"{kind}_{number}.npy", ROWS[span])
        if metadata:
            (folder / "metadata").mkdir(exist_ok=True)
            write_parquet(folder / "metadata" / f"metadata_{number}.parquet", **metadata(span))
    return folder
