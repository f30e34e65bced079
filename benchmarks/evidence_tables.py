"""Tables of the evidence benchmark, from what was measured, and the words beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from emoji_tables import Section
from evidence_banks import BANKS, BadBank, worst
from evidence_measure import COLUMNS, RULES, WITH, WITHOUT, Figures, Tuned, signed
from unhub.evaluation.inputs import RAW

NOT_MEASURED = "–"
SET_TITLES: Mapping[str, str] = {
    "code": "Code",
    "flickr8k_ridge": "Flickr8k ridge",
    "flickr8k_vse_holdout": "Flickr8k vse_holdout",
    "cub": "CUB",
    "msrvtt": "MSR-VTT 1k-A",
    "msrvtt_halves": "MSR-VTT halves",
    "clip_shop": "CLIP shop",
    "clip_styles": "CLIP styles",
    "functions": "Functions",
}
TUNED_COLUMNS = {WITHOUT: "`tune`", WITH: "`tune`, queries"}


class Found(NamedTuple):
    """All that was measured: the figures of each case, the bad banks by case, and what was left out."""

    figures: Sequence[Figures]
    banks: Mapping[str, Sequence[BadBank]]
    command: str
    absent: Sequence[str] = ()
    quick: bool = False


def title_of(figures: Figures) -> str:
    """Return the name of a case for readers."""
    return f"{SET_TITLES.get(figures.name, figures.name)}, {figures.direction}"


def sections_of(found: Found) -> list[Section]:
    """Return everything that the page shows between its markers."""
    return [
        run_section(found),
        tune_section(found.figures),
        methods_section(found.figures),
        *banks_sections(found),
    ]


def run_section(found: Found) -> Section:
    """Say which command made the figures, on what, and what was left out."""
    words = [f"Made by `{found.command}`."]
    if found.quick:
        words.append("A quick look: at most 1,000 queries and 2,000 bank queries of each half or set.")
    if found.absent:
        words.append(f"Left out, because their files were absent or they were not named: {', '.join(found.absent)}.")
    rows = [
        [
            title_of(one),
            *(f"{count:,}" for count in (one.queries, one.items, one.bank)),
            f"{one.recall:.1f}",
            f"{one.skewness:.1f}",
        ]
        for one in found.figures
    ]
    heads = ["set, direction", "queries", "items", "bank", "raw R@1", "skewness at 10"]
    return Section("What was measured", " ".join(words), heads, rows)


def tune_section(figures: Sequence[Figures]) -> Section:
    """Compare what `tune` gains without labels with the labelled best."""
    rows = []
    for one in figures:
        best = one.labelled[one.best]
        tuned = [cell for rule in RULES for cell in _tuned(one.tuned.get(rule), one.share(rule))]
        rows.append([title_of(one), f"{one.recall:.1f}", *tuned, str(best), f"`{one.best}`"])
    heads = ["set, direction", "raw R@1"]
    for rule in RULES:
        heads += [f"{TUNED_COLUMNS[rule]}: gain", "chosen", "share"]
    return Section(
        "What `tune` keeps without labels",
        " ".join(_share_words(figures)),
        [*heads, "labelled best", "its setting"],
        rows,
    )


def _tuned(tuned: Tuned | None, share: float | None) -> list[str]:
    if tuned is None:
        return [NOT_MEASURED] * 3
    specs = " and ".join(f"`{spec}`" for spec in dict.fromkeys(tuned.specs))
    return [str(tuned.gain), specs, NOT_MEASURED if share is None else f"{share:.2f}"]


def _share_words(figures: Sequence[Figures]) -> Iterable[str]:
    for rule in RULES:
        shares = {title_of(one): share for one in figures if (share := one.share(rule)) is not None}
        if shares:
            lowest = min(shares, key=lambda title: shares[title])
            gains = [(one.tuned[rule].gain.value, one.labelled[one.best].value) for one in figures if rule in one.tuned]
            kept, most = np.mean(gains, axis=0)
            yield (
                f"`tune` {rule}: mean gain {signed(kept)} where the labelled best has {signed(most)}; mean share "
                f"{np.mean([*shares.values()]):.2f}, lowest {shares[lowest]:.2f} ({lowest})."
            )


def methods_section(figures: Sequence[Figures]) -> Section:
    """Show the gain of every method at the defaults of its paper, and the mean over the cases that it fits."""
    rows = [
        [title_of(one), *(str(one.methods[name]) if name in one.methods else NOT_MEASURED for name in COLUMNS)]
        for one in figures
    ]
    means = [
        np.mean([one.methods[name].value for one in figures if name in one.methods] or [np.nan]) for name in COLUMNS
    ]
    rows.append(["**mean**", *(NOT_MEASURED if np.isnan(mean) else f"**{signed(float(mean))}**" for mean in means)])
    words = (
        "Gain in R@1 over raw. The mean of a method is over the rows that it has. `sn by sight` chooses nothing: its "
        "temperature is the one at which a bank query sees 40 items, and its strength 0.75."
    )
    return Section(
        "Every method at its papers' default", words, ["set, direction", *(f"`{name}`" for name in COLUMNS)], rows
    )


def banks_sections(found: Found) -> list[Section]:
    """Show what `tune` changes with bad banks: the worst round of each."""
    title = "Bad banks"
    if not found.banks:
        return [Section(title, "Not measured in this run: `--banks` measures them.")]
    sections = []
    for rule in RULES:
        every = {title_of(one): found.banks[one.title] for one in found.figures if one.title in found.banks}
        lowest = {case: worst(rows, rule) for case, rows in every.items() if worst(rows, rule)}
        names = [name for name in BANKS if any(name in one for one in lowest.values())]
        rows = [
            [case, *(_change(some[name]) if name in some else NOT_MEASURED for name in names)]
            for case, some in lowest.items()
        ]
        words = bank_words([row for some in every.values() for row in some if row.rule == rule], lowest)
        sections.append(Section(f"{title}, `tune` {rule}", words, ["set, direction", *names], rows))
    return sections


def bank_words(rows: Sequence[BadBank], lowest: Mapping[str, Mapping[str, BadBank]]) -> str:
    """Say which bank did worst, and how many did harm."""
    if not rows:
        return "Not measured."
    case, worst_row = min(
        ((case, row) for case, some in lowest.items() for row in some.values()), key=lambda one: one[1].gain.value
    )
    harmed = sum(row.gain.harms for row in rows)
    chosen = " and ".join(f"`{spec}`" for spec in dict.fromkeys(worst_row.specs))
    return (
        "Change in R@1 with its standard error, of the worst round; bold where it is below raw by more than two; `raw` "
        "where nothing was chosen. "
        f"Below by more than two: {harmed} of {len(rows)} runs. "
        f"The worst: {case}, {worst_row.name}, {signed(worst_row.gain.value)} ± {worst_row.gain.error:.1f} ({chosen})."
    )


def _change(row: BadBank) -> str:
    if set(row.specs) == {RAW}:
        return f"`{RAW}`"
    text = f"{signed(row.gain.value)} ± {row.gain.error:.1f}"
    return f"**{text}**" if row.gain.harms else text
