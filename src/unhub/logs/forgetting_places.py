"""Where queries are to be forgotten: each place once, however it is spelt, and held while it is changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from unhub.atomic import hold_folder
from unhub.errors import ArgumentError
from unhub.files.bank_folders import begun_files, is_bank_folder
from unhub.files.joint_change import planned_in
from unhub.files.kept_state import MARKS, QUERIES
from unhub.files.logs import LogFile, log_files
from unhub.files.query_logs import is_query_log
from unhub.files.version_folders import CORRECTIONS, names_also_of_unfinished, names_in, service_state


@dataclass(frozen=True, eq=False)
class ForgettingPlaces:
    """Where queries are to be forgotten."""

    bank: Path | None
    logs: tuple[Path, ...]
    corrections: tuple[Path, ...]
    state: Path | None

    def __post_init__(self) -> None:
        if not (self.bank or self.logs or self.corrections or self.state):
            raise ArgumentError("bank", "is missing, and so are logs, corrections and state", "say where to forget")
        if self.bank is not None and not is_bank_folder(self.bank) and not begun_files(self.bank):
            raise ArgumentError("bank", f"{self.bank} is not a bank folder", "name one that `unhub log add` made")
        for name, paths in (("logs", self.logs), ("corrections", self.corrections)):
            for path in paths:
                if not path.exists():
                    raise ArgumentError(name, f"{path} does not exist")
        if self.state is not None and not (self.state / CORRECTIONS).is_dir():
            raise ArgumentError("state", f"{self.state} is not a folder of `unhub serve --state`")

    @property
    def counted_bank(self) -> Path | None:
        """The bank folder, if it is one: what a first `log add` that was cut off left is none yet."""
        return None if self.bank is None or not is_bank_folder(self.bank) else self.bank

    @property
    def log_folders(self) -> list[Path]:
        """The folders of `unhub serve --log`."""
        inside = [path for log in self.logs if log.is_dir() for path in (log, *sorted(log.rglob("*")))]
        return [path for path in _once(inside) if path.is_dir() and is_query_log(path)]

    @property
    def folders(self) -> list[Path]:
        """The folders that are named, in which something may change; a plan is kept in the first."""
        kept = [] if self.state is None else [self.state, self.state / MARKS / QUERIES]
        named = [_folder_of(path) for path in (*self.logs, *self.saved)]
        every = [*([] if self.bank is None else [self.bank]), *kept, *named, *self.log_folders]
        return [path for path in _once(every) if path.is_dir()]

    @property
    def looked_in(self) -> list[Path]:
        """Every folder that has a file which may change: a change that was cut off there must be finished first."""
        marks = [] if self.state is None else [self.state / MARKS / QUERIES]
        below = [
            *(path for log in self.logs for path in (log, *log.rglob("*"))),
            *(path for saved in self.saved for path in (saved, *saved.glob("*.unhub"))),
            *marks,
        ]
        holding = [Path(os.path.realpath(path)).parent for path in below]
        return [path for path in _once([*self.folders, *below, *holding]) if path.is_dir()]

    @property
    def saved(self) -> list[Path]:
        """Files of corrections, and folders in which they are; those of versions among them."""
        given = [path / CORRECTIONS if (path / CORRECTIONS).is_dir() else path for path in self.corrections]
        return _once([*given, *([] if self.state is None else [self.state / CORRECTIONS])])

    @property
    def version_folders(self) -> list[Path]:
        """The folders of versions; a change that was cut off in them must be finished."""
        return [path for path in self.saved if path.is_dir() and (names_in(path) or self.is_of_service(path))]

    @property
    def files(self) -> list[LogFile]:
        """The files of the logs, each once."""
        found: dict[str, LogFile] = {}
        for log in self.logs:
            for file in log_files(log):
                found.setdefault(os.path.realpath(file.path), file)
        return [*found.values()]

    def is_of_service(self, folder: Path) -> bool:
        """Return whether these are the versions of the state that was named, among which nothing else belongs."""
        return self.state is not None and (self.state / CORRECTIONS).samefile(folder)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold what others may be writing to."""
        taken = set()
        with ExitStack() as stack:
            for folder, argument, by in self._to_hold():
                real = os.path.realpath(folder)
                if real not in taken:  # this process cannot hold it twice
                    stack.callback(os.close, hold_folder(folder, argument, by))
                    taken.add(real)
            yield

    def _to_hold(self) -> Iterator[tuple[Path, str, str]]:
        """Yield folders, the argument that named each, and who else may hold it."""
        if self.bank is not None:
            yield self.bank, "bank", "another writer"
        for folder in self.log_folders:
            yield folder, "logs", "a service"
        if self.state is not None:
            yield self.state, "state", "a service"
        for folder in map(_folder_of, self.saved):
            if (state := service_state(folder)) is not None:
                yield state, "corrections", "a service"
            if names_also_of_unfinished(folder):
                yield folder, "corrections", "another writer"
        for folder in self.looked_in:
            if (planned := planned_in(folder)) is not None:  # what plans a change holds this folder until it is done
                yield planned, "logs", "another writer"


def _folder_of(path: Path) -> Path:
    """Return a folder itself, and of a file the folder that it is in, links followed."""
    return path if path.is_dir() else Path(os.path.realpath(path)).parent


def _once(paths: Iterable[Path]) -> list[Path]:
    """Return each file or folder once, as it was spelt first."""
    found: dict[str, Path] = {}
    for path in paths:
        found.setdefault(os.path.realpath(path), path)
    return [*found.values()]
