"""The page: everything a report shows, as one HTML file that loads nothing but pictures that are given by address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

from unhub.evaluation.pictures import Picture
from unhub.reports.findings import Findings
from unhub.reports.markup import Child, Markup, breakable, join, table, tag
from unhub.reports.report_tables import comparison, tiles
from unhub.reports.sections import Shown
from unhub.reports.verdict import Verdict
from unhub.studies.study import Study

BADGES = {
    "gain": ("good", "a gain beyond chance"),
    "harm": ("bad", "it does harm"),
    "unsure": ("warn", "no sure gain"),
    "unknown": ("", "no labels"),
    "none": ("", "no correction"),
}


@dataclass(frozen=True, eq=False)
class Page:
    """What is on the page, from top to bottom."""

    title: str
    findings: Findings
    verdict: Verdict
    shown: Shown
    occurrences: Sequence[Picture]
    similarities: Sequence[Picture]
    studies: Sequence[Study]
    notes: Sequence[str]
    facts: Sequence[tuple[str, str]]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All charts of the page."""
        return (*self.occurrences, *self.similarities, *(study.chart for study in self.studies))

    def to_html(self) -> str:
        """Return the whole file."""
        sections = [
            self._head(),
            self._before_and_after(),
            self._returned(),
            self.shown.hubs(),
            self.shown.examples(),
            self._studies(),
            self._similarities(),
            self._made(),
        ]
        return page_of(self.title, sections, self.shown.thumbnails.hosts)

    def _head(self) -> Markup:
        findings = self.findings
        kind, word = BADGES[self.verdict.word]
        counts = f"{findings.queries:,} queries, {len(findings.setting.item_ids):,} items. "
        method = tag("code", breakable(findings.shown))
        lead = join(counts, "“Before” is the raw ranking; “after” is corrected with ", method, ".")
        if findings.alone:
            lead = join(counts, "All figures are of the raw ranking.")
        leak = f"{self.verdict.leaked:,} queries are also in the bank" if self.verdict.leaked else None
        return tag(
            "header",
            tag("h1", self.title),
            tag("p", lead, kind="lead"),
            tag(
                "section",
                tag("span", word, kind=f"badge word {kind}"),
                tag("span", leak, kind="badge word warn") if leak else None,
                *(tag("p", sentence) for sentence in self.verdict.sentences),
                kind=f"verdict {self.verdict.word}",
                aria_label="Verdict",
            ),
            tiles(findings),
        )

    def _before_and_after(self) -> Markup:
        with_labels = (
            "In brackets: 95% intervals, by bootstrap over the queries; queries that share an answer are drawn "
            "together. Figures with a sign are gains over raw, with paired intervals; those in green or red are beyond "
            "chance."
        )
        without = "No relevance was given, so this page is about hubness only."
        return section(
            "The figures" if self.findings.alone else "Before and after",
            tag("p", with_labels if self.findings.rows else without, kind="note"),
            tag("div", comparison(self.findings), kind="card"),
            *(tag("p", note, kind="note") for note in self.notes),
        )

    def _returned(self) -> Markup:
        return section(
            "Which items are returned",
            tag(
                "p",
                "A hub is an item that comes up for many different queries, in place of better answers.",
                kind="note",
            ),
            tag("div", *map(figure, self.occurrences), kind="pair"),
        )

    def _studies(self) -> Markup:
        if not self.studies:
            return Markup("")
        note = "These curves use the queries of this report: do not choose a setting here and then report its figure."
        return section(
            "How much the settings matter",
            tag("p", note, kind="note"),
            tag("div", *(figure(study.chart, numbers(study)) for study in self.studies), kind="pair"),
        )

    def _similarities(self) -> Markup:
        rows, own = "queries drawn at random", "items drawn at random"
        if self.findings.truth is not None:
            rows += ", no two with the same answer"
            own = "one answer of each query, so the answers lie on a diagonal"
        note = (
            f"Rows are {rows}. The columns on the left are the worst hubs; those on the right are {own}. A dot marks "
            f"an item among the first {self.findings.hubness[0].k} of its row."
        )
        return section(
            "Similarities", tag("p", note, kind="note"), tag("div", *map(figure, self.similarities), kind="pair")
        )

    def _made(self) -> Markup:
        rows: list[list[Child]] = [[name, tag("code", value)] for name, value in self.facts]
        return section("How this report was made", tag("div", table([], rows, kind="facts"), kind="card"))


def page_of(title: str, sections: Sequence[Markup], hosts: Sequence[str] = ()) -> str:
    """Return the whole file of a page, which loads nothing, except pictures from these hosts."""
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    page = Template(template).substitute(
        title=join(title), body="\n".join(sections), hosts="".join(f" {host}" for host in hosts)
    )
    # The name of a file need not be UTF-8, but a page is: what it cannot hold is shown as \udce9.
    return page.encode("utf-8", "backslashreplace").decode()


def section(title: str, *children: Child) -> Markup:
    """Return a section under a heading."""
    return tag("section", tag("h2", title), *children)


def figure(picture: Picture, more: Child = None) -> Markup:
    """Return a picture with its title, in the colours of the page."""
    return tag("figure", tag("figcaption", picture.title), Markup(picture.inline()), more, kind="card")


def numbers(study: Study) -> Markup:
    """Return the table of a study, folded."""
    heads, rows = study.cells()
    raw = None if study.raw is None else tag("p", f"Raw: {study.raw}.", kind="note")
    return tag(
        "details",
        tag("summary", "Show the numbers"),
        table([breakable(head) for head in heads], [list(row) for row in rows]),
        raw,
        *(tag("p", note, kind="note") for note in (f"In brackets: {study.ranges}.", *study.notes)),
    )
