"""What every run shares: hypothesis profiles, and the rule that a skip is a failure unless allowed_skips.txt has it."""

import os
import re
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def kept_code(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder that all tests of a run share, so that Python's own code is read once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "kept_code"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def allowed_skips() -> tuple[str, ...]:
    """Return how the reasons of allowed skips begin."""
    lines = ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure unless its reason is on the list; an expected failure is no skip."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith(allowed_skips()):
            report.outcome = "failed"
            report.longrepr = f"{reason}\nThis reason is not in {ALLOWED_SKIPS.name}, so the skip is a failure."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report


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


def pytest_configure() -> None:
    # A shell starts what runs in the background with SIGINT ignored, and so would be the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
