"""Claims: what the papers say, checked on Flickr8k in two spaces and both directions, with intervals.

    python benchmarks/claims.py --work DIRECTORY [--space NAME] [--methods NAMES] [--docs]

The embeddings and the official lists are looked for in $UNHUB_DATA, or in ../shared/data beside the checkout: the
folders flickr8k and annotations/Flickr8k. Every method is run as `unhub bench run flickr8k` does it, and kept in the
work folder, so a run that was stopped goes on. Images that a space was trained on are in no bank. --docs writes the
tables into docs/bench/claims.md. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import unhub
from claims_checks import Claim, KeptAnswers, Subject, check_claims
from emoji_tables import Section, write_page
from evidence_sets import data_folder
from unhub.bench.bench_results import BenchRun
from unhub.bench.bench_run import bench_run
from unhub.bench.problems import BenchData
from unhub.bench.sources.ready_vectors import ReadyVectors
from unhub.cli.display import progress
from unhub.datasets.dataset import DataSet

SPACES = ("ridge", "vse_holdout")
UNSEEN = ("bank", "val", "test")  # the images that the spaces were not trained on
BANKS = "train,test"
ANSWERS = "answers.json"  # in the work folder
PAGE = Path(__file__).resolve().parents[1] / "docs" / "bench" / "claims.md"
STOPPED = 130  # exit code after ctrl-C


def say(line: str) -> None:
    """Tell on stderr how far the run is."""
    print(line, file=sys.stderr, flush=True)


def write_ready(source: Path, space: str, target: Path) -> Path:
    """Write the embeddings of a space as `unhub bench run --embeddings` reads them, without those it was trained on."""
    meta = json.loads((source / "meta.json").read_text(encoding="utf-8"))
    images, owners = np.array(meta["image_ids"]), np.array(meta["caption_image"])
    unseen = np.isin(meta["split"], UNSEEN)
    target.mkdir(parents=True, exist_ok=True)
    for name, suffix, ids, kept in (
        ("items", "img", images, unseen),
        ("queries", "txt", np.array(meta["caption_ids"]), unseen[owners]),
    ):
        np.save(target / f"{name}.npy", np.load(source / f"{space}_{suffix}.npy")[kept])
        (target / f"{name}-ids.txt").write_text("\n".join(ids[kept].tolist()), encoding="utf-8")
    return target


def subjects_of(run: BenchRun, data: DataSet, ready: Path, threads: int) -> dict[str, Subject]:
    """Return the directions of a space that was run."""
    held = BenchData(data, ReadyVectors.of(ready, None))
    return {f"{ready.name} {direction}": Subject(run, held, direction, threads) for direction in run.directions}


def claims_section(claims: list[Claim], command: str) -> Section:
    """Return the table of the claims."""
    cases = list(dict.fromkeys(name for claim in claims for name in claim.answers))
    rows = [
        [claim.text, f"`{claim.paper}`", *(str(claim.answers.get(name, "")) for name in cases), claim.summary]
        for claim in claims
    ]
    words = (
        f"Made by `{command}`. A figure is a difference in R@1, in points, with its 95% interval, paired by query. "
        "For five captions the two are not paired, and the interval is as wide as both together; for the largest count "
        "it is a count of queries. *yes* agrees with the claim: where something finds more or does harm, the interval "
        "excludes 0; where it finds "
        "no less or does no harm, the difference is 0 or more. *no* means that the interval lies wholly on the other "
        "side of 0; what is neither is *not certain*."
    )
    return Section("The claims", words, ["claim", "paper", *cases, "in short"], rows)


def run_section(run: BenchRun, direction: str) -> Section:
    """Return every method of a direction, raw first."""
    heads, rows = run.cells(direction)
    raw = run.raw(direction)
    words = f"{raw['queries']:,} queries, {raw['items']:,} items; settings chosen on validation."
    return Section(f"{run.content['model']}, {direction}", words, heads, [[f"`{row[0]}`", *row[1:]] for row in rows])


def command_of(options: argparse.Namespace) -> str:
    """Return the command that makes the same tables, without folders."""
    parts = ["python benchmarks/claims.py --work DIRECTORY"]
    if tuple(options.space) != SPACES:
        parts.append(f"--space {' '.join(options.space)}")
    parts += [f"--methods {options.methods}"] if options.methods != "all" else []
    parts += [f"--directions {options.directions}"] if options.directions != "both" else []
    return " ".join([*parts, "--docs"])


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="a folder for what was measured")
    parser.add_argument("--space", nargs="+", choices=SPACES, default=SPACES, help="default: both")
    parser.add_argument("--methods", default="all", help="methods to run, separated by commas; default: all")
    parser.add_argument("--directions", default="both", help="both, t2i or i2t")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--docs", type=Path, nargs="?", const=PAGE, help="write the tables into a page; default: claims.md"
    )
    return parser.parse_args()


def main() -> None:
    """Run the benchmark."""
    options = parsed()
    source = data_folder()
    if not (source / "flickr8k" / "meta.json").is_file():
        raise SystemExit("flickr8k embeddings not found: UNHUB_DATA names the folder that holds flickr8k/")
    data = unhub.datasets.load("flickr8k", source / "annotations" / "Flickr8k")
    subjects: dict[str, Subject] = {}
    runs = []
    try:
        for space in options.space:
            ready = write_ready(source / "flickr8k", space, options.work / "ready" / space)
            with progress(space, quiet=False) as advance:
                run = bench_run(
                    data,
                    options.work,
                    embeddings=ready,
                    methods=options.methods,
                    banks=BANKS,
                    directions=options.directions,
                    threads=options.threads,
                    progress=advance,
                )
            say(f"{space}: {run.measured} cases measured, {run.reused} kept from before")
            runs.append(run)
            subjects |= subjects_of(run, data, ready, options.threads)
        claims = check_claims(subjects, KeptAnswers(options.work / ANSWERS), say)
    except KeyboardInterrupt:
        say(f"stopped; what is done is kept in {options.work}")
        raise SystemExit(STOPPED) from None
    sections = [claims_section(claims, command_of(options))]
    sections += [run_section(run, direction) for run in runs for direction in run.directions]
    print("\n\n".join(map(str, sections)))
    if options.docs is not None:
        write_page(options.docs, sections)


if __name__ == "__main__":
    main()
