"""``%%torchrun`` on programs that end well, and on wrong use; each in a real notebook kernel."""

import re

import psutil
import pytest

from tests.live.kernel import Notebook
from tests.live.report import HALTED
from tests.live.torchrun_cells import GROUP, launch, launched, left_of_launches, open_notebook, said


@pytest.fixture(scope="module")
def notebook():
    with open_notebook() as notebook:
        yield notebook


@pytest.fixture(autouse=True)
def nothing_is_left(notebook: Notebook):
    yield
    assert not left_of_launches(notebook)


@pytest.mark.parametrize(
    "options", ["--nproc-per-node 2", "--nproc-per-node=4", "--nproc_per_node 2 --cold"]
)
def test_ranks_print_publish_and_agree(notebook, options):
    world_size = 4 if "4" in options else 2
    program = GROUP + (
        "dist.all_reduce(ones); print('sum', ones.tolist()); print('rank', rank)\n"
        "rankbook.publish(total=ones, rank=rank, nested={'a': (1, None)})\n"
        "dist.destroy_process_group()"
    )
    result = launch(notebook, f"{options} --into kept", program)
    assert not result.error, result.error
    everyone = set(range(world_size))
    assert said(result.text, f"sum [{world_size}.0, {world_size}.0]") == everyone
    assert "[1] rank 1\n" in result.text
    values = notebook.run("print(_.total, kept.rank, kept.ranks[1].rank, kept.ranks[1].nested)")
    assert values.text == f"tensor([{world_size}., {world_size}.]) 0 1 {{'a': (1, None)}}\n"


def test_what_torchrun_tells_its_workers(notebook):
    names = "RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR TORCHELASTIC_RUN_ID OMP_NUM_THREADS"
    program = f"import os\nfor name in '{names}'.split(): print(name, os.environ[name])"
    text = launch(notebook, "--nproc-per-node 2 --max-restarts 3", program).text
    assert "[0] RANK 0\n" in text and "[1] LOCAL_RANK 1\n" in text
    for line in ("WORLD_SIZE 2", "MASTER_ADDR 127.0.0.1", "OMP_NUM_THREADS 1"):
        assert said(text, line) == {0, 1}
    assert "TORCHELASTIC_RUN_ID" in text


def test_the_program_is_main_with_its_own_arguments(notebook):
    program = (
        "import inspect, sys\ndef f(): return 1\n"
        "print(__name__, sys.argv[1:], inspect.getsource(f).strip(), 'get_ipython' in globals())"
    )
    expected = "[0] __main__ ['--lr', '0.1'] def f(): return 1 False\n"
    assert launch(notebook, "--nproc-per-node 1 -- --lr 0.1", program).text == expected
    trailing = launch(notebook, "--nproc-per-node 1 train --lr 0.1", program).text
    assert trailing == expected.replace("['", "['train', '")


def test_a_forked_rank_is_as_good_as_a_fresh_process(notebook, tmp_path):
    """What a fork could get wrong: random numbers, threads, files, children of its own."""
    program = """import atexit, multiprocessing, random, sys, threading, time
import numpy, rankbook, torch
def child(queue): queue.put(__name__)
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2, num_workers=2)
    queue = multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=child, args=(queue,))
    process.start()
    rankbook.publish(
        batches=[batch.tolist() for batch in loader], child=queue.get(),
        name=multiprocessing.current_process().name, threads=torch.get_num_threads(),
        random=[random.random(), numpy.random.rand(), torch.rand(1).item()],
    )
    process.join()
    left_open = open(sys.argv[1], "w")
    left_open.write("written")
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    atexit.register(print, "atexit")
"""
    path = tmp_path / "left_open"
    result = launch(notebook, f"--nproc-per-node 2 --into r -- {path}", program)
    assert not result.error, result.error
    assert said(result.text, "thread") == said(result.text, "atexit") == {0, 1}
    assert path.read_text() == "written"
    values = notebook.run("print(_.batches, _.child, _.name, _.threads)").text
    assert values == "[[0, 1], [2, 3]] __mp_main__ MainProcess 1\n"
    different = "print([a != b for a, b in zip(r.ranks[0].random, r.ranks[1].random)])"
    assert notebook.run(different).text == "[True, True, True]\n"


def test_warnings_name_the_cells_line(notebook):
    program = (
        "import warnings\nwarnings.warn('careful')\nimport torch\n"
        "torch.range(0, 1)  # deprecated: torch warns"
    )
    text = launch(notebook, "--nproc-per-node 1", program).text
    assert said(text, "Cell line 3: UserWarning: careful") == {0}
    assert "Cell line 5: UserWarning: torch.range is deprecated" in text and "/" not in text


def test_streams_and_bars(notebook):
    program = (
        "import sys, time\nfrom tqdm import tqdm\n"
        "for _ in tqdm(range(5), desc='steps'): time.sleep(0.05)\n"
        "print('out'); print('err', file=sys.stderr); print('no newline', end='')"
    )
    result = launch(notebook, "--nproc-per-node 2", program)
    assert not result.error, result.error
    assert re.search(r"\[0\] steps: 100%.*5/5", result.text)
    assert re.search(r"\[1\] steps: 100%.*5/5", result.text)
    for line in ("out", "err", "no newline"):
        assert said(result.text, line) == {0, 1}
    assert result.text.count("steps") <= 40  # states of a bar replace each other


