"""The demo of functions: search those of Python and of the installed packages by what they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import unhub
from unhub.compute.workers import Progress
from unhub.demo import hubs
from unhub.demo.examples import examples_of
from unhub.demo.exporting import new_folder, write_asked, write_names
from unhub.demo.finding import Answer, Finder
from unhub.demo.functions import function_lines
from unhub.demo.functions.code_files import CodeFiles
from unhub.demo.functions.library import Half, Library
from unhub.demo.functions.opening import open_library
from unhub.demo.lines import evenness_title, examples_title, hubs_title, on_examples
from unhub.demo.result_tables import CORRECTED, MEASURES, Compared, ResultTable, hubness_cells
from unhub.demo.showing import Section, Watch
from unhub.evaluation.evaluate import Evaluation
from unhub.files import save
from unhub.files.writers import write_npz

TITLE = "Functions by what they do: hubs, before and after"
SWALLOWED = 4  # queries named for each hub
NEVER_FOUND = 5  # functions named that no query shows raw
HALVES: tuple[Half, ...] = ("bank", "queries")


@dataclass(frozen=True, eq=False)
class FunctionDemo:
    """The sections and files of a library of functions."""

    library: Library
    code: CodeFiles
    threads: int | None = None
    invitation = (
        "What does the function do? Put ; between several descriptions of the same one. An empty line ends the demo."
    )
    trial = "unhub demo --query 'copy a file'"

    @cached_property
    def finder(self) -> Finder:
        return Finder(self.library, self.threads)

    def measure(self, progress: Progress | None = None) -> Evaluation:
        """Ask every query of the second half, raw and corrected."""
        asked = self.library.questions("queries")
        return unhub.evaluate(
            asked.vectors,
            self.library.items,
            asked.relevance,
            {CORRECTED: self.library.correction},
            MEASURES,
            hubness_k=None,
            threads=self.threads,
            progress=progress,
        )

    def sections(self, watch: Watch) -> Iterator[Section]:
        """Yield how often functions are found, how evenly they are shown, the worst hubs, and examples."""
        library = self.library
        yield Section(
            "Search the functions on this machine by what they do",
            tuple(function_lines.what_is_searched(library, self.code)),
        )
        asked = library.questions("queries")
        with watch("measure") as progress:
            measured = self.measure(progress)
        yield Section(
            "How often the right function is found",
            table=ResultTable.of(compared(measured)),
            after=(function_lines.ON_MEASURES,),
        )
        with watch("hubs") as progress:
            found = hubs.find_hubs(library, asked, self.threads, progress)
        never = function_lines.never_found(found, library, NEVER_FOUND)
        yield Section(
            evenness_title(found, "functions", "query"),
            table=ResultTable.plain(hubness_cells(found, "query", "queries", "functions")),
            lines=lambda width: function_lines.never_lines(found, library, never, width),
        )

        def hub_lines(width: int) -> Iterator[str]:
            for number, one in enumerate(hubs.hub_queries(found, asked, SWALLOWED), start=1):
                yield from function_lines.hub_lines(number, one, asked, library, width)

        yield Section(hubs_title(found, "functions"), (function_lines.on_hubs(found, asked, library),), lines=hub_lines)
        examples = examples_of(self.finder, asked, *measured.ranks)
        yield Section(
            examples_title(examples),
            (on_examples(examples, "queries", "function"),),
            lines=lambda width: (line for one in examples.shown for line in function_lines.example_lines(one, width)),
        )

    def to_dict(self, watch: Watch) -> dict[str, object]:
        """Return every figure for JSON."""
        library, asked = self.library, self.library.questions("queries")
        with watch("measure") as progress:
            measured = self.measure(progress)
        found = hubs.find_hubs(library, asked, self.threads)
        never = function_lines.never_found(found, library, NEVER_FOUND)
        read, code = library.read, self.code
        return {
            "items": len(library.items),
            "bank": len(library.questions("bank")),
            "queries": len(asked),
            "packages": dict(read.packages),
            "files": len(code.files),
            "copies": read.copies,
            "unread_files": read.unread,
            "too_large_files": code.too_large,
            "closed_folders": code.closed,
            "left_out_packages": list(code.left_out),
            "correction": library.correction.spec,
            "evaluation": measured.to_dict(),
            "hubs": hubs.to_dict(found, asked, library, SWALLOWED),
            "never_found": [{"id": library.read.ids[one], "name": library.names[one]} for one in never],
            "examples": examples_of(self.finder, asked, *measured.ranks).to_dict(),
        }

    def answer_lines(self, answer: Answer, width: int) -> Iterator[str]:
        """Yield the results of a description, raw beside corrected."""
        return function_lines.answer_lines(answer, width)

    def write_page(self, path: Path, command: str, progress: Progress | None = None) -> None:
        """Write the report on the queries, with the names of the functions."""
        library, asked = self.library, self.library.questions("queries")
        unhub.report(
            library.items,
            library.questions("bank").vectors,
            asked.vectors,
            asked.relevance,
            path=path,
            item_texts=[function_lines.title(library, place) for place in range(len(library.items))],
            query_texts=list(asked.texts),
            corrections=[library.correction],
            title=TITLE,
            command=command,
            threads=self.threads,
            progress=progress,
        )

    def write_files(self, folder: Path) -> list[str]:
        """Write the functions, both halves of the questions and the correction to a new folder."""
        library = self.library
        with new_folder(folder) as part:
            write_npz(library.items, part / "items.npz")
            write_names(library, part)
            save(library.correction, part / "correction.unhub")
            for half in HALVES:
                asked = library.questions(half)
                write_asked(asked, asked.relevance, part, half)
        return sorted(path.name for path in folder.iterdir())


def compared(measured: Evaluation) -> list[Compared]:
    """Return each measure, raw, corrected and the change."""
    raw, corrected = measured.rows
    names = [(one, str(one)) for one in measured.measures]
    return [Compared(one, raw.values[name], corrected.values[name], corrected.gains[name]) for one, name in names]


def open_demo(named: Sequence[str], watch: Watch, threads: int | None = None) -> FunctionDemo:
    """Read what is named, or what is installed, and return its demo."""
    opened = open_library(named, watch, threads)
    return FunctionDemo(opened.library, opened.code, threads)
