"""What page A2 says of live ranks: its own cells, in a notebook of their own."""

import json
from pathlib import Path

import pytest

from rankbook.live.failure.report import INTERRUPTED, MISMATCH
from tests.live.kernel import Notebook
from tests.live.report import blocked, called, died, fails, gone, raised, stopped

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "chapters" / "en" / "A2_one_controller.ipynb"
pytestmark = [pytest.mark.long, pytest.mark.slow]


def cells() -> dict[str, str]:
    """The code of the page, by the names of its cells."""
    page = json.loads(PAGE.read_text("utf-8"))
    return {c["id"]: "".join(c["source"]) for c in page["cells"] if c["cell_type"] == "code"}


@pytest.fixture
def ranks():
    with Notebook(cwd=str(PAGE.parent)) as notebook:
        for name in ("start", "step"):
            assert not notebook.run(cells()[name]).error
        yield notebook


def failed(notebook: Notebook, name: str) -> list[str]:
    """The lines of the report with which a cell of the page fails."""
    return notebook.run(cells()[name]).error.splitlines()


def test_the_reports_name_rank_1_and_what_works_afterwards(ranks):
    raises = failed(ranks, "fail-raises")
    assert raises[0] == fails(raised(1, "ValueError: no data on rank 1"))
    assert any(line.startswith(blocked(0, "all_reduce")) for line in raises)

    shape = failed(ranks, "fail-shape")
    assert shape[0] == fails(MISMATCH)
    for rank, length in ((0, 4), (1, 8)):
        assert shape[1 + rank].startswith(called(rank, f"all_reduce(float32 [{length}])"))

    assert not ranks.run(cells()["stop-button"]).error
    hangs = failed(ranks, "fail-hangs")
    assert hangs[0] == fails(INTERRUPTED)
    assert hangs[1].startswith(blocked(0, "all_reduce"))
    assert hangs[2].startswith(stopped(1, "time.sleep(600)"))
    assert not ranks.run(cells()["after-hangs"]).error  # all three left the ranks usable

    killed = failed(ranks, "fail-killed")
    assert killed[0].startswith(fails(gone(1, died(-9))))
    assert "is gone" in ranks.run("%%ranks\nstep()").error
    assert not ranks.run("%ranks restart").error
    assert "name 'step' is not defined" in ranks.run("%%ranks\nstep()").error


def test_the_notes_of_a_thread_tell_who_is_missing(ranks):
    found = ranks.run(cells()["solution-watcher"])
    assert not found.error and "[0] waits" in found.text and "[1] missing" in found.text


def test_on_time_nobody_is_missing_and_the_solution_says_so(ranks):
    """Its assertion is worth something: with nobody late, it fails."""
    on_time = cells()["solution-watcher"].replace("time.sleep(2 * rank)", "time.sleep(0)")
    assert "AssertionError" in ranks.run(on_time).error
