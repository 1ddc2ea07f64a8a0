"""What fails is run once more, alone: what passes then is told, what fails again fails the run."""

import subprocess
import sys
from pathlib import Path

import pytest

AGAIN = Path(__file__).parents[1] / "again.py"
UNSTEADY = """
from pathlib import Path
def test_{name}():
    seen = Path("{name}.seen")
    there = seen.exists()
    seen.touch()
    assert there, "the first time"
"""
BROKEN = "def test_broken():\n    assert 'left' == 'right', 'a reason'\n"
GOOD = "def test_good():\n    pass\n"


def again(folder: Path, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(AGAIN), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run(folder: Path, *tests: str) -> tuple[int, int, str]:
    """The exit codes of a pass over these tests, and of what is told at the end; its words."""
    for number, text in enumerate(tests):
        (folder / f"test_{number}.py").write_text(text)
    done = again(folder, "a-pass", "--quiet", "--numprocesses=2", "--dist=loadfile", ".")
    told = again(folder)
    kept = folder / "_build/tests/unsteady.txt"
    assert kept.read_text() == told.stdout
    return done.returncode, told.returncode, told.stdout


@pytest.mark.slow
def test_what_passes_the_second_time_is_unsteady_and_passes(tmp_path):
    found = run(tmp_path, GOOD, UNSTEADY.format(name="one"))
    assert found[:2] == (0, 0)
    assert found[2].startswith("test_1.py::test_one\n") and "the first time" in found[2]
    assert found[2].endswith("unsteady: 1\n  test_1.py::test_one\n")


@pytest.mark.slow
def test_what_fails_twice_fails_the_run_and_is_named_last(tmp_path):
    code, told, words = run(tmp_path, BROKEN, UNSTEADY.format(name="one"))
    assert (code, told) == (1, 1)
    assert "\nunsteady: 1\n  test_1.py::test_one\n" in words
    assert "assert 'left' == 'right'" in words
    assert words.endswith("failed twice: 1\n  test_0.py::test_broken\n")


@pytest.mark.slow
def test_three_unsteady_tests_fail_the_run(tmp_path):
    tests = [UNSTEADY.format(name=name) for name in ("one", "two", "three")]
    code, told, words = run(tmp_path, *tests)
    assert (code, told) == (0, 1)
    assert "\nunsteady: 3\n" in words and "more than 2 unsteady tests fail" in words


@pytest.mark.slow
def test_where_nothing_failed_nothing_is_told(tmp_path):
    assert run(tmp_path, GOOD) == (0, 0, "unsteady: 0\n")


@pytest.mark.slow
def test_no_tests_are_no_success(tmp_path):
    done = again(tmp_path, "a-pass", "--quiet", "nothing-there")
    assert done.returncode not in (0, 1)
    told = again(tmp_path)
    assert told.returncode == 1 and "  the pass a-pass\n" in told.stdout
