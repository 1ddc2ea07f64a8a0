"""A join with torch's own words: without a variable that torchrun does not set it ends the job."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rankbook.core.ports import ReservedPort
from rankbook.symptoms import find
from tests.upstream.plain import environment
from tests.waiting import SOON, until

PROGRAM = Path(__file__).with_name("joins.py")
WAITED = "wait timeout after 60000ms, keys: /torch.rendezvous."


def agent(node: Path, port: int, variable: str) -> subprocess.Popen:
    """torchrun as a reader types it on one node."""
    words = ["--nnodes", "1:3", "--nproc-per-node", "2", "--max-restarts", "3", "--rdzv-id", "1"]
    words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    words += ["--rdzv-conf", "last_call_timeout=1", "--local-addr", "127.0.0.1"]
    with (node / "screen").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words, str(PROGRAM)],
            env=environment(node, variable),
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def joined(folder: Path, variable: str) -> list[tuple[int, str]]:
    """Exit status and output of both agents; the second starts when the first one's ranks met."""
    first, second = folder / "node0", folder / "node1"
    with ExitStack() as stack:
        port = stack.enter_context(ReservedPort()).number
        first.mkdir()
        second.mkdir()
        agents = [agent(first, port, variable)]
        stack.callback(agents[0].kill)
        until(
            lambda: "2 ranks have met" in screen(first),
            lambda: screen(first),
            lambda: agents[0].poll() is None,
        )
        agents.append(agent(second, port, variable))
        stack.callback(agents[1].kill)
        return [(a.wait(SOON), screen(n)) for a, n in zip(agents, (first, second), strict=True)]


def screen(node: Path) -> str:
    return (node / "screen").read_text("utf-8", errors="replace")


def test_with_the_variable_a_node_joins(tmp_path):
    first, second = joined(tmp_path, "1")
    assert first[0] == second[0] == 0, first[1] + second[1]
    assert "4 ranks have met" in first[1] and "4 ranks have met" in second[1]


@pytest.mark.long
def test_without_it_a_join_ends_the_job_and_the_symptom_names_it(tmp_path):
    """When this fails because the join works, `T61_elastic_torchrun` and the symptom say so."""
    agents = joined(tmp_path, "")
    for status, text in agents:
        assert status == 1 and "4 ranks have met" not in text, text
    # one waits in vain; the other does, too, or loses the store of the one that has gone
    assert any(WAITED in text for _, text in agents), agents
    for _, text in agents:
        if WAITED in text:
            found = find(text)
            assert found is not None and found.id == "join-hangs-60-s"
