"""The right cause, always: the table of `causes.py`, on 2 and 3 ranks, and under load.

Nothing here ends by itself: a wait that is not recognised lasts, and fails the test.
"""

import os
import signal
import subprocess
import sys

import pytest

from tests.live.causes import CHAINS, NEVER, RAISED, THREE, WAITS, Cell
from tests.live.conftest import SLOW
from tests.live.report import (
    BLOCKED,
    STILL_WAITS,
    called,
    died,
    fails,
    gone,
    not_come,
    raised,
    still_waits,
    went_on,
)

CELLS = RAISED | WAITS | CHAINS
LOADED = [
    "a failed download", "the words of gloo", "all: a download", "all_reduce", "recv from anybody",
    "an asynchronous call", "new_group", "a key", "a thread", "full_tensor", "DDP's backward",
    "wrapped",
]  # fmt: skip
DIES = """import os, signal
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 2:
    raise ConnectionError('Connection reset by peer')
dist.barrier()"""


# The notebook notes in {folder} which ranks have left the cell: before, none.
NOTE = """import pathlib
from rankbook.live.ranks import cell
folder, begin, end = pathlib.Path({folder!r}), cell.CellRun.run, cell.CellRun._end
def run(self, world_size):
    for file in folder.iterdir():
        file.unlink()
    return begin(self, world_size)
def note(self, rank):
    end(self, rank)
    (folder / str(rank)).touch()
cell.CellRun.run, cell.CellRun._end = run, note"""
UNTIL_LEFT = """%%ranks
import pathlib, time
def until_left(rank):
    while not pathlib.Path({folder!r}, str(rank)).exists():
        time.sleep(0.01)"""


@pytest.fixture(scope="module")
def ranks(notebook, tmp_path_factory):
    """A function that gives the notebook with so many ranks; they are kept for the next test."""
    folder = str(tmp_path_factory.mktemp("left"))

    def running(number: int):
        if notebook.world_size != number:
            assert not notebook.run(f"%ranks stop\n%ranks start -n {number} --timeout 3600").error
            assert not notebook.run(UNTIL_LEFT.format(folder=folder)).error
            notebook.world_size = number
        return notebook

    notebook.world_size = 0
    assert not notebook.run(f"{SLOW}\n{NOTE.format(folder=folder)}").error
    yield running
    assert not notebook.run("cell.CellRun.run, cell.CellRun._end = begin, end").error
    assert not notebook.run("%ranks stop").error


def check(live, cell: Cell) -> None:
    result = live.run(f"%%ranks\n{cell.code}")
    shown = result.text + result.error
    # a rank that comes late goes on for a moment, but not where it then waits
    late = [f"{BLOCKED}{place}" for place in went_on(result.text)]
    assert [place for place in late if place in result.error] == [], shown
    assert result.error.startswith(fails(cell.head)), shown
    assert [word for word in cell.words if word not in result.error] == [], shown
    never = [word for word in [*NEVER, *cell.never] if word not in cell.head]
    assert [word for word in never if word in shown] == [], shown


@pytest.mark.parametrize("name", CELLS)
def test_the_cause_is_named(ranks, name):
    check(ranks(2), CELLS[name])


@pytest.fixture
def load():
    """Twice as many busy processes as there are processors."""
    burn = [sys.executable, "-c", "while True: pass"]
    number = 2 * len(os.sched_getaffinity(0))
    burners = [subprocess.Popen(burn) for _ in range(number)]
    yield
    for burner in burners:
        burner.send_signal(signal.SIGKILL)
        burner.wait()


@pytest.mark.usefixtures("load")
def test_the_cause_is_named_under_load(ranks):
    for name in LOADED:
        check(ranks(2), CELLS[name])


def test_a_hang_is_told_while_it_lasts(ranks, gate, tmp_path):
    """Once: who waits, who has not come, and what that one does."""
    there = f"pathlib.Path({str(tmp_path / 'there')!r})"
    code = f"def load():\n    {there}.touch(); open({gate.path!r})\nif rank == 1:\n    load()\n"
    two = ranks(2)
    assert not two.run("%%ranks\nimport pathlib").error
    # who waits is told once, whatever the other does then: rank 0 waits when that one is there
    wait = f"while not {there}.exists(): pass\n"
    two.begin(f"%%ranks\n{code}{wait}dist.all_reduce(torch.ones(2))")
    two.until(r"cell line 3, in load\n")
    gate.open()
    result = two.finish()
    lines = result.text.split("\n")
    assert lines[0] == still_waits("[0]", "all_reduce(float32 [2])", 7)
    assert lines[1].startswith(not_come("[1]", "")) and "cell line 5" in lines[1]
    assert (result.text.count(STILL_WAITS), result.error) == (1, "")


APART = """import torch.distributed._functional_collectives as fc
call = fc.broadcast if rank else fc.all_reduce
call(torch.ones(2), 0 if rank else "sum", dist.group.WORLD) + 1"""


def test_calls_that_differ_below_python_are_named(ranks):
    """The check does not see them; torch's flight recorder does."""
    two = ranks(2)
    two.begin(f"%%ranks\n{APART}")
    both = rf"(?s)(\[[01]\]{STILL_WAITS}.*){{2}}"  # else one may be interrupted before its call
    if two.until_idle_or(both):
        two.interrupt()
    lines = two.finish().error.split("\n")
    assert called(0, "all_reduce(float32 [2])", 4) in lines
    assert called(1, "broadcast(float32 [2])", 4) in lines


def test_variables_and_collectives_survive_all_that(ranks):
    two = ranks(2)
    assert not two.run("%%ranks\nkept = rank").error
    assert two.run("%%ranks\nraise ValueError if rank else KeyError").error
    result = two.run("%%ranks\nt = torch.ones(1); dist.all_reduce(t); print(kept == rank, int(t))")
    assert (result.error, result.text) == ("", "[0-1] True 2\n")


def test_the_cause_is_named_among_three(ranks):
    live = ranks(3)
    for cell in THREE.values():
        check(live, cell)
    report = live.run(f"%%ranks\n{DIES}").error
    words = [gone(1, died(-9)), "rank 0 ", raised(2, "ConnectionError: Connection reset by peer")]
    assert [word for word in words if word not in report] == [], report
