"""What chapter 45 says of torch's rendezvous, and of two worlds that share a folder.

The join that hangs is in tests/live/test_torchrun_share_store.py, a store that outlives any agent
in test_two_hosts.py, the fence by itself in tests/unit/training/checkpoint/test_fence.py.
"""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from torch.distributed.elastic.rendezvous import (
    RendezvousConnectionError,
    RendezvousParameters,
    c10d_rendezvous_backend,
)
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as rendezvous

from rankbook.live.torchrun.session import Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.programs.rendezvous_store import serve
from rankbook.training.elastic import audit, losses, read_events
from tests.waiting import until

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
INTERVAL = timedelta(seconds=5)
ONE, OTHER = (rendezvous._NodeDesc(f"host{i}", 1, 0) for i in (1, 2))


def listed(**ages: float) -> rendezvous._RendezvousState:
    """A complete round with nodes whose last beat is so many seconds old."""
    state = rendezvous._RendezvousState()
    state.complete, state.round = True, 3
    for node, age in zip((ONE, OTHER), ages.values(), strict=False):
        state.participants[node] = 0
        state.last_heartbeats[node] = datetime.now(UTC) - timedelta(seconds=age)
    return state


def read(state) -> None:
    """What happens to a list that an agent reads, with torch's default settings."""
    kind = rendezvous._BackendRendezvousStateHolder
    holder = kind.__new__(kind)
    holder._state = state
    holder._settings = SimpleNamespace(
        keep_alive_interval=INTERVAL, keep_alive_max_attempt=3, min_nodes=1
    )
    holder._sanitize()


def test_a_late_agent_is_struck_off_and_an_empty_round_is_over():
    state = listed(one=16)
    read(state)
    assert not state.participants and not state.complete and state.round == 4


def test_a_round_with_anybody_left_stays_complete():
    state = listed(one=16, other=1)
    read(state)
    assert list(state.participants) == [OTHER] and state.complete and state.round == 3


def test_a_newcomer_with_a_fast_clock_strikes_all_off():
    """Seen from its clock, every beat is as much older as it is fast."""
    for fast, left in ((10, 2), (20, 0)):
        state = listed(one=fast, other=fast + 1)
        read(state)
        assert len(state.participants) == left


def test_an_agent_that_was_struck_off_never_beats_again_and_is_not_told():
    state = listed(one=16)
    read(state)
    settings = SimpleNamespace(keep_alive_interval=INTERVAL)
    context = SimpleNamespace(node=ONE, state=state, settings=settings)
    assert not rendezvous._should_keep_alive(context)
    assert rendezvous._RendezvousKeepAliveOp()(context, 0.0) == rendezvous._Action.FINISH
    assert not state.wait_list  # all that num_nodes_waiting counts


@pytest.mark.parametrize("said", ["0", None])
def test_is_host_is_obeyed_and_otherwise_guessed(monkeypatch, said):
    """Nobody listens there: an agent that may not host cannot connect, one that guesses hosts."""
    asked = []
    monkeypatch.setattr(
        c10d_rendezvous_backend,
        "TCPStore",
        lambda host, port, is_master, **more: asked.append(is_master),
    )
    conf = {} if said is None else {"is_host": said}
    parameters = RendezvousParameters("c10d", "127.0.0.1:29400", "job", 1, 2, **conf)
    c10d_rendezvous_backend._create_tcp_store(parameters)
    assert asked == [said is None]


def test_without_a_store_there_an_agent_that_may_not_host_gives_up():
    parameters = RendezvousParameters(
        "c10d", "127.0.0.1:1", "job", 1, 2, is_host="0", read_timeout="1"
    )
    with pytest.raises(RendezvousConnectionError):
        c10d_rendezvous_backend._create_tcp_store(parameters)


