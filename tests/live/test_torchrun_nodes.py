"""Several agents on one machine, steered by name: they meet, leave, are killed, and are joined."""

import psutil
import pytest

from tests.live.kernel import Notebook
from tests.live.report import HALTED, fails, raised
from tests.live.torchrun_cells import GROUP, launch, launched, left_of_launches, open_notebook, said
from tests.waiting import until

# just after joining a beat can get two intervals old: with 2 attempts a node that lives is taken
# for dead, and on a busy machine with 5
QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=15"
ELASTIC = f"--nnodes 1:2 --nproc-per-node 1 --max-restarts 3 --rdzv-conf {QUICK}"

# Runs until the file that is its argument is there; every rank says in which world it is.
STEPS = """import pathlib, sys, torch, torch.distributed as dist, time, rankbook
dist.init_process_group("gloo"); world_size = dist.get_world_size()
print("world", world_size)
while True:
    enough = torch.tensor(float(pathlib.Path(sys.argv[1]).exists()))
    dist.all_reduce(enough)
    if enough: break
    time.sleep(0.05)
rankbook.publish(world_size=world_size)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def notebook():
    with open_notebook() as notebook:
        yield notebook


@pytest.fixture(autouse=True)
def nothing_is_left(notebook: Notebook):
    yield
    assert not notebook.run("%torchrun stop").error
    assert not left_of_launches(notebook)


def test_two_nodes_make_one_world(notebook):
    program = GROUP + (
        "dist.all_reduce(ones); print('sum', ones[0].item())\n"
        "import os; rankbook.publish(rank=rank, group_rank=int(os.environ['GROUP_RANK']))\n"
        "dist.destroy_process_group()"
    )
    options = "--nnodes 2 --nproc-per-node 2"
    first = launch(notebook, f"{options} --node left --background", program)
    assert first.text == "left runs in the background\n" and not first.error
    second = launch(notebook, f"{options} --node right", program)  # in the foreground
    assert not second.error, second.error
    assert said(second.text, "sum 4.0") == {2, 3} and "[right:" in second.text
    assert notebook.run("(_.ranks[3].rank, _.ranks[3].group_rank)").text == "(3, 1)\n"
    for command in ("join", "logs"):
        text = notebook.run(f"%torchrun {command} left").text
        assert said(text, "sum 4.0") == {0, 1} and "[left:" in text
    assert "left: ended after" in notebook.run("%torchrun status").text


def test_a_node_joins_is_killed_and_a_worker_dies(notebook, tmp_path):
    end = tmp_path / "end"
    for node in ("a", "b"):
        result = launch(notebook, f"{ELASTIC} --node {node} --background -- {end}", STEPS)
        assert not result.error, result.error
        _wait_for_world(notebook, "a", 1 if node == "a" else 2)
    status = notebook.run("%torchrun status").text
    assert "a: running, agent process" in status and "rank 1 (process" in status
    ips = {c.laddr.ip for p in launched(notebook) for c in p.net_connections() if _listens(c)}
    assert ips == {"127.0.0.1"}
    again = launch(notebook, f"{ELASTIC} --node b --background -- {end}", STEPS)
    assert again.error.startswith("UsageError: b is running already")

    assert notebook.run("%torchrun kill b --signal SIGKILL").text == "b: SIGKILL to its agent\n"
    _wait_for_world(notebook, "a", 1, starts=2)
    assert "b: ended by SIGKILL" in notebook.run("%torchrun status").text
    assert "b has ended already" in notebook.run("%torchrun kill b").error
    assert "a has no rank 5; its ranks: 0" in notebook.run("%torchrun kill a --worker 5").error

    notebook.run("%torchrun kill a --signal kill --worker 0")
    _wait_for_world(notebook, "a", 1, starts=3)
    end.touch()
    joined = notebook.run("%torchrun join --into result")
    assert not joined.error, joined.error
    assert "[a] torchrun started the workers again: world size 2, restart 0 of 3" in joined.text
    assert notebook.run("_.world_size, result.world_size").text == "(1, 1)\n"


def test_join_raises_for_a_node_that_failed(notebook):
    program = GROUP + "if rank == 1: raise ValueError('boom')\ndist.all_reduce(ones)"
    for node in ("left", "right"):
        options = f"--nnodes 2 --nproc-per-node 1 --node {node} --background"
        assert not launch(notebook, options, program).error
    error = notebook.run("%torchrun join").error
    told = [fails(raised(1, "ValueError: boom", node)) for node in ("left", "right")]
    assert error.splitlines()[0] in told
    assert "Cell line 5" in error and "all_reduce(float32 [2]), cell line 6" in error


def test_wrong_options_of_a_background_node(notebook):
    result = launch(notebook, "--node a --background --nprocs 2", "pass")
    assert "UsageError: torchrun: unrecognized arguments: --nprocs" in result.error
    gone = notebook.run("%torchrun kill zero")
    assert "there is no agent 'zero'; the agents: a" in gone.error


def test_an_interrupted_join_ends_the_nodes(notebook):
    program = GROUP + "print('go')\ntime.sleep(600)"
    assert not launch(notebook, "--nproc-per-node 2 --node a --background", program).error
    notebook.begin("%torchrun join")
    notebook.until("go")
    notebook.interrupt()
    assert fails(HALTED) in notebook.finish().error


def test_killing_the_notebook_ends_background_nodes():
    with open_notebook() as notebook:
        program = GROUP + "time.sleep(600)"
        assert not launch(notebook, "--nproc-per-node 2 --node a --background", program).error
        notebook.kill()
        assert not notebook.wait_gone()


def _listens(connection) -> bool:
    return connection.status == psutil.CONN_LISTEN


def _wait_for_world(notebook: Notebook, node: str, size: int, starts: int = 1) -> None:
    """Until a rank of `node` said `starts` times that it is in a world of `size`."""

    def lines() -> list[str]:
        return notebook.run(f"%torchrun logs {node}").text.splitlines()

    until(lambda: sum(line.endswith(f"] world {size}") for line in lines()) >= starts, lines)
