"""The rules of the house: what keeps every room simple, each as a short test."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import unhub
from unhub import integrations, training

pytestmark = pytest.mark.once

PACKAGE = Path(unhub.__file__).parent
TESTS = Path(__file__).parent
PUBLIC = {
    *unhub.__all__,
    *training.__all__,
    *integrations.__all__,
    "search_sets",
}  # the last is a method that users call
SHORT_LINES = 40
MOST_PARAMETERS = 7

TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
MODULES = [name for name in TREES if not name.endswith(("__init__.py", "__main__.py"))]


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in tree.body if isinstance(node, ast.ClassDef))


def is_protocol_or_registry(tree: ast.Module) -> bool:
    """Say whether a module defines a Protocol, or a table of names such as METHODS."""
    protocols = any(isinstance(base, ast.Name) and base.id == "Protocol" for one in classes(tree) for base in one.bases)
    tables = (
        isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict | ast.Tuple | ast.DictComp)
        for node in tree.body
    )
    return protocols or any(tables)


@pytest.mark.parametrize("module", MODULES)
def test_a_short_file_is_a_protocol_or_a_registry(module: str) -> None:
    lines = len((PACKAGE / module).read_text(encoding="utf-8").splitlines())
    assert lines >= SHORT_LINES or is_protocol_or_registry(TREES[module])


def test_a_public_type_is_defined_once() -> None:
    places = defaultdict(list)
    for module, tree in TREES.items():
        for one in classes(tree):
            places[one.name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1 and not name.startswith("_")} == {}


def test_a_file_name_stands_twice_only_as_library_and_command() -> None:
    places = defaultdict(list)
    for module in MODULES:
        places[Path(module).name].append(module)
    libraries = {name: [one for one in where if not one.startswith("cli/")] for name, where in places.items()}
    assert {name: where for name, where in libraries.items() if len(where) > 1} == {}


def parameters(function: ast.FunctionDef) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("module", [name for name in MODULES if not name.startswith(("cli/", "kernels/"))])
def test_no_inner_function_has_more_than_seven_parameters(module: str) -> None:
    """What a user calls may have more; a command has as many as options, a kernel as arrays."""
    long = {
        node.name: parameters(node)
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.FunctionDef) and node.name not in PUBLIC
    }
    assert {name: count for name, count in long.items() if count > MOST_PARAMETERS} == {}


def names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def readings_of_error_texts(tree: ast.AST) -> list[int]:
    """Return the lines where a regular expression is matched against a caught error."""
    found = []
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for call in (node for line in handler.body for node in ast.walk(line) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and "re" in names_in(call.func) and handler.name in names_in(call):
                found.append(call.lineno)
    return found


def test_a_reading_of_an_error_text_is_found() -> None:
    program = "try:\n    pass\nexcept ValueError as error:\n    re.sub('a', 'b', str(error))"
    assert readings_of_error_texts(ast.parse(program)) == [4]


@pytest.mark.parametrize("module", MODULES)
def test_nobody_reads_the_text_of_an_error(module: str) -> None:
    assert readings_of_error_texts(TREES[module]) == []


def test_only_one_place_looks_for_the_nearest_name() -> None:
    importing = [
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(one.name == "difflib" for one in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "difflib")
    ]
    assert importing == ["errors.py"]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_tested_under_its_name_or_in_its_room(module: str) -> None:
    room, name = Path(module).parent, Path(module).stem
    assert (TESTS / room / f"test_{name}.py").is_file() or (room != Path() and any((TESTS / room).glob("test_*.py"))), (
        f"tests/{room}/test_{name}.py"
    )


@pytest.mark.parametrize("folder", ["src/unhub", "tests", "benchmarks", "examples", "recipes"])
def test_the_formatter_formats_everything(folder: str) -> None:
    marked = re.compile(r"#\s*fmt:")
    files = (PACKAGE.parents[1] / folder).rglob("*.py")
    assert [path.name for path in files if path != Path(__file__) and marked.search(path.read_text("utf-8"))] == []
