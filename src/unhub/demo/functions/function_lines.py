"""Lines of functions: the text of the demo, for a terminal of a given width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from unhub.demo.examples import Example
from unhub.demo.finding import Answer, Hit
from unhub.demo.functions.code_files import CodeFiles
from unhub.demo.functions.library import Collection, Library, Questions
from unhub.demo.hubs import HubQueries
from unhub.demo.lines import paragraph, ranked_places, unknown_lines
from unhub.evaluation.hubness import Hubs
from unhub.evaluation.tables import counted
from unhub.html_tables import visible

NAMED_PACKAGES = 6  # in the first paragraph
EXAMPLE_HITS = 4  # shown side by side
TWO_COLUMNS_WIDTH = 96  # from which raw stands beside corrected
CUT = "…"
GAP = "  "


def what_is_searched(library: Library, code: CodeFiles) -> list[str]:
    """Say what is searched, what asks, and what the correction is, in a paragraph each."""
    read = library.read
    bank, queries = (len(library.questions(half)) for half in ("bank", "queries"))
    return [
        f"This demo searches {len(read.ids):,} Python functions on this machine, of {_packages(read)}. The docstring "
        "of each function says what it does; its first paragraph is the query, and the code without any docstring is "
        f"what is searched. {_left_out(read, code)}",
        "A small model, a table of word vectors, turns both into vectors, and a search shows the functions nearest to "
        "the query. Some functions are near to almost any query. These hubs push out what was asked for.",
        f"The correction comes from {bank:,} docstrings, half of them, drawn at random: one number for each function, "
        f"which ranking subtracts ({library.correction.spec!r}). Nobody said which function they belong to. The other "
        f"{queries:,} are the queries of the tables.",
    ]


def _packages(read: Collection) -> str:
    named = [f"{name} ({count:,})" for name, count in read.packages.items()]
    if len(named) > NAMED_PACKAGES:
        rest = list(read.packages.values())[NAMED_PACKAGES:]
        named[NAMED_PACKAGES:] = [f"{counted(len(rest), 'other package', 'other packages')} ({sum(rest):,})"]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _left_out(read: Collection, code: CodeFiles) -> str:
    told = [counted(len(code.files), "file was read", "files were read")]
    for number, one, many in (
        (read.copies, "copy of another function was left out", "copies of other functions were left out"),
        (read.unread, "file could not be read", "files could not be read"),
        (code.too_large, "file was too large", "files were too large"),
        (code.closed, "folder could not be opened", "folders could not be opened"),
    ):
        if number:
            told.append(counted(number, one, many))
    left = code.left_out
    packages = ""
    if left:
        packages = (
            f" Left out, to be quick: {', '.join(left[:4])}"
            f"{f' and {len(left) - 4} more' if len(left) > 4 else ''}; --code {left[-1]} searches one of them."
        )
    return f"{'; '.join(told)}.{packages}"


ON_MEASURES = (
    "R@k: the percentage of queries with the right function among the first k. MdR: the median rank of the right "
    "function; lower is better. Brackets hold 95% intervals. A change in green or red is larger than chance."
)


def never_found(found: Hubs, library: Library, count: int) -> list[int]:
    """Return functions that no query shows raw, those first that most queries show corrected."""
    assert found.after is not None
    before, after = found.before.counts, found.after.counts
    order = sorted((place for place in range(len(before)) if not before[place]), key=lambda one: (-after[one], one))
    return order[:count]


def never_lines(found: Hubs, library: Library, places: Sequence[int], width: int) -> Iterator[str]:
    """Yield how many functions no query shows, and some of them by name."""
    assert found.after is not None
    before, after = ((one.counts == 0).sum() for one in (found.before, found.after))
    total = len(library.items)
    yield from paragraph(
        f"{before:,} functions ({before / total:.1%}) are never found raw, whatever is asked; corrected {after:,} "
        f"({after / total:.1%}). Some of the first kind, and how many queries show them now:",
        width,
    )
    for place in places:
        yield f"   {found.after.counts[place]:>3,}  {_fitted(library, place, width - 8)}"


def title(library: Library, place: int) -> str:
    """Return what a function is called: its file, line and name."""
    return named(library.items.ids[place].item(), library.names[place])


def _fitted(library: Library, place: int, width: int) -> str:
    return fitted(library.items.ids[place].item(), library.names[place], width)


def named(item: str, name: str) -> str:
    """Return file, line and name as one text."""
    return visible(f"{item} {name}")


def on_hubs(found: Hubs, asked: Questions, library: Library) -> str:
    """Say what an equal share is, and what stands below a hub."""
    share = found.before.k * len(asked) / len(library.items)
    return (
        f"If all functions were shown equally often, each would be in {share:,.0f} of {len(asked):,} lists of "
        f"{found.before.k}. Below each hub is what it swallowed: queries that show it but ask for another function."
    )


def hub_lines(number: int, one: HubQueries, asked: Questions, library: Library, width: int) -> Iterator[str]:
    """Yield a hub, in how many lists it is, and queries that ask for another function."""
    hub = one.hub
    yield f"{number}. {_fitted(library, hub.position, width - 3)}"
    yield f"   in {hub.before:,} lists, in {hub.after:,} after the correction"
    for what, queries in (("no longer for", one.freed), ("still for", one.kept)):
        if queries:
            yield f"   {what}"
            yield from (cut(f"     {visible(asked.texts[query])}", width) for query in queries)


def example_lines(one: Example, width: int) -> Iterator[str]:
    """Yield a query, the function that it asks for, and the results, raw beside corrected."""
    yield from paragraph(visible(one.answer.text), width, "    ", "")
    yield f"  asks for {fitted(one.id, one.name, width - 11)}"
    places = ranked_places(one)
    shown = {f"{ranking}: {places[ranking].strip()}": hits for ranking, hits in one.answer.rankings.items()}
    yield from _side_by_side({head: hits[:EXAMPLE_HITS] for head, hits in shown.items()}, width, one.right)


def answer_lines(answer: Answer, width: int) -> Iterator[str]:
    """Yield the results of a description, raw beside corrected, with file and line."""
    yield from unknown_lines(answer, width)
    yield from _side_by_side(answer.rankings, width)


def _side_by_side(shown: dict[str, tuple[Hit, ...]], width: int, right: Iterable[str] = ()) -> Iterator[str]:
    """Yield both rankings in two columns, or below one another where the terminal is narrow."""
    marked = frozenset(right)
    room = width if width < TWO_COLUMNS_WIDTH else (width - len(GAP)) // 2
    columns = [[f"  {head}", *(f"    {_hit(hit, marked, room - 4)}" for hit in hits)] for head, hits in shown.items()]
    if width < TWO_COLUMNS_WIDTH:
        yield from (line for column in columns for line in column)
        return
    for left, beside in zip(*columns, strict=True):
        yield f"{left:<{room}}{GAP}{beside}".rstrip()


def _hit(hit: Hit, right: frozenset[str], width: int) -> str:
    return f"[{fitted(hit.id, hit.name, width - 2)}]" if hit.id in right else fitted(hit.id, hit.name, width)


def cut(text: str, width: int) -> str:
    """Return a line that keeps to a width, its end cut off at a word if need be."""
    if len(text) <= width:
        return text
    indent = len(text) - len(text.lstrip())
    return text[:indent] + textwrap.shorten(text[indent:], width - indent, placeholder=f" {CUT}")


def fitted(item: str, name: str, width: int) -> str:
    """Return file, line and name in a width: folders are left out first, then the beginning of the name."""
    whole = named(item, name)
    while len(whole) > width and "/" in item.removeprefix(f"{CUT}/"):
        item = f"{CUT}/{item.removeprefix(f'{CUT}/').partition('/')[2]}"
        whole = named(item, name)
    while len(whole) > width and "." in name:
        name = name.partition(".")[2]
        whole = named(item, name)
    return whole if len(whole) <= width else whole[: width - 1] + CUT
