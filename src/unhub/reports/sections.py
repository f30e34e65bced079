"""The sections of the page that show items and queries: the worst hubs, and some queries before and after."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from unhub.evaluation.hubness import top_items
from unhub.reports.before_after import (
    EXAMPLE_COUNT,
    EXAMPLE_RULE,
    HUB_RULE,
    UNLABELLED_EXAMPLE_RULE,
    UNLABELLED_HUB_RULE,
    ShownHub,
    ShownQuery,
    changed,
    examples,
    worst_hubs,
)
from unhub.reports.findings import SHOWN_PLACES, Findings
from unhub.reports.labels import Labels, Thumbnails
from unhub.reports.markup import Child, Markup, tag

KINDS = {"gained": "good", "lost": "bad", "changed": ""}


@dataclass(frozen=True, eq=False)
class Shown:
    """Shows items and queries by their labels."""

    findings: Findings
    items: Labels
    queries: Labels
    seed: int = 0
    thumbnails: Thumbnails = field(default_factory=Thumbnails)
    _drawn: set[int] = field(default_factory=set)  # items shown so far

    def hubs(self) -> Markup:
        """Return the worst hubs, each with how often it is returned and with queries that return it."""
        labelled = self.findings.truth is not None
        k = self.findings.hubness[0].k
        found = worst_hubs(self.findings, self.seed)
        most = max((max(hub.before, hub.after or 0) for hub in found), default=1)
        return tag(
            "section",
            tag("h2", "The worst hubs"),
            tag("p", (HUB_RULE if labelled else UNLABELLED_HUB_RULE).format(k=k), kind="note"),
            tag("ul", *(self._hub(hub, most) for hub in found), kind="hubs"),
        )

    def _hub(self, hub: ShownHub, most: int) -> Markup:
        asked = [tag("li", self.queries.text(query)) for query in hub.queries]
        after = () if hub.after is None else _meter("after", hub.after, most, "")
        return tag(
            "li",
            self._thumbnail(hub.item),
            tag(
                "div",
                tag("h3", self.items.text(hub.item)),
                tag("div", *_meter("before" if after else "raw", hub.before, most, "raw"), *after, kind="meter"),
                tag("ul", *asked, kind="asked") if asked else None,
            ),
            kind="hub card",
        )

    def examples(self) -> Markup:
        """Return some queries with their first items before and after, gains and losses; none for raw alone."""
        if self.findings.alone:
            return tag("section", *self._notes())
        found = examples(self.findings, self.seed)
        came, left = (len(queries) for queries in self.findings.moved())
        labelled = self.findings.truth is not None
        rule = EXAMPLE_RULE if labelled else UNLABELLED_EXAMPLE_RULE
        note = rule.format(
            came=came if labelled else len(changed(self.findings)),
            left=left,
            shown=SHOWN_PLACES,
            count=EXAMPLE_COUNT,
            seed=self.seed,
            reached=self.findings.reached,
        )
        return tag(
            "section",
            tag("h2", "The same queries, before and after"),
            _tally(came, left, self.findings.ranks.shape[1], self.findings.reached) if labelled else None,
            tag("p", note, kind="note"),
            tag("div", *map(self._example, found), kind="examples"),
            *self._notes(),
        )

    def _notes(self) -> list[Markup]:
        return [tag("p", note, kind="note") for note in self.missing]

    def _example(self, example: ShownQuery) -> Markup:
        moved = None
        if example.ranks is not None:
            moved = tag("span", "rank of its answer: {:,.4g} → {:,.4g}".format(*example.ranks), kind="moved")
        badge = tag("span", example.word, kind=f"badge {KINDS[example.word]}")
        sides = (
            self._side(name, found, example.query)
            for name, found in (("before", example.before), ("after", example.after))
        )
        return tag(
            "article",
            tag("div", badge, tag("h3", self.queries.text(example.query)), moved, kind="asking"),
            tag("div", *sides, kind="sides"),
            kind="card",
        )

    def _side(self, name: str, items: tuple[int, ...], query: int) -> Markup:
        with_pictures = self.items.pictures is not None
        answers = set(self.findings.answers(query).tolist())
        entries = [self._entry(place, item, item in answers) for place, item in enumerate(items, start=1)]
        return tag("div", tag("h4", name), tag("ol", *entries), kind=f"side{' thumbs' if with_pictures else ''}")

    def _entry(self, place: int, item: int, answer: bool) -> Markup:
        small = self.items.pictures is not None
        badges = [tag("span", "✓" if small else "✓ answer", kind="badge good", title="an answer")] if answer else []
        if item in self._hub_items:
            times = f"{self.findings.hubness[0].counts[item]:,}×"
            title = f"returned {times} by the raw ranking; among its {len(self._hub_items):,} most returned items"
            badges.append(tag("span", "hub" if small else f"hub, {times}", kind="badge warn", title=title))
        words, kind = self.items.text(item), "answer" if answer else None
        if small:
            return tag("li", self._thumbnail(item), *badges, tag("span", words, kind="words"), kind=kind)
        return tag("li", tag("span", str(place), kind="place"), tag("span", words), *badges, kind=kind)

    @property
    def missing(self) -> tuple[str, ...]:
        """Notes on the items shown so far that have no picture, and on pictures that could not be read."""
        bare = [item for item in self._drawn if self.items.picture(item) is None]
        paths = self.thumbnails.missing
        notes = []
        if bare:
            notes.append(f"{len(bare):,} of the {len(self._drawn):,} items shown have no picture.")
        if paths:
            notes.append(f"{len(paths):,} pictures could not be read, for example {paths[0]}.")
        return tuple(notes)

    @functools.cached_property
    def _hub_items(self) -> set[int]:
        raw = self.findings.hubness[0]
        return set(raw.hubs(top_items(len(raw.counts))).tolist())

    def _thumbnail(self, item: int) -> Child:
        if self.items.pictures is None:
            return None
        self._drawn.add(item)
        path = self.items.picture(item)
        source = None if path is None else self.thumbnails.source(path)
        if source is None:
            return tag("span", "no picture", kind="thumb")
        words = self.items.text(item)
        # An image has no closing tag, so it is written by hand; everything in it is escaped.
        return Markup(str(tag("img", src=source, alt=words, title=words, kind="thumb")).removesuffix("</img>"))


def _meter(name: str, count: int, most: int, kind: str) -> tuple[Markup, Markup, Markup]:
    fill = tag("span", kind=f"fill {kind}".strip(), style=f"width:{100 * count / most:.1f}%")
    return tag("span", name), tag("span", fill, kind="track"), tag("span", f"{count:,}×", kind="count")


def _tally(came: int, left: int, queries: int, reached: str) -> Markup:
    """Return a bar of how many queries gained, lost, and did neither."""
    parts = {
        "came": (came, f"{came:,} gained their answer {reached}", "good"),
        "stay": (queries - came - left, f"{queries - came - left:,} neither gained nor lost it", "faint"),
        "left": (left, f"{left:,} lost it", "bad"),
    }
    spans = [tag("span", kind=kind, style=f"flex:{count}") for kind, (count, _, _) in parts.items() if count]
    legend = [tag("span", tag("i", style=f"background:var(--{ink})"), words) for count, words, ink in parts.values()]
    label = ", ".join(words for _, words, _ in parts.values())
    return tag(
        "div", tag("div", *spans, kind="tally", role="img", aria_label=label), tag("div", *legend, kind="legend")
    )
