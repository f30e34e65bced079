"""Evidence: what every method and `tune` without labels gain on all real sets at hand, in both directions.

    python benchmarks/evidence.py [--set NAME ...] [--banks] [--work DIRECTORY] [--docs]

The sets are looked for in $UNHUB_DATA, or in ../shared/data beside the checkout; what is absent is left out and named.
--functions DIRECTORY adds the set that recipes/functions builds. --banks adds bad banks. With --work, each case is kept
when it is done, and a run that was stopped goes on from there; a case is measured again if the code, its data or the
options have changed. --docs writes the tables and the picture into docs/tuning (extra `plot`). Seeds are fixed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import unhub
from emoji_tables import write_page
from evidence_banks import BadBank, measure_banks, stand_in
from evidence_measure import Figures, Work, measure
from evidence_sets import SETS, Case, read_set
from evidence_tables import Found, sections_of
from unhub.atomic import replacing
from unhub.cli.display import progress

DOCS = Path(__file__).resolve().parents[1] / "docs" / "tuning"
PAGE, PICTURE = "evidence.md", "evidence.png"
MEASURING_FILES = ("evidence_sets.py", "evidence_measure.py")  # what figures depend on, besides unhub
BANKS_FILE = "evidence_banks.py"
ONE_ENCODER = {"msrvtt", "msrvtt_halves"}  # the only two sets with the same vectors
STOPPED = 130  # exit code after ctrl-C


class Keep(NamedTuple):
    """Where results are kept, what they depend on besides their data, and whether to measure everything again."""

    folder: Path | None
    depends: str
    fresh: bool = False

    def result(self, case: Case, kind: str, depends: str, measured: Callable[[], Any]) -> Any:
        """Return what JSON makes of a result: the one kept, if it is of the same code and data, or a new one."""
        key = hashlib.sha256(f"{self.depends} {kind} {depends} {case.digest()}".encode()).hexdigest()
        path = None if self.folder is None else self.folder / f"{case.stem}.{kind}.json"
        if path is not None and path.is_file() and not self.fresh:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["key"] == key:
                say(f"{case.title}: {kind} kept from before ({kept['seconds']:.0f} s then)")
                return kept["result"]
        began = time.perf_counter()
        result = json.loads(json.dumps(measured()))
        seconds = time.perf_counter() - began
        if path is not None:
            with replacing(path) as new:
                new.write_text(json.dumps({"key": key, "seconds": seconds, "result": result}), encoding="utf-8")
        say(f"{case.title}: {kind} measured in {seconds:.0f} s")
        return result


def say(line: str) -> None:
    """Tell on stderr how far the run is."""
    print(line, file=sys.stderr, flush=True)


def code_digest() -> str:
    """Return a hash of the code that the figures depend on."""
    here = Path(__file__).parent
    return digest_of([*sorted(Path(unhub.__file__).parent.rglob("*.py")), *(here / name for name in MEASURING_FILES)])


def digest_of(paths: Iterable[Path]) -> str:
    """Return a hash of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def run(cases: Sequence[Case], options: argparse.Namespace) -> tuple[list[Figures], dict[str, list[BadBank]]]:
    """Measure every case, or take what was kept."""
    keep = Keep(options.work, f"{code_digest()} {options.resamples}", options.fresh)
    banks_digest = digest_of([Path(__file__).with_name(BANKS_FILE)])
    figures, banks = [], {}
    for number, case in enumerate(cases, start=1):
        with progress(f"{number}/{len(cases)} {case.title}", quiet=False) as advance:
            work = Work(options.threads, options.resamples, advance)
            figures.append(Figures.of(keep.result(case, "figures", "", partial(_measured, case, work))))
            if options.banks is not None and (not options.banks or case.name in options.banks):
                apart = [one for one in cases if {one.name, case.name} != ONE_ENCODER]
                other = stand_in(case, apart)
                depends = f"{banks_digest} {options.rounds} {'' if other is None else other.digest()}"
                rows = keep.result(case, "banks", depends, partial(measure_banks, case, other, options.rounds, work))
                banks[case.title] = [BadBank.of(row) for row in rows]
    return figures, banks


def _measured(case: Case, work: Work) -> dict[str, Any]:
    return measure(case, work)._asdict()


def command_of(options: argparse.Namespace) -> str:
    """Return the command that makes the same figures, without folders."""
    parts = ["python benchmarks/evidence.py"]
    if options.set:
        parts.append(f"--set {' '.join(options.set)}")
    if options.functions is not None:
        parts.append("--functions DIRECTORY")
    if options.banks is not None:
        parts.append(" ".join(["--banks", *options.banks]))
        if options.rounds > 1:
            parts.append(f"--rounds {options.rounds}")
    return " ".join([*parts, *(["--quick"] if options.quick else []), "--docs"])


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="+", choices=[*SETS], metavar="NAME", help=f"of {', '.join(SETS)}; default: all")
    parser.add_argument("--functions", type=Path, help="the folder `set` that recipes/functions/build.py made")
    parser.add_argument(
        "--banks", nargs="*", choices=[*SETS], metavar="NAME", help="measure `tune` on bad banks too; default: all sets"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often each bad bank is drawn")
    parser.add_argument("--quick", action="store_true", help="few queries and small banks, for a look")
    parser.add_argument("--work", type=Path, help="a folder to keep the results of each case in")
    parser.add_argument("--fresh", action="store_true", help="measure again what was kept")
    parser.add_argument(
        "--docs", type=Path, nargs="?", const=DOCS, help=f"write {PAGE} and {PICTURE}; a folder other than docs/tuning"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resamples", type=int, default=Work().resamples, help="resamples for the intervals")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    if options.docs is not None and not (options.docs / PAGE).is_file():
        parser.error(f"--docs {options.docs} has no page {PAGE} to write the tables into")
    if options.work is not None:
        options.work.mkdir(parents=True, exist_ok=True)
    return options


def main() -> None:
    """Run the benchmark."""
    options = parsed()
    asked = [name for name in SETS if name in (options.set or SETS)]
    read = {name: read_set(name, options.functions) for name in asked}
    for name in (name for name, cases in read.items() if not cases):
        where = "--functions names the folder" if name == "functions" else "UNHUB_DATA names the folder of the sets"
        say(f"{name}: left out, its files are absent; {where}")
    cases = [case.smaller() if options.quick else case for some in read.values() for case in some]
    if not cases:
        raise SystemExit("no set is at hand")
    try:
        figures, banks = run(cases, options)
    except KeyboardInterrupt:
        say("stopped" if options.work is None else f"stopped; what is done is kept in {options.work}")
        raise SystemExit(STOPPED) from None
    absent = [name for name in SETS if name not in {case.name for case in cases}]
    sections = sections_of(Found(figures, banks, command_of(options), absent, options.quick))
    print("\n\n".join(map(str, sections)))
    if options.docs is not None:
        from evidence_picture import picture_of  # matplotlib is an extra

        write_page(options.docs / PAGE, sections)
        picture_of(figures, options.docs / PICTURE)


if __name__ == "__main__":
    main()
