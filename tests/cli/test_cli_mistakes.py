"""Mistakes and interruptions on the command line: one line, an exit code, and nothing written."""

import contextlib
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.children import child
from tests.command import BANK, FIT, ITEMS, NAMES, QUERIES, SEARCH, fail, program, succeed, write_fitted, write_inputs
from unhub.cli.errors import in_options

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_inputs(tmp_path)


@pytest.fixture
def fitted(folder: Path) -> Path:
    return write_fitted(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--items", "none.npy"), r"--items: .*none\.npy"),
        (("--items", "names.txt"), r"--items: names\.txt: no reader for files named \*\.txt"),
        (("--bank", "none.npy"), r"--bank: .*none\.npy"),
        (("--bank", "small.npy"), "^--bank has 3 dimensions, the items 8"),
        (("--bank", "nan.npy"), "^--bank holds nan in row 1"),
        (("--bank", "zero.npy"), "^--bank has only zeros in row 2.* use dot similarity$"),
        (("--method", "dualis", "--bank-items", "small.npy"), "^--bank-items has 3 dimensions"),
        (("--item-ids", "few.txt"), r"^--item-ids: few\.txt has \d+ ids, 40 are needed"),
        (("--item-ids", "none.txt"), r"^--item-ids: .*none\.txt"),
        (("--bank-items", "none.npy"), r"--bank-items: .*none\.npy"),
        (("--method", "nn"), "^--method 'nn' is unknown; did you mean 'nnn'"),
        (("--method", "NNN"), "^--method 'NNN' is unknown; did you mean 'nnn'"),
        (("--method", "nnn", "--set", "j=3"), "^--set 'nnn' has no parameter 'j'"),
        (("--method", "is:tau=0"), "^--method 'is' needs tau to be"),
        (("--method", "is:tau"), "^--method 'is:tau' holds 'tau', which is not of the form name=value"),
        (("--method", "nnn", "--set", "k"), "--set: 'k' is not of the form name=value"),
        (("--method", "nnn", "--method", "is"), "--method is given 2 times; a file holds one correction"),
        (
            ("--method", "nnn", "--set", "k=91"),
            "^--method 'nnn' has k=91, which is over the 90 bank queries; give k <= 90$",
        ),
        (("--set", "tau=0"), "^--set 'is' needs tau to be"),
        (("--set", "tau=0.1", "--set", "beta=3"), "^--set 'is' has beta and tau, two spellings"),
        (("--method", "dualis"), "^--bank-items must be given for 'dualis'"),
        (("--similarity", "euclid"), "'--similarity'"),
        (("--threads", "0"), "'--threads'"),
        (("--memory", "lots"), "^--memory must be"),
        (("-o", "nowhere/out.unhub"), "--output: .*there is no folder .*nowhere"),
        (("-o", "."), "--output: .* is a folder"),
        (("-o", "bank.npy"), r"--output: bank\.npy is an input of this command"),
        (("-o", "few.txt"), r"--output: few\.txt exists and is not a saved correction, so it stays as it is"),
        (("-o", "/dev/null"), "--output: /dev/null is no plain file"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_a_mistake_in_a_fit_is_one_line(folder: Path, change: tuple[str, ...], words: str) -> None:
    np.save(folder / "small.npy", BANK[:, :3])
    np.save(folder / "nan.npy", np.where(np.arange(90)[:, None] == 1, np.nan, BANK))
    np.save(folder / "zero.npy", np.where(np.arange(90)[:, None] == 2, 0, BANK))
    (folder / "few.txt").write_text("a\nb\n")
    assert re.search(words, fail(folder, *FIT, *change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("none.npy",), r"--queries: .*none\.npy"),
        (("queries.npy", "--format", "xml"), "'--format'"),
        (("queries.npy", "-k", "0"), "'-k'"),
        (("queries.npy", "--index", "nonsense"), "^--index: unknown index 'nonsense'"),
        (("zero.npy",), "^--queries has only zeros in row 1.* use dot similarity$"),
        (("queries.npy", "--correction", "none.unhub"), r"--correction: .*none\.unhub"),
        (
            ("queries.npy", "--correction", "items.npy"),
            r"--correction: items\.npy: truncated, or not a file that unhub",
        ),
        (("queries.npy", "--items", "bank.npy"), r"^--item-ids: names\.txt has \d+ ids, 90 are needed"),
        (("queries.npy", "--items", "other.npy"), "^--items has other contents in row 0, item "),
        (("queries.npy", "--index", "faiss:nonsense"), "^--index 'faiss:nonsense': "),
        (("queries.npy", "--strength", "nan"), "^--strength must be finite"),
        (("queries.npy", "--strength", "-0.5"), "^--strength: -0.5 is below 0"),
        (("missing.parquet",), r"^--queries: No such file or directory: missing\.parquet$"),
        (("ending",), "^--queries: ending: no reader for a file whose name has no ending; there are"),
        (("queries.npy", "--json", "--format", "table"), "^--json: --format table is asked for too"),
        (("queries.npy", "-o", "nowhere/hits.json"), "--output: .*there is no folder"),
    ],
)
def test_a_mistake_in_a_search_is_one_line(fitted: Path, change: tuple[str, ...], words: str) -> None:
    np.save(fitted / "other.npy", ITEMS[::-1])
    (fitted / "ending").touch()
    np.save(fitted / "zero.npy", np.where(np.arange(3)[:, None] == 1, 0, ITEMS[:3]))
    assert re.search(words, fail(fitted, *SEARCH, *change))


def test_a_missing_option_or_command_is_one_line(folder: Path) -> None:
    assert "--items" in fail(folder, "fit", "-o", "out.unhub", run=program)
    assert "nonsense" in fail(folder, "nonsense", run=program)
    assert "FILE: " in fail(folder, "info", "none.unhub")
    assert fail(folder, "info", "items.npy") == "FILE: items.npy: truncated, or not a file that unhub saved"
    assert "is a folder" in fail(folder, "info", ".")


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (("study", "temprature"), "temperature"),
        (("multi", "train", "--head", "cgwf"), "cg-wf"),
        (("fit", "--similarity", "Cosin"), "cosine"),
        (("serach",), "search"),
    ],
)
def test_a_misspelt_choice_is_answered_with_the_nearest(folder: Path, arguments: tuple[str, ...], near: str) -> None:
    said = fail(folder, *arguments)
    assert said.endswith(f" Did you mean {near!r}?")
    assert "Value error" not in said


