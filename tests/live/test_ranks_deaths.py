"""A rank that dies: it is named, the survivors keep their state, restart works."""

import os
import signal

import pytest

from rankbook.live.failure import report
from tests.live.report import died, fails, gone

RANKS = [2, 4]  # where one is left, and where three are
DEATHS = {
    "exit": ("os._exit(7)", died(7)),
    "kill": ("os.kill(os.getpid(), 9)", died(-9)),
    "segfault": ("import ctypes; ctypes.string_at(0)", died(-11)),
    "abort": ("os.abort()", died(-6)),
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_rank_dies_while_the_others_wait(live, how):
    code, ending = DEATHS[how]
    live.run("%%ranks\nimport os\nkept = 'kept'")
    result = live.run(f"%%ranks\nif rank == 1:\n    {code}\ndist.barrier()")
    assert result.error.startswith(fails(gone(1, ending)))
    alive = [rank for rank in range(live.world_size) if rank != 1]
    assert report.lost([1], alive) in result.error
    if how in ("segfault", "abort"):  # the interpreter could still say where
        assert "line 3 of the cell" in result.error
    assert f"rank 1 is gone ({ending}" in live.run("%%ranks\n1").error
    assert live.run("%%ranks 0\nprint(kept)").text == "[0] kept\n"
    assert f"rank 1: {ending}" in live.run("%ranks status").text
    assert not live.run("%ranks restart").error
    assert not live.run("%%ranks\ndist.barrier()").error


def test_a_rank_dies_while_no_cell_runs(live):
    status = live.run("%ranks status").text
    pid = int(status.split("rank 1: process ")[1].split(",")[0])
    os.kill(pid, signal.SIGKILL)
    live.run_until("%ranks status", f"rank 1: {died(-9)}")
    assert f"rank 1 is gone ({died(-9)}" in live.run("%%ranks\n1").error
    assert not live.run("%ranks restart").error


def test_a_rank_that_ignores_the_interrupt_is_killed(live):
    live.run("patience, interrupt.KILL = interrupt.KILL, 0.1")
    ignore = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf')"
    live.begin(f"%%ranks\n{ignore}\nwhile True: pass")
    live.until("deaf")
    live.interrupt()
    error = live.finish().error
    live.run("interrupt.KILL = patience")
    for rank in range(live.world_size):
        assert gone(rank, report.IGNORED) in error
    assert report.lost(list(range(live.world_size)), []) in error
    assert not live.run("%ranks restart").error


def test_the_server_that_forks_ranks_is_replaced(live):
    live.run("from multiprocessing import forkserver as f\nimport os")
    live.run("os.kill(f._forkserver._forkserver_pid, 9)")
    live.run_until("%ranks status", f"rank 1: {died(255)}")  # nobody saw how
    assert "is gone" in live.run("%%ranks\n1").error
    result = live.run("%ranks restart")
    assert not result.error and "ranks after" in result.text
