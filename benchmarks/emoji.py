"""The public benchmark: search emoji by text and texts by emoji, with every method, on data that anyone can rebuild.

    python recipes/emoji/build.py --work DIRECTORY
    python benchmarks/emoji.py --work DIRECTORY [--docs docs/demo/emoji_tables.md]

Without --work, only the known catalogue that ships is measured, and the output says what is left out. Settings are
chosen on `val`, printed, and written to DIRECTORY/chosen.json before anything is measured on `test`. --docs writes the
tables into a page. Seeds are fixed. It takes under ten minutes on two cores, most of it for the plans (extra `plans`).
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import unhub
from emoji_data import (
    SEED,
    SPLITS,
    Source,
    Task,
    Work,
    different,
    picture_banks,
    read_sources,
    text_banks,
    to_emoji,
    to_text,
)
from emoji_sets import MEASURES, compare, compare_banks
from emoji_tables import (
    SPLIT_TITLES,
    BankRow,
    Section,
    Skewed,
    areas_section,
    banks_section,
    ceiling,
    choice_section,
    data_section,
    methods_section,
    set_banks_section,
    sets_section,
    write_page,
)
from unhub.atomic import replacing
from unhub.cli.display import progress
from unhub.data.vectors import Vectors
from unhub.demo.emoji.space import Split
from unhub.evaluation.comparing import Judge
from unhub.evaluation.inputs import RAW
from unhub.methods import METHODS, Method, parse
from unhub.tuning.grid import GATES, within
from unhub.tuning.outcome import TriedSetting

CHOICE_MEASURE = "GM"  # of R@1, R@5 and R@10: steadier than R@1 for vague queries
COMPARED_METHODS = ("is", "nnn", "sn")  # for comparing banks and galleries
DIRECTIONS: Mapping[str, Callable[[Source, Split], Task | None]] = {"text to emoji": to_emoji, "emoji to text": to_text}
PLANS = [name for name, method in METHODS.items() if method.kind == "plan"]

Chosen: TypeAlias = Mapping[str, TriedSetting]  # by method, including raw

PLANS_NOTE = "The plans `otn`, `l2n` and `hn` see all queries of the table at once and use no bank."
NO_PLANS_NOTE = "The plans are left out: they need the extra `plans`."
UNASKED_TITLE = "text to emoji, one keyword that is not in the bank"
UNASKED_NOTE = "The keywords of the table above without those that are in the bank for another emoji."
NO_PICTURES_NOTE = "There is no far bank: the packages hold no pictures of another kind."
SECOND_GALLERY_NOTE = (
    "The same emoji in the second vendor's pictures; the corrections are fitted on them, at the same settings."
)
FOLDS_NOTE = (
    "Gain in R@1 over raw on folds of the queries that had no part in choosing the setting, "
    "and the best setting on all."
)


def choose(task: Task, work: Work) -> dict[str, TriedSetting]:
    """Return the best setting of each method by GM on `val`, among those that `tune` tries; the first of equal ones.

    `gc` has no parameters. `dualdis` is tried with the betas of `dualis` and the gates of `dis`.
    """

    def tried(methods: Sequence[str]) -> tuple[TriedSetting, ...]:
        return unhub.tune(
            task.items,
            task.bank,
            task.queries,
            task.relevance,
            bank_items=task.bank_items,
            methods=methods,
            measure=CHOICE_MEASURE,
            seed=SEED,
            threads=work.threads,
        ).table

    table = tried(["all", "gc"])
    betas = [row.spec.partition(":")[2] for row in table if row.spec.startswith("dualis:")]
    gates = [k for k in GATES if k <= len(task.items)]
    best: dict[str, TriedSetting] = {}
    for row in (*table, *tried([f"dualdis:{beta},k={k}" for beta in betas for k in gates])):
        best.setdefault(parse(row.spec).name, row)  # the table has the best first
    return {name: best[name] for name in METHODS if name in best}


def measure(task: Task, methods: Sequence[str | Method], work: Work) -> Skewed:
    """Fit methods and rank by them, and by raw."""
    fitted = unhub.fit(task.items, task.bank, method=[*methods], bank_items=task.bank_items, threads=work.threads)
    found = unhub.evaluate(
        task.queries,
        task.items,
        task.relevance,
        fitted,
        MEASURES,
        hubness_k=None,
        resamples=work.resamples,
        seed=SEED,
        threads=work.threads,
    )
    # A plan depends on the whole batch, including repeats: with fewer queries it would be another plan.
    streamed = {one.spec: one for one in fitted if one.kind != "plan"}
    judge = Judge.of(different(task.queries), None, None, "cosine", SEED, work.threads)
    return Skewed(found, judge(task.items, streamed))


def few(chosen: Chosen, bank: Vectors) -> list[Method]:
    """Return the methods that banks are compared with, with k limited to the size of the bank."""
    return [within(parse(chosen[name].spec), len(bank)) for name in COMPARED_METHODS]


def compare_sources(task: Task, banks: Mapping[str, Vectors], chosen: Chosen, work: Work) -> list[BankRow]:
    """Measure and judge several banks."""
    asked = different(task.queries)
    return [
        BankRow(
            name,
            unhub.judge_bank(task.items, bank, asked, distances=False, seed=SEED, threads=work.threads),
            measure(task._replace(bank=bank), few(chosen, bank), work),
        )
        for name, bank in banks.items()
    ]


def methods_of(source: Source, chosen: Mapping[str, Chosen], work: Work) -> Iterator[Section]:
    """Measure every method on `test`, in both directions."""
    plans = PLANS if find_spec("ot") and find_spec("scipy") else []
    note = PLANS_NOTE if plans else NO_PLANS_NOTE
    new = to_emoji(source, "test", "keyword", new=True)
    tasks = {
        "text to emoji, one keyword": to_emoji(source, "test", "keyword"),
        **({UNASKED_TITLE: new} if new is not None else {}),
        "text to emoji, the name": to_emoji(source, "test", "name"),
        "emoji to text": to_text(source, "test"),
    }
    for what, task in tasks.items():
        title, direction = f"{SPLIT_TITLES[source.split]}: {what}", what.partition(",")[0]
        if task is None:
            yield Section(title, "No text of `test` is of this kind.")
        elif what == UNASKED_TITLE:
            found = measure(task, few(chosen[direction], task.bank), work)
            yield methods_section(title, f"{ceiling(task)}{UNASKED_NOTE}", found)
        else:
            specs = [*(row.spec for name, row in chosen[direction].items() if name != RAW), *plans]
            most = ceiling(task) if direction == "text to emoji" else ""
            yield methods_section(title, f"{most}{note}", measure(task, specs, work))


def banks_of(source: Source, chosen: Mapping[str, Chosen], work: Work) -> Iterator[Section]:
    """Measure banks from elsewhere, and the second gallery, on `test`."""
    title = SPLIT_TITLES[source.split]
    if source.other is None:
        yield Section(f"{title}: other banks, a second gallery", "They need the packages and pictures of `--work`.")
        return
    keywords, pictures = to_emoji(source, "test", "keyword"), to_text(source, "test")
    assert keywords is not None
    rows = compare_sources(keywords, text_banks(source), chosen["text to emoji"], work)
    yield banks_section(f"{title}: banks, text to emoji, one keyword", "", rows)
    rows = compare_sources(pictures, picture_banks(source), chosen["emoji to text"], work)
    yield banks_section(f"{title}: banks, emoji to text", NO_PICTURES_NOTE, rows)
    second = keywords._replace(items=source.other)
    found = measure(second, few(chosen["text to emoji"], second.bank), work)
    yield methods_section(f"{title}: a second gallery, one keyword", SECOND_GALLERY_NOTE, found)


def sets_of(source: Source, work: Work) -> Iterator[Section]:
    """Measure sets of keywords on `test`, and banks of sets on `val`."""
    title = SPLIT_TITLES[source.split]
    compared = compare(source.space, work)
    corrected = f"Corrected is `{source.space.correction.spec}`, chosen on `val` by one, three and five keywords."
    yield sets_section(f"{title}: several keywords of one emoji", corrected, compared)
    yield areas_section(f"{title}: from one keyword to five", compared)
    yield set_banks_section(f"{title}: banks of sets, on `val`", FOLDS_NOTE, compare_banks(source, work))


def choose_all(sources: Sequence[Source], work: Work) -> dict[str, dict[str, Chosen]]:
    """Return what was chosen, by split and direction."""
    chosen: dict[str, dict[str, Chosen]] = {}
    for source, (direction, ask) in itertools.product(sources, DIRECTIONS.items()):
        with progress(f"{source.split}, {direction}: choosing on val", quiet=False):
            task = ask(source, "val")
            assert task is not None
            chosen.setdefault(source.split, {})[direction] = choose(task, work)
    return chosen


def shown(label: str, sections: Iterator[Section]) -> Iterator[Section]:
    """Yield sections and print each when it is ready, with a progress bar meanwhile."""
    while True:
        with progress(label, quiet=False):
            section = next(sections, None)
        if section is None:
            return
        print(f"{section}\n", flush=True)
        yield section


def run(sources: Sequence[Source], written: Path | None, work: Work) -> list[Section]:
    """Choose on `val`, save the choice, and only then measure on `test`."""
    done = [*shown("counting", iter([data_section(sources)]))]
    chosen = choose_all(sources, work)
    done += shown("choosing", iter([choice_section(chosen)]))
    if written is not None:
        with replacing(written) as new:
            new.write_text(json.dumps(specs_of(chosen), indent=2), encoding="utf-8")
    for source in sources:
        for sections in (
            methods_of(source, chosen[source.split], work),
            banks_of(source, chosen[source.split], work),
            sets_of(source, work),
        ):
            done += shown(f"{source.split}: measuring on test", sections)
    return done


def specs_of(chosen: Mapping[str, Mapping[str, Chosen]]) -> dict[str, dict[str, dict[str, str]]]:
    """Return what was chosen as plain values for JSON."""
    return {
        split: {direction: {name: row.spec for name, row in one.items()} for direction, one in both.items()}
        for split, both in chosen.items()
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="the folder that recipes/emoji/build.py made; default: shipped data")
    parser.add_argument("--docs", type=Path, help="a page to write the tables into")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resamples", type=int, default=Work().resamples, help="number of resamples for the intervals")
    options = parser.parse_args()
    if options.docs is not None and options.work is None:
        parser.error("--docs needs --work: the page has tables of both splits")
    missing = [split for split in SPLITS if options.work is not None and not (options.work / split).is_dir()]
    if missing:
        parser.error(f"--work {options.work} has no folder {missing[0]}; make it with recipes/emoji/build.py")
    written = None if options.work is None else options.work / "chosen.json"
    sections = run(read_sources(options.work), written, Work(options.threads, options.resamples))
    if options.docs is not None:
        write_page(options.docs, sections)


if __name__ == "__main__":
    main()
