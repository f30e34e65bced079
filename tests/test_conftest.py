"""The list of allowed skips: what is on it passes, anything else fails the run."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.once

CONFTEST = Path(__file__).with_name("conftest.py")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Make a folder with our conftest.py and a list that allows one reason."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others are not needed, and take a while to load
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    allow(pytester, "# because the data is large\nno data in .*: set DATA\n")
    return pytester


def run(project: pytest.Pytester, *arguments: str, workers: int = 0) -> pytest.RunResult:
    """Run the tests of the folder, in this process unless there are to be workers."""
    if workers:
        return project.runpytest_subprocess("-p", "xdist", "-n", str(workers), *arguments)
    return project.runpytest_inprocess("-p", "no:xdist", *arguments)


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


@pytest.mark.parametrize("workers", [0, 2])
def test_a_listed_skip_is_printed_and_passes(project: pytest.Pytester, workers: int) -> None:
    project.makepyfile(test_it=a_test_that_skips("no data in ./here: set DATA"))
    result = run(project, workers=workers)
    result.stdout.fnmatch_lines(["allowed: test_it.py::test_skips: no data in ./here: set DATA"])
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("workers", [0, 2])
def test_a_test_and_a_whole_module_that_skip_unlisted_are_printed_and_fail_the_run(
    project: pytest.Pytester, workers: int
) -> None:
    project.makepyfile(
        test_it=a_test_that_skips("not today"),
        test_missing="import pytest; pytest.importorskip('a_library_nobody_wrote')",
    )
    result = run(project, workers=workers)
    result.stdout.fnmatch_lines(
        [
            "NOT ALLOWED: test_it.py::test_skips: not today",
            "NOT ALLOWED: test_missing.py: could not import 'a_library_nobody_wrote'*",
            "The run fails: 2 of 2 skips*",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("code", [a_test_that_skips("not today"), "import pytest; pytest.importorskip('nobody_wrote')"])
def test_one_unlisted_skip_is_enough_to_fail_a_run(project: pytest.Pytester, code: str) -> None:
    project.makepyfile(test_that_runs="def test_passes(): pass", test_it=code)
    result = run(project)
    result.stdout.fnmatch_lines(["NOT ALLOWED: test_it.py*", "The run fails: 1 of 1 skips*"])
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
    result = run(project)
    result.stdout.fnmatch_lines(
        ["NOT ALLOWED: *::test_gives_up: it gave up", "NOT ALLOWED: *::test_uses_it: the fixture is absent"]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_reason_is_matched_from_its_start(project: pytest.Pytester) -> None:
    project.makepyfile(a_test_that_skips("not today, and no data in ./here: set DATA"))
    assert run(project).ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("mark", ["pytest.mark.once", "[\n    pytest.mark.once,\n]"])
def test_a_module_that_runs_once_is_not_imported_where_those_tests_are_not_wanted(
    project: pytest.Pytester, mark: str
) -> None:
    project.makeini("[pytest]\nmarkers = once")
    project.makepyfile(
        test_once=f"import pytest\n\npytestmark = {mark}\n\ndef test_it(): pass\n",
        test_twice="import sys\n\ndef test_it(): assert 'test_once' not in sys.modules\n",
    )
    run(project, "-m", "not once").assert_outcomes(passed=1)
    run(project, "test_once.py").assert_outcomes(passed=1)


def test_an_expected_failure_is_not_a_skip(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.xfail(reason="known")
        def test_known():
            raise ValueError
        """
    )
    result = run(project)
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
    result = run(project)
    result.stderr.fnmatch_lines([message])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
