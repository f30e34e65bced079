"""The demo of emoji: search them by description, on real texts and pictures that come with the package."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unhub.compute.workers import Progress
from unhub.demo import hubs
from unhub.demo.emoji import emoji_lines, set_tables
from unhub.demo.emoji.page import write_emoji_page
from unhub.demo.emoji.space import FOLDER, Space, Split
from unhub.demo.examples import choose_examples
from unhub.demo.exporting import new_folder, write_asked, write_names
from unhub.demo.finding import Answer, Finder
from unhub.demo.lines import evenness_title, examples_title, hubs_title, on_examples
from unhub.demo.result_tables import ResultTable, hubness_cells
from unhub.demo.showing import Section, Watch

SPLITS: tuple[Split, ...] = ("bank", "val", "test")


@dataclass(frozen=True, eq=False)
class EmojiDemo:
    """The sections and files of a space of emoji."""

    space: Space
    threads: int | None = None
    invitation = "Describe an emoji. Put ; between several descriptions of the same one. An empty line ends the demo."
    trial = "unhub demo emoji --query 'birthday cake'"

    @property
    def finder(self) -> Finder:
        return Finder(self.space, self.threads)

    def sections(self, watch: Watch) -> Iterator[Section]:
        """Yield how often emoji are found, how evenly they are shown, the worst hubs, and examples."""
        space = self.space
        yield Section("Search emoji by description", tuple(emoji_lines.what_is_shown(space)))
        asked = space.descriptions("test", "keyword")
        with watch("measure") as progress:
            measured = set_tables.measure(space, asked, self.threads, progress)
        explained = emoji_lines.on_measures(measured, asked, space.descriptions("bank"))
        yield Section(
            "How often the right emoji is found", table=set_tables.set_table(measured), after=tuple(explained)
        )
        once = asked.once()
        with watch("hubs") as progress:
            found = hubs.find_hubs(space, once, self.threads, progress)
        yield Section(
            evenness_title(found, "emoji", "keyword"),
            table=ResultTable.plain(hubness_cells(found, "keyword", "keywords", "emoji")),
        )

        def hub_lines(width: int) -> Iterator[str]:
            for number, one in enumerate(hubs.hub_queries(found, once), start=1):
                yield from emoji_lines.hub_lines(number, one, once, space, width)

        yield Section(hubs_title(found, "emoji"), (emoji_lines.on_hubs(found, once, space),), lines=hub_lines)
        with watch("examples") as progress:
            examples = choose_examples(self.finder, space.descriptions("val", "keyword"), progress)
        yield Section(
            examples_title(examples),
            (on_examples(examples, "validation keywords", "emoji"),),
            lines=lambda width: (line for one in examples.shown for line in emoji_lines.example_lines(one, width)),
        )

    def to_dict(self, watch: Watch) -> dict[str, object]:
        """Return every figure for JSON."""
        space = self.space
        asked = space.descriptions("test", "keyword")
        with watch("measure") as progress:
            measured = set_tables.measure(space, asked, self.threads, progress)
        once = asked.once()
        found = hubs.find_hubs(space, once, self.threads)
        return {
            "items": len(space.items),
            "queries": len(asked),
            "correction": space.correction.spec,
            "sets": measured.to_dict(),
            "hubs": hubs.to_dict(found, once, space),
            "examples": choose_examples(self.finder, space.descriptions("val", "keyword")).to_dict(),
        }

    def answer_lines(self, answer: Answer, width: int) -> Iterator[str]:
        """Yield the results of a description, raw and corrected."""
        return emoji_lines.answer_lines(answer, width)

    def write_page(self, path: Path, command: str, progress: Progress | None = None) -> None:
        """Write the report on the test keywords."""
        write_emoji_page(self.space, path, command, self.threads, progress)

    def write_files(self, folder: Path, source: Path | None = None) -> list[str]:
        """Copy the shipped files to a new folder, add the queries as vectors, and return the names of the files.

        For each split, NAME.npz has its texts as vectors, each once, NAME.csv the emoji that each asks for (query_id,
        item_id), and NAME_texts.csv the texts (id, text). names.csv has the names of the emoji.
        """
        with new_folder(folder) as part:
            shutil.copytree(source or FOLDER, part, dirs_exist_ok=True)
            write_names(self.space, part)
            for split in SPLITS:
                write_asked(*self.space.descriptions(split).joined(), part, split)
        return sorted(path.name for path in folder.iterdir())
