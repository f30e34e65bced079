"""Showing: what a demo shows, section by section, and what a shell needs of a demo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from unhub.compute.workers import Progress
from unhub.demo.finding import Answer, Finder
from unhub.demo.result_tables import ResultTable

# Names a step and yields what shows its progress.
Watch: TypeAlias = Callable[[str], AbstractContextManager[Progress]]


def _no_lines(width: int) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Section:
    """A part of a demo: explanations, a table, more explanations, then lines for a terminal of a width."""

    title: str
    before: tuple[str, ...] = ()
    table: ResultTable | None = None
    after: tuple[str, ...] = ()
    lines: Callable[[int], Iterable[str]] = _no_lines


class Demo(Protocol):
    """A demo: sections to show one after another, answers, and what it writes.

    invitation: what to type at the prompt. trial: a command to try.
    """

    @property
    def finder(self) -> Finder: ...

    @property
    def invitation(self) -> str: ...

    @property
    def trial(self) -> str: ...

    def sections(self, watch: Watch) -> Iterator[Section]:
        """Yield the sections, each as soon as it is computed."""

    def to_dict(self, watch: Watch) -> dict[str, object]:
        """Return every figure for JSON."""

    def answer_lines(self, answer: Answer, width: int) -> Iterator[str]:
        """Yield an answer, raw and corrected, for a terminal of a width."""

    def write_page(self, path: Path, command: str, progress: Progress | None = None) -> None:
        """Write the report, a page that names the command."""

    def write_files(self, folder: Path) -> list[str]:
        """Write the data to a new folder, for the other commands, and return the names of the files."""
