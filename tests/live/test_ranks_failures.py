"""Every failure a reader can meet: it ends, names its cause, and the next cell works.

The group's time-out is an hour (conftest): what ends was ended, and the report says by whom.
"""

import re

import pytest

from rankbook.live.failure import report
from tests.live.report import blocked, fails, goes_on, raised, still_waits, stopped
from tests.waiting import until

BOOM = raised(1, "ValueError: boom")
STOPPED = fails(report.INTERRUPTED)

ALIVE = "%%ranks\nt = torch.ones(1); dist.all_reduce(t); print(kept, int(t))"


@pytest.fixture(autouse=True)
def _variables_and_group_survive(live):
    """Around every test: a variable set before is there after, and collectives work."""
    assert not live.run("%%ranks\nkept = 'kept'").error
    yield
    n = live.world_size
    result = live.run(ALIVE)
    assert (result.error, result.text) == ("", f"[0-{n - 1}] kept {n}\n")


def others(live) -> list[int]:
    return [rank for rank in range(live.world_size) if rank != 1]


def test_one_rank_raises_while_the_others_wait(live):
    code = "%%ranks\nt = torch.ones(2)\nif rank == 1:\n    raise ValueError('boom')\n"
    result = live.run(code + "dist.all_reduce(t)")
    cause, *rest = result.error.split("\n")
    assert cause == fails(BOOM)
    assert "----> 4     raise ValueError('boom')" in result.error
    for rank in others(live):
        assert blocked(rank, "all_reduce(float32 [2])", 5) in rest


def test_the_others_wait_in_a_request(live):
    code = "%%ranks\nif rank == 1:\n    raise ValueError('boom')\n"
    result = live.run(code + "request = dist.irecv(torch.ones(1), src=1)\nrequest.wait()")
    assert blocked(0, "request.wait()", 5) in result.error


def test_the_others_wait_in_ddps_backward(live):
    live.run("%%ranks\nfrom torch.nn.parallel import DistributedDataParallel")
    live.run("%%ranks\nDistributedDataParallel(torch.nn.Linear(2, 2))(torch.ones(1, 2)).sum()")
    code = "%%ranks\nmodel = DistributedDataParallel(torch.nn.Linear(2, 2))\nout = model("
    code += "torch.ones(1, 2)).sum()\nif rank == 1:\n    raise ValueError('boom')\nout.backward()"
    result = live.run(code)
    assert result.error.startswith(fails(BOOM))
    assert blocked(0, "all_reduce(float32 [6]) of DDP's backward", 6) in result.error


DDP = "%%ranks\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"


def test_the_others_wait_where_ddp_is_made(live):
    live.run(DDP + "DDP(torch.nn.Linear(2, 2))")  # the first loads what it needs
    code = "%%ranks\nif rank == 1:\n    raise ValueError('boom')\nDDP(torch.nn.Linear(2, 2))"
    result = live.run(code)
    assert " of DDP(torch.nn.Linear(2, 2)), cell line 4" in result.error


def test_the_others_wait_while_ddp_sorts_its_buckets(live):
    """It does so in the second forward pass."""
    code = DDP + "model = DDP(torch.nn.Linear(2, 2))\nfor step in range(2):\n"
    code += "    if rank == 1 and step == 1:\n        raise ValueError('boom')\n"
    result = live.run(code + "    model(torch.ones(1, 2)).sum().backward()")
    assert " of model(torch.ones(1, 2)), cell line 7" in result.error


def test_a_rank_that_computes_may_finish(live, gate):
    code = f"%%ranks\ngate = {gate.path!r}\nif rank == 1:\n    raise ValueError('boom')\n"
    live.begin(code + "open(gate)\nprint('done')")
    live.until(re.escape(goes_on(0, 1, "open(gate)", 5)))
    gate.open()
    result = live.finish()
    assert "done" in result.text and BOOM in result.error


