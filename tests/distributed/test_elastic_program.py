"""The program elastic under plain torchrun: ranks and agents that are killed, or told to leave."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rankbook.core.ports import ReservedPort
from rankbook.training.checkpoint import Checkpoints
from rankbook.training.elastic import audit, losses, read_events
from tests.distributed.blocked import blocked
from tests.distributed.elastic_ranks import train
from tests.distributed.launch import run_ranks
from tests.waiting import SOON, until

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
RUN = ["--samples", "18", "--global-batch", "5", "--dropout", "0.2", "--keep", "99"]
STEPS = 4  # of an epoch
# An agent beats every second or two: only one that is gone, not one on a busy machine, is so late
# that it is struck off.
BEATS = "keep_alive_interval=1,keep_alive_max_attempt=15"


class Job:
    """Agents of plain torchrun on this machine, and what their ranks wrote."""

    def __init__(self, folder: Path, *program: str):
        self.folder, self.agents = folder, []
        self.events = folder / "events.jsonl"
        kept = ["--checkpoint", str(folder / "kept"), "--events", str(self.events)]
        self.program = ["-m", "rankbook.programs.elastic", *kept, *RUN, *program]

    def start(self, *torchrun: str, node: str = "a") -> subprocess.Popen:
        command = [sys.executable, "-m", "torch.distributed.run", "--monitor-interval", "0.1"]
        command += ["--log-dir", str(self.folder / "logs")]  # a killed agent leaves it behind
        environment = os.environ | {
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "RANKBOOK_NODE": node,
            # without it a join fails with torch 2.13
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        with (self.folder / f"{node}{len(self.agents)}.log").open("w") as log:
            agent = subprocess.Popen(
                [*command, *torchrun, *self.program], env=environment, stdout=log, stderr=log
            )
        self.agents.append(agent)
        return agent

    def until(self, holds: Callable[[dict], bool]) -> dict:
        """The first such event, as soon as it is there; while an agent runs."""

        def first() -> dict | None:
            events = read_events(self.events) if self.events.exists() else []
            return next(filter(holds, events), None)

        found = until(first, self.said, lambda: any(agent.poll() is None for agent in self.agents))
        assert found is not None
        return found

    def said(self) -> str:
        return "\n".join(f"{log.name}:\n{log.read_text()}" for log in self.folder.glob("*.log"))

    def kept(self) -> dict[int, str]:
        """The names of the checkpoints, by step: they hold the checksum of all that was saved."""
        return {
            int(p.name.split("-")[1]): p.name for p in Checkpoints(self.folder / "kept").paths()
        }


@pytest.fixture
def job(tmp_path):
    jobs = []

    def make(*program: str) -> Job:
        jobs.append(Job(tmp_path, *program))
        return jobs[-1]

    yield make
    for agent in (agent for job in jobs for agent in job.agents):
        agent.kill()  # its workers end with it
        agent.wait()


def step(number: int, **fields) -> Callable[[dict], bool]:
    """An event of a step that is `number` or later, with these fields."""

    def holds(event: dict) -> bool:
        return (
            event["event"] == "step" and event["step"] >= number and fields.items() <= event.items()
        )

    return holds


def names(folder: Path) -> dict[int, str]:
    """The names of the checkpoints, by step: they hold the checksum of all that was saved."""
    return {int(path.name.split("-")[1]): path.name for path in Checkpoints(folder).paths()}


def ended(pid: int) -> bool:
    """Whether a process runs no more; its parent may not have asked how it ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


@pytest.mark.skipif(sys.platform != "linux", reason="a process's state is read from /proc")
def test_workers_and_an_agent_that_are_killed_leave_no_trace(job, tmp_path):
    # it never comes to its end, also where this test has to wait for its turn
    ours = job("--epochs", "3000", "--save-every", "4", "--pace", "0.15")
    agent = ours.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "2")
    os.kill(ours.until(step(6, rank=1, restart=0))["pid"], signal.SIGKILL)
    os.kill(ours.until(step(14, rank=0, restart=1))["pid"], signal.SIGTERM)
    ours.until(step(22, restart=2))
    agent.kill()  # alone: plain torchrun would leave its workers behind, and nobody watches them
    pids = {event["pid"] for event in read_events(ours.events)}
    assert len(pids) == 6
    until(lambda: all(map(ended, pids)))
    events = read_events(ours.events)
    assert not any(event["event"] == "end" for event in events)

    noticed = [e for e in events if e["event"] == "notice"]
    resumed = [e["step"] for e in events if e["event"] == "resume" and e["restart"] == 2]
    assert [e["step"] for e in noticed] == resumed and len(resumed) == 2  # no step lost
    lost = [e["why"] for e in events if e["event"] == "leave"]
    assert lost and all("Connection" in why or "losed" in why for why in lost), lost

    # on to an end, and all of it without any trouble, which needs no torchrun
    epochs = max(e["step"] for e in events if e["event"] == "step") // STEPS + 5
    for name, folder in (("rest", tmp_path), ("whole", tmp_path / "reference")):
        (store := tmp_path / name).mkdir()
        where = ["--checkpoint", str(folder / "kept"), "--events", str(folder / "events.jsonl")]
        run_ranks(train, store, 2, [*RUN, *where, "--epochs", f"{epochs}", "--save-every", "4"])
    assert all(epoch.exactly_once for epoch in audit(read_events(ours.events), 18).values())
    theirs = names(tmp_path / "reference" / "kept")
    assert list(theirs) == [*range(epochs * STEPS, 3, -4)]
    assert theirs.items() <= names(tmp_path / "kept").items()  # and one where it was told to end


