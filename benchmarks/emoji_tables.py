"""Tables of the emoji benchmark from what was measured, and the page they are written into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from emoji_data import Source, Task, different
from emoji_sets import JOINED, SHOWN_SIZES, Compared, SetBank
from multi_tables import as_markdown
from unhub.atomic import replacing
from unhub.banks.judging import BankReport
from unhub.evaluation.confidence import Interval
from unhub.evaluation.evaluate import Evaluation
from unhub.evaluation.inputs import RAW
from unhub.multi.scoring import SetRow
from unhub.tuning.outcome import TriedSetting

BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
SPLIT_TITLES = {"known": "Known catalogue", "unseen": "Unseen emoji"}
GAIN, SKEWNESS = "gain in R@1", "skewness@10"


class Section(NamedTuple):
    """A heading, a paragraph about the table, and the table, if it has rows."""

    title: str
    words: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

    def __str__(self) -> str:
        parts = (f"### {self.title}", self.words, as_markdown(self.heads, self.rows) if self.rows else "")
        return "\n\n".join(part for part in parts if part)


class Skewed(NamedTuple):
    """Rankings measured on the same queries, and the skewness of each over the different ones; a plan has none."""

    found: Evaluation
    skewness: Mapping[str, Interval]

    def skewness_of(self, name: str) -> str:
        """Return the skewness as text."""
        return f"{self.skewness[name]:.2f}" if name in self.skewness else ""


class BankRow(NamedTuple):
    """A bank: what `judge_bank` says about it, and what it gains."""

    name: str
    report: BankReport
    measured: Skewed


def write_page(path: Path, sections: Iterable[Section]) -> None:
    """Put the tables between the markers of a page."""
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{path} must hold {BEGIN} once and {END} once after it, to put the tables between")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    with replacing(path) as new:
        new.write_text("\n\n".join([before, *map(str, sections), after]), encoding="utf-8")


def data_section(sources: Sequence[Source]) -> Section:
    """Count the texts and emoji of each split."""
    rows = []
    for source in sources:
        for split in ("train", "bank", "val", "test"):
            mine = [row for row in source.space.described if row[3] == split]
            kinds = [row[2] for row in mine]
            rows.append(
                [
                    SPLIT_TITLES[source.split],
                    f"`{split}`",
                    f"{len({row[1] for row in mine}):,}",
                    f"{kinds.count('name'):,}",
                    f"{kinds.count('keyword'):,}",
                    f"{len({row[0] for row in mine}):,}",
                ]
            )
    galleries = ", ".join(f"{len(one.space.items):,} ({SPLIT_TITLES[one.split].lower()})" for one in sources)
    return Section(
        "The splits",
        f"Emoji in the gallery: {galleries}.",
        ["split", "texts for", "emoji", "names", "keywords", "different texts"],
        rows,
    )


def choice_section(chosen: Mapping[str, Mapping[str, Mapping[str, TriedSetting]]]) -> Section:
    """Show what was chosen on `val`, by split, direction and method, with the measure there in brackets."""
    columns = {
        f"{SPLIT_TITLES[split].lower()}, {direction}": one
        for split, both in chosen.items()
        for direction, one in both.items()
    }
    methods = dict.fromkeys(method for one in columns.values() for method in one)
    rows = [
        [f"`{method}`", *(_choice(one[method]) if method in one else "" for one in columns.values())]
        for method in methods
    ]
    words = "The setting of each method with the highest GM (in brackets), the geometric mean of R@1, R@5 and R@10."
    return Section("What was chosen on `val`", words, ["method", *columns], rows)


def _choice(one: TriedSetting) -> str:
    parameters = one.spec.partition(":")[2].replace(",", ", ")
    return f"{f'`{parameters}` ' if parameters else ''}({one.value:.1f})"


def methods_section(title: str, words: str, measured: Skewed) -> Section:
    """Show every ranking with intervals."""
    found = measured.found
    names = [str(measure) for measure in found.measures]
    rows = [
        [
            f"`{row.name}`",
            *(f"{row.values[name]:.1f}" for name in names),
            measured.skewness_of(row.name),
            f"{row.gains['R@1']:+z.2f}" if row.gains else "",
        ]
        for row in found.rows
    ]
    counted = f"{len(found.query_ids):,} queries, {found.items:,} items. {words}".strip()
    return Section(title, counted, ["ranking", *names, SKEWNESS, GAIN], rows)


def ceiling(task: Task) -> str:
    """Say how high R@1 can be if the same query has several right answers."""
    once, every = len(different(task.queries)), len(task.queries)
    most = f"{100 * once / every:.0f}"
    return "" if once == every else f"The same text asks for several emoji: R@1 is at most {most}. "


def banks_section(title: str, words: str, banks: Sequence[BankRow]) -> Section:
    """Show what each bank gains at the same settings."""
    raw = banks[0].measured.found[RAW]
    specs = [row.name for row in banks[0].measured.found.rows[1:]]
    rows = [
        [
            bank.name,
            f"{bank.report.size:,}",
            ", ".join(bank.report.problems) or bank.report.verdict,
            *(
                cell
                for row in bank.measured.found.rows[1:]
                for cell in (f"{row.gains['R@1']:+z.2f}", bank.measured.skewness_of(row.name))
            ),
        ]
        for bank in banks
    ]
    heads = [
        "bank",
        "bank queries",
        "`judge_bank`",
        *(head for spec in specs for head in (f"`{spec}`: {GAIN}", SKEWNESS)),
    ]
    before = f"Raw: R@1 {raw.values['R@1']:.1f}, {SKEWNESS} {banks[0].measured.skewness_of(RAW)}."
    return Section(title, f"{before} {words}".strip(), heads, rows)


def sets_section(title: str, words: str, compared: Compared) -> Section:
    """Show sets of 1, 3 and 5 keywords in every way; a single keyword is the same in all of them."""
    found = compared.found
    measures = [str(measure) for measure in found.measures]
    joined = {(row.ranking, row.size): row for row in compared.joined if row.combination == JOINED}
    rows = []
    for size in (size for size in SHOWN_SIZES if size in found.targets):
        ways = found.combinations if size > 1 else found.combinations[:1]
        for ranking in found.rankings:
            mine = [found[way, ranking, size] for way in ways] + ([joined[ranking, size]] if size > 1 else [])
            for row in mine:
                way = row.combination if size > 1 else "any"
                rows.append([str(size), ranking, way, *_figures(row, measures)])
    counts = ", ".join(f"{found.targets[size]:,} with {size}" for size in SHOWN_SIZES if size in found.targets)
    heads = ["keywords", "ranking", "combined by", *measures, f"{GAIN} over raw", f"over `{compared.head}`"]
    return Section(title, f"Emoji with this many test keywords or more: {counts}. {words}".strip(), heads, rows)


def _figures(row: SetRow, measures: Sequence[str]) -> list[str]:
    gains = [f"{gain['R@1']:+z.2f}" if gain else "" for gain in (row.over_raw, row.over_first)]
    if row.size == 1:
        gains[1] = ""
    return [*(f"{row.values[name]:.1f}" for name in measures), *gains]


def areas_section(title: str, compared: Compared) -> Section:
    """Show the areas under the curves from one keyword to five."""
    found = compared.found
    last = max(found.sizes)
    areas = [*found.areas, *(area for area in compared.areas if area.combination == JOINED)]
    shown = [area for area in areas if area.size == last and area.measure in ("R@1", "R@10")]
    lines: dict[tuple[str, str], list[str]] = {}
    for area in shown:
        cells = lines.setdefault((area.combination, area.ranking), [])
        cells += [f"{area.value:.1f}", f"{area.over_raw:+z.2f}" if area.over_raw else ""]
    names = dict.fromkeys(area.name for area in shown)
    heads = ["combined by", "ranking", *(head for name in names for head in (name, "over raw"))]
    words = f"Over the {shown[0].items:,} emoji with at least {last} test keywords." if shown else ""
    return Section(title, words, heads, [[*line, *cells] for line, cells in lines.items()])


def set_banks_section(title: str, words: str, banks: Sequence[SetBank]) -> Section:
    """Show what banks of single texts and of sets gain for sets of keywords, on `val`."""
    sizes = list(banks[0].tuned)
    rows = []
    for bank in banks:
        cells = []
        for size in sizes:
            tuning = bank.tuned[size]
            best = next(row for row in tuning.table if row.spec != RAW)
            assert tuning.gain is not None
            cells += [f"{tuning.gain:+z.2f}", f"`{best.spec}`"]
        rows.append([str(bank.made_of), f"{bank.queries:,}", *cells])
    asked = [head for size in sizes for head in (f"asked with {size}", "best setting")]
    return Section(title, words, ["texts in a bank query", "bank queries", *asked], rows)