def test_equal_errors_are_shown_once(live):
    result = live.run("%%ranks\nundefined")
    assert result.error.count("NameError: name 'undefined' is not defined") == 1
    assert result.error.startswith(fails(raised(range(live.world_size), "NameError")))


def test_the_traceback_carries_the_notebooks_cell_number(live):
    number = int(live.run("print(len(In) - 1)").text) + 1
    assert f"Cell In[{number}], line 2" in live.run("%%ranks\nundefined").error


def test_a_syntax_error_is_shown_once(live):
    result = live.run("%%ranks\nx = = 1")
    assert result.error.count("SyntaxError: invalid syntax") == 2


def test_memory_that_is_not_there(live):
    result = live.run("%%ranks\nif rank == 1:\n    torch.empty(10**16)\ndist.barrier()")
    assert result.error.startswith(fails(raised(1, "RuntimeError")))
    assert "can't allocate memory" in result.error


def test_deadlock_and_interrupt(live):
    live.begin("%%ranks\ndist.recv(torch.zeros(1), src=(rank + 1) % world_size)")
    live.until(re.escape(still_waits("[0]", "recv(float32 [1], src=1)", 2)))
    live.interrupt()
    result = live.finish()
    assert result.error.startswith(STOPPED)
    assert blocked(0, "recv(float32 [1], src=1)", 2) in result.error


def test_endless_loop_and_interrupt(live):
    live.begin("%%ranks\nprint('spins')\nwhile True:\n    pass")
    live.until("spins")
    live.interrupt()
    result = live.finish()
    assert result.error.startswith(STOPPED)


def test_interrupted_between_collectives(live):
    """The ranks stop at different calls; the next cell must not pair one's old with another's."""
    live.begin("%%ranks\nprint('loops')\nwhile True:\n    dist.all_reduce(torch.ones(1))")
    live.until("loops")
    live.interrupt()
    assert live.finish().error.startswith(STOPPED)


LATE = """%%ranks 1
def late():
    get_ipython().events.unregister('pre_execute', late)
    open({there!r}, 'w').close()
    {wait}
get_ipython().events.register('pre_execute', late)"""


def test_an_interrupt_while_the_cell_is_on_its_way_to_a_rank(live, gate, tmp_path):
    """Never does one rank run on alone: it is asked to end when it has come into the cell."""
    there = tmp_path / "there"
    assert not live.run(LATE.format(there=str(there), wait=gate.wait)).error
    live.run("polite, interrupt.POLITE = interrupt.POLITE, 3600.0")  # no rank is asked before
    live.begin("%%ranks\nwhile True:\n    pass")
    until(there.exists)  # the cell has reached rank 1, which has not begun it
    live.interrupt()
    gate.open()
    error = live.finish().error
    live.run("interrupt.POLITE = polite")
    assert error.startswith(STOPPED)
    for rank in range(live.world_size):
        lines = {stopped(rank, "", line) for line in (2, 3)}
        assert lines & set(error.splitlines()), error


def test_after_two_failures_in_a_row(live):
    for _ in range(2):
        assert live.run("%%ranks\nassert rank != 1\ndist.barrier()").error


def test_collectives_that_go_on_are_not_taken_for_a_hang(live):
    """For longer than the silence after which ranks that wait are looked at, twice."""
    code = "%%ranks\nimport time\nend, go = time.monotonic() + 4, torch.ones(1)\nwhile go.item():\n"
    code += "    go.fill_(time.monotonic() < end)  # rank 0's counts\n"
    result = live.run(code + "    dist.broadcast(go, 0)")
    assert (result.text, result.error) == ("", "")


def test_a_rank_that_did_not_run_the_cell_is_missed(live):
    """Waiting for it would take the group's time-out; the reader learns why, and interrupts."""
    live.begin("%%ranks 0\ndist.all_reduce(torch.ones(1))")
    live.until(re.escape(still_waits("[0]", "all_reduce(float32 [1])", 2)))
    live.interrupt()
    assert report.absent(list(range(1, live.world_size))) in live.finish().error
