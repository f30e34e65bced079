"""Results on disk: one JSON file for each data set, split and model, rewritten whole after every case."""

from __future__ import annotations

import itertools
import json
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import metadata
from math import inf
from pathlib import Path
from typing import Any

from unhub.atomic import holding, remove_strays, replacing
from unhub.bench.protocols import BankChoice
from unhub.errors import ArgumentError
from unhub.evaluation.confidence import Interval
from unhub.evaluation.tables import counted

FORMAT = 1
RESULTS = "results"  # folder of the work folder
REPLACED = "replaced"  # folder of the results whose cases were removed
FOLDS = "folds"  # folder of the results of each test part, where there are several
CASES, CHOICES = "cases", "choices"
KEY = ("direction", "bank", "seed", "method", "together", "paper")
ABOUT = ("data_set", "split", "model")  # what a file of results is of
LIBRARIES = ("unhub", "numpy", "numba")


@dataclass(frozen=True)
class CaseKey:
    """What makes a case: one method with one bank in one direction.

    bank: empty for what needs none. seed: of a random bank; 0 for what does not differ from seed to seed. together:
    how many captions are one query. paper: whose protocol chose the settings; empty for the default.
    """

    direction: str
    bank: str = ""
    seed: int = 0
    method: str = "raw"
    together: int = 1
    paper: str = ""

    def __str__(self) -> str:
        bank = f", bank {self.bank}" if self.bank else ""
        drawn = f", seed {self.seed}" if self.seed else ""
        return f"{self.direction} {self.method}{bank}{drawn}"


class ResultFile:
    """The results of one data set, split and model; a case that is done is on disk.

    Several runs may add to one file at a time: whoever changes it holds it, and reads it again first.
    """

    def __init__(self, path: Path, about: Mapping[str, object]) -> None:
        """Read what was done before; `about` says what the results are of, and replaces what was said before."""
        self.path = path
        self.removed = 0
        self.copy: Path | None = None  # of the file before any case was removed
        self.made_of: dict[str, str] = {}  # by direction, how the inputs of all cases begin once a run has begun
        self.own: dict[CaseKey, str] = {}  # the inputs of the cases that this run found or wrote
        self.content: dict[str, Any] = {"format": FORMAT, **about, CHOICES: [], CASES: []}
        if path.parent.is_dir():
            with self._holding():
                remove_strays(path)
                self.content |= self._kept()

    def done(self, key: CaseKey, inputs: str, where: str = CASES) -> dict[str, Any] | None:
        """Return the case or choice with this key, if it was made on these inputs."""
        for case in self.content[where]:
            if key_of(case) == key and case["inputs"] == inputs:
                found: dict[str, Any] = case
                return found
        return None

    def add(self, key: CaseKey, inputs: str, case: Mapping[str, object], where: str = CASES) -> None:
        """Write a case or a choice, in the place of one with the same key."""
        made = {**{name: getattr(key, name) for name in KEY}, "inputs": inputs, **case, "versions": versions()}
        with self.changing():
            kept = [one for one in self.content[where] if key_of(one) != key]
            self.content[where] = [*kept, json.loads(json.dumps(made))]
        if where == CASES:
            self.own[key] = inputs

    def drop_old(self, inputs: str, **of: object) -> None:
        """Remove the cases of this direction, bank and so on whose inputs do not begin with these."""

        def is_old(case: Mapping[str, Any]) -> bool:
            return not case["inputs"].startswith(inputs) and all(case[name] == value for name, value in of.items())

        if any(map(is_old, self.content[CASES])):
            with self.changing():
                if self.copy is None:
                    self.copy = self._copied()
                kept = [one for one in self.content[CASES] if not is_old(one)]
                self.removed += len(self.content[CASES]) - len(kept)
                self.content[CASES] = kept
                there = {*map(key_of, kept)}
                self.own = {key: made_of for key, made_of in self.own.items() if key in there}

    def removal(self) -> list[str]:
        """Say how many cases were removed, and which file still has them."""
        if not self.removed:
            return []
        cases = counted(self.removed, "case was", "cases were")
        why = f"under the name {self.content['model']!r} other vectors, labels or banks had been measured"
        return [
            f"{cases} removed: {why}. {self.copy} has the results as they were before. To keep both, give each model "
            "a name of its own: --model NAME."
        ]

    def _copied(self) -> Path:
        """Copy the file to where nothing is looked for, under the next free number."""
        folder = self.path.parent / REPLACED
        folder.mkdir(exist_ok=True)
        taken = (folder / f"{self.path.stem}-{number}.json" for number in itertools.count(1))
        copy = next(path for path in taken if not path.exists())
        with replacing(copy) as temporary:
            shutil.copyfile(self.path, temporary)
        return copy

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the file, read what others have written meanwhile, and write it as it then is."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._holding():
            self.content |= self._kept()
            yield
            self._write()

    def check_alone(self) -> None:
        """Read again whether all cases are still of the vectors of this run."""
        with self._holding():
            self._kept()

    def _holding(self) -> AbstractContextManager[None]:
        return holding(self.path, "work", "another run of this data set")

    def _kept(self) -> dict[str, list[dict[str, Any]]]:
        """Return the choices and cases that are on disk; they must be of the same data set, split and model.

        Within a run, they must be of its vectors too, and what it found or wrote must still be there.
        """
        before = read_results(self.path) if self.path.is_file() else {}
        if before and any(before[name] != self.content[name] for name in ABOUT):
            kept = f"{self.path}, which holds {before['model']!r} on {before['data_set']} ({before['split']})"
            problem = f"is {self.content['model']!r}, and its results would be in {kept}"
            raise ArgumentError("model", problem, "give the model another name, or name another work folder")
        cases = before.get(CASES, [])
        there = {(key_of(case), case["inputs"]) for case in cases}
        strange = any(not case["inputs"].startswith(self.made_of.get(case["direction"], "")) for case in cases)
        if strange or not self.own.items() <= there:
            problem = (
                f"is {self.content['model']!r}, and another run writes results of other vectors, labels, banks or "
                f"seeds under this name to {self.path} at the same time"
            )
            raise ArgumentError("model", problem, "give each model a name of its own, or name another work folder")
        return {name: before.get(name, []) for name in (CHOICES, CASES)}

    def _write(self) -> None:
        """Write the whole file, so that it is the old one or the new one."""
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps(self.content, indent=1), encoding="utf-8")


