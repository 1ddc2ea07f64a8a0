"""What page A2 says of live ranks: its own cells, in a notebook of their own."""

import json
from pathlib import Path

import pytest

from tests.live.kernel import Notebook

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
    raised = failed(ranks, "fail-raises")
    assert raised[0] == "CellFailed: rank 1 raised ValueError: no data on rank 1"
    assert any(line.startswith("rank 0 was blocked in all_reduce") for line in raised)

    shape = failed(ranks, "fail-shape")
    assert shape[0].startswith("CellFailed: collective mismatch")
    for rank, length in ((0, 4), (1, 8)):
        assert shape[1 + rank].startswith(f"rank {rank} called all_reduce(float32 [{length}])")

    assert not ranks.run(cells()["stop-button"]).error
    hangs = failed(ranks, "fail-hangs")
    assert hangs[0] == "CellFailed: The cell was interrupted."
    assert hangs[1].startswith("rank 0 was blocked in all_reduce")
    assert hangs[2].startswith("rank 1 stopped in time.sleep(600)")
    assert not ranks.run(cells()["after-hangs"]).error  # all three left the ranks usable

    killed = failed(ranks, "fail-killed")
    assert killed[0] == "CellFailed: rank 1 is gone: killed by SIGKILL"
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
