"""``%%torchrun`` on programs that fail: what the reader is told, and what is left.

Nothing here ends by itself: gloo waits for half an hour, and programs sleep for ten minutes.
"""

import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from rankbook.live.failure import report
from tests.live.kernel import Notebook
from tests.live.report import (
    HALTED,
    called,
    died,
    ended_by_agent,
    exited,
    fails,
    had_left,
    left_waiting,
    phrase,
    raised,
    stopped,
    was_in,
)
from tests.live.torchrun_cells import (
    GROUP,
    LOAD,
    SAY_WHEN_IN,
    fork_servers,
    launch,
    launched,
    left_of_launches,
    open_notebook,
    said,
)
from tests.waiting import SOON, until

BOOM = raised(1, "ValueError: boom")
SLEEP = "print('go')\ntime.sleep(600)"
ROOT = Path(__file__).resolve().parents[2]
CHILD = "import subprocess; subprocess.Popen(['sleep', '600'])\n"
TWO = "all_reduce(float32 [2])"
REDUCE = "\ndist.all_reduce(ones)"  # where the others wait
# Line 5 to 9: rank 1 dies when all the others have come to the all_reduce.
DIES = """store = dist.distributed_c10d._get_default_store()
if rank == 1:
    while store.add("there", 0) < world_size - 1: pass
    {death}
store.add("there", 1); dist.all_reduce(ones)"""


RECEIVE = GROUP + SAY_WHEN_IN + "say_when_in('recv')\ndist.recv(ones, 1 - rank)"
SPIN = (
    "import sys, time\n"
    + SAY_WHEN_IN
    + ("def spin():\n    while True: pass\nsay_when_in('spin')\nspin()")
)


@pytest.fixture(scope="module")
def notebook():
    with open_notebook() as notebook:
        assert not launch(notebook, "--nproc-per-node 1", "pass").error  # torch is loaded now
        yield notebook


@pytest.fixture(autouse=True)
def nothing_is_left(notebook: Notebook):
    yield
    assert not left_of_launches(notebook)


@pytest.mark.parametrize(
    "options", ["--nproc-per-node 2", "--nproc-per-node 4", "--nproc-per-node 2 --cold"]
)
def test_the_rank_that_raised_is_named_first(notebook, options):
    program = (
        GROUP + "def step():\n    if rank == 1:\n        raise ValueError('boom')\nstep()" + REDUCE
    )
    result = launch(notebook, options, program)
    lines = result.error.splitlines()
    assert lines[0] == fails(BOOM)
    assert lines[1:7] == [
        "Traceback (most recent call last):",
        "  Cell line 8",
        "    step()",
        "  Cell line 7, in step",
        "    raise ValueError('boom')",
        "ValueError: boom",
    ]
    assert lines[7].startswith("rank 0 ") and "all_reduce(float32 [2]), cell line 9" in lines[7]
    assert "starting cold" not in result.text


@pytest.mark.parametrize(
    "death, sentence",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", exited(1, -9)),
        ("os._exit(7)", exited(1, 7)),
        ("sys.exit('no luck')", exited(1, 1)),
        ("import ctypes; ctypes.string_at(0)", exited(1, -11, "string_at", 8)),
    ],
)
@pytest.mark.parametrize("world_size", [2, 4])
def test_a_rank_that_dies_is_named_first(notebook, death, sentence, world_size):
    result = launch(notebook, f"--nproc-per-node {world_size}", GROUP + DIES.format(death=death))
    assert result.error.startswith(fails(sentence)), result.error
    # Rank 0 sees the connection break, or torchrun ends it before that.
    suffered = [told(0, call, 9) for told in (stopped, was_in) for call in ("all_reduce", TWO)]
    assert any(line in result.error for line in suffered), result.error
    assert "no luck" not in death or "[1] no luck\n" in result.text


def test_a_killed_rank_is_named_first_when_cold(notebook):
    program = GROUP + DIES.format(death="os.kill(os.getpid(), signal.SIGKILL)")
    result = launch(notebook, "--nproc-per-node 2 --cold", program)
    assert result.error.startswith(fails(exited(1, -9))), result.error


