"""What the ranks of test_train_lm_sync.py do besides training: look at what was loaded."""

from pathlib import Path

import torch
import torch.distributed as dist

from rankbook.programs.train_lm.options import read
from rankbook.programs.train_lm.run import prepare
from rankbook.programs.train_lm.steps import MeshRun, train
from tests.distributed.train_lm_ranks import same_on_every_python


def flat(tensors) -> torch.Tensor:
    return torch.cat([t.detach().flatten() for t in tensors])


def state(run: MeshRun) -> dict[str, torch.Tensor]:
    """All that a replica has, as vectors: its own, and what all agreed on."""
    assert run.sync
    parameters = list(run.part.parameters())
    moments = [run.optimizer.state[p] for p in parameters]
    momentum = [run.sync.outer.state[g] for g in run.sync.globals.values()]
    return {
        "own": flat(parameters),
        "first": flat(m["exp_avg"] for m in moments),
        "second": flat(m["exp_avg_sq"] for m in moments),
        "count": moments[0]["step"].clone(),
        "agreed": flat(run.sync.globals.values()),
        "outer": flat(m["momentum_buffer"] for m in momentum),
        "steps": torch.tensor(run.sync.steps),
    }


def trained(line: str, ranks: int, cache: str) -> dict[str, torch.Tensor]:
    run = started(line, ranks, cache)
    train(run)
    return state(run)


def loaded(line: str, ranks: int, cache: str) -> dict[str, torch.Tensor]:
    return state(started(line, ranks, cache))


def started(line: str, ranks: int, cache: str) -> MeshRun:
    same_on_every_python(cache)
    assert dist.get_world_size() == ranks and Path(cache).is_dir()
    return prepare(read(line.split(), ranks), lambda *asked: torch.device("cpu"))
