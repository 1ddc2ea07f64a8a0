"""Programs that execute a notebook without a reader: a failing rank fails the run, and says why."""

import re
import subprocess
import sys

import pytest

from tests.frontends.notebooks import CAUSE, FAILING, LOAD, SHOWN, START, SUM, write

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# what stands after ``python -m``
WAYS = {
    "nbconvert": "jupyter nbconvert --to notebook --execute --output=out in.ipynb",
    "papermill": "papermill --no-progress-bar in.ipynb out.ipynb",
    "ipython": "IPython --no-banner in.ipynb",
}
SHOWS_ALL = {"papermill", "ipython"}  # nbconvert keeps nothing of a run that failed


@pytest.fixture
def run(traces, tmp_path):
    """Return a function that runs cells in one of the `WAYS`; it gives the status and the text."""

    def run(way: str, cells: list[str]) -> tuple[int, str]:
        write(tmp_path / "in.ipynb", cells)
        done = subprocess.run(
            [sys.executable, "-m", *WAYS[way].split()],
            cwd=tmp_path,
            env=traces.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        out = tmp_path / "out.ipynb"
        shown = out.read_text("utf-8") if out.exists() else ""
        return done.returncode, COLOUR.sub("", done.stdout) + shown

    return run


@pytest.mark.parametrize("way", WAYS)
def test_a_failing_rank_fails_the_run_with_its_cause(run, way):
    status, text = run(way, FAILING)
    assert status != 0
    assert all(line in text for line in CAUSE), text
    assert way not in SHOWS_ALL or all(line in text for line in SHOWN), text
    assert "not reached" not in text


def test_ranks_that_nobody_stops_end_with_the_run(run):
    status, text = run("ipython", [LOAD, START, SUM])
    assert status == 0, text
    assert "[0-1] sum 3" in text