def test_a_choice_that_is_near_nothing_is_answered_with_all(folder: Path) -> None:
    assert fail(folder, "fit", "--similarity", "xyz").endswith("'xyz' is not one of 'cosine', 'dot'.")


def test_a_file_that_is_missing_is_said_to_be_so_before_an_extra_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "pyarrow")
    assert fail(folder, *FIT, "--items", "rows.parquet") == "--items: No such file or directory: rows.parquet"


def hide(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Make a library look as if it were not installed."""
    for name in [library, *(one for one in sys.modules if one.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)


def test_an_extra_that_is_not_installed_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "rows.parquet").touch()
    hide(monkeypatch, "pyarrow")
    line = shlex.join([sys.executable, "-m", "pip", "install", "unhub[parquet]"])
    said = fail(folder, *FIT, "--items", "rows.parquet")
    assert said == f"--items: reading rows.parquet needs pyarrow: {line}"


@pytest.mark.parametrize(
    ("method", "module", "package"), [("otn", "ot", "POT"), ("l2n", "scipy", "scipy"), ("hn", "scipy", "scipy")]
)
def test_a_fit_says_that_its_extra_is_not_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, method: str, module: str, package: str
) -> None:
    hide(monkeypatch, module)
    said = fail(folder, *FIT, "--method", method)
    assert re.fullmatch(rf"{method} needs {package}: .* install 'unhub\[plans\]'", said)


def test_a_failed_fit_leaves_the_old_file(folder: Path) -> None:
    succeed(folder, *FIT)
    before = (folder / "out.unhub").read_bytes()
    fail(folder, *FIT, "--set", "tau=-1")
    assert (folder / "out.unhub").read_bytes() == before


OUTPUTS = {
    "fit": FIT[:-2],
    "search": (*SEARCH, "queries.npy"),
    "eval": ("eval", "--items", "items.npy", "--queries", "queries.npy", "--relevance", "truth.csv"),
    "tune": ("tune", "--items", "items.npy", "--bank", "bank.npy"),
    "report": ("report", "--items", "items.npy", "--bank", "bank.npy", "--queries", "queries.npy"),
    "extend": ("extend", "--correction", "fitted.unhub", "--new-items", "new.npy", "--bank", "bank.npy"),
    "merge": ("merge", "--correction", "fitted.unhub", "--items", "items.npy", "--more-bank", "new.npy"),
    "remove": ("remove", "--correction", "fitted.unhub", "--ids", "names.txt"),
}


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_file_of_another_kind_is_never_replaced(fitted: Path, command: str) -> None:
    np.save(fitted / "new.npy", ITEMS[:3] + 1)
    (fitted / "truth.csv").write_text("query_id,item_id\n0,1\n1,2\n2,3\n")
    np.save(fitted / "precious.npy", ITEMS)
    before = (fitted / "precious.npy").read_bytes()
    said = fail(fitted, *OUTPUTS[command], "-o", "precious.npy")
    assert re.fullmatch(
        r"--output: precious\.npy exists and is not a [a-z ]+, so it stays as it is; name another file", said
    )
    assert (fitted / "precious.npy").read_bytes() == before


def test_hits_replace_hits_of_any_form_and_nothing_else(fitted: Path) -> None:
    for form in ("table", "json", "csv", "npz", "table", "npz", "csv", "json"):
        succeed(fitted, *SEARCH, "queries.npy", "--format", form, "-o", "hits")
    np.savez(fitted / "mine.npz", queries=QUERIES, items=ITEMS)
    np.savez(fitted / "more.npz", queries=QUERIES, ids=NAMES, scores=ITEMS, notes=NAMES)
    (fitted / "cut.npz").write_bytes((fitted / "mine.npz").read_bytes()[:-30])
    (fitted / "asked.json").write_text('[{"query": "a dog", "id": 3}]')
    (fitted / "nested.json").write_text('[{"query": "a dog", "found": "\\"hits\\": [", "page": [1, "hits": []]}]')
    (fitted / "log.csv").write_text("query,rank,id,score,user\na dog,1,3,0.5,me\n")
    (fitted / "table.txt").write_text("query  place  score  item  comment\n")
    for name in ("mine.npz", "more.npz", "cut.npz", "asked.json", "nested.json", "log.csv", "table.txt"):
        before = (fitted / name).read_bytes()
        assert f"{name} exists and is not a file of hits" in fail(fitted, *SEARCH, "queries.npy", "-o", name)
        assert (fitted / name).read_bytes() == before
    (fitted / "empty").touch()
    succeed(fitted, *SEARCH, "queries.npy", "-o", "empty")


@pytest.mark.parametrize("form", ["table", "json", "csv", "npz"])
@pytest.mark.parametrize("first", ["{a}", 'a "b" \\', "x" * 5000, -7], ids=["brace", "quotes", "long", "number"])
def test_hits_replace_hits_whatever_the_first_query_is_called(fitted: Path, form: str, first: str | int) -> None:
    np.savez(fitted / "asked.npz", vectors=QUERIES[:2], ids=np.array([first, first * 2]))
    for _ in range(2):
        succeed(fitted, *SEARCH, "asked.npz", "--format", form, "-o", "hits")


def test_a_pipe_is_refused_before_anything_is_read(fitted: Path) -> None:
    said = fail(fitted, *SEARCH, "missing.npy", "-o", "/dev/stdout", run=program)
    assert said == "--output: /dev/stdout is no plain file but a pipe or a device; name a file to write"


def test_a_file_that_is_called_like_its_option_is_named(fitted: Path) -> None:
    (fitted / "output").write_text("mine")
    said = fail(fitted, *SEARCH, "queries.npy", "-o", "output")
    assert said.startswith("--output: output exists and is not a file of hits")


def test_bytes_are_not_for_a_terminal(fitted: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "unhub", *SEARCH, "queries.npy", "--format", "npz"]
    done = subprocess.run(
        command, cwd=fitted, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert re.fullmatch(r"unhub: --format: npz is not for a terminal; name a file with -o, or .*\n", done.stderr)


@pytest.fixture
def endless(tmp_path: Path) -> tuple[str, ...]:
    """The arguments of a fit that would take minutes."""
    for name, count in {"items": 20_000, "bank": 20_000}.items():
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(count, 32)).astype(np.float32))
    return (*FIT, "--method", "sn", "--set", "iterations=100000", "--memory", "200MB")


@contextlib.contextmanager
def started(folder: Path, arguments: tuple[str, ...], stderr: int) -> Iterator[subprocess.Popen[str]]:
    """Start a command, which does not outlive the test."""
    command = [sys.executable, "-m", "unhub", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def test_ctrl_c_stops_a_fit_and_leaves_no_file(tmp_path: Path, endless: tuple[str, ...]) -> None:
    with started(tmp_path, endless, subprocess.PIPE) as child:
        wait_for_the_fit(child)
        assert child.poll() is None, child.communicate()
        child.send_signal(signal.SIGINT)
        printed, errors = child.communicate(timeout=60)
    assert (child.returncode, printed, errors) == (130, "", "unhub: stopped\n")
    assert sorted(os.listdir(tmp_path)) == ["bank.npy", "items.npy"]


@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_ctrl_c_while_something_is_imported_is_one_line(tmp_path: Path, module: str) -> None:
    write_inputs(tmp_path)
    process = child(f"""
import importlib.abc, os, signal
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
os.chdir({str(tmp_path)!r})
sys.argv = ["unhub", *{FIT!r}]
from unhub.cli import main
main()
""")
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed, errors) == (130, "", "unhub: stopped\n")


def test_ctrl_c_that_other_code_drops_comes_again(tmp_path: Path, endless: tuple[str, ...]) -> None:
    # As compiled code may that calls Python and goes on whatever was raised there.
    process = child(f"""
import importlib.abc, os, signal
class Dropping(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                pass
sys.meta_path.insert(0, Dropping())
os.chdir({str(tmp_path)!r})
sys.argv = ["unhub", *{endless!r}]
from unhub.cli import main
main()
""")
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed, errors) == (130, "", "unhub: stopped\n")


def test_ctrl_c_that_comes_again_wakes_what_waits() -> None:
    process = child("""
import signal, time
from unhub import cli
signal.signal(signal.SIGINT, cli._interrupt)
start = time.monotonic()
try:
    cli.Interrupted()
    time.sleep(20)
except cli.Interrupted:
    cli.hear()
print(time.monotonic() - start < 10)
""")
    assert process.communicate(timeout=60) == ("True\n", "")


def test_ctrl_c_comes_again_once_and_not_while_another_is_on_its_way() -> None:
    process = child("""
import signal, time
from unhub import cli
came = []
signal.signal(signal.SIGINT, lambda number, frame: came.append(cli.Interrupted()))
for _ in range(5):
    cli.Interrupted()
print(cli.Interrupted.reminding)
time.sleep(0.3)
print(len(came), cli.Interrupted.reminding)
first = came[0]
second = cli.Interrupted()
del second
print(cli.Interrupted.reminding)
cli.hear()
""")
    assert process.communicate(timeout=60) == ("True\n1 False\nFalse\n", "")


def test_ctrl_c_that_python_itself_drops_is_not_told_but_comes_again() -> None:
    process = child("""
import os, signal, sys, time
from unhub import cli
import unhub.cli.commands
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
class Broken:
    def __del__(self):
        raise ValueError("of another kind")
def run():
    Dropped()
    Broken()
    time.sleep(20)
unhub.cli.commands.run = run
cli.main()
""")
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "")
    assert errors.endswith("unhub: stopped\n") and "of another kind" in errors and "Interrupted" not in errors


@pytest.mark.parametrize("how", ["program", "main"])
def test_ctrl_c_after_a_program_did_its_work_changes_nothing(how: str) -> None:
    process = child(f"""
import atexit, os, signal, sys
from unhub import cli
import unhub.cli.commands
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    print("at the end", flush=True)
atexit.register(interrupt)
unhub.cli.commands.run = lambda: 0
cli.{how}()
""")
    printed, errors = process.communicate(timeout=60)
    if how == "program":
        assert (process.returncode, printed, errors) == (0, "at the end\n", "")
    else:  # within another program, ctrl-C is that one's again
        assert "KeyboardInterrupt" in errors


def test_ctrl_c_that_is_gone_when_python_ends_starts_nothing() -> None:
    process = child("""
import threading
from unhub.cli import Interrupted
kept = Interrupted()
""")
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_ctrl_c_inside_exec_gives_the_exit_code_too(tmp_path: Path) -> None:
    # Python itself ends `python -m` by the signal where a plain KeyboardInterrupt comes up there.
    (tmp_path / "sitecustomize.py").write_text("""
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            exec("os.kill(os.getpid(), signal.SIGINT)", {"os": os, "signal": signal})
sys.meta_path.insert(0, Interrupting())
""")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "unhub", "methods"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "unhub: stopped\n")


def wait_for_the_fit(child: subprocess.Popen[str]) -> None:
    """Wait until the child has mapped its bank, or for ten seconds on a system that does not tell."""
    maps, deadline = Path(f"/proc/{child.pid}/maps"), time.monotonic() + 10
    while time.monotonic() < deadline and not (maps.exists() and "bank.npy" in maps.read_text()):
        time.sleep(0.1)
    time.sleep(1)


def test_progress_is_drawn_where_stderr_is_a_terminal(tmp_path: Path, endless: tuple[str, ...]) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal, started(tmp_path, endless, theirs) as child:
        os.close(theirs)
        seen = b""
        while b"%" not in seen:
            seen += terminal.read(1000)
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # how a terminal says that the other side is gone
            while more := terminal.read(1000):
                seen += more
        child.communicate(timeout=60)
    assert child.returncode == 130
    assert re.search(rb"fit .*\d+%", seen)
    assert seen.endswith(b"unhub: stopped\r\n")


@pytest.mark.parametrize("arguments", [("methods",), (*SEARCH, "queries.npy"), (*SEARCH, "queries.npy", "--json")])
def test_a_reader_that_leaves_early_ends_a_command_quietly(fitted: Path, arguments: tuple[str, ...]) -> None:
    with started(fitted, arguments, subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.stderr is not None
        assert child.stderr.read() == ""
        assert child.wait(timeout=60) in (0, 141)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("unknown index 'hnsw': there are exact, faiss", "--index: unknown index 'hnsw': there are exact, faiss"),
        ("unknown parameter 'index'", "unknown parameter 'index'"),
        ("bank_items has 3 dimensions, items 8", "--bank-items has 3 dimensions, items 8"),
        ("bank holds nan in row 1", "--bank holds nan in row 1"),
        ("dualis needs bank_items, the items beside it", "dualis needs --bank-items, the items beside it"),
        ("banks differ", "banks differ"),
        ("the bank is empty", "the bank is empty"),
        ("k=9 is over what exists; give k <= 4", "k=9 is over what exists; give k <= 4"),
        ("k must be at least 1", "-k must be at least 1"),
        ("give bank= too; index='exact' will do", "give --bank too; --index exact will do"),
        ("refit with mergeable=True, or use unhub.remove", "refit with --mergeable, or use unhub remove"),
        ("merging needs what fit(..., mergeable=True) keeps", "merging needs what `unhub fit --mergeable` keeps"),
        ("which unhub.fit makes; read it with unhub.load", "which unhub fit makes; read it with unhub info"),
        ("out.unhub.fit: no reader", "out.unhub.fit: no reader"),
        ("the items have names: Vectors(ids, rows)", "the items have names: give --item-ids"),
        ("--bank-items: bank_items.npy is empty", "--bank-items: bank_items.npy is empty"),
        ("has columns ['bank_items']; `id` is wanted", "has columns ['bank_items']; `id` is wanted"),
        ('it has "bank_items\'s", no bank_items', 'it has "bank_items\'s", no --bank-items'),
        ("the bank's bank_items differ from the items' own", "the bank's --bank-items differ from the items' own"),
    ],
)
def test_what_the_library_says_of_arguments_is_said_of_options(said: str, shown: str) -> None:
    named = {"bank": "--bank", "bank_items": "--bank-items", "item_ids": "--item-ids"}
    options = {**named, "k": "-k", "index": "--index"}
    assert in_options(said, options) == shown
