"""The list of allowed skips: what is on it passes, anything else fails the run."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.once

CONFTEST = Path(__file__).with_name("conftest.py")
IN_ONE_PROCESS_AND_IN_TWO_WORKERS = pytest.mark.parametrize(
    "workers", [("-p", "no:xdist"), ("-n", "2")], ids=["one process", "two workers"]
)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Make a folder with our conftest.py and a list that allows one reason."""
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    allow(pytester, "# because the data is large\nno data in .*: set DATA\n")
    return pytester


def allow(project: pytest.Pytester, lines: str) -> None:
    (project.path / "allowed_skips.txt").write_text(lines, encoding="utf-8")


def a_test_that_skips(reason: str) -> str:
    return f"""
        import pytest

        def test_passes():
            pass

        @pytest.mark.skip(reason={reason!r})
        def test_skips():
            pass
    """


@IN_ONE_PROCESS_AND_IN_TWO_WORKERS
def test_a_listed_skip_is_printed_and_passes(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makepyfile(test_it=a_test_that_skips("no data in ./here: set DATA"))
    result = project.runpytest_subprocess(*workers)
    result.stdout.fnmatch_lines(["allowed: test_it.py::test_skips: no data in ./here: set DATA"])
    assert result.ret == pytest.ExitCode.OK


@IN_ONE_PROCESS_AND_IN_TWO_WORKERS
def test_an_unlisted_skip_is_printed_and_fails_the_run(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makepyfile(test_it=a_test_that_skips("not today"))
    result = project.runpytest_subprocess(*workers)
    result.stdout.fnmatch_lines(["NOT ALLOWED: test_it.py::test_skips: not today", "The run fails: 1 of 1 skips*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@IN_ONE_PROCESS_AND_IN_TWO_WORKERS
def test_a_whole_module_that_skips_is_held_to_the_list(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makepyfile(
        test_runs="def test_passes(): pass",
        test_missing="import pytest; pytest.importorskip('a_library_nobody_wrote')",
    )
    result = project.runpytest_subprocess(*workers)
    result.stdout.fnmatch_lines(["NOT ALLOWED: test_missing.py: could not import 'a_library_nobody_wrote'*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_skip_raised_inside_a_test_or_a_fixture_is_held_to_the_list(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.fixture
        def absent():
            pytest.skip("the fixture is absent")

        def test_uses_it(absent):
            pass

        def test_gives_up():
            pytest.skip("it gave up")
        """
    )
    result = project.runpytest_subprocess()
    result.stdout.fnmatch_lines(
        ["NOT ALLOWED: *::test_gives_up: it gave up", "NOT ALLOWED: *::test_uses_it: the fixture is absent"]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_reason_is_matched_from_its_start(project: pytest.Pytester) -> None:
    project.makepyfile(a_test_that_skips("not today, and no data in ./here: set DATA"))
    assert project.runpytest_subprocess().ret == pytest.ExitCode.TESTS_FAILED


def test_an_expected_failure_is_not_a_skip(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.xfail(reason="known")
        def test_known():
            raise ValueError
        """
    )
    result = project.runpytest_subprocess()
    result.stdout.no_fnmatch_line("*skipped tests*")
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("no reason given\n", "*line 1: put a comment above it*"),
        ("# why\nfirst\nsecond\n", "*line 3: put a comment above it*"),
        ("# why\n(\n", "*line 2: not a regular expression*"),
        ("# why\n.*\n", "*line 2: '.[*]' would allow every skip*"),
    ],
    ids=["no comment", "one comment for two", "not a pattern", "too wide"],
)
def test_a_bad_line_of_the_list_stops_the_run(project: pytest.Pytester, lines: str, message: str) -> None:
    allow(project, lines)
    project.makepyfile(a_test_that_skips("first"))
    result = project.runpytest_subprocess()
    result.stderr.fnmatch_lines([message])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
