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
from tests.command import BANK, FIT, ITEMS, NAMES, SEARCH, fail, program, succeed, write_fitted, write_inputs
from unhub.cli.errors import argument
from unhub.errors import ArgumentError

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
        (("--bank", "small.npy"), "^--bank has 3 dimensions, the items 8; embed both with one model$"),
        (("--bank", "nan.npy"), "^--bank holds nan in row 1; every number must be finite in float32$"),
        (
            ("--bank", "zero.npy"),
            "^--bank has only zeros in row 2, which has no direction under cosine; "
            "remove the row or use dot similarity$",
        ),
        (
            ("--method", "dualis", "--bank-items", "small.npy"),
            "^--bank-items has 3 dimensions, the items 8; embed both with one model$",
        ),
        (("--item-ids", "few.txt"), r"^--item-ids: few\.txt has 2 ids, 40 are needed; give one id for each$"),
        (("--item-ids", "none.txt"), r"^--item-ids: .*none\.txt"),
        (("--bank-items", "none.npy"), r"--bank-items: .*none\.npy"),
        (("--method", "nn"), r"^--method 'nn' is unknown; did you mean 'nnn'\? the methods are raw, is, "),
        (("--method", "NNN"), r"^--method 'NNN' is unknown; did you mean 'nnn'\? the methods are raw, is, "),
        (("--method", "nnn", "--set", "j=3"), "^--set 'nnn' has no parameter 'j'; it takes k, alpha$"),
        (("--method", "is:tau=0"), "^--method 'is' needs tau to be a finite number above 0, got 0$"),
        (("--method", "is:tau"), "^--method 'is:tau' holds 'tau', which is not of the form name=value"),
        (("--method", "nnn", "--set", "k"), "--set: 'k' is not of the form name=value"),
        (("--method", "nnn", "--method", "is"), "--method is given 2 times; a file holds one correction"),
        (
            ("--method", "nnn", "--set", "k=91"),
            "^--method 'nnn' has k=91, which is over the 90 bank queries; give k <= 90$",
        ),
        (("--set", "tau=0"), "^--set 'is' needs tau to be a finite number above 0, got 0$"),
        (
            ("--set", "tau=0.1", "--set", "beta=3"),
            "^--set 'is' has beta and tau, two names of the same parameter; give one of them$",
        ),
        (("--method", "dualis"), "^--bank-items must be given for 'dualis'; give the training items with the bank$"),
        (("--similarity", "euclid"), "'--similarity'"),
        (("--threads", "0"), "^--threads must be a whole number of at least 1, got 0$"),
        (("--memory", "lots"), "^--memory must be a number of bytes or a text such as '2GB', got 'lots'$"),
        (("-o", "nowhere/out.unhub"), "--output: .*there is no folder .*nowhere"),
        (("-o", "."), "--output: .* is a folder"),
        (("-o", "bank.npy"), r"--output: bank\.npy is an input of this command"),
        (
            ("-o", "few.txt"),
            r"--output: few\.txt exists and is not a file that unhub saved; "
            "give --overwrite to replace it, or name another file$",
        ),
        (("-o", "/dev/null"), "--output: /dev/null is a pipe or a device, not a plain file; name a file to write$"),
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
        (("queries.npy", "-k", "0"), "^-k must be a whole number of at least 1, got 0$"),
        (("queries.npy", "-k", "few"), "^-k must be a whole number of at least 1, got few$"),
        (("queries.npy", "--threads", "0"), "^--threads must be a whole number of at least 1, got 0$"),
        (
            ("queries.npy", "--index", "nonsense"),
            "^--index 'nonsense' is unknown; the indexes are exact, torch, faiss$",
        ),
        (
            ("zero.npy",),
            "^--queries has only zeros in row 1, which has no direction under cosine; "
            "remove the row or use dot similarity$",
        ),
        (("queries.npy", "--correction", "none.unhub"), r"--correction: .*none\.unhub"),
        (
            ("queries.npy", "--correction", "items.npy"),
            r"--correction: items\.npy: truncated, or not a file that unhub",
        ),
        (
            ("queries.npy", "--items", "bank.npy"),
            r"^--item-ids: names\.txt has 40 ids, 90 are needed; give one id for each$",
        ),
        (("queries.npy", "--items", "other.npy"), r"^--items differs from the items of the fit in row 0 \(item "),
        (("queries.npy", "--index", "faiss:nonsense"), "^--index 'faiss:nonsense' is not a factory string"),
        (("queries.npy", "--strength", "nan"), "^--strength must be finite"),
        (
            ("queries.npy", "--strength", "-0.5"),
            "^--strength must be at least 0, got -0.5; 0 is no correction, 1 is all of it$",
        ),
        (("missing.parquet",), r"^--queries: No such file or directory: missing\.parquet$"),
        (("ending",), "^--queries: ending: no reader for a file whose name has no suffix; there are"),
        (("queries.npy", "--json", "--format", "table"), "^--json contradicts --format table; give one of them$"),
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


