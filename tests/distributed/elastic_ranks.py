"""What the ranks of test_elastic_exact.py do: the program's training, killed where a test says."""

import os
import signal
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from rankbook.programs.elastic import run as elastic
from rankbook.training.checkpoint import single as checkpoints
from rankbook.training.elastic import PreemptionHandler, elastic_step

RUNS: list[elastic.ElasticRun] = []  # of this process


def train(arguments: list[str], kill: tuple[str, int, int] | None = None) -> dict:
    """Run the program's training in the group that is there.

    kill: where, in which step, and which rank is ended by SIGKILL; the others fail then.
    """
    if kill is not None and kill[2] == dist.get_rank():
        PLACES[kill[0]](kill[1])
    RUNS.append(run := elastic.prepare(elastic.read(arguments)))
    try:
        with PreemptionHandler() as notice:
            elastic.train(run, notice)
    except RuntimeError as error:
        elastic.lose(error, run)  # as the program does: it ends
    return {"step": run.step, "loss": run.loss}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before_step(step: int) -> None:
    """When the rank has its share of the step, and the others begin to sum it up."""
    original = elastic.elastic_step

    def wrapped(*args, **kwargs):
        if RUNS[-1].step + 1 == step:
            die()
        return original(*args, **kwargs)

    elastic.elastic_step = wrapped


def before_save(step: int) -> None:
    """When the step is done, but not its save."""
    _instead_of_save(step, lambda save: die())


def after_save(step: int) -> None:
    """When the step's save is on the disk."""
    _instead_of_save(step, lambda save: (save(), die()))


def in_save(step: int) -> None:
    """When half of the checkpoint is written; on rank 0, which writes."""

    def cut(save: Callable) -> None:
        original = checkpoints.save_plain
        checkpoints.save_plain = lambda state, file: original(state, Dying(file))
        save()

    _instead_of_save(step, cut)


class Dying:
    """A file that kills the process in the middle of a write."""

    def __init__(self, file: object):
        self.file, self.writes = file, 0

    def write(self, data: bytes) -> int:
        self.writes += 1
        if self.writes == 10:
            self.file.write(bytes(data)[: len(data) // 2])
            self.file.flush()
            die()
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def _instead_of_save(step: int, act: Callable) -> None:
    original = elastic.save

    def wrapped(run: elastic.ElasticRun) -> None:
        if run.step == step:
            act(lambda: original(run))
        original(run)

    elastic.save = wrapped


PLACES = {"before": before_step, "unsaved": before_save, "saving": in_save, "saved": after_save}


def restart_ddp(warm: bool = False) -> float:
    """How far the parameters are off after 6 steps with DDP, if it is made anew before step 4.

    warm: let it go once through all layers first, so that it has its final buckets.
    """
    _, whole, optimizer = _ddp(warm)
    for step in range(6):
        _ddp_step(whole, optimizer, step)
    _, first, optimizer = _ddp(warm)
    for step in range(3):
        _ddp_step(first, optimizer, step)
    model, again, optimizer_again = _ddp(warm)
    model.load_state_dict(first.module.state_dict())
    optimizer_again.load_state_dict(optimizer.state_dict())
    for step in range(3, 6):
        _ddp_step(again, optimizer_again, step)
    pairs = zip(whole.parameters(), again.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def one_step_each_way(samples: int) -> dict[str, float]:
    """How far a step by DDP and one by `elastic_step` are off one process's, on `samples`."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = torch.randn(samples, 10, generator=torch.Generator().manual_seed(0))
    share = whole[samples * rank // ranks : samples * (rank + 1) // ranks]

    def losses(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        return model(inputs).square().mean(1)

    def weights(step: Callable) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(10, 5)
        step(model, torch.optim.SGD(model.parameters(), 0.1))
        return model.weight.detach()

    def alone(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        losses(model, whole).mean().backward()
        optimizer.step()

    def ddp(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        wrapped = DistributedDataParallel(model)  # kept: without it nothing is averaged
        losses(wrapped, share).mean().backward()
        optimizer.step()

    def elastic_way(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        elastic_step(model, optimizer, losses, share)

    right = weights(alone)
    ways = {"ddp": ddp, "elastic": elastic_way}
    return {name: (weights(way) - right).abs().max().item() for name, way in ways.items()}


def what_ddp_does() -> dict[str, float]:
    """After a restart, as it is and warmed up; and in one step on 8 samples."""
    return {"as it is": restart_ddp(), "warm": restart_ddp(warm=True)} | one_step_each_way(8)


def _ddp(warm: bool) -> tuple[nn.Module, DistributedDataParallel, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 5))
    wrapped = DistributedDataParallel(model)
    if warm:
        for _ in range(2):  # buckets are laid out anew when the second forward begins
            wrapped(torch.zeros(1, 10)).sum().backward()
    return model, wrapped, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def _ddp_step(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    inputs = torch.randn(4, 10, generator=generator)
    optimizer.zero_grad()
    (model(inputs) - inputs[:, :5]).square().mean().backward()
    optimizer.step()