def test_ranks_that_fail_alike_are_told_once(notebook):
    result = launch(notebook, "--nproc-per-node 4", "import os\n{}['key']")
    # Some of them torchrun may have ended before they failed.
    assert result.error.splitlines()[0].endswith(phrase(raised(0, "KeyError: 'key'")))
    assert result.error.count("Traceback") == 1 and "Cell line 3\n" in result.error


# all have met: who leaves at once would else leave others who still connect
MET = GROUP.replace("ones = torch.ones(2)", "ones = torch.ones(2); dist.barrier()")


def suffered(call: str, line: int) -> tuple[str, str]:
    """Rank 0 sees the connection break, or torchrun ends it before that."""
    return stopped(0, call, line, "RuntimeError"), ended_by_agent(0, call, line)


@pytest.mark.parametrize(
    "program, first, second",
    [
        (
            "if rank == 1: raise KeyboardInterrupt" + REDUCE,
            raised(1, "KeyboardInterrupt"),
            suffered(TWO, 6),
        ),
        (
            "if rank == 1: sys.exit(0)" + REDUCE,
            left_waiting(1, 0, TWO, 6, code=0),
            stopped(0, TWO, 6, "RuntimeError: ..."),
        ),
        (
            "if rank == 1: os._exit(0)" + REDUCE,
            left_waiting(1, 0, TWO, 6, code=0),
            stopped(0, TWO, 6, "RuntimeError: ..."),
        ),
        (
            "for _ in range(3 + rank): dist.all_reduce(ones)",
            left_waiting(0, 1, TWO, 5, code=0),
            stopped(1, TWO, 5, "RuntimeError: ..."),
        ),
        (
            "dist.barrier()\nif rank == 1: raise ValueError('boom')",
            BOOM,
            had_left(0),
        ),
        (
            "class Odd(Exception):\n    def __str__(self): raise KeyError('text')\n"
            "if rank == 1: raise Odd\ntime.sleep(600)",
            raised(1, "Odd: <its text could not be made: __str__ raised KeyError>"),
            ended_by_agent(0, "time.sleep(600)", 8),
        ),
        (
            "layer = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))\n"
            "if rank == 1: raise ValueError('boom')\nlayer(ones).sum().backward()",
            BOOM,
            suffered("all_reduce(float32 [3]) of DDP's backward", 7),
        ),
    ],
)
def test_who_left_and_who_suffered_are_told_apart(notebook, program, first, second):
    result = launch(notebook, "--nproc-per-node 2", MET + program)
    lines = result.error.splitlines()
    assert lines[0] == fails(first), result.error
    assert any(line.startswith(second) for line in lines[1:]), result.error


# Once both are there, they wait for each other for 5 s.
SHORT_GROUP = """import torch, torch.distributed as dist; from datetime import timedelta
dist.init_process_group("gloo"); rank = dist.get_rank(); four = torch.ones(4); dist.barrier()
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=5))
"""


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (
            "dist.all_reduce(torch.ones(4 + rank))",
            [  # gloo aborts it: what it leaves is its place
                called(0, "all_reduce", 5, code=-6),
                called(1, "all_reduce(float32 [5])", 5),
            ],
        ),
        (
            "dist.all_reduce(four) if rank else dist.broadcast(four, 0, async_op=True)",
            [
                called(0, "broadcast(float32 [4])", 5),
                called(1, "all_reduce(float32 [4])", 5),
                had_left(0),
            ],
        ),
        (
            "first, then = (dist.broadcast, dist.all_reduce)[:: 1 if rank else -1]\n"
            "arguments = {dist.broadcast: {'src': 0}, dist.all_reduce: {}}\n"
            "first(four, **arguments[first])\nthen(four, **arguments[then])",
            [
                called(0, "all_reduce(float32 [4])", 7),
                called(1, "broadcast(float32 [4], src=0)", 7),
            ],
        ),
    ],
    ids=["two shapes", "one has left", "two orders"],
)
def test_ranks_that_made_different_calls_are_told_so(notebook, program, lines):
    result = launch(notebook, "--nproc-per-node 2", SHORT_GROUP + program)
    told = result.error.splitlines()
    assert told[0] == fails(report.MISMATCH), result.error
    # torchrun may end rank 1 before it hears that rank 0 was aborted
    ended = ended_by_agent(1, "all_reduce", 5)
    missing = [line for line in lines if line not in told]
    assert not missing or (missing == lines[1:] and ended in told), result.error