def test_an_option_that_is_near_none_is_looked_up_in_the_help(folder: Path) -> None:
    assert fail(folder, "remove", "--remove", "x") == "No such option: --remove; unhub remove --help lists all"


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
    ("given", "library", "package", "extra"),
    [
        (("--on", "ray"), "ray", "ray", "ray"),
        (("--on", "ray://127.0.0.1:1"), "grpc", "grpcio", "ray"),
        (("--device", "cpu"), "torch", "torch", "train"),
    ],
)
def test_an_option_whose_extra_is_not_installed_is_named(
    given: tuple[str, str], library: str, package: str, extra: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "grpc":  # without Ray, that is what is missing
        pytest.importorskip("ray", reason="ray is not installed: the extra ray has it")
    hide(monkeypatch, library)
    line = shlex.join([sys.executable, "-m", "pip", "install", f"unhub[{extra}]"])
    assert fail(folder, *FIT, *given) == f"{given[0]} is {given[1]!r}, which needs {package}: {line}"


def test_an_index_whose_extra_is_not_installed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fitted(folder)
    hide(monkeypatch, "torch")
    said = fail(folder, *SEARCH, "queries.npy", "--index", "torch:cpu")
    assert said.startswith("--index is 'cpu', which needs torch: ")


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
    "remove": ("remove", "--correction", "fitted.unhub", "--ids", "gone.txt"),
    "study": ("study", "temperature", "--items", "items.npy", "--bank", "bank.npy", "--queries", "queries.npy"),
    "multi search": ("multi", *SEARCH, "queries.npy", "--sets", "sets.csv"),
    "multi eval": ("multi", "eval", "--texts", "bank.npy", "--items", "items.npy", "--relevance", "pairs.csv"),
}
# The options that name what is written, where -o does not, or not to any file.
OPTIONS = {
    "study": {"-o": "precious.png"},
    "multi eval": {"--save-draws": "precious.npy", "--curve": "precious.svg"},
}


def with_inputs(folder: Path) -> Path:
    """Write what the commands of OUTPUTS read besides, and a file of vectors that none of them does."""
    np.save(folder / "new.npy", ITEMS[:3] + 1)
    (folder / "gone.txt").write_text("\n".join(NAMES[:2]))
    (folder / "truth.csv").write_text("query_id,item_id\n0,1\n1,2\n2,3\n")
    (folder / "sets.csv").write_text("set_id,query_id\na,0\na,1\n")
    (folder / "pairs.csv").write_text("query_id,item_id\n" + "".join(f"{row},{row % 40}\n" for row in range(90)))
    np.save(folder / "precious.npy", ITEMS)
    return folder


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_file_that_unhub_did_not_save_is_replaced_on_request_alone(fitted: Path, command: str) -> None:
    precious = with_inputs(fitted) / "precious.npy"
    for option, name in OPTIONS.get(command, {"-o": "precious.npy"}).items():
        before = precious.read_bytes()
        os.replace(precious, fitted / name)
        said = fail(fitted, *OUTPUTS[command], option, name)
        named = "--output" if option == "-o" else option
        remedy = "give --overwrite to replace it, or name another file"
        assert said == f"{named}: {name} exists and is not a file that unhub saved; {remedy}"
        assert (fitted / name).read_bytes() == before
        os.replace(fitted / name, precious)


