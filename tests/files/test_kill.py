"""A save that is killed: the file is the old one or the new one, whole, whatever the moment."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unhub.correction import Bias, Cost, Source
from unhub.data.fingerprint import Fingerprint
from unhub.files import load, save
from unhub.methods import parse

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]

ITEMS = 100_000
MOMENTS = 24


def version(number: int, items: int = ITEMS) -> Bias:
    """Return a correction in which every number tells which version it is."""
    hashes = np.full(items, number, np.uint64)
    arrays = {"bias": np.full(items, float(number)), "top_values": np.full((items, 4), number, np.float32)}
    source = Source("cosine", 8, Fingerprint.of(hashes[:4]))
    return Bias(parse("nnn:k=4"), np.arange(items), hashes, source, Cost(), arrays, float(number))


def version_of(path: Path) -> int:
    """Load the file, which must be one version throughout, and return which."""
    loaded = load(path)
    assert isinstance(loaded, Bias)
    values = {loaded.offset}
    for array in (loaded.item_hashes, *loaded.arrays.values()):
        values.update((array.min().item(), array.max().item()))
    (number,) = values
    return int(number)


# For each number that it reads, it starts a process that saves that version, the next, and so on for ever, and prints
# its own number before each save; then what ended that process.
SAVE_FOREVER = """
import os, sys
from itertools import count
from tests.files.test_kill import save, version
for line in sys.stdin:
    process = os.fork()  # which is spared the imports
    if process == 0:
        for number in count(int(line)):
            correction = version(number)
            print(os.getpid(), flush=True)
            save(correction, sys.argv[1])
    _, status = os.waitpid(process, 0)
    print("ended by", os.WTERMSIG(status), flush=True)
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "UNHUB_NO_NUMBA": "1"},  # which a save does not need, and which takes long to import
    )


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "one.unhub"
    save(version(1), target)
    began = time.perf_counter()
    save(version(1), target)
    duration = time.perf_counter() - began
    chance = random.Random(0)
    before = 1
    with start(SAVE_FOREVER, str(target)) as parent:
        assert parent.stdin is not None and parent.stdout is not None and parent.stderr is not None
        for moment in range(1, MOMENTS + 1):
            first = 1000 * moment
            print(first, file=parent.stdin, flush=True)
            whole = moment % 2  # saves that are awaited; the kill falls into the one after them, or later
            for _ in range(whole + 1):
                child = parent.stdout.readline()  # it is about to save
                assert child, parent.stderr.read()
            time.sleep(chance.uniform(0, duration))
            os.kill(int(child), signal.SIGKILL)
            while (said := parent.stdout.readline()) == child:
                pass  # it came to another save
            assert said == f"ended by {int(signal.SIGKILL)}\n"
            left = version_of(target)
            assert first <= left < first + 1000 or (left == before and not whole)
            before = left
    assert [*tmp_path.glob(".one.unhub.*.tmp")], "no kill fell into a save, which proves nothing"


SAVE_AND_DIE = """
import os, signal, sys
import safetensors.numpy
from tests.files.test_kill import save, version

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def half(tensors, path, metadata):
    content = safetensors.numpy.save(tensors, metadata)
    path.write_bytes(content[: len(content) // 2])
    die()

def die_after(call):
    return lambda *arguments: die(call(*arguments))

target, moment = sys.argv[1:]
if moment == "half written":
    safetensors.numpy.save_file = half
elif moment.startswith("before "):
    setattr(os, moment.split()[1], die)
else:
    setattr(os, moment.split()[1], die_after(getattr(os, moment.split()[1])))
save(version(2, 1000), target)
"""


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        ("half written", 1),
        ("before chmod", 1),
        ("before fsync", 1),
        ("after fsync", 1),
        ("before replace", 1),
        ("after replace", 2),
    ],
)
def test_a_kill_around_the_rename_leaves_the_old_file_or_the_new_one(tmp_path: Path, moment: str, left: int) -> None:
    target = tmp_path / "one.unhub"
    save(version(1, 1000), target)
    child = start(SAVE_AND_DIE, str(target), moment)
    _, errors = child.communicate()
    assert child.returncode == -signal.SIGKILL, errors
    assert version_of(target) == left
    others = [path.suffix for path in tmp_path.iterdir() if path != target]
    assert others == ([".tmp"] if left == 1 else [])