def test_a_rank_that_cannot_end_its_step_leaves_alone_and_says_so(job):
    patience = ["--grace", "0.5", "--timeout", f"{2 * SOON}"]
    ours = job("--steps", "100000", "--save-every", "4", "--pace", "0.05", *patience)
    ours.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "2")
    stopped = ours.until(step(6, rank=1))["pid"]
    os.kill(stopped, signal.SIGSTOP)
    told = ours.until(step(6, rank=0))["pid"]
    until(lambda: blocked(told), ours.said)  # it waits for the other
    os.kill(told, signal.SIGTERM)
    notice = ours.until(lambda event: event["event"] == "notice")
    with suppress(ProcessLookupError):  # the agent does, after 30 seconds
        os.kill(stopped, signal.SIGKILL)
    resumed = ours.until(lambda event: event["event"] == "resume" and event["restart"] == 1)
    assert notice["pid"] == told and notice["signal"] == "SIGTERM"
    before = [e for e in read_events(ours.events) if e["restart"] == 0]
    assert notice["saved"] == max(e["step"] for e in before if e["event"] == "save")
    assert notice["saved"] == resumed["step"]
    assert notice["step"] - notice["saved"] <= 4  # it may be the step that was to be saved
    assert "all_reduce (distributed_c10d.py:" in notice["blocked"]
    said = ours.said()
    assert "the ranks have not agreed to leave in 0.5 s; this rank leaves alone" in said
    assert f"step {notice['saved']} is saved. The main thread is in" in said


def test_one_of_two_nodes_is_preempted_and_no_step_is_lost(job, tmp_path):
    steps = 600  # the first node to come may do many of them alone before the other comes
    go = tmp_path / "go"
    job_of = ["--steps", str(steps), "--save-every", "1000", "--dropout", "0"]
    ours = job(*job_of, "--pace", "0.1", "--pace-until", str(go))
    agents = {}
    with ReservedPort() as port:
        endpoint = f"127.0.0.1:{port.number}"
        where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "j"]
        where += ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "1"]
        for node, host in (("a", 1), ("b", 0)):
            conf = f"is_host={host},last_call_timeout=5,join_timeout={SOON:.0f},{BEATS}"
            agents[node] = ours.start(
                *where, "--rdzv-conf", conf, "--local-addr", "127.0.0.1", node=node
            )
        ours.until(step(3, world_size=2))
    agents["b"].send_signal(signal.SIGTERM)  # its agent tells its worker; nobody tells the other
    assert agents["b"].wait(SOON) != 0
    go.touch()
    assert agents["a"].wait(SOON) == 0, ours.said()

    events = read_events(ours.events)
    assert {e["node"]: e["signal"] for e in events if e["event"] == "notice"} == {
        "a": None, "b": "SIGTERM",
    }  # fmt: skip
    *saved, last = [e["step"] for e in events if e["event"] == "save"]
    resumed = dict.fromkeys(e["step"] for e in events if e["event"] == "resume")  # once a world
    assert (
        [*resumed] == [0, *saved] and saved and last == steps
    )  # from where it was left, each time
    done = [e["step"] for e in events if e["event"] == "step" and e["rank"] == 0]
    assert done == [*range(1, steps + 1)]  # each once
    assert {e["node"] for e in events if e["event"] == "step" and e["step"] > saved[-1]} == {"a"}
    assert {e["world_size"] for e in events if e["event"] == "step"} == {1, 2}
    assert all(epoch.exactly_once for epoch in audit(events, 18).values())
    assert losses(events).keys() == set(range(1, steps + 1))