def test_the_store_listens_where_it_was_asked_to_and_says_so():
    command = [sys.executable, "-m", "rankbook.programs.rendezvous_store", "--port"]
    with subprocess.Popen(
        [*command, "0"], stdout=subprocess.PIPE, text=True, cwd=ROOT / "src"
    ) as one:
        said = one.stdout.readline()
        port = int(said.rpartition(":")[2])
        assert said.startswith("a store without a password listens at 127.0.0.1:")
        listening = [c for c in psutil.Process(one.pid).net_connections() if c.status == "LISTEN"]
        assert [tuple(c.laddr) for c in listening] == [("127.0.0.1", port)]
        with pytest.raises(OSError, match="Address already in use"):
            serve(port=port)
        one.terminate()


# The elastic program, with the fence and with a sabotaged one.
FENCED = "from rankbook.programs import elastic\n{}elastic.main()\n"
NO_FENCE = "from rankbook.training.checkpoint import Store\nStore.take_over = lambda self: None\n"
# An agent beats every second or two: only one that is stopped, not one on a busy machine, is so
# late that it is struck off.
CONF = "is_host=0,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=15"


@pytest.fixture
def torchrun():
    torchrun = Torchrun()
    yield torchrun
    torchrun.close()


@pytest.mark.parametrize("fence", ["a fence", "a sabotaged one"])
def test_two_worlds_become_one_with_a_fence_and_stay_two_without(torchrun, tmp_path, fence):
    store = serve(port=0)
    program = FENCED.format(NO_FENCE if "sabotaged" in fence else "")
    nodes = TwoNodes(torchrun, store.port, tmp_path, program)
    nodes.start("a", 1)
    nodes.until(lambda: len(nodes.steps("a")) > 3)
    pids = [torchrun.node("a").agent.pid, *{step["pid"] for step in nodes.steps("a")}]
    for pid in pids:
        psutil.Process(pid).suspend()
    nodes.start("b", 2)
    nodes.until(lambda: len(nodes.steps("b")) > 3)
    for pid in pids:
        psutil.Process(pid).resume()
    if "sabotaged" in fence:
        alone = len(nodes.steps("a"))
        nodes.until(lambda: len(nodes.steps("a")) > alone + 12)  # two saves later
        assert {step["world_size"] for step in nodes.events("step")} == {1, 2}
        with pytest.raises(ValueError, match="trained at the same time"):
            audit(nodes.events(), 64)
        return
    nodes.until(lambda: nodes.steps("a")[-1]["world_size"] == 3)
    assert [event["node"] for event in nodes.events("refused")] == ["a"]
    torchrun.kill("a", 15)
    nodes.until(lambda: nodes.events()[-1]["world_size"] == 2)
    torchrun.kill("b", 15)
    nodes.until(lambda: not torchrun.node("b").running)
    done = losses(nodes.events())
    assert sorted(done) == list(range(1, len(done) + 1))
    *epochs, _ = audit(nodes.events(), 64).values()
    assert all(epoch.exactly_once for epoch in epochs)


class TwoNodes:
    """Nodes of one job, whose events are read from the file that they share."""

    def __init__(self, torchrun: Torchrun, port: int, folder: Path, program: str):
        self._torchrun, self._port, self._folder = torchrun, port, folder
        self._program = program

    def start(self, name: str, workers: int) -> None:
        options = ["--nnodes", "1:2", "--nproc-per-node", str(workers), "--max-restarts", "5",
                   "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self._port}",
                   "--rdzv-id", "job", "--rdzv-conf", CONF]  # fmt: skip
        words = ["--checkpoint", str(self._folder / "kept"), "--save-every", "5",
                 "--events", str(self._folder / "events"), "--steps", "9999", "--pace", "0.1",
                 "--samples", "64", "--timeout", "600"]  # fmt: skip
        spec = LaunchSpec(options, words, name)
        self._torchrun.run_node(spec, self._program, print, background=True)

    def events(self, kind: str = "") -> list[dict]:
        path = self._folder / "events"
        found = read_events(path) if path.exists() else []
        return [event for event in found if kind in ("", event["event"])]

    def steps(self, node: str) -> list[dict]:
        return [step for step in self.events("step") if step["node"] == node]

    def until(self, happened: Callable[[], object]) -> None:
        until(happened, lambda: self.events()[-9:])
