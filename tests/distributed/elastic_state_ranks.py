"""What ranks do with checkpoints; run by test_elastic_state.py."""

import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from rankbook.training.checkpoint import (
    CheckpointError,
    Checkpoints,
    ShardedCheckpoints,
    capture,
    sharded,
)

BATCH, STEPS = 12, 8  # samples in a global batch, whoever computes them; optimizer steps
GOOD, KILLED = 4, 6  # the step of the last good sharded checkpoint, and of the one that is torn


def make(dropout: float = 0.0, shard: bool = False) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A net whose sizes no number of ranks divides, maybe sharded over all ranks."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 7), nn.Dropout(dropout), nn.Tanh(), nn.Linear(7, 1))
    if shard:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in (model[0], model[3]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.05)


def train(model: nn.Module, optimizer, step: int, average: bool = True) -> float:
    """One step on the global batch of `step`, of which each rank takes its share; its loss.

    average: the gradients here, as FSDP2 does by itself.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs = torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(step))
    share = inputs.tensor_split(ranks)[rank]
    optimizer.zero_grad()
    loss = (model(share) - share.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    if average:
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= ranks
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / ranks


def with_dropout(folder: str) -> dict:
    """Train through, saving at each step; then again from the newest, as a new process would."""
    checkpoints = Checkpoints(Path(folder))
    torch.manual_seed(100 + dist.get_rank())  # each rank has its own masks
    model, optimizer = make(dropout=0.5)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for step in range(STEPS):
        if step == GOOD:
            checkpoints.save(step, capture(model, optimizer, {"step": step}))
        losses.append(train(model, optimizer, step))
    again, other = make(dropout=0.5)
    saved = checkpoints.newest()
    position = saved.load_into(again, other)
    resumed = [train(again, other, step) for step in range(position["step"], STEPS)]
    equal = all(map(torch.equal, model.parameters(), again.parameters()))
    masks = torch.rand(4)
    return {
        "losses": losses,
        "resumed": resumed,
        "equal": equal,
        "path": saved.path.name,
        "masks": masks,
    }


def troubles(folder: str) -> dict[str, str]:
    """The sentences of errors that only one rank meets."""
    rank, found = dist.get_rank(), {}
    model, optimizer = make()
    state = capture(model, optimizer, {"step": 1})

    def told(name: str, work) -> None:
        try:
            work()
        except (CheckpointError, ValueError) as error:
            found[name] = f"{type(error).__name__}: {error}"

    a_file = Path(folder) / "file"
    a_file.touch()
    told("file", lambda: Checkpoints(a_file).save(1, state))
    told("sharded", lambda: ShardedCheckpoints(a_file).save(1, state))
    told("no folder", lambda: Checkpoints(a_file).newest())
    told("a class", lambda: Checkpoints(Path(folder)).save(1, state | {"x": print}))
    shards = capture(*make(shard=True), {"step": 1})
    told("shards", lambda: Checkpoints(Path(folder)).save(1, shards))
    shared = Checkpoints(Path(folder) / "of-rank-0")
    shared.save(1, state)
    told("elsewhere", lambda: (shared if rank == 0 else Checkpoints(Path(folder))).newest())
    fresh = Checkpoints(Path(folder) / "fresh-on-rank-0")
    told("lost", lambda: (fresh if rank == 0 else shared).newest())
    found["none"] = f"{fresh.newest()}"
    bad = Checkpoints(Path(folder) / "bad", say=lambda line: None)
    bad.save(1, state)
    if rank == 0:
        bad.paths()[0].write_bytes(b"torn")
    dist.barrier()
    told("all bad", bad.newest)
    return found


@contextmanager
def files_of(size: int):
    """Files of this process may have so many bytes: a full disk, for one rank."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def failing(folder: str) -> dict[str, list[str]]:
    """Asynchronous saves of which rank 1's part cannot be written: told at the next, or by wait."""
    said, found = [], []
    checkpoints = ShardedCheckpoints(Path(folder), say=said.append)
    model, optimizer = make(shard=True)
    for step in (1, 2, 3):
        losses = train(model, optimizer, step, average=False)
        with files_of(100 if dist.get_rank() == 1 and step > 1 else 2**20):
            checkpoints.save(step, capture(model, optimizer, {"step": step}))
            try:
                if step != 2:
                    checkpoints.wait()
            except CheckpointError as error:
                found.append(f"{error}")
            while checkpoints._saving and not checkpoints._saving[1].done():
                pass  # the limit is meant for this save
    assert losses
    return {"said": said, "raised": found, "newest": [f"{checkpoints.newest().step}"]}


def sharded_run(folder: str) -> None:
    """Train, and save while training goes on; rank 1 is killed in the middle of its last save."""
    checkpoints = ShardedCheckpoints(Path(folder) / "kept")
    model, optimizer = make(shard=True)
    torch.manual_seed(100 + dist.get_rank())
    losses = []
    for step in range(STEPS):
        if step in (2, GOOD):
            checkpoints.save(step, capture(model, optimizer, {"step": step}))
        if step == KILLED:
            checkpoints.wait()
            last = capture(model, optimizer, {"step": step})
        losses.append(train(model, optimizer, step, average=False))
    if dist.get_rank() == 0:
        torch.save(losses, Path(folder) / "losses.pt")
    dist.barrier()
    if dist.get_rank() == 1:
        sharded._Writer.write_data = _written_half
    checkpoints.save(KILLED, last)
    checkpoints.wait()


def _written_half(self, plan, planner):
    """Write this rank's part, cut it in the middle, and die: as a kill while it is written."""
    sharded.FileSystemWriter.write_data(self, plan, planner)
    part = next(Path(self.path).glob("__1_*.distcp"))
    os.truncate(part, part.stat().st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def sharded_resume(folder: str, shard: bool) -> dict:
    """Go on from the newest good checkpoint, in any world, sharded or whole."""
    model, optimizer = make(shard=shard)
    saved = ShardedCheckpoints(Path(folder) / "kept", say=lambda line: None).newest()
    position = saved.load_into(model, optimizer)
    losses = [train(model, optimizer, s, average=not shard) for s in range(position["step"], STEPS)]
    return {"losses": losses, "step": saved.step, "drawn": torch.rand(3)}
