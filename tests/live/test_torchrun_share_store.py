"""torchrun shares its store with the workers, its default: what breaks with that, and what says so.

A node that joins a running job kills it, and workers that start again meet the dead ones'
addresses. So `rankbook.live.torchrun.agent` turns the sharing off, and page 45 tells readers of
plain torchrun to do so. These tests say when a newer torch no longer needs that.
"""

from pathlib import Path

import pytest
import torch

from rankbook.live.torchrun.launch import Launch
from rankbook.live.torchrun.session import Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from tests.waiting import until

SHARING_OFF = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
# read_timeout: what an agent waits for a key of the store; short where it waits in vain, and
# shorter for the second, so that it ends while the first one's store is there. None is taken for
# dead: their signs of life may come late.
CONF = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=900,read_timeout="
READ_TIMEOUT = {"shared": (15, 3), "not shared": (900, 900)}
OPTIONS = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-conf"]
PROGRAM = """import pathlib, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
print("world", dist.get_world_size())
while True:
    end = torch.tensor(float(pathlib.Path(sys.argv[1]).exists()))
    dist.all_reduce(end)
    if end: break
    time.sleep(0.05)
dist.destroy_process_group()
"""
# The store in which init_process_group's ranks find each other's addresses, first and again.
AGAIN = """import os, signal, torch.distributed as dist
store, rank, world_size = next(dist.rendezvous("env://"))
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    store.set("address", "of a rank that is about to die")
    os.kill(os.getpid(), signal.SIGKILL)
print("the dead one's address is there:", store.check(["address"]))
"""
FIXED = (
    f"torch {torch.__version__} {{}} without {SHARING_OFF}=1: where the oldest torch that the book "
    "supports does so, too, remove the line from live/torchrun/agent.py, and what page 45 says"
)


@pytest.fixture
def torchrun():
    torchrun = Torchrun()
    yield torchrun
    torchrun.close()


@pytest.mark.parametrize("sharing", ["shared", "not shared"])
def test_a_join_fails_while_the_store_is_shared(torchrun, tmp_path, monkeypatch, sharing):
    monkeypatch.setenv(SHARING_OFF, "0" if sharing == "shared" else "1")
    ours, its = ([*OPTIONS, f"{CONF}{seconds}"] for seconds in READ_TIMEOUT[sharing])
    end = tmp_path / "end"
    first = start(torchrun, "first", ours, end)
    until(lambda: "world 1" in printed(first), lambda: printed(first), lambda: first.running)
    second = start(torchrun, "second", its, end)

    def joined() -> bool:
        return all("world 2" in printed(node) for node in (first, second))

    until(lambda: joined() or not second.running)
    end.touch()
    if sharing == "not shared":
        assert joined(), [first.agent_failure, second.agent_failure]
        until(lambda: not (first.running or second.running))
        assert (first.code, second.code) == (0, 0)
        return
    assert not joined(), FIXED.format("lets a node join")
    until(lambda: not first.running, lambda: "the first node goes on without the second")
    # the new node asks for what rank 0 does not publish again, and rank 0 waits for the new node
    assert "keys: /torch.rendezvous." in second.trouble and "/MASTER_ADDR" in second.trouble
    assert first.trouble.startswith("DistStoreError: wait timeout after 15000ms, keys: ")
    assert "/torchelastic/role_info/1" in first.trouble


@pytest.mark.parametrize("sharing", ["shared", "not shared"])
def test_a_restart_meets_the_dead_while_the_store_is_shared(torchrun, monkeypatch, sharing):
    """Whether it connects to them is a race; so this looks at what is left of them."""
    monkeypatch.setenv(SHARING_OFF, "0" if sharing == "shared" else "1")
    said: list[str] = []
    spec = LaunchSpec(["--nproc-per-node", "1", "--max-restarts", "1"], [])
    torchrun.run(spec, AGAIN, lambda kind, content: said.append(str(content)))
    (found,) = [word for word in ("True", "False") if f"address is there: {word}" in " ".join(said)]
    if sharing == "not shared":
        assert found == "False"
    else:
        assert found == "True", FIXED.format("starts workers with a clean store")


def start(torchrun: Torchrun, node: str, options: list[str], end: Path) -> Launch:
    """An agent in the background, whose ranks run until the file `end` is there."""
    spec = LaunchSpec(options, [str(end)], node)
    torchrun.run_node(spec, PROGRAM, print, background=True)
    return torchrun.node(node)


def printed(launch: Launch) -> str:
    return " ".join(str(content) for _, _, content in list(launch.events))
