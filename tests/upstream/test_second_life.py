"""A plain restart with torch's own words: it needs a variable that torchrun does not set."""

import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.symptoms import find
from tests.upstream.plain import VARIABLE, environment
from tests.waiting import SOON

PROGRAM = Path(__file__).with_name("second_life.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
MET = "life 1: 2 ranks have met"


def start(folder: Path, value: str, seconds: float) -> subprocess.CompletedProcess:
    """The program as a reader starts it; told to end when it hangs."""
    command = [*TORCHRUN, "--standalone", "--max-restarts", "1", str(PROGRAM)]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(folder, value), **piped) as agent:
        try:
            said = agent.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            agent.terminate()  # torchrun ends its ranks, too
            said = agent.communicate()
        return subprocess.CompletedProcess(command, agent.returncode, *said)


@pytest.mark.parametrize("attempt", range(2))
def test_with_the_variable_the_second_life_comes_up(tmp_path, attempt):
    done = start(tmp_path, "1", SOON)
    assert done.returncode == 0 and done.stdout.count(MET) == 2, done.stderr[-3000:]


@pytest.mark.long
def test_without_it_the_second_life_may_fail_and_then_the_symptom_names_it(tmp_path, capsys):
    """A race: some fail, some hang, some come up. This counts them, and asserts no outcome."""
    tries = [start(tmp_path, "0", 150) for _ in range(3)]
    failed = [done for done in tries if done.returncode != 0]
    with capsys.disabled():
        print(f"without {VARIABLE}: {len(tries) - len(failed)} of {len(tries)} came up again")
    for done in failed:
        if "Gloo connectFullMesh failed" in done.stderr:  # the usual end of it
            found = find(done.stderr)
            assert found is not None and found.id == "restart-meets-the-dead"


def test_the_program_is_plain_torch_and_short():
    text = PROGRAM.read_text("utf-8")
    assert "rankbook" not in text and len(text.splitlines()) <= 25


def test_the_variable_is_for_the_rendezvous_that_can_change_alone(monkeypatch):
    """With --master-port, torchrun's ranks always share the agent's store: the page says c10d."""
    from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

    monkeypatch.setenv(VARIABLE, "1")
    assert StaticTCPRendezvous("127.0.0.1", 0, 0, 1, "one", 1).use_agent_store
