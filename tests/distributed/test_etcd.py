"""The first of two nodes dies with all that is on it: what a store elsewhere is worth."""

from collections.abc import Callable

import pytest

from rankbook.live.torchrun.launch import Launch
from rankbook.live.torchrun.session import Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.testbed import etcd
from rankbook.training.elastic.events import audit, losses, read_events
from tests.waiting import SOON, until

# An agent beats every second or two: only one that is gone, not one on a busy machine, is so late
# that it is struck off.
CONF = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=15"
CONF += f",join_timeout={SOON:.0f}"
OPTIONS = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "20", "--rdzv-conf", CONF]
PROGRAM = "import sys\nfrom rankbook.programs.elastic import main\nmain(sys.argv[1:])\n"
SAMPLES, STEPS = 64, 1000  # with the pace, long enough for the second node to join

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(etcd.why_not()), reason=etcd.why_not())]


class Nodes:
    """Two nodes that train: `first` hosts the rendezvous where no server does."""

    def __init__(self, torchrun: Torchrun, folder, rendezvous: list[str]):
        self._torchrun, self._folder, self._rendezvous = torchrun, folder, rendezvous

    def start(self, name: str) -> Launch:
        program = ["--checkpoint", str(self._folder / "kept"), "--save-every", "2",
                   "--events", str(self._folder / "events"), "--steps", str(STEPS),
                   "--samples", str(SAMPLES), "--pace", "0.1",
                   "--pace-until", str(self._folder / "go")]  # fmt: skip
        spec = LaunchSpec([*OPTIONS, *self._rendezvous], program, name)
        self._torchrun.run_node(spec, PROGRAM, print, background=True)
        return self._torchrun.node(name)

    def steps(self) -> list[dict]:
        return [e for e in self.events() if e["event"] == "step"]

    def events(self) -> list[dict]:
        path = self._folder / "events"
        return read_events(path) if path.exists() else []

    def lose_the_first(self) -> Launch:
        """Start both, and kill the first with its worker after they made steps together."""
        first = self.start("first")
        self.until(self.steps, first)
        second = self.start("second")
        self.until(
            lambda: any(s["world_size"] == 2 and s["step"] > 6 for s in self.steps()), second
        )
        self._torchrun.kill("first", 9)  # its worker ends with it
        (self._folder / "go").touch()
        until(lambda: not second.running, lambda: self.steps()[-1])
        return second

    @staticmethod
    def until(happened: Callable[[], object], launch: Launch) -> None:
        until(happened, lambda: launch.agent_failure, lambda: launch.running)


@pytest.fixture
def torchrun():
    torchrun = Torchrun()
    yield torchrun
    torchrun.close()


def test_with_c10d_the_job_ends_with_the_first_node(torchrun, tmp_path):
    nodes = Nodes(torchrun, tmp_path, [])
    survivor = nodes.lose_the_first()
    assert survivor.code == 1
    why = "RendezvousConnectionError: The connection to the C10d store has failed"
    assert survivor.trouble.startswith(why)
    assert nodes.steps()[-1]["step"] < STEPS


def test_with_etcd_the_survivor_goes_on_alone(torchrun, tmp_path):
    with etcd.server() as endpoint:
        there = ["--rdzv-backend", "etcd-v2", "--rdzv-endpoint", endpoint, "--rdzv-id", "job"]
        nodes = Nodes(torchrun, tmp_path, there)
        survivor = nodes.lose_the_first()
    assert survivor.code == 0, survivor.agent_failure
    last = nodes.steps()[-1]
    assert (last["step"], last["world_size"], last["rank"]) == (STEPS, 1, 0)
    assert {s["node"] for s in nodes.steps()} == {"first", "second"}, "by their names"
    resumed = [e for e in nodes.events() if e["event"] == "resume"][-1]
    assert resumed["world_size"] == 1 and resumed["step"] >= 6, "from the checkpoint, not anew"
    assert sorted(losses(nodes.events())) == list(range(1, STEPS + 1))
    epochs = audit(nodes.events(), SAMPLES)
    assert len(epochs) == STEPS * 16 // SAMPLES
    assert all(seen.exactly_once for seen in epochs.values())


def test_a_server_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setattr(etcd, "_command", lambda *_: ["etcd", "--data-dir", "/dev/null/data"])
    with pytest.raises(RuntimeError, match=r"(?s)etcd did not start.*/dev/null"), etcd.server():
        pass
