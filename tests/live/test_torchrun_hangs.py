"""``%%torchrun`` on programs that hang: who waits for whom is told while it lasts.

Nothing here ends by itself, or it does when a test says so.
"""

import re

import pytest

from tests.live.kernel import Notebook
from tests.live.report import STILL_WAITS, fails, not_come, raised, still_waits, was_in
from tests.live.torchrun_cells import GROUP, launch, left_of_launches, open_notebook

# The second rank does what is not the collective on line 11, and the first waits when it does: who
# waits is told once, whatever the other does then. `there`: the file that is the argument.
THERE = "import pathlib; there = pathlib.Path(sys.argv[1])\n"
COMES = "while not there.exists(): pass\n"
SLEEPS = "if rank == 1:\n    there.touch()\n    time.sleep(600)\n" + COMES
LOAD = (
    GROUP
    + THERE
    + "def load():\n    there.touch()\n    time.sleep(600)\n"
    + (f"if rank == 1: load()\n{COMES}dist.all_reduce(ones)")
)
MODEL = "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))\n"
BACKWARD = GROUP + THERE + MODEL + SLEEPS + "model(ones.repeat(2)).sum().backward()"
THREAD = (
    GROUP
    + THERE
    + (
        "import threading; waits = threading.Thread(target=dist.all_reduce, args=(ones,))\n"
        f"{SLEEPS}waits.start(); waits.join()"
    )
)
NOT_MET = "import os, sys, time, torch.distributed as dist; rank = int(os.environ['RANK'])\n" + (
    f"{THERE}{SLEEPS}dist.init_process_group('gloo')"
)
SPAWN = """import os, torch.distributed as dist, torch.multiprocessing as mp
def work(rank):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="1")
    dist.init_process_group("gloo", rank=rank, world_size=2)
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""
STAYS = GROUP + (
    "import pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN); dist.barrier()\n"
    "if rank == 1: raise ValueError('boom')\n"
    "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)"
)
REDUCE = "all_reduce(float32 [2])"
# A program, options, where rank 0 waits, and what else is told.
HANGS = {
    "a rank is somewhere else": (
        LOAD,
        "",
        (REDUCE, 11),
        [not_come("[1]", "time.sleep(600)", 8),
         "      cell line 9",
         "      cell line 8, in load"],
    ),
    "cold": (LOAD, "--cold", (REDUCE, 11), []),
    "C++ issues the collective": (
        BACKWARD,
        "",
        ("all_reduce(float32 [20]) of DDP's backward", 11),
        [not_come("[1]", "time.sleep(600)", 9)],
    ),
    "a thread issues it": (THREAD, "", (f"waits.join() for {REDUCE}", 11), []),
    "a rank has not joined": (
        NOT_MET,
        "",
        ("init_process_group()", 8),
        [not_come("[1]", "time.sleep(600)", 6)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def notebook():
    with open_notebook() as notebook:
        patient = notebook.run("from rankbook.live.torchrun import lookout; lookout.HINT = 0.5")
        assert not patient.error
        yield notebook


@pytest.fixture(autouse=True)
def nothing_is_left(notebook: Notebook):
    yield
    left = left_of_launches(notebook)
    for process in left:  # what one test leaves is no failure of the next ones
        process.kill()
    assert not left


@pytest.mark.parametrize("name", HANGS)
def test_who_waits_for_whom_is_told_while_it_lasts(notebook, name, tmp_path):
    program, options, (call, line), lines = HANGS[name]
    words = f"--nproc-per-node 2 {options} -- {tmp_path / 'there'}"
    notebook.begin(f"%%torchrun {words}\n{program}")
    text = notebook.until(rf"{re.escape(not_come('[1]', 'time.sleep'))}.*\n(?s:.*)")
    notebook.interrupt()
    result = notebook.finish()
    expected = [still_waits("[0]", call, line), *lines]
    assert all(line in result.text.splitlines() for line in expected), result.text
    assert text.count(STILL_WAITS) == result.text.count(STILL_WAITS) == 1
    assert was_in(0, call, line) in result.error  # also of what a signal's stack does not know


def test_ranks_of_several_agents_are_told_together(notebook, tmp_path):
    options, there = "--nnodes 2 --nproc-per-node 1 --node", tmp_path / "there"
    assert not launch(notebook, f"{options} left --background -- {there}", LOAD).error
    notebook.begin(f"%%torchrun {options} right -- {there}\n{LOAD}")
    notebook.until(rf"(left|right):{re.escape(not_come('1]', 'time.sleep(600)', 8))}")
    notebook.interrupt()
    assert still_waits("", REDUCE, 11) in notebook.finish().text
    notebook.run("%torchrun stop")


def test_status_says_where_ranks_are(notebook, tmp_path):
    options = f"--nproc-per-node 2 --node a --background -- {tmp_path / 'there'}"
    assert not launch(notebook, options, LOAD).error
    # either rank may come to its line later than the other
    waits = r"  rank 0 \(process \d+\): waits in all_reduce\(float32 \[2\]\), cell line 11\n"
    sleeps = r"  rank 1 \(process \d+\): is in time.sleep\(600\), cell line 8\n"
    notebook.run_until("%torchrun status", f"(?s){waits}.*{sleeps}")
    assert not notebook.run("%torchrun stop").error


def test_a_program_that_starts_its_ranks_itself_gets_advice(notebook):
    notebook.begin(f"%%torchrun --nproc-per-node 1\n{SPAWN}")
    notebook.until("waits for processes that it started .mp.spawn.work, nprocs=2., cell line 7.")
    notebook.interrupt()
    assert 'os.environ.pop("TORCHELASTIC_USE_AGENT_STORE")' in notebook.finish().text


def test_a_rank_that_ignores_sigterm_is_named_while_it_stays(notebook, tmp_path):
    end = tmp_path / "end"
    notebook.begin(f"%%torchrun --nproc-per-node 2 -- {end}\n{STAYS}")
    notebook.until(r"\[0\] has not ended at torchrun's SIGTERM: it is in time.sleep.*, cell line 7")
    end.touch()
    assert notebook.finish().error.startswith(fails(raised(1, "ValueError: boom")))
