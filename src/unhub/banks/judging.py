"""Judging a bank: its figures, what they mean, and what to do; see docs/banks/bank.md."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from unhub.arrays import Kind
from unhub.banks.coverage import Coverage, coverage, first_items
from unhub.banks.distances import FAR_RATIO, FAR_SHIFT, ROUNDING_DISTANCE, Nearness, Shift, nearness, shift
from unhub.banks.earth_movers import TransportDistance, transport
from unhub.banks.known_queries import with_known_queries
from unhub.banks.traffic import LEAKING_SHARE, TINY_BANK_QUERIES, alike, natural_share, once
from unhub.compute.progress import ProgressLike, Steps, called, shows_progress
from unhub.compute.transport import NoOptimum
from unhub.data.vectors import VectorsLike
from unhub.errors import ArgumentError, check_seed
from unhub.evaluation.tables import Tabled
from unhub.html_tables import Table
from unhub.matching import Matched

SMALL_BANK_QUERIES = 1000  # with fewer, the methods that have a temperature lose where nnn still gains
FEWEST_QUERIES = 50  # with fewer, a bank that is far off may look like any other


@dataclass(frozen=True)
class BankReport(Tabled):
    """The figures of a bank. Shift, nearness and leaked need queries; transport needs POT.

    distinct: the number of different bank queries. leaked: how many queries are also in the bank, but for rounding.
    natural: the share of them that may be, since queries repeat themselves. compared: "distinct" if each query counts
    once in the figures that compare, "as given" if neither side repeats itself or both do alike.
    problems: what is wrong, worst first: "tiny", "off-domain", "thin" or "leaking". notes: what was left out.
    """

    size: int
    distinct: int
    items: int
    queries: int | None
    coverage: Coverage
    shift: Shift | None
    nearness: Nearness | None
    leaked: int | None
    transport: TransportDistance | None
    notes: tuple[str, ...] = ()
    natural: float = 0.0
    compared: Literal["as given", "distinct"] = "as given"

    @property
    def problems(self) -> tuple[str, ...]:
        found = {
            "tiny": self.distinct < TINY_BANK_QUERIES,
            "off-domain": bool((self.shift and self.shift.far) or (self.nearness and self.nearness.far)),
            "thin": self.coverage.narrow,
            "leaking": bool(self.leaked and self.queries and self.leaked > self._most_leaked * self.queries),
        }
        return tuple(name for name, holds in found.items() if holds)

    @property
    def _most_leaked(self) -> float:
        return LEAKING_SHARE + self.natural

    @property
    def verdict(self) -> str:
        """The worst problem; without one, "good", or "unproven" if there are under 50 queries to compare with."""
        if self.problems:
            return self.problems[0]
        return "good" if (self.queries or 0) >= FEWEST_QUERIES else "unproven"

    @property
    def conclusion(self) -> str:
        """What to do, in a sentence or two."""
        said = _too_few(self.queries) if self.verdict == "unproven" and self.queries else ADVICE[self.verdict]
        if len(self.problems) > 1:
            return f"{said} It is also {' and '.join(self.problems[1:])}."
        return f"{said} {ADVICE['small']}" if not self.problems and self.distinct < SMALL_BANK_QUERIES else said

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values for JSON."""
        ratio = {"share": self.coverage.share, "ratio": self.coverage.ratio, "limit": self.coverage.limit}
        figures = asdict(self)
        return {
            "verdict": self.verdict,
            "problems": list(self.problems),
            "conclusion": self.conclusion,
            **figures,
            "coverage": {**figures["coverage"], **ratio},
            "notes": list(self.notes),
        }

    def cells(self) -> list[tuple[str, str, str]]:
        """Return the figures as (name, value, what it means)."""
        rows = [
            ("bank queries", f"{self.size:,}", _size(self)),
            ("repeats", f"{self.size - self.distinct:,}", _repeats(self)),
            *_coverage(self.coverage),
        ]
        if self.shift is not None:
            rows.append(("shift", f"{self.shift.value:.1%}", _shift(self.shift)))
        if self.nearness is not None:
            rows += _nearness(self.nearness)
        if self.leaked is not None:
            rows.append(("leaked", f"{self.leaked:,}", _leaked(self)))
        return rows + ([] if self.transport is None else _transport(self.transport))

    def shown(self) -> list[str | Table]:
        return [
            (("figure", "value", "what it means"), self.cells()),
            *self.notes,
            "",
            f"{self.verdict}: {self.conclusion}",
        ]


ADVICE = {
    "good": "The bank resembles the queries and asks for about as many different items as expected: fit on all of it.",
    "unproven": "Nothing is wrong with this bank by itself, but only queries can show whether it resembles them: give "
    "a few hundred recent ones.",
    "small": "It is small, so prefer 'nnn' with k 32 and alpha 0.5 to the methods that have a temperature.",
    "tiny": "The bank has too few different queries to tell hubs from chance: collect "
    f"{SMALL_BANK_QUERIES:,} or more, and until then search without a correction.",
    "off-domain": "The bank is not like the queries, and a correction fitted on it may do harm: collect past queries "
    "from the same source, or search without a correction.",
    "thin": "The bank asks for the same items again and again, and for fewer different ones than expected of this many "
    "queries: add past queries that ask for other things, or search without a correction.",
    "leaking": "Some queries are also in the bank, so figures measured on them look too good: take them out of it.",
}


