"""A deployment that is killed or interrupted: what is live answers, and the same command cleans up or goes on.

The rounds are those of benchmarks/kills.py, which kills more often and at every step.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import unhub
from tests.deploying.cases import asking, gallery
from tests.stores import postgres_place
from unhub.stores.store import Store, StoredItems

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]

ROOT = Path(__file__).parents[2]
COMMANDS = ("payload", "vectors", "payload", "vectors", "payload")


@pytest.mark.parametrize("name", ["qdrant-edge", "lancedb", "postgres"])
def test_a_kill_at_any_moment_leaves_what_is_live_and_is_made_good(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    places: Any = importlib.import_module("kills_places")
    rounds: Any = importlib.import_module("kills_rounds")
    engine = places.ENGINES[name]
    if engine.absent:
        pytest.skip(f"{engine.absent} is not installed")
    if name == "postgres":  # the server of the other tests
        server = postgres_place.address("").rstrip("#")
        engine = dataclasses.replace(engine, address=lambda _: places.new_schema(server))
    done = rounds.kills(engine, tmp_path, COMMANDS, 300, 0, print)
    assert len(done) == len(COMMANDS)
    assert [str(one) for one in done if one.violations] == []


def deployable(folder: Path, items: int) -> Store:
    """Make a table of LanceDB and the files of a correction and of queries."""
    store = unhub.store(f"lancedb:{folder}/db#photos")
    rows = gallery(items)
    store.create(rows.shape[1], "cosine")
    store.write(StoredItems(np.arange(items), rows, [{"number": i} for i in range(items)]))
    unhub.save(unhub.fit(store, asking(300, 1), method="nnn:k=4"), folder / "c.unhub")
    np.save(folder / "queries.npy", asking(200, 2))
    return store


@pytest.mark.parametrize("mode", ["vectors", "payload"])
def test_ctrl_c_stops_a_deployment_and_leaves_nothing(mode: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    store = deployable(tmp_path, 8000)
    records = tmp_path / "db" / "unhub_records.lance"
    command = ["deploy", "--correction", "c.unhub", "--from", "lancedb:db#photos", "--mode", mode, "--switch"]
    with subprocess.Popen(
        [sys.executable, "-m", "unhub", *command, "--queries", "queries.npy"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ) as child:
        try:
            deadline = time.monotonic() + 120
            while not records.exists() and child.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)  # it notes what it begins
            time.sleep(0.1)
            child.send_signal(signal.SIGINT)
            printed, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    assert (child.returncode, printed) == (130, ""), errors
    assert "unhub: stopped\n" in errors  # LanceDB may warn of what it had not begun
    assert store.names() == ["photos"] and store.records() == {}
    assert sorted(one.name for one in (tmp_path / "db").iterdir()) == ["photos.lance", "unhub_records.lance"]
    first = next(iter(store.batches(payload=True)))
    assert first.payload is not None and set(cast("dict[str, object]", first.payload[0])) == {"number"}
