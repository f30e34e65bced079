"""The order of the modules: imports go one way, and a light start stays light."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import FIT, write_inputs

pytestmark = pytest.mark.once

PACKAGE = Path(__file__).parents[1] / "src" / "unhub"

# A module or folder of src/unhub may import those above it and itself, never one below it.
LAYERS = (
    "errors",  # whole numbers, and what to install where an optional library is absent
    "atomic",  # files that appear whole or not at all
    "arrays",  # the types of arrays, spans of rows, rows of length one
    "html_tables",  # tables in a notebook
    "kernels",
    "frames",  # tables that others hold, of pandas, polars and Arrow, and UUIDs
    "data",  # the nouns: vectors, ids, similarities, banks, relevance, runs, draws
    "compute",  # how work is done: workers, progress, passes, Sinkhorn, transport
    "correction",
    "methods",
    "estimating",  # what a pass would find, from a part of the bank
    "hopeless_banks",  # what a fit notes of a bank that cannot be meant
    "matching",  # inputs checked against each other and against a correction
    "given_again",  # the sets of a fit, known by its hashes
    "layouts",  # the extra dimensions
    "fitting",
    "foreseeing",  # what a fit will take, before it starts
    "upkeep",
    "combine",
    "model",  # towers and a head that were trained, run by numpy
    "indexes",
    "stores",  # vectors in databases
    "search",
    "files",
    "evaluation",
    "differences",  # from one correction to another
    "deploying",  # a correction in a store, measured there, switched and rolled back, and its versions in a folder
    "banks",
    "tuning",
    "multi",
    "studies",
    "reports",
    "watching",  # hubness over time from what was returned
    "training",
    "embed",
    "logs",  # query logs to bank folders, what people clicked, and how queries are forgotten
    "datasets",  # annotation files and media of the papers, read in their official layouts
    "bench",  # the papers' benchmarks, and what was published
    "integrations",  # thin wrappers for other libraries, one file each
    "__init__",  # the public names: `import unhub` is for the shells below, which call what a user calls
    "demo",
    "service",
    "cli",
    "__main__",
)

# Folders that hold one file for each thing of a kind, however many there are.
SHELVES = ("cli", "datasets", "files", "stores")
MOST_FILES = 16

# What a method is asked by others; its class is known to its own file and to METHODS alone.
METHOD_NAMES = {
    "Foreseen",
    "METHODS",
    "ItemByItem",
    "LookAgain",
    "Method",
    "NOTHING_FOUND",
    "Outcome",
    "Streamed",
    "Value",
    "as_number",
    "parse",
    "stream",
}

# The public names come from everywhere, lazily.
SEES_EVERYTHING = "__init__"

ENGINES = ("chromadb", "lancedb", "psycopg", "pymilvus", "qdrant_client", "qdrant_edge", "usearch")
LIBRARIES = ("numba", "faiss", "pyarrow", "ot", "scipy", "matplotlib", "torch", "transformers", "fsspec", "ray", "h5py")
SERVING = ("fastapi", "uvicorn", "prometheus_client")
WRAPPED = ("sklearn", "sentence_transformers", "langchain_core")
OPTIONAL = (*LIBRARIES, *ENGINES, *SERVING, *WRAPPED)


def layer_of(module: str) -> str:
    """Return the layer of a dotted module name: `unhub.methods.plans` is of `methods`, `unhub` of `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def layers_in(package: Path) -> set[str]:
    return {path.relative_to(package).parts[0].removesuffix(".py") for path in package.rglob("*.py")}


def imports_of(path: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and layer of every import of our own in a file, those inside functions too."""
    folder = ["unhub", *path.relative_to(package).parent.parts]
    known = {*LAYERS, *layers_in(package)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = folder[: len(folder) + 1 - node.level] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            # `from unhub import search` names a module, `from unhub import fit` a public name.
            targets = [
                f"{source}.{alias.name}" if source == "unhub" and alias.name in known else source
                for alias in node.names
            ]
        else:
            continue
        yield from ((node.lineno, layer_of(target)) for target in targets if target.split(".")[0] == "unhub")


def backward_imports(package: Path) -> list[str]:
    """List every import of a later layer by an earlier one, as `file:line: what`; a module of no layer has no order."""
    rank = {layer: position for position, layer in enumerate(LAYERS)}
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        layer = inside.parts[0].removesuffix(".py")
        if layer == SEES_EVERYTHING or layer not in rank:
            continue
        for line, target in imports_of(path, package):
            if rank.get(target, -1) > rank[layer]:
                found.append(f"{inside.as_posix()}:{line}: {layer} imports {target}, which comes after it")
    return found


MOST_MODULES_OF_A_FIT = 62


def modules_loaded_by(*arguments: str, folder: Path | None = None) -> set[str]:
    """Run Python with these arguments and return the modules it imported."""
    command = [sys.executable, "-X", "importtime", *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    lines = run.stderr.splitlines()
    assert run.returncode == 0, "\n".join(line for line in lines if not line.startswith("import time:"))
    names = (line.rsplit("|", 1)[1].strip() for line in lines if line.startswith("import time:"))
    return set(names)


def top_of(modules: set[str]) -> set[str]:
    """Return the names before the first dot."""
    return {name.split(".")[0] for name in modules}


def test_every_module_has_a_layer() -> None:
    unknown = sorted(layers_in(PACKAGE) - set(LAYERS))
    assert not unknown, f"{unknown} of src/unhub: add each to LAYERS in tests/test_layers.py, after all it imports"


def test_imports_go_one_way() -> None:
    assert backward_imports(PACKAGE) == []


def concrete_methods(package: Path) -> list[str]:
    """List every import from methods/ by a file outside it that is more than what every method answers."""
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.parts[0] == "methods":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in METHOD_NAMES]
            else:
                continue
            found += [f"{inside.as_posix()}:{node.lineno}: {one}" for one in names if one.startswith("unhub.methods.")]
    return found


def test_no_method_is_known_by_its_class_outside_its_folder() -> None:
    assert concrete_methods(PACKAGE) == []


@pytest.mark.parametrize(
    "line",
    [
        "from unhub.methods.sinkhorn_bias import Balanced",
        "from unhub.methods.inverted_softmax import gate",
        "from unhub.methods import sinkhorn_bias",
        "import unhub.methods.sinkhorn_bias",
        "def later():\n    from unhub.methods.plans import Transport",
    ],
)
def test_a_method_that_is_known_by_its_class_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "upkeep.py").write_text(line)
    (found,) = concrete_methods(tmp_path)
    assert found.startswith("upkeep.py:")


def imported_beside(path: Path) -> set[str]:
    """Return the modules of its own folder that a file imports when it is loaded or used; not those for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    folder = ".".join(["unhub", *path.parent.relative_to(PACKAGE).parts])
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {module.removeprefix(f"{folder}.").split(".")[0] for module in modules if module.startswith(f"{folder}.")}


@pytest.mark.parametrize(
    "folder", sorted(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py"))
)
def test_a_folder_is_a_room_with_an_order(folder: str) -> None:
    files = sorted((PACKAGE / folder).glob("*.py"))
    assert len(files) <= MOST_FILES or folder in SHELVES
    beside = {path.stem: imported_beside(path) for path in files if path.stem != "__init__"}
    graphlib.TopologicalSorter(beside).prepare()  # which raises where imports go in a circle


@pytest.mark.parametrize("folder", ["tests", "docs"])
def test_tests_and_pages_stand_in_rooms_of_the_same_names(folder: str) -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"benchmarks", "__pycache__"}
    assert {path.name for path in (PACKAGE.parents[1] / folder).iterdir() if path.is_dir()} <= rooms


@pytest.mark.parametrize(
    "line",
    [
        "import unhub.search.searcher",
        "import unhub",
        "from unhub import search",
        "from unhub import fit",
        "from unhub.search.searcher import searcher",
        "from .. import search",
        "from ..search import searcher",
        "def later():\n    from unhub.indexes.exact import Exact",
    ],
)
def test_a_backward_import_is_found_however_it_is_written(tmp_path: Path, line: str) -> None:
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "sinkhorn_bias.py").write_text(line)
    (found,) = backward_imports(tmp_path)
    assert found.startswith("methods/sinkhorn_bias.py:")


@pytest.mark.parametrize(
    "line",
    [
        "import numpy as np",
        "import unhub.data.vectors",
        "from unhub import kernels",
        "from unhub.correction import Bias",
        "from ..correction import Bias",
        "from . import plans",
        "from .plans import Transport",
        "from unhub.methods import plans",
    ],
)
def test_a_forward_import_is_left_alone(tmp_path: Path, line: str) -> None:
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "sinkhorn_bias.py").write_text(line)
    assert backward_imports(tmp_path) == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = top_of(modules_loaded_by("-c", "import unhub"))
    assert "unhub" in loaded
    assert not loaded & {"numpy", *OPTIONAL}


@pytest.mark.parametrize("flag", ["--help", "--version"])
@pytest.mark.parametrize(
    "start",
    [("-m", "unhub"), ("-c", "from unhub.cli import main; main()")],
    ids=["python -m unhub", "unhub.cli:main"],
)
def test_asking_the_command_for_help_loads_nothing_heavy(start: tuple[str, ...], flag: str) -> None:
    loaded = top_of(modules_loaded_by(*start, flag))
    assert "typer" in loaded
    assert not loaded & {"numpy", *OPTIONAL}


def test_a_fit_loads_no_more_of_the_package_than_it_needs(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    loaded = modules_loaded_by("-m", "unhub", *FIT, folder=tmp_path)
    ours = {name for name in loaded if name.split(".")[0] == "unhub"}
    assert "unhub.fitting" in ours
    assert len(ours) <= MOST_MODULES_OF_A_FIT, sorted(ours)


def test_every_public_name_resolves_without_the_optional_libraries() -> None:
    program = f"""
import sys
for name in {OPTIONAL!r}:
    sys.modules[name] = None
import unhub
for name in unhub.__all__:
    getattr(unhub, name)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr


def test_importing_the_package_takes_well_under_half_a_second() -> None:
    program = "import time; start = time.perf_counter(); import unhub; print(time.perf_counter() - start)"
    runs = (subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(3))
    assert min(float(run.stdout) for run in runs) < 0.25
