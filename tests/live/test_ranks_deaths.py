"""A rank that dies: named within two seconds, the survivors keep their state, restart works."""

import pytest

DEATHS = {
    "exit": ("os._exit(7)", "it left with exit code 7"),
    "kill": ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
    "abort": ("os.abort()", "killed by SIGABRT"),
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_rank_dies_while_the_others_wait(live, how):
    code, ending = DEATHS[how]
    live.run("%%ranks\nimport os\nkept = 'kept'")
    result = live.run(f"%%ranks\nif rank == 1:\n    {code}\ndist.barrier()")
    assert result.seconds < 2
    assert result.error.startswith(f"CellFailed: rank 1 is gone: {ending}")
    assert "The variables of [1] are lost" in result.error
    if how in ("segfault", "abort"):  # the interpreter could still say where
        assert "line 3 of the cell" in result.error
    assert f"rank 1 is gone ({ending}" in live.run("%%ranks\n1").error
    assert live.run("%%ranks 0\nprint(kept)").text == "[0] kept\n"
    assert f"rank 1: {ending}" in live.run("%ranks status").text
    assert not live.run("%ranks restart").error
    assert not live.run("%%ranks\ndist.barrier()").error


def test_a_rank_dies_while_no_cell_runs(live):
    pid = live.run("%ranks get missing").error and live.run("%ranks status").text
    pid = int(pid.split("rank 1: process ")[1].split(",")[0])
    live.run(f"import os, signal, time\nos.kill({pid}, 9)\ntime.sleep(0.3)")
    assert "rank 1 is gone (killed by SIGKILL" in live.run("%%ranks\n1").error
    assert not live.run("%ranks restart").error


def test_the_server_that_forks_ranks_is_replaced(live):
    live.run("from multiprocessing import forkserver as f\nimport os, time")
    live.run("os.kill(f._forkserver._forkserver_pid, 9)\ntime.sleep(0.5)")
    assert "is gone" in live.run("%%ranks\n1").error
    result = live.run("%ranks restart")
    assert not result.error and "ranks after" in result.text
