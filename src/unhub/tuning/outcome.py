"""The outcome: what was tried, how each setting did, what was chosen and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from unhub.correction import Correction
from unhub.evaluation.confidence import Interval
from unhub.evaluation.hubness import Figures
from unhub.evaluation.tables import Tabled
from unhub.html_tables import Table

SHOWN_ROWS = 10  # settings in the printed table


@dataclass(frozen=True)
class TriedSetting:
    """One setting: its value by the measure, the hubness of its ranking, and its share of the time.

    value: over all labelled queries, including those used to choose, so the best one is too high; None without labels.
    transport: J, by which settings are compared without labels, lower is better; None if it is not one number per item.
    """

    spec: str
    value: float | None
    figures: Figures
    seconds: float
    transport: float | None


@dataclass(frozen=True, eq=False)
class Tuning(Tabled):
    """The correction to use, `raw` if no gain is certain; everything that was tried; and why.

    table: sorted by the measure, best first; without labels by the transport cost J, lowest first, and the chosen
    setting need not be the first. Empty if the bank or the time did not allow any trial.
    gain: over raw, by the measure, on queries that had no part in the choice; None without labels. left_out: the
    settings that there was no time for. judges: how many queries the settings were compared on. notes: which queries
    were left out, and which settings were changed before they were tried.
    """

    best: Correction
    table: tuple[TriedSetting, ...]
    reason: str
    measure: str
    gain: Interval | None
    judges: int
    left_out: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def out_of_time(self) -> bool:
        """Whether the time was up before any setting could be compared; then `best` is raw by default."""
        return not self.table and bool(self.left_out)

    @property
    def gains(self) -> bool:
        """Whether a gain over raw is certain; if not, `best` is raw."""
        return self.best.spec != "raw"

    def to_dict(self) -> dict[str, object]:
        """Return everything except the correction, as plain values for JSON."""
        return {
            "best": self.best.spec,
            "reason": self.reason,
            "measure": self.measure,
            "gain": None if self.gain is None else self.gain.to_dict(),
            "judges": self.judges,
            "seconds": self.seconds,
            "tried": [
                {
                    "spec": row.spec,
                    "value": row.value,
                    "transport": row.transport,
                    **asdict(row.figures),
                    "seconds": row.seconds,
                }
                for row in self.table
            ],
            "left_out": list(self.left_out),
            "notes": list(self.notes),
        }

    def cells(self, most: int = SHOWN_ROWS) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of text: the best of what was tried, and raw; the chosen one is marked."""
        labelled = any(row.value is not None for row in self.table)
        heads = [
            "setting",
            *([self.measure] if labelled else []),
            "transport",
            "Robin Hood",
            "skewness",
            "never returned",
            "seconds",
        ]
        shown = [row for place, row in enumerate(self.table) if place < most or row.spec in ("raw", self.best.spec)]
        return heads, [
            [
                f"{row.spec} *" if row.spec == self.best.spec else row.spec,
                *([f"{row.value:.2f}" if row.value is not None else ""] if labelled else []),
                "" if row.transport is None else f"{row.transport:.5g}",
                f"{row.figures.robin_hood:.1%}",
                f"{row.figures.skewness:.2f}",
                f"{row.figures.anti_hubs:.1%}",
                f"{row.seconds:.2f}",
            ]
            for row in shown
        ]

    def shown(self) -> list[str | Table]:
        return [self.cells(), "", self.reason, *self.notes]