def test_an_autopsy_reads_what_the_ranks_of_a_cell_recorded(notebook, tmp_path):
    notebook.run(f"import os; os.environ['RANKBOOK_AUTOPSY'] = {str(tmp_path)!r}")
    program = GROUP + "if rank == 1: raise ValueError('boom')" + REDUCE
    try:
        assert "ValueError: boom" in launch(notebook, "--nproc-per-node 2", program).error
    finally:
        notebook.run("del os.environ['RANKBOOK_AUTOPSY']")
    command = [sys.executable, "-m", "rankbook", "autopsy", str(tmp_path)]
    page = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "ValueError: boom" in page and "cell.py:5" in page, page


def test_an_interrupt_of_much_output_ends_it(notebook):
    program = "import itertools\nfor number in itertools.count(): print(number, 'z' * 50)"
    notebook.begin(f"%%torchrun --nproc-per-node 2\n{program}")
    notebook.until("1000 zzz")
    notebook.interrupt()
    assert notebook.finish().error.startswith(fails(HALTED))
    assert not left_of_launches(notebook)


def test_a_rank_that_waits_when_another_leaves(notebook):
    """Rank 0 does not notice by itself: torchrun ends it, and the report says where it was."""
    program = f"""{GROUP}pids = [None, None]; dist.all_gather_object(pids, os.getpid())
sys.path.insert(0, {str(ROOT)!r}); from tests.distributed.blocked import blocked
while rank == 1 and not blocked(pids[0]): pass  # rank 0 is on its way there
if rank == 1: raise ValueError('boom')
time.sleep(600)"""
    result = launch(notebook, "--nproc-per-node 2", program)
    assert result.error.startswith(fails(BOOM))
    assert ended_by_agent(0, "time.sleep(600)", 9) in result.error


@pytest.mark.parametrize(
    "program, place, cold",
    [
        (SPIN, ("", 13), ""),
        (RECEIVE, ("recv", 15), ""),
        (RECEIVE, ("recv", 15), "--cold"),
    ],
)
def test_an_interrupt_ends_everything(notebook, program, place, cold):
    notebook.begin(f"%%torchrun --nproc-per-node 2 {cold}\n{program}")
    notebook.until(r"\[0(-1)?\] go")
    notebook.interrupt()
    result = notebook.finish()
    assert result.error.startswith(fails(HALTED)), result.error
    assert was_in(0, *place) in result.error
    assert not left_of_launches(notebook)


# The warm process tells that it begins, and waits before it loads torch.
HELD = """import sys
if any("forkserver_main" in word for word in sys.orig_argv):
    open({there!r}, "w").close()
    open({gate!r}).close()
"""
# The notebook tells when its main thread watches the launch.
WATCHES = """import os, pathlib, sys, threading, time, traceback
main = threading.get_ident()
def functions():
    return [frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[main])]
def tell():
    while "watch" not in functions():
        time.sleep(0.01)
    pathlib.Path({watches!r}).touch()
threading.Thread(target=tell, daemon=True).start()
path = os.environ.get("PYTHONPATH", "")
os.environ["PYTHONPATH"] = os.pathsep.join([{folder!r}, path])"""