def test_a_lot_of_output_does_not_block(notebook):
    program = "import sys\nfor i in range(100_000): print('x' * 100, file=sys.stderr)\nprint('end')"
    result = launch(notebook, "--nproc-per-node 1", program)
    assert not result.error
    assert result.text.count("x" * 100) == 100_000 and "[0] end\n" in result.text


@pytest.mark.parametrize("cold", ["", "--cold"])
def test_nothing_listens_beyond_loopback(notebook, cold):
    program = GROUP + "dist.all_reduce(ones); print('up')\ntime.sleep(600)"
    notebook.begin(f"%%torchrun --nproc-per-node 2 {cold}\n{program}")
    notebook.until("up")
    listening = [
        connection.laddr.ip
        for process in launched(notebook)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    notebook.interrupt()
    assert HALTED in notebook.finish().error
    assert len(listening) >= 4  # two stores of torchrun's, two of gloo's
    assert set(listening) == {"127.0.0.1"}


def test_torchruns_own_ways_pass_through(notebook):
    result = launch(notebook, "--nproc-per-node 2 --tee 3", "print('hello')")
    assert not result.error, result.error
    assert "[default0]:hello" in result.text and "[default1]:hello" in result.text
    text = launch(notebook, "--nproc-per-node 2 --local-ranks-filter 1", "print('hello')").text
    assert text == "[1] hello\n"
    assert "--rdzv-backend" in launch(notebook, "--help", "pass").text


def test_a_restart_is_told_and_succeeds(notebook):
    program = (
        "import os, rankbook\nattempt = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        "print('attempt', attempt)\nassert attempt == 1\nrankbook.publish(attempt=attempt)"
    )
    result = launch(notebook, "--nproc-per-node 2 --max-restarts 2", program)
    assert not result.error
    assert said(result.text, "attempt 0") and said(result.text, "attempt 1") == {0, 1}
    assert "torchrun started the workers again: world size 2, restart 1 of 2\n" in result.text
    assert "attempt=1" in result.text


@pytest.mark.parametrize(
    "line, program, sentence",
    [
        ("--nproc-per-node 2", "  ", "the cell is empty"),
        ("--nprocs 2", "pass", "torchrun: unrecognized arguments: --nprocs"),
        ("--nproc-per-node 0", "pass", "--nproc-per-node 0 starts nothing; use 1 or more"),
        ("--nproc-per-node", "pass", "torchrun: --nproc-per-node expects a value"),
        ("--nproc-per-node many", "pass", "Unsupported nproc_per_node value: many"),
        ("--nnodes 2", "pass", "start each with --node NAME"),
        ("-m package", "pass", "the cell is the program"),
        ("--background", "pass", "--background needs --node NAME"),
        ("--node", "pass", "--node needs a name"),
        ("--into 2x", "pass", "--into needs a name"),
        ("--role 'x", "pass", "No closing quotation"),
        ("--node a --background --into r", "pass", "--into goes with %torchrun join"),
        ("--nproc-per-node 2", "return 1", "cell line 2: 'return' outside function"),
        ("--nproc-per-node 2", "x = = 1", "cell line 2: invalid syntax"),
    ],
)
def test_wrong_use_gets_one_sentence(notebook, line, program, sentence):
    result = launch(notebook, line, program)
    assert sentence in result.error
    assert len(result.error.splitlines()) <= 2, result.error


@pytest.mark.parametrize(
    "command, sentence",
    [
        ("", "%torchrun needs a command; use status, kill, join, logs or stop"),
        ("launch", "%torchrun launch is unknown"),
        ("kill nobody", "there is no agent 'nobody'; the agents: none"),
        ("kill", "%torchrun kill: the following arguments are required: name"),
        ("kill x --signal SIGNAL", "SIGNAL is no signal; try SIGKILL"),
        ("join nobody", "there is no agent 'nobody'"),
        ("join", "no agents; start one with --node NAME --background"),
        ("logs nobody", "there is no agent 'nobody'"),
    ],
)
def test_wrong_commands_get_one_sentence(notebook, command, sentence):
    result = notebook.run(f"%torchrun {command}")
    assert sentence in result.error
    assert len(result.error.splitlines()) == 1, result.error


def test_commands_with_nothing_running(notebook):
    assert notebook.run("%torchrun status").text == "No agents.\n"
    assert not notebook.run("%torchrun stop").error


def test_what_cannot_be_published_is_said(notebook):
    result = launch(notebook, "--nproc-per-node 1", "import rankbook\nrankbook.publish(f=open)")
    assert "TypeError: publish: f holds a builtins.builtin_function_or_method" in result.error
    missing = launch(notebook, "--nproc-per-node 2 --into r", "import os, rankbook\n"
                     "if os.environ['RANK'] == '1': rankbook.publish(loss=1.5)")  # fmt: skip
    assert not missing.error
    error = notebook.run("r.loss").error
    assert "rank 0 did not publish 'loss'; ranks that did: [1]; use .ranks[1].loss" in error
