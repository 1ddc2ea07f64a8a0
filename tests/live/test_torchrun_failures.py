"""``%%torchrun`` on programs that fail: what the reader is told, how fast, and what is left."""

import re
import time

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.live.kernel import Notebook
from tests.live.torchrun_cells import (
    GROUP,
    LOAD,
    launch,
    launched,
    left_of_launches,
    open_notebook,
    said,
    zygotes,
)

SLEEP = "print('go')\ntime.sleep(600)"
CHILD = "import subprocess; subprocess.Popen(['sleep', '600'])\n"
# Rank 1 can be done with init_process_group while others still connect: it gives them time.
THEN = "if rank == 1: time.sleep(0.5); "
REDUCE = "\ndist.all_reduce(ones)"  # where the others wait


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
    assert lines[0] == "CellFailed: rank 1 raised ValueError: boom"
    assert lines[1:7] == [
        "Traceback (most recent call last):",
        "  Cell line 8",
        "    step()",
        "  Cell line 7, in step",
        "    raise ValueError('boom')",
        "ValueError: boom",
    ]
    assert lines[7].startswith("rank 0 ") and "all_reduce, cell line 9" in lines[7]
    assert "--cold" in options or result.seconds < 4


@pytest.mark.parametrize(
    "death, sentence",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "rank 1 was killed by SIGKILL"),
        ("os._exit(7)", "rank 1 left with exit code 7"),
        ("sys.exit('no luck')", "rank 1 left with exit code 1"),
        (
            "import ctypes; ctypes.string_at(0)",
            "rank 1 was killed by SIGSEGV (string_at, cell line 5)",
        ),
    ],
)
@pytest.mark.parametrize("world_size", [2, 4])
def test_a_rank_that_dies_is_named_first(notebook, death, sentence, world_size):
    result = launch(notebook, f"--nproc-per-node {world_size}", f"{GROUP}{THEN}{death}{REDUCE}")
    assert result.error.startswith(f"CellFailed: {sentence}"), result.error
    # Rank 0 sees the connection break, or torchrun ends it before that.
    assert re.search("rank 0 (stopped|was) in all_reduce, cell line 6", result.error)
    assert result.seconds < 5
    assert "no luck" not in death or "[1] no luck\n" in result.text


def test_a_killed_rank_is_named_first_when_cold(notebook):
    program = GROUP + THEN + "os.kill(os.getpid(), signal.SIGKILL)" + REDUCE
    result = launch(notebook, "--nproc-per-node 2 --cold", program)
    assert result.error.startswith("CellFailed: rank 1 was killed by SIGKILL"), result.error


def test_ranks_that_fail_alike_are_told_once(notebook):
    result = launch(notebook, "--nproc-per-node 4", "import os\n{}['key']")
    # Some of them torchrun may have ended before they failed.
    assert result.error.splitlines()[0].endswith("raised KeyError: 'key'")
    assert result.error.count("Traceback") == 1 and "Cell line 3\n" in result.error


def test_a_rank_that_waits_when_another_leaves(notebook):
    """Rank 0 does not notice by itself: torchrun ends it, and the report says where it was."""
    program = GROUP + "if rank == 1: raise ValueError('boom')\ntime.sleep(600)"
    result = launch(notebook, "--nproc-per-node 2", program)
    assert result.error.startswith("CellFailed: rank 1 raised ValueError: boom")
    assert "rank 0 was in cell line 6; torchrun ended it" in result.error


@pytest.mark.parametrize(
    "program, place, cold",
    [
        ("print('go')\nwhile True: pass", "cell line 3", ""),
        (GROUP + "print('go')\ndist.recv(ones, 1 - rank)", "recv, cell line 6", ""),
        (GROUP + "print('go')\ndist.recv(ones, 1 - rank)", "recv, cell line 6", "--cold"),
    ],
)
def test_an_interrupt_ends_everything_within_five_seconds(notebook, program, place, cold):
    notebook.begin(f"%%torchrun --nproc-per-node 2 {cold}\n{program}")
    notebook.until("go")
    time.sleep(0.3)  # into the call
    began = time.monotonic()
    notebook.interrupt()
    result = notebook.finish(10)
    assert time.monotonic() - began < 5
    assert result.error.startswith("CellFailed: interrupted"), result.error
    assert f"rank 0 was in {place}" in result.error
    assert not left_of_launches(notebook, 0.5)


