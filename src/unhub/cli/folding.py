"""Tables and sentences that fit the terminal they are shown on; piped, nothing is folded or cut."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unhub.cli.display import echo, echo_json, facts, table, wrapped
from unhub.cli.errors import argument
from unhub.cli.inputs import takes_versions
from unhub.evaluation.tables import counted, widths_of
from unhub.html_tables import Table, visible

if TYPE_CHECKING:
    from unhub.correction import Correction
    from unhub.files.corrections import Manifest


GAP_COLUMNS = 2  # between two columns of a table
LEAST_WORD_COLUMNS = 16  # however narrow the terminal is


def terminal_width() -> int | None:
    """Return how many columns stdout has; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def width_of(shown: Table) -> int:
    """Return how wide a table is."""
    heads, rows = shown
    return sum(widths_of(heads, rows)) + GAP_COLUMNS * (len(heads) - 1)


def show(shown: Table) -> None:
    """Print a table, in parts below one another where the terminal is too narrow."""
    width = terminal_width()
    for number, part in enumerate([shown] if width is None else folded(shown, width)):
        if number:
            echo()
        table(*part)


def show_words(shown: Table) -> None:
    """Print a table whose last column holds words, wrapped where the terminal is too narrow."""
    heads, rows = shown
    width = terminal_width()
    if width is not None:
        last = len(heads) - 1
        room = max(LEAST_WORD_COLUMNS, width - sum(GAP_COLUMNS + one for one in widths_of(heads, rows)[:last]))
        rows = [line for row in rows for line in wrapped(row, {last: room})]
    table(heads, rows)


def save(correction: Correction, path: Path, quiet: bool, as_json: bool, why: str) -> None:
    """Save a correction to `path`, which was checked before, and say what was written. why: what was done."""
    file, manifest = write_correction(correction, path, why)
    if as_json:
        echo_json({"path": str(file), **manifest})
    elif not quiet:
        show_words((("wrote", str(file)), facts(manifest)))


def write_correction(correction: Correction, path: Path, why: str) -> tuple[Path, Manifest]:
    """Save a correction to a file, or as the next version in a folder of versions; return the file and its manifest."""
    from unhub import files

    if not takes_versions(path):
        return path, files.save_correction(correction, path, overwrite=True)
    from unhub.deploying.kept_versions import keep

    with argument("--output", "folder"):
        file = keep(correction, path, why=why).versions[-1].path
    return file, files.read_manifest(file)


def note_other_items(correction: Correction, path: Path, quiet: bool) -> None:
    """Say on stderr if the active version of a folder of versions, which this one is to follow, is of other items."""
    if quiet or not takes_versions(path):
        return
    from unhub import files
    from unhub.arrays import are_among

    try:
        ids = files.load(path, "correction").ids
    except (OSError, ValueError):
        return  # none is active, or it is damaged, and a new version is the way out
    common = int(are_among(correction.ids, ids).sum()) if ids.dtype.kind == correction.ids.dtype.kind else 0
    gone, new = len(ids) - common, len(correction.ids) - common
    if gone or new:
        changes = f"{counted(gone, 'is', 'are')} gone, {counted(new, 'is', 'are')} new"
        held = counted(len(ids), "item", "items")
        echo(f"unhub: note: the version that was active in {path} has {held}; {changes}", err=True)


def tell(*sentences: str) -> None:
    """Print sentences, each on its own line, wrapped where the terminal is too narrow."""
    width = terminal_width()
    for one in map(visible, sentences):
        echo(one if width is None else textwrap.fill(one, width, break_long_words=False, break_on_hyphens=False))


def show_brief(shown: Table, measures: int) -> None:
    """Print a table as it is if it fits, else with the interval of the first measure only.

    The measures are the columns after the first one; the interval that stays comes after their values.
    """
    width = terminal_width()
    heads, rows = shown
    if width is not None and width_of(shown) > width:
        heads = [*heads[: 1 + measures], f"{heads[1]} interval", *heads[1 + measures :]]
        rows = [
            [
                row[0],
                *(cell.partition(" [")[0] for cell in row[1 : 1 + measures]),
                row[1].partition(" ")[2],
                *row[1 + measures :],
            ]
            for row in rows
        ]
    show((heads, rows))


def folded(shown: Table, width: int) -> Iterator[Table]:
    """Yield a table in parts that keep to a width as far as they can, each with the first column."""
    heads, rows = shown
    widths = widths_of(heads, rows)
    taken: list[int] = []
    for column in range(1, len(heads)):
        if taken and widths[0] + sum(GAP_COLUMNS + widths[one] for one in (*taken, column)) > width:
            yield _part(shown, taken)
            taken = []
        taken.append(column)
    yield _part(shown, taken)


def _part(shown: Table, columns: Sequence[int]) -> Table:
    heads, rows = shown
    # A row that only continues a cell of another part has nothing to show here.
    shown_rows = ([row[at] for at in (0, *columns)] for row in rows)
    return [heads[at] for at in (0, *columns)], [row for row in shown_rows if any(row)]
