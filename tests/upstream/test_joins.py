"""A join with torch's own words: without a variable that torchrun does not set it ends the job."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from rankbook.core.ports import ReservedPort
from rankbook.symptoms import find

PROGRAM = Path(__file__).with_name("joins.py")
VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
LONG = 900
WAITED = "wait timeout after 60000ms, keys: /torch.rendezvous."


def agent(node: Path, port: int, variables: dict[str, str]) -> subprocess.Popen:
    """torchrun as a reader types it on one node, without what our magics set."""
    ours = ("TORCH", "RANKBOOK", "MASTER", "GLOO")
    plain = {name: at for name, at in os.environ.items() if not name.startswith(ours)}
    plain |= {"OMP_NUM_THREADS": "1", "TMPDIR": str(node), **variables}
    words = ["--nnodes", "1:3", "--nproc-per-node", "2", "--max-restarts", "3", "--rdzv-id", "1"]
    words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    words += ["--rdzv-conf", "last_call_timeout=1", "--local-addr", "127.0.0.1"]
    with (node / "screen").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words, str(PROGRAM)],
            env=plain,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def joined(folder: Path, variables: dict[str, str]) -> list[tuple[int, str]]:
    """Exit status and output of both agents; the second one starts when the first one's ranks
    have met."""
    nodes = [folder / "node0", folder / "node1"]
    with ExitStack() as stack:
        port, agents = stack.enter_context(ReservedPort()).number, []
        for node in nodes:
            node.mkdir()
            agents.append(agent(node, port, variables))
            stack.callback(agents[-1].kill)
            until = time.monotonic() + LONG
            while node is nodes[0] and "2 ranks have met" not in screen(node):
                assert agents[0].poll() is None and time.monotonic() < until, screen(node)
                time.sleep(0.1)
        return [(each.wait(LONG), screen(node)) for each, node in zip(agents, nodes, strict=True)]


def screen(node: Path) -> str:
    return (node / "screen").read_text("utf-8", errors="replace")


def test_with_the_variable_a_node_joins(tmp_path):
    first, second = joined(tmp_path, {VARIABLE: "1"})
    assert first[0] == second[0] == 0, first[1] + second[1]
    assert "4 ranks have met" in first[1] and "4 ranks have met" in second[1]


@pytest.mark.long
def test_without_it_a_join_ends_the_job_and_the_symptom_names_it(tmp_path):
    """When this fails because the join works, page 49 and the symptom have to say so."""
    agents = joined(tmp_path, {})
    for status, text in agents:
        assert status == 1 and "4 ranks have met" not in text, text
    # one waits in vain; the other does, too, or loses the store of the one that has gone
    assert any(WAITED in text for _, text in agents), agents
    for _, text in agents:
        if WAITED in text:
            found = find(text)
            assert found is not None and found.id == "join-hangs-60-s"