def key_of(case: Mapping[str, Any]) -> CaseKey:
    """Return the key of a case as it was read."""
    return CaseKey(*(case[name] for name in KEY))


def result_path(work: Path, data_set: str, split: str, model: str) -> Path:
    """Return the file of the results of a data set, split and model in a work folder."""
    return work / RESULTS / f"{stem_of(data_set, split, model)}.json"


def stem_of(*words: str) -> str:
    """Return words as the stem of a file's name."""
    return "-".join(re.sub(r"[^\w.]+", "_", one) for one in words)


def read_results(path: Path) -> dict[str, Any]:
    """Read a file of results."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        number = int(content["format"])
        if number <= FORMAT:
            _check(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"holds {path}, which is not a file of results ({error!r})"
        raise ArgumentError("work", problem, "remove that file, or name another folder") from None
    if number > FORMAT:
        problem = f"holds {path} of a newer unhub (format {number}, this one reads up to {FORMAT})"
        raise ArgumentError("work", problem, "upgrade unhub")
    found: dict[str, Any] = content
    if found.get("source") != "matrix":  # whose banks are what a user calls them
        found[CASES] = [case for case in found[CASES] if not _is_misnamed(case)]
    return found


def _is_misnamed(case: Mapping[str, Any]) -> bool:
    """Say whether a bank is not what its name says; earlier versions took a whole part that was too small."""
    if not case["bank"]:
        return False
    try:
        choice = BankChoice.of(case["bank"])
    except ArgumentError:
        return True
    return choice.picked and choice.size is not None and case.get("bank_queries", 0) < choice.size


def _check(content: Mapping[str, Any]) -> None:
    """Look up what every file of results has; a name that is absent is an error of the lookup."""
    for name in ABOUT:
        content[name]
    for case in (*content[CASES], *content[CHOICES]):
        key_of(case), case["inputs"], case["spec"]
    for case in content[CASES]:
        case["values"], case["gains"]


def every_result(work: Path) -> Iterator[dict[str, Any]]:
    """Yield all results of a work folder."""
    folder = work / RESULTS
    if not folder.is_dir():
        raise ArgumentError("work", f"{work} has no results", "name the folder of `unhub bench run`")
    for path in sorted(folder.glob("*.json")):
        yield read_results(path)


def interval_of(kept: Mapping[str, float | None]) -> Interval:
    """Return a value with its interval as it was kept; an end that is not known is infinite."""
    low, high = kept.get("low"), kept.get("high")
    return Interval(kept["value"] or 0.0, -inf if low is None else low, inf if high is None else high)


def measured_size(case: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return how many queries and items a case was measured on: of the queries, those with an answer."""
    queries = case.get("queries", case.get("asked"))
    return None if queries is None else (queries, case["items"])


def sizes_of(counts: tuple[int, int]) -> str:
    """Return how many queries and items there are, as text."""
    return f"{counts[0]:,} x {counts[1]:,}"


def bank_of(text: str, size: int | None, official: int | None, seed: int | None = None) -> str:
    """Return a bank with how many queries it has, beside how many there should be, and the seed it was drawn with."""
    whole = "" if official in (None, size) else f" of {official:,}"
    known = [*([] if size is None else [f"{size:,}{whole}"]), *([] if seed is None else [f"seed {seed}"])]
    return f"{text} ({', '.join(known)})" if known else text


def versions() -> dict[str, str]:
    """Return the versions that the figures were made with."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # a checkout that is not installed, or an extra that is absent
    return found
