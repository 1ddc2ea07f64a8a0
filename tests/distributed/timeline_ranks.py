"""What the ranks of test_timeline.py do: run pipelines under the recorder."""

import time

import torch
import torch.distributed as dist

from rankbook.core import clocks
from rankbook.models import TransformerConfig
from rankbook.parallel.pipeline import (
    Action,
    Durations,
    Pipeline,
    PipelinePlan,
    record,
    simulate,
    sleeping_loss,
    sleeping_stages,
)
from tests.distributed.pipeline_ranks import CPU, batches, make

SLEEP = Durations(forward=0.024, input=0.024, weight=0.024)  # seconds, in the first step
CONFIG = TransformerConfig(vocab_size=4, d_model=8, d_hidden=8, heads=1, layers=8, max_length=4)
AHEAD = 1e5  # seconds: no step on any machine takes a tenth of it
STEPS = 6  # at most, of which the least disturbed shows the schedule
# Beside its sleep, of 12 to 48 ms in the first step, an action costs Python and gloo up to a
# millisecond, and more where others have the cores: so each step after a disturbed one sleeps twice
# as long. Such a share of the span more is idle, at most, in the least disturbed of the steps.
TOLERANCE = 0.1


def plan_for(name: str, ranks: int) -> PipelinePlan:
    return PipelinePlan(name, ranks, microbatches=max(4, 2 * ranks))


def asleep(name: str) -> Pipeline:
    """A pipeline whose stages sleep, after its first step."""
    plan = plan_for(name, dist.get_world_size())
    mesh = plan.mesh("cpu")
    stages = sleeping_stages(plan, dist.get_rank(), SLEEP, CPU)
    pipeline = Pipeline(plan, stages, mesh, sleeping_loss, CONFIG)
    pipeline.step(*ids(plan))
    return pipeline


def ids(plan: PipelinePlan) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.zeros(plan.microbatches, 2, dtype=torch.int64)
    return tokens, tokens


def plain(actions: list[Action]) -> list[tuple]:
    """As torch.load takes them with weights_only."""
    return [tuple(action) for action in actions]


def recorded(names: list[str]) -> dict[str, dict]:
    """Each schedule: some steps with stages that sleep, and what the recorder does to real ones."""
    return {name: {"steps": slept(name), **compared(name)} for name in names}


def slept(name: str) -> list[list[tuple]]:
    """Steps of stages that sleep, each twice as long, until one is hardly disturbed.

    Every rank sees the same.
    """
    pipeline, steps = asleep(name), []
    ideal = simulate(pipeline.plan, SLEEP)
    with record() as recording:
        for number in range(STEPS):
            pipeline.step(*ids(pipeline.plan))
            line = recording.gather()
            steps.append(plain(line.actions))
            work = {rank: 2**number * seconds for rank, seconds in ideal.work.items()}
            if line.with_work(work).idle_share - ideal.idle_share < TOLERANCE / 2:
                break
            for stage in pipeline.modules.values():
                stage.seconds = tuple(2 * seconds for seconds in stage.seconds)
    return steps


def compared(name: str) -> dict:
    """A language model's step and evaluation: what was recorded, and whether it changed them."""
    pipeline = make(plan_for(name, dist.get_world_size()))
    batch = batches()[0]
    expected = outcome(pipeline, batch)
    with record() as recording:
        mine = outcome(pipeline, batch)
    unchanged = all(torch.equal(a, b) for a, b in zip(mine, expected, strict=True))
    step, evaluation = (plain(recording.gather(step).actions) for step in range(2))
    return {"unchanged": unchanged, "step": step, "evaluation": evaluation}


def outcome(pipeline: Pipeline, batch: tuple) -> list[torch.Tensor]:
    for parameter in pipeline.parameters():
        parameter.grad = None
    loss = pipeline.step(*batch)
    gradients = [parameter.grad.clone() for parameter in pipeline.parameters()]
    return [loss, pipeline.evaluate(*batch), *gradients]


def apart() -> dict:
    """Clocks that differ by AHEAD from rank to rank: taken as one machine's, and as several'."""
    rank = dist.get_rank()
    clocks.now = lambda: time.monotonic() + AHEAD * rank
    pipeline = asleep("gpipe")
    with record() as recording:
        pipeline.step(*ids(pipeline.plan))
    one = recording.gather()
    clocks.machine = lambda: f"machine {rank}"
    several = recording.gather()
    offsets, error = clocks.clock_offsets()
    return {
        "one": plain(one.actions),
        "one_error": one.clock_error,
        "several": plain(several.actions),
        "several_error": several.clock_error,
        "offsets": offsets,
        "error": error,
    }
