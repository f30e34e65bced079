"""What was begun and not finished is found and dropped by whatever runs next, and never taken for finished."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unhub
from tests.deploying.cases import ITEMS, Deployed, asking, gallery, in_engine
from tests.stores.engines import ENGINES, Engine, engines
from unhub.deploying.deployment import Mode, made_of
from unhub.deploying.unfinished import UNFINISHED, drop_debris
from unhub.stores.store import StoredItems

pytestmark = pytest.mark.once

modes = pytest.mark.parametrize("mode", ["vectors", "payload"])


def fields(case: Deployed) -> set[str]:
    """Return the fields of deployments that items of the source have."""
    return {
        name
        for batch in case.store.batches(payload=True)
        for payload in batch.payload or ()
        for name, value in payload.items()
        if name.startswith("unhub_h_") and value is not None
    }


def killed(*_: Any, **__: Any) -> None:
    """Stop as a kill does: what would clean up does not run either."""
    raise SystemExit


def no_notes(case: Deployed) -> bool:
    return not any(key.startswith(UNFINISHED) for key in case.store.records())


@engines
def test_a_finished_field_is_taken_over(engine: Engine, tmp_path: Path) -> None:
    engine.needs("payload", "replacing")
    case = in_engine(engine, tmp_path)
    first = unhub.deploy(case.correction, case.store, "payload", queries=case.queries)
    case.store.write(StoredItems(case.ids[:1], case.rows[:1], [{"colour": "red", "number": 0}]))  # it may lose it
    again = unhub.deploy(case.correction, case.store, "payload", queries=case.queries, switch=True)
    assert again.field == first.field and len(made_of(case.store)) == 1
    held = [one for batch in case.store.batches(payload=True) for one in batch.payload or ()]
    assert len(held) == ITEMS and all(one[first.field] is not None for one in held)


@engines
@modes
def test_what_a_kill_left_is_dropped_by_a_deployment_of_the_other_mode(
    engine: Engine, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.needs("payload")
    case = in_engine(engine, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("unhub.deploying.deploy.measure", killed)
        patched.setattr("unhub.deploying.unfinished.drop_made", killed)
        with pytest.raises(SystemExit):
            unhub.deploy(case.correction, case.store, mode, queries=case.queries)
    assert made_of(case.store) == [] and not no_notes(case)
    other: Mode = "payload" if mode == "vectors" else "vectors"
    done = unhub.deploy(case.correction, case.store, other)
    assert any("had left behind" in note for note in done.notes)
    assert [one.key for one in made_of(case.store)] == [done.key] and no_notes(case)
    assert set(case.store.names()) == {"photos", done.collection}
    assert fields(case) == ({done.field} if other == "payload" else set())
    assert drop_debris(case.store) == ()


@engines
@modes
def test_a_drop_that_was_killed_is_finished_by_the_next(
    engine: Engine, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.needs(*["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path)
    unhub.deploy(case.correction, case.store, mode, switch=True)
    other = unhub.fit(case.store, asking(400, 7), method="nnn:k=4")
    live = unhub.deploy(other, case.store, "vectors", switch=True)
    with monkeypatch.context() as patched:
        patched.setattr(type(case.store), "drop" if mode == "vectors" else "drop_field", killed)
        with pytest.raises(SystemExit):
            unhub.drop_old(case.store)
    unhub.drop_old(case.store)
    assert set(case.store.names()) == {"photos", live.collection}
    assert "payload" in engine.cannot or fields(case) == set()
    assert [one.key for one in made_of(case.store)] == [live.key] and no_notes(case)


@engines
@modes
def test_items_that_are_not_yet_synced_are_left_out_and_the_rest_is_found(
    engine: Engine, mode: Mode, tmp_path: Path
) -> None:
    engine.needs("replacing", *["payload"] * (mode == "payload"))
    case = in_engine(engine, tmp_path)
    done = unhub.deploy(case.correction, case.store, mode, queries=case.queries, switch=True)
    payload = [{"colour": "new", "number": i} for i in range(40)]
    new = StoredItems(np.arange(9000, 9040), gallery(40, seed=3), None if "payload" in engine.cannot else payload)
    case.store.write(new)
    if done.layout is not None:  # a sync that came so far
        rows = done.layout.rows(np.asarray(new.rows), np.full(40, -0.1), new.ids)
        case.store.sibling(done.collection).write(new._replace(rows=rows))
    told = pytest.warns(UserWarning, match="at least 40 added since, not found")
    with told if case.store.counts_cheaply else contextlib.nullcontext():
        ready = unhub.searcher(case.store, case.correction)
    found = ready.search(case.queries, 10)
    right = case.exact()
    assert np.isin(found.ids, case.ids).all()
    assert np.mean([np.isin(one, other).mean() for one, other in zip(right.ids, found.ids, strict=True)]) >= 0.95


def test_a_mode_that_the_engine_lacks_is_refused_and_nothing_is_noted(tmp_path: Path) -> None:
    case = in_engine(ENGINES["faiss"], tmp_path)
    with pytest.raises(ValueError, match="faiss has no payload; deploy vectors"):
        unhub.deploy(case.correction, case.store, "payload")
    assert case.store.records() == {}
    unhub.deploy(case.correction, case.store)


def test_only_a_process_that_runs_keeps_others_from_what_it_makes(tmp_path: Path) -> None:
    case = in_engine(ENGINES["qdrant-edge"], tmp_path)
    done = unhub.deploy(case.correction, case.store)
    key = f"{UNFINISHED}{done.key}"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        note = {**done.to_json(), "host": platform.node(), "process": other.pid}
        case.store.put_record(key, note)
        with pytest.raises(ValueError, match="is being made or dropped by another process"):
            drop_debris(case.store)
        if Path("/proc/self/stat").exists():
            case.store.put_record(key, {**note, "began": "1"})  # the number is in use again
            assert drop_debris(case.store) == () and no_notes(case)
        case.store.put_record(key, note)
        other.kill()  # and nobody has waited for it
        assert other.stdin is not None
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
            if Path("/proc/self/stat").exists():
                assert drop_debris(case.store) == () and no_notes(case)
    assert drop_debris(case.store) == () and no_notes(case)
