"""Extracting: the functions of a Python file that have a docstring, as a question and the code that answers it.

The question is the first paragraph of the docstring. The code is the function from its `def` to its end, with every
docstring cut out. Left out are functions whose docstring asks for too little (fewer than 4 words) and those that do too
little (fewer than 8 words of code after the signature, such as `pass` or `raise NotImplementedError`).
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

LEAST_QUESTION_WORDS = 4
LEAST_BODY_WORDS = 8
# The words of a name: `HTTPServer_for2` is http, server, for, 2. Letters beyond ASCII stay together.
NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")  # where a statement holds others
Span: TypeAlias = tuple[int, int]  # bytes of a file


@dataclass(frozen=True)
class Function:
    """A function: the line of its `def`, its name with its classes, its question and the words of its code."""

    line: int
    name: str
    question: str
    code: str


class UnreadableCode(ValueError):
    """Raised where a file is not Python that this version of Python reads."""


def functions_in(source: bytes) -> list[Function]:
    """Return the functions with a docstring in a file, in the order of their lines, methods and inner ones too."""
    if b"def " not in source:
        return []
    tree, text = _parse(source)
    starts = [0, *accumulate(len(line) + 1 for line in text.split(b"\n"))]

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    defined = list(_definitions(tree.body, ()))
    docstrings = [
        (place(one.lineno, one.col_offset), place(one.end_lineno or 0, one.end_col_offset or 0))
        for one in (node.body[0] for _, node in defined if _docstring(node) is not None)
    ]
    found = []
    for names, node in defined:
        question = None if isinstance(node, ast.ClassDef) else _question(node)
        if question is None:
            continue
        body = node.body[0]
        head = text[place(node.lineno, node.col_offset) : place(body.lineno, body.col_offset)]
        span = place(body.lineno, body.col_offset), place(node.end_lineno or 0, node.end_col_offset or 0)
        code = spaced(_without(text, span, docstrings).decode())
        if code.count(" ") + 1 >= LEAST_BODY_WORDS:
            found.append(Function(node.lineno, ".".join(names), question, f"{spaced(head.decode())} {code}"))
    return found


def _parse(source: bytes) -> tuple[ast.Module, bytes]:
    """Return the tree of a file, and its text in UTF-8 with the line ends that the tree counts."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of code that is not ours, such as escapes that Python will refuse
            return ast.parse(text), text.encode()
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
        raise UnreadableCode(str(error)) from None


def _definitions(body: Iterable[ast.AST], names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Definition]]:
    """Yield every function and class among statements and below, in order, with its name and those of what it is in."""
    for node in body:
        inner = names
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*names, node.name)
            yield inner, node
        for field in BLOCKS:
            below = getattr(node, field, None)
            if below:
                yield from _definitions(below, inner)


def _docstring(node: Definition) -> str | None:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value.value
    return None


def _question(node: Definition) -> str | None:
    """Return the first paragraph of the docstring on one line, or None if there is none or it says too little."""
    told = _docstring(node)
    if told is None:
        return None
    first = inspect.cleandoc(told).strip().partition("\n\n")[0]
    question = " ".join(first.split())
    return question if len(NAME_WORD.findall(question)) >= LEAST_QUESTION_WORDS else None


def _without(text: bytes, span: Span, docstrings: Sequence[Span]) -> bytes:
    """Return a part of a text without the docstrings in it."""
    kept, (start, stop) = [], span
    for first, last in docstrings[bisect_left(docstrings, (start, 0)) :]:
        if first >= stop:
            break
        kept.append(text[start:first])
        start = last
    return b" ".join([*kept, text[start:stop]])


def spaced(text: str) -> str:
    """Return the words of a text in lower case, those of names apart: `getFile_name` is get, file, name."""
    return " ".join(NAME_WORD.findall(text)).lower()