def test_an_interrupt_before_the_ranks_begin(notebook):
    notebook.run("%torchrun stop")  # so that a new warm process has to load torch
    notebook.begin("%%torchrun --nproc-per-node 2\nprint('ran')")
    time.sleep(0.5)
    notebook.interrupt()
    result = notebook.finish(6)
    assert "interrupted" in result.error and "ran" not in result.text
    assert not left_of_launches(notebook, 10)  # torch may still be loading
    assert "ran" in launch(notebook, "--nproc-per-node 2", "print('ran')").text


@pytest.mark.parametrize("cold", ["", "--cold"])
def test_killing_the_agent_leaves_nothing(notebook, cold):
    child = "import subprocess; subprocess.Popen(['sleep', '600'])\n"
    notebook.begin(
        f"%%torchrun --nproc-per-node 2 {cold}\n{GROUP}{child}print('go')\ntime.sleep(600)"
    )
    notebook.until("go")
    _agent(notebook, cold).kill()
    result = notebook.finish(10)
    assert result.error.startswith("CellFailed: the agent of torchrun was killed by SIGKILL")
    assert not left_of_launches(notebook, 2)


def test_killing_the_warm_process_ends_its_launches_and_the_next_one_works(notebook):
    notebook.begin(f"%%torchrun --nproc-per-node 2\n{GROUP}{SLEEP}")
    notebook.until("go")
    zygotes(notebook)[0].kill()
    assert "killed by SIGKILL" in notebook.finish(10).error
    assert not left_of_launches(notebook, 2)
    assert "again" in launch(notebook, "--nproc-per-node 2", "print('again')").text


@pytest.mark.parametrize("cold", ["", "--cold"])
def test_killing_the_notebook_leaves_nothing(cold):
    with open_notebook() as notebook:
        child = "import subprocess; subprocess.Popen(['sleep', '600'])\n" if not cold else ""
        notebook.begin(
            f"%%torchrun --nproc-per-node 2 {cold}\n{GROUP}{child}print('go')\ntime.sleep(600)"
        )
        notebook.until("go")
        assert len(launched(notebook)) >= 3
        notebook.kill()
        assert not notebook.wait_gone(2)


def test_a_warm_start_that_stalls_is_replaced_by_a_cold_one():
    with open_notebook() as notebook:
        assert not launch(notebook, "--nproc-per-node 1", "pass").error
        notebook.run("from rankbook.live.torchrun import launch as t; t.START_SECONDS = 2.0")
        zygotes(notebook)[0].suspend()
        result = launch(notebook, "--nproc-per-node 2", "print('ran')")
        assert not result.error and said(result.text, "ran") == {0, 1}
        assert (
            "the warm start failed (not all ranks began within 2 s); starting cold" in result.text
        )
        notebook.run("t.START_SECONDS = 30.0")
        assert launch(notebook, "--nproc-per-node 2", "print('warm')").seconds < 15
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
    with pytest.raises(CellExecutionError, match="raised ValueError: boom"):
        NotebookClient(book, timeout=60).execute()


def _agent(notebook: Notebook, cold: str) -> psutil.Process:
    """The kernel is busy with the launch: find the agent by its place in the tree."""
    processes = launched(notebook)
    if cold:
        return next(p for p in processes if p.ppid() == notebook.pid)
    zygote = zygotes(notebook)[0].pid
    launcher = next(p.pid for p in processes if p.ppid() == zygote)
    return min((p for p in processes if p.ppid() == launcher), key=lambda p: p.pid)
