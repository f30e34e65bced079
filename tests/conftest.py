"""What every run shares: hypothesis profiles, and the rule that a skip must be on the list in allowed_skips.txt."""

import os
import re
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")
# Tests of these share what takes long to make, so one worker runs them all; they are begun first.
SHARING = ("test_real_data.py", "test_report.py", "test_report_browser.py", "test_tune_real.py")
ALL_ONCE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.once\b", re.MULTILINE)

# POT imports torch where it is installed, which takes seconds in each process and is not used.
os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
# Some virtual machines announce AMX and kill a process that uses it, which torch does for bfloat16.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


class Skip(NamedTuple):
    """A test or a whole module that did not run, and the reason it gave."""

    where: str
    reason: str


class SkipList:
    """Collect the skips of a run, print each with its reason, and fail the run for one that is not allowed."""

    def __init__(self, allowed: list[re.Pattern[str]]) -> None:
        self.allowed = allowed
        self.skips: list[Skip] = []

    def is_allowed(self, skip: Skip) -> bool:
        return any(pattern.match(skip.reason) for pattern in self.allowed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skips.append(Skip(report.nodeid, reason_of(report)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skips.append(Skip(report.nodeid, reason_of(report)))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and not all(map(self.is_allowed, self.skips)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.skips:
            return
        terminalreporter.section("skipped tests")
        for skip in sorted(self.skips):
            mark = "allowed" if self.is_allowed(skip) else "NOT ALLOWED"
            terminalreporter.line(f"{mark}: {skip.where}: {skip.reason}")
        refused = sum(not self.is_allowed(skip) for skip in self.skips)
        if refused:
            terminalreporter.line(
                f"The run fails: {refused} of {len(self.skips)} skips are not on the list in {ALLOWED_SKIPS.name}.",
                red=True,
            )


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason a skipped report carries, without pytest's prefix."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def read_allowed_skips(path: Path) -> list[re.Pattern[str]]:
    """Read one regular expression per line; each must follow a comment that says why it is acceptable."""
    patterns: list[re.Pattern[str]] = []
    explained = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            explained = bool(line)
            continue
        if not explained:
            raise pytest.UsageError(
                f"{path.name}, line {number}: put a comment above it that says why it is acceptable"
            )
        try:
            pattern = re.compile(line)
        except re.error as error:
            raise pytest.UsageError(f"{path.name}, line {number}: not a regular expression: {error}") from error
        if pattern.match(""):
            raise pytest.UsageError(f"{path.name}, line {number}: {line!r} would allow every skip")
        patterns.append(pattern)
        explained = False
    return patterns


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare the run without numba the import of modules of which it wants no test."""
    if config.option.markexpr == "not once" and collection_path.suffix == ".py":
        return bool(ALL_ONCE.search(collection_path.read_text(encoding="utf-8"))) or None
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Deal the tests out one by one, but for those of a module in SHARING, which go to one worker together."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class BySharing(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if path.endswith(SHARING) else nodeid

    return BySharing(config, log)


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what runs in the background with SIGINT ignored, and so would be the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A worker of pytest-xdist sends its reports to the process that started it, which keeps the list for all.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipList(read_allowed_skips(ALLOWED_SKIPS)), "skip-list")