@shows_progress
def judge_bank(
    items: VectorsLike,
    bank: VectorsLike,
    queries: VectorsLike | None = None,
    *,
    similarity: Kind = "cosine",
    distances: bool = True,
    seed: int = 0,
    threads: int | None = None,
    progress: ProgressLike = None,
) -> BankReport:
    """Compare a bank with its items, and with queries like the ones you expect, and say whether it is good enough.

    distances: also compute earth mover's distances, which take seconds, need POT (the extra `plans`) and do not change
    the verdict. If POT is missing or fails, they are left out and the notes say why.
    """
    progress = called(progress)
    check_seed(seed)
    sets = Matched.of(bank, items, queries, similarity, threads)
    gallery = sets.items
    if gallery is None:
        raise ArgumentError("items", "is missing", "give the vectors of the gallery")
    steps = Steps(progress, 2 if queries is None else 4)
    if queries is not None:
        sets = with_known_queries(sets, threads, steps.next())
    both = alike(sets)
    past, asked = both.bank, both.queries
    firsts = first_items(past, gallery, similarity, threads=threads, progress=steps.next())
    covered = coverage(firsts, gallery, asked, similarity, seed=seed, threads=threads, progress=steps.next())
    moved: Shift | None = None
    near: Nearness | None = None
    leaked, natural = None, 0.0
    if asked is not None:
        moved = shift(past, asked, similarity)
        near = nearness(past, asked, similarity, seed=seed, threads=threads, progress=steps.next())
        leaked, natural = sets.leaked, natural_share(sets)
    carried: TransportDistance | None = None
    notes = [*sets.notes]
    if distances:
        try:
            carried = transport(past, gallery, asked, similarity, seed=seed)
        except (ImportError, NoOptimum) as error:
            notes.append(f"Earth mover's distances are left out: {error}")
    return BankReport(
        len(sets.bank),
        len(once(sets.hashes["bank"])),
        len(gallery),
        None if sets.queries is None else len(sets.queries),
        covered,
        moved,
        near,
        leaked,
        carried,
        tuple(notes),
        natural,
        "distinct" if both.distinct else "as given",
    )


def _too_few(queries: int) -> str:
    given = "one query is" if queries == 1 else f"{queries} queries are"
    return (
        f"Nothing is wrong with this bank by itself, but {given} too few to show whether it resembles them: give at "
        f"least {FEWEST_QUERIES} recent ones, better a few hundred."
    )


def _size(report: BankReport) -> str:
    ratio = report.size / report.items
    limits = f"; under {TINY_BANK_QUERIES} it is tiny, under {SMALL_BANK_QUERIES:,} small"
    few = report.distinct < SMALL_BANK_QUERIES
    return f"for {report.items:,} items, {ratio:,.1f} per item{limits if few else ''}"


def _repeats(report: BankReport) -> str:
    said = "bank queries that repeat an earlier one"
    return f"{said}; below, each query counts once" if report.compared == "distinct" else said


def _leaked(report: BankReport) -> str:
    said = f"of {report.queries:,} queries are also in the bank"
    if not report.natural or not report.leaked:
        return said
    most = "all" if report.natural == 1 else f"up to {report.natural:.1%}"
    return f"{said}; {most} may be, since queries repeat themselves here"


def _coverage(one: Coverage) -> list[tuple[str, str, str]]:
    reached = f"of the items come first for some bank query ({one.reached:,} of {one.items:,})"
    rows = [("coverage", f"{one.share:.1%}", reached)]
    if one.expected is None or one.limit is None:
        return rows
    word = "narrow" if one.narrow else "not narrow" if one.limit > 0 else "not known"  # no ratio is under 0
    by = f"{one.size:,} queries" if one.against == "queries" else f"{one.size:,} items that search for other items"
    place = "" if one.place == 1 else f" in place {one.place}"
    meaning = (
        f"{word} (limit {max(0.0, one.limit):.2f}): {one.size:,} bank queries reach {one.here:,.0f} items, "
        f"{by} reach {one.expected:,.0f}{place}"
    )
    return [*rows, ("coverage ratio", f"{one.ratio:.2f}", meaning)]


def _shift(one: Shift) -> str:
    limit = FAR_SHIFT + one.chance
    word = "far" if one.far else "near" if limit <= 1 else "not known"  # no shift exceeds 100%
    return f"{word} (limit {limit:.1%}): share of the variance between the bank and the queries, beyond chance"


def _nearness(one: Nearness) -> list[tuple[str, str, str]]:
    meaning = f"median distance from a query to the nearest bank query; nine in ten are within {one.most:.3f}"
    rows = [("nearest", f"{one.median:.3f}", meaning)]
    if one.ratio is None:
        return rows
    word = "far" if one.far else "near"
    meaning = f"{word} (limit {FAR_RATIO:.2f}): distance to bank queries over distance to as many other queries"
    return [*rows, ("nearness ratio", f"{one.ratio:.2f}", meaning)]


def _transport(one: TransportDistance) -> list[tuple[str, str, str]]:
    whose = "bank" if one.bank_queries is None else "queries"
    over = f"earth mover's distance, {one.rows:,} {'random ' if one.sampled else ''}rows of each"
    values = {
        "bank to queries": (one.bank_queries, over),
        "bank to items": (one.bank_items, over),
        "queries to items": (one.queries_items, "the same"),
        "yardstick": (one.halves, f"the same, between two random halves of the {whose}"),
    }
    measured = one.halves if one.halves is not None and one.halves > ROUNDING_DISTANCE else None
    rows = []
    for name, (value, meaning) in values.items():
        if value is not None:
            times = f"; {value / measured:.2f} times the yardstick" if measured and name != "yardstick" else ""
            rows.append((name, f"{value:.3f}", f"{meaning}{times}"))
    return rows
