"""Fault tolerance per step: one replica is killed, the other does not start again."""

import psutil
import pytest
import torch

pytest.importorskip("torchft", reason="torchft has wheels for Linux on x86-64 only")

from rankbook.live.torchrun.session import Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.training.elastic.per_step import HERE, MOST_BYTES, StoreTransport, lighthouse
from tests.waiting import until

# Each replica is a job of its own, under a torchrun of its own: only that one starts again.
OPTIONS = ["--standalone", "--nproc-per-node", "1", "--max-restarts", "3"]
PROGRAM = """import os, pathlib, sys, time, torch, rankbook
from rankbook.training.elastic import per_step

name, address, end = sys.argv[1:]
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
manager = per_step.replica(name, address, model, optimizer, timeout=300.0)  # none is too slow
draw, both = torch.Generator().manual_seed(ord(name)), 0
while both < 5 or not pathlib.Path(end).exists():
    step = manager.current_step()
    manager.start_quorum()
    optimizer.zero_grad()
    model(torch.randn(4, 8, generator=draw)).pow(2).mean().backward()
    for parameter in model.parameters():
        manager.allreduce(parameter.grad).wait()
    if manager.should_commit():
        optimizer.step()
    if manager.num_participants() == 2:
        both += 1
    total = sum(p.double().sum().item() for p in model.parameters())
    print("step", step, "now", manager.current_step(), "of", manager.num_participants(),
          "process", os.getpid(), "weights", total.hex(), flush=True)
    time.sleep(0.05)
manager.shutdown(wait=False)
"""


@pytest.fixture
def torchrun():
    torchrun = Torchrun()
    yield torchrun
    torchrun.close()


def test_one_replica_dies_and_comes_back_and_the_other_goes_on(torchrun, tmp_path):
    with lighthouse() as address:
        for name in ("a", "b"):
            spec = LaunchSpec(OPTIONS, [name, address, str(tmp_path / "end")], name)
            torchrun.run_node(spec, PROGRAM, print, background=True)
        until(lambda: all(together(steps(torchrun, name)) > 5 for name in "ab"))
        assert {listens_at(worker(torchrun, name)) for name in "ab"} == {HERE}
        before = worker(torchrun, "b")
        assert torchrun.kill("b", 9, 0) == "b: SIGKILL to rank 0"
        killed_at = steps(torchrun, "a")[-1]["now"]
        until(lambda: worker(torchrun, "b") not in (None, before))
        until(lambda: together(steps(torchrun, "b", worker(torchrun, "b"))) > 5)
        (tmp_path / "end").touch()
        until(lambda: not any(torchrun.node(name).running for name in "ab"))
    assert [torchrun.node(name).code for name in "ab"] == [0, 0]
    one, other = steps(torchrun, "a"), steps(torchrun, "b")
    assert len({step["process"] for step in one}) == 1, "the survivor never started again"
    assert len({step["process"] for step in other}) == 2
    counted = [step["step"] for step in one if step["now"] > step["step"]]
    assert counted == sorted(set(counted)) and counted[-1] > killed_at
    # what the newcomer has from the survivor, bit by bit
    after = [step for step in other if step["process"] != before]
    mine = {step["now"]: step["weights"] for step in one}
    shared = [step for step in after if step["of"] == 2 and step["now"] in mine]
    assert len(shared) > 5
    assert all(step["weights"] == mine[step["now"]] for step in shared)


def test_a_state_that_a_store_cannot_take_is_one_sentence():
    transport = StoreTransport(None)
    with pytest.raises(ValueError, match="a store takes 8,000,000: use a transport of torchft's"):
        transport.send_checkpoint([1], 3, torch.zeros(MOST_BYTES, dtype=torch.int8), None)


def steps(torchrun: Torchrun, name: str, process: int | None = None) -> list[dict]:
    """What replica `name` printed of its steps, all of them or those of one process."""
    words = [str(content).split() for _, _, content in list(torchrun.node(name).events)]
    lines = [w[w.index("step") :] for w in words if "step" in w and "weights" in w]
    found = [dict(zip(line[::2], line[1::2], strict=True)) for line in lines]
    found = [{k: v if k == "weights" else int(v) for k, v in step.items()} for step in found]
    return [step for step in found if process in (None, step["process"])]


def together(steps: list[dict]) -> int:
    """How many of the steps two replicas made."""
    return sum(step["of"] == 2 and step["now"] > step["step"] for step in steps)


def worker(torchrun: Torchrun, name: str) -> int | None:
    """The process that is replica `name` now."""
    alive = torchrun.node(name).alive()
    return alive[0]["pid"] if alive else None


def listens_at(process: int) -> str:
    """The one address at which a process listens."""
    connections = psutil.Process(process).net_connections()
    (ip,) = {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    return ip
