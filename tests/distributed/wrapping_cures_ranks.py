"""What ranks do to try two cures: DDP that is told its shapes, layers that are kept gathered."""

import copy
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from rankbook.models.transformer import TransformerLM
from rankbook.parallel.pipeline import schedule_names
from rankbook.parallel.trials import try_wrapping, wrapping_trials
from rankbook.parallel.trials.wrappings import Wrapping

ROW, HIDDEN = torch.ones(1, 4), torch.ones(1, 4, requires_grad=True)


def shapes_given(schedules: list[tuple[str, int]]) -> list[float]:
    """For each (schedule, stages) the largest error of a gradient in two steps, relative.

    Each of the two ranks is a whole pipeline.
    """
    own = [dist.new_group([r]) for r in range(2)][dist.get_rank()]
    return [_worst(getattr(pipelining, name), stages, own) for name, stages in schedules]


def kept_gathered() -> dict[str, str]:
    """The verdict on `fully_shard` per layer without resharding after forward, by schedule."""
    made = Wrapping("each layer, kept gathered", _keep)
    with patch.object(wrapping_trials, "find_wrapping", lambda name: made):
        return {name: try_wrapping(name, made.name).verdict for name in schedule_names()}


def _keep(module: TransformerLM, mesh: DeviceMesh) -> nn.Module:
    for layer in module.layers.values():
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    fully_shard(module, mesh=mesh)
    return module


def _worst(cls: type, count: int, own: dist.ProcessGroup) -> float:
    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(count)]
    whole = nn.Sequential(*copy.deepcopy(parts))
    stages = [
        pipelining.PipelineStage(
            DistributedDataParallel(part),
            index,
            count,
            torch.device("cpu"),
            input_args=HIDDEN if index else ROW,
            output_args=HIDDEN,
            group=own,
        )
        for index, part in enumerate(parts)
    ]
    single = issubclass(cls, pipelining.schedules.PipelineScheduleSingle)
    schedule = cls(stages[0] if single else stages, 4, loss_fn=nn.functional.mse_loss)
    errors = []
    for _ in range(2):
        for module in (whole, *parts):
            module.zero_grad()
        inputs, targets = torch.randn(8, 4), torch.randn(8, 4)  # alike on both ranks
        nn.functional.mse_loss(whole(inputs), targets).backward()
        mine = [rows.chunk(2)[dist.get_rank()] for rows in (inputs, targets)]
        schedule.step(mine[0], target=mine[1])
        found = [p.grad for part in parts for p in part.parameters()]
        right = [p.grad for p in whole.parameters()]
        errors += [((f - r).norm() / r.norm()).item() for f, r in zip(found, right, strict=True)]
    return max(errors)