@pytest.mark.parametrize("command", ["fit", "search", "eval", "remove", "multi search"])
def test_a_file_is_replaced_on_request(fitted: Path, command: str) -> None:
    precious = with_inputs(fitted) / "precious.npy"
    before = precious.read_bytes()
    format = ("--format", "csv") if command.endswith("search") else ()
    succeed(fitted, *OUTPUTS[command], "-o", "precious.npy", "--overwrite", "--quiet", *format)
    assert precious.read_bytes() != before
    assert not [path for path in fitted.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("command", OUTPUTS)
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_an_input_is_never_replaced(fitted: Path, command: str, overwrite: tuple[str, ...]) -> None:
    with_inputs(fitted)
    inputs = {word for word in OUTPUTS[command] if (fitted / word).is_file()}
    if command in ("extend", "merge", "remove"):
        inputs.remove("fitted.unhub")  # which they may replace
    assert inputs
    for name in sorted(inputs):
        before = (fitted / name).read_bytes()
        (fitted / "link.png").symlink_to(name)  # the one kind of name that every command but search takes
        for target in (name, "link.png"):
            option = next(iter(OPTIONS.get(command, {"-o": ""})))
            said = fail(fitted, *OUTPUTS[command], option, target, *overwrite)
            named = "--output" if option == "-o" else option
            if command == "study" and target == name:  # which writes to no other name
                assert said == f"{named}: {target} is not the name of a picture; end it in .png or .svg"
            else:
                assert said == f"{named}: {target} is an input of this command; name another file"
        (fitted / "link.png").unlink()
        assert (fitted / name).read_bytes() == before


def test_the_ids_beside_an_input_folder_are_never_replaced(fitted: Path) -> None:
    clip = fitted / "clip" / "img_emb"
    clip.mkdir(parents=True)
    os.rename(fitted / "items.npy", clip / "img_emb_0.npy")
    ids = fitted / "clip" / "metadata" / "metadata_0.parquet"
    ids.parent.mkdir()
    ids.write_text("ids")
    arguments = ("fit", "--items", "clip/img_emb", "--bank", "bank.npy", "--overwrite", "-o")
    said = fail(fitted, *arguments, "clip/metadata/metadata_0.parquet")
    assert said.startswith("--output: clip/metadata/metadata_0.parquet is in clip/img_emb, an input of this command")
    assert ids.read_text() == "ids"


def test_nothing_in_an_input_folder_is_replaced_but_what_unhub_saved(fitted: Path) -> None:
    clip = fitted / "clip" / "img_emb"
    clip.mkdir(parents=True)
    os.rename(fitted / "items.npy", clip / "img_emb_0.npy")
    arguments = ("fit", "--items", "clip", "--bank", "bank.npy", "--overwrite", "-o")
    before = (clip / "img_emb_0.npy").read_bytes()
    said = fail(fitted, *arguments, "clip/img_emb/img_emb_0.npy")
    assert said == ("--output: clip/img_emb/img_emb_0.npy is in clip, an input of this command; name another file")
    assert (clip / "img_emb_0.npy").read_bytes() == before
    for _ in range(2):
        succeed(fitted, *arguments, "clip/fitted.unhub")


def test_a_saved_file_and_an_empty_one_are_replaced_by_anything(fitted: Path) -> None:
    with_inputs(fitted)
    (fitted / "empty").touch()
    succeed(fitted, *SEARCH, "queries.npy", "-o", "empty")
    succeed(fitted, *FIT)
    succeed(fitted, *SEARCH, "queries.npy", "--format", "csv", "-o", "out.unhub")
    assert (fitted / "out.unhub").read_text().startswith("query,rank,id,score\n")


def test_a_pipe_is_refused_before_anything_is_read(fitted: Path) -> None:
    said = fail(fitted, *SEARCH, "missing.npy", "-o", "/dev/stdout", run=program)
    assert said == "--output: /dev/stdout is a pipe or a device, not a plain file; name a file to write"


def test_a_file_that_is_called_like_its_option_is_named(fitted: Path) -> None:
    (fitted / "output").write_text("mine")
    said = fail(fitted, *SEARCH, "queries.npy", "-o", "output")
    assert said.startswith("--output: output exists and is not a file that unhub saved")


def test_bytes_are_not_for_a_terminal(fitted: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "unhub", *SEARCH, "queries.npy", "--format", "npz"]
    done = subprocess.run(
        command, cwd=fitted, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert re.fullmatch(r"unhub: --format npz cannot be shown on a terminal; name a file with -o, or .*\n", done.stderr)


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


def test_ctrl_c_that_python_drops_comes_again_without_progress() -> None:
    # Python prints what is raised in __del__ and goes on; then nothing asks whether ctrl-C came.
    process = child("""
import os, signal, time
from unhub import cli
import unhub.cli.commands
class Dropping:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)  # the signal comes in here
def run():
    Dropping()
    time.sleep(30)
    return 0
unhub.cli.commands.run = run
cli.main()
""")
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed, errors) == (130, "", "unhub: stopped\n")


def test_other_errors_that_python_drops_are_shown_as_before() -> None:
    process = child("""
from unhub import cli
import unhub.cli.commands
class Broken:
    def __del__(self):
        raise ZeroDivisionError
def run():
    Broken()
    return 0
unhub.cli.commands.run = run
cli.main()
""")
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, "")
    assert "ZeroDivisionError" in errors


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
    ("name", "said"),
    [
        ("bank_items", "--bank-items has 3 dimensions, the bank 8; embed both with one model"),
        ("items", "--items has 3 dimensions, the bank 8; embed both with one model"),
        ("settings", "--set has 3 dimensions, the bank 8; embed both with one model"),
        ("nonsense", "nonsense has 3 dimensions, the bank 8; embed both with one model"),
    ],
)
def test_what_is_wrong_with_an_argument_is_said_of_its_option(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    def wrong(*_: object, **__: object) -> None:
        raise ArgumentError(name, "has 3 dimensions, the bank 8", "embed both with one model")

    monkeypatch.setattr("unhub.fitting.fit", wrong)
    assert fail(folder, *FIT) == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ArgumentError("items", "is empty"), "--items is empty"),
        (ArgumentError("path", "is empty"), "--items is empty"),
        (ArgumentError("photos.npy", "is empty", "fill it"), "--items: photos.npy is empty; fill it"),
        (ArgumentError("tau", "must be above 0, got -1"), "--items: tau must be above 0, got -1"),
        (ValueError("photos.npy: row 1 holds nan"), "--items: photos.npy: row 1 holds nan"),
        (FileNotFoundError(2, "No such file", "photos.npy"), "--items: No such file: photos.npy"),
    ],
)
def test_a_mistake_in_a_value_names_the_option_and_keeps_what_else_is_named(error: Exception, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"), argument("--items", "path"):
        raise error
