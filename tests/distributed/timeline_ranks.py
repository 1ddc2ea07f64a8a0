"""What the ranks of test_timeline.py do: run pipelines under the recorder."""

import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.pipelining.stage import _PipelineStageBase

from rankbook.models import TransformerConfig
from rankbook.parallel import (
    Durations,
    Pipeline,
    PipelinePlan,
    clocks,
    find_schedule,
    record,
    sleeping_loss,
    sleeping_stages,
)
from tests.distributed.pipeline_ranks import CPU, batches, make

SLEEP = Durations(forward=0.008, input=0.008, weight=0.008)  # seconds
CONFIG = TransformerConfig(vocab_size=4, d_model=8, d_hidden=8, heads=1, layers=8, max_length=4)


def microbatches(name: str, ranks: int) -> int:
    return max(4, find_schedule(name).stages_per_rank * ranks)


def asleep(names: list[str]) -> dict[str, list[tuple]]:
    """For each schedule, the gathered actions of its second step with stages that sleep."""
    ranks = dist.get_world_size()
    gathered = {}
    for name in names:
        plan = PipelinePlan(name, ranks, microbatches(name, ranks))
        mesh = plan.mesh("cpu")
        stages = sleeping_stages(plan, dist.get_rank(), SLEEP, CPU)
        pipeline = Pipeline(plan, stages, mesh, sleeping_loss, CONFIG)
        ids = torch.zeros(plan.microbatches, 2, dtype=torch.int64)
        pipeline.step(ids, ids)
        with record() as recording:
            pipeline.step(ids, ids)
        gathered[name] = [tuple(action) for action in recording.gather().actions]
    return gathered