def test_an_interrupt_before_the_ranks_begin(notebook, gate, tmp_path):
    there, watches = tmp_path / "there", tmp_path / "watches"
    (tmp_path / "sitecustomize.py").write_text(HELD.format(there=str(there), gate=gate.path))
    # another PYTHONPATH: so a new warm process has to load torch
    assert not notebook.run(WATCHES.format(watches=str(watches), folder=str(tmp_path))).error
    notebook.begin("%%torchrun --nproc-per-node 2\nprint('ran')")
    until(lambda: there.exists() and watches.exists())
    notebook.interrupt()
    result = notebook.finish()
    gate.open()
    assert HALTED in result.error and "ran" not in result.text
    assert not left_of_launches(notebook)
    assert "ran" in launch(notebook, "--nproc-per-node 2", "print('ran')").text
    notebook.run("os.environ['PYTHONPATH'] = path")


@pytest.mark.parametrize("cold", ["", "--cold"])
def test_killing_the_agent_leaves_nothing(notebook, cold):
    notebook.begin(f"%%torchrun --nproc-per-node 2 {cold}\n{GROUP}{CHILD}{SLEEP}")
    notebook.until("go")
    _agent(notebook, cold).kill()
    result = notebook.finish()
    assert result.error.startswith(fails(report.agent_killed("torchrun", 9)))
    assert not left_of_launches(notebook)


def test_killing_the_warm_process_ends_its_launches_and_the_next_one_works(notebook):
    notebook.begin(f"%%torchrun --nproc-per-node 2\n{GROUP}{SLEEP}")
    notebook.until("go")
    fork_servers(notebook)[0].kill()
    assert died(-9) in notebook.finish().error
    assert not left_of_launches(notebook)
    assert "again" in launch(notebook, "--nproc-per-node 2", "print('again')").text


@pytest.mark.parametrize("cold", ["", "--cold"])
def test_killing_the_notebook_leaves_nothing(cold):
    with open_notebook() as notebook:
        child = CHILD if not cold else ""
        notebook.begin(f"%%torchrun --nproc-per-node 2 {cold}\n{GROUP}{child}{SLEEP}")
        notebook.until("go")
        assert len(launched(notebook)) >= 3
        notebook.kill()
        assert not notebook.wait_gone()


def test_a_warm_start_that_stalls_is_replaced_by_a_cold_one():
    with open_notebook() as notebook:
        assert not launch(notebook, "--nproc-per-node 1", "pass").error
        notebook.run("from rankbook.live.torchrun import launch as t; t.START_SECONDS = 2.0")
        fork_servers(notebook)[0].suspend()
        result = launch(notebook, "--nproc-per-node 2", "print('ran')")
        assert not result.error and said(result.text, "ran") == {0, 1}
        assert (
            "the warm start failed (not all ranks began within 2 s); starting cold" in result.text
        )
        notebook.run("t.START_SECONDS = 3600.0")
        again = launch(notebook, "--nproc-per-node 2", "print('warm')")
        assert said(again.text, "warm") == {0, 1} and "starting cold" not in again.text
        assert fork_servers(notebook)  # a new one: the launch was warm
        assert not left_of_launches(notebook)


def test_two_notebooks_at_once(notebook):
    program = (
        GROUP + "for _ in range(20): dist.all_reduce(ones); time.sleep(0.02)\nprint(ones[0].item())"
    )
    with open_notebook() as other:
        for book in (notebook, other):
            book.begin(f"%%torchrun --nproc-per-node 2\n{program}")
        for book in (notebook, other):
            result = book.finish()
            assert not result.error and said(result.text, f"{2.0**20}") == {0, 1}
        assert not left_of_launches(other)


def test_a_failed_program_fails_the_executed_notebook():
    cells = [LOAD, "%%torchrun --nproc-per-node 2\nraise ValueError('boom')"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.raises(CellExecutionError, match=phrase(raised(0, "ValueError: boom"))):
        NotebookClient(book, timeout=SOON).execute()


def _agent(notebook: Notebook, cold: str) -> psutil.Process:
    """The kernel is busy with the launch: find the agent by its place in the tree."""
    processes = launched(notebook)
    if cold:
        return next(p for p in processes if p.ppid() == notebook.pid)
    fork_server = fork_servers(notebook)[0].pid
    launcher = next(p.pid for p in processes if p.ppid() == fork_server)
    return min((p for p in processes if p.ppid() == launcher), key=lambda p: p.pid)
