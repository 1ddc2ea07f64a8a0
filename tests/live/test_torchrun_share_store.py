"""A node joins a running job while torchrun shares its store with the workers, its default.

With torch 2.11 to 2.13 both agents die of that, so `rankbook.live.torchrun.agent` and
`rankbook.programs.elastic` turn the sharing off. This test says when that is no longer needed.
"""

import time
from pathlib import Path

import pytest
import torch

from rankbook.live.torchrun.launch import Launch, Order
from rankbook.live.torchrun.session import Torchrun

SHARING_OFF = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
# read_timeout: what an agent waits for a key of the store; 60 seconds if nobody says else.
CONF = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,read_timeout=3"
OPTIONS = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-conf", CONF]
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
FIXED = (
    f"torch {torch.__version__} lets a node join without {SHARING_OFF}=1: where the oldest torch "
    "that the book supports does so, too, remove the line from live/torchrun/agent.py and from "
    "programs/elastic.py, and the section in chapter 8"
)


@pytest.fixture
def torchrun():
    torchrun = Torchrun()
    yield torchrun
    torchrun.close()


@pytest.mark.parametrize("sharing", ["shared", "not shared"])
def test_a_join_fails_while_the_store_is_shared(torchrun, tmp_path, monkeypatch, sharing):
    monkeypatch.setenv(SHARING_OFF, "0" if sharing == "shared" else "1")
    first = start(torchrun, "first", tmp_path / "end")
    until(lambda: "world 1" in printed(first), first)
    second = start(torchrun, "second", tmp_path / "end")
    joined = until(lambda: all("world 2" in printed(node) for node in (first, second)), second)
    (tmp_path / "end").touch()
    if sharing == "not shared":
        assert joined, [first.agent_failure, second.agent_failure]
        assert until(lambda: not (first.running or second.running))
        assert (first.code, second.code) == (0, 0)
        return
    assert not joined, FIXED
    assert until(lambda: not first.running), "the first node goes on without the second"
    # the new node asks for what rank 0 does not publish again, and rank 0 waits for the new node
    assert "keys: /torch.rendezvous." in second.trouble and "/MASTER_ADDR" in second.trouble
    assert first.trouble.startswith("DistStoreError: wait timeout after 3000ms, keys: ")
    assert "/torchelastic/role_info/1" in first.trouble


def start(torchrun: Torchrun, node: str, end: Path) -> Launch:
    """An agent in the background, whose ranks run until the file `end` is there."""
    order = Order(OPTIONS, [str(end)], node)
    torchrun.run_node(order, PROGRAM, print, background=True)
    return torchrun.node(node)


def printed(launch: Launch) -> str:
    return " ".join(str(content) for _, _, content in list(launch.events))


def until(happened, launch: Launch | None = None, seconds: float = 90) -> bool:
    """Whether it happened before the deadline, and before `launch` ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happened():
            return True
        if launch is not None and not launch.running:
            return happened()
        time.sleep(0.05)
    return False
