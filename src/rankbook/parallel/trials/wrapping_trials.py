"""Which data-parallel wrapping of a pipeline's stages gives the gradients of the unsplit model?

The schedules call backward on a stage several times a step, some of them in halves. A wrapping that
reduces gradients from inside backward has to be told which call is the last. Here each wrapping is
tried under each schedule, on two stages' ranks x two replicas, beside the unsplit model.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig
from rankbook.parallel.pipeline.pipeline import Pipeline
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.schedules import find_schedule
from rankbook.parallel.pipeline.stages import stage_module
from rankbook.parallel.replicas.averaging import average_gradients
from rankbook.parallel.trials.outcomes import CANNOT, Outcome, run_trial
from rankbook.parallel.trials.trial import TrialSetup
from rankbook.parallel.trials.wrappings import Wrapping, find_wrapping


@dataclass(frozen=True, kw_only=True)
class WrappingOutcome(Outcome):
    """What came out of a wrapping under a schedule; microbatches: of each pipeline."""

    schedule: str
    wrapping: str
    microbatches: int


def try_wrapping(
    schedule: str,
    wrapping: str,
    microbatches: int = 4,
    steps: int = 2,
    timeout: float = 20.0,
    layers: int = 8,
) -> WrappingOutcome:
    """Train a small model for `steps` with `wrapping` under `schedule`; say what came out.

    microbatches: of each of the two pipelines. layers: of the model, a multiple of the stages.
    steps, timeout: see `run_trial`. Some wrappings only raise in the second step.

    Call it on all of exactly four ranks: two per pipeline, two replicas.
    Raises ValueError for an unknown name, and for another number of ranks.
    """
    find_schedule(schedule)
    made = find_wrapping(wrapping)
    if dist.get_world_size() != 4:
        raise ValueError(f"a trial takes 4 ranks, but world_size is {dist.get_world_size()}")
    try:
        plan = PipelinePlan(schedule, 2, microbatches, replicas=2)
    except ValueError as error:
        found = Outcome(verdict=CANNOT, message=str(error))
    else:
        found = run_trial(_setup(plan, made, layers), steps, timeout)
    return WrappingOutcome(
        schedule=schedule, wrapping=wrapping, microbatches=microbatches, **vars(found)
    )


def _setup(plan: PipelinePlan, wrapping: Wrapping, layers: int) -> TrialSetup[Pipeline]:
    config = TransformerConfig(50, d_model=32, d_hidden=64, heads=4, layers=layers, max_length=8)

    def build(mesh: DeviceMesh) -> Pipeline:
        indices, device = plan.stages_of(mesh["pp"].get_local_rank()), torch.device("cpu")
        stages = {i: stage_module(config, i, plan.stages, device) for i in indices}
        wrapped = {i: wrapping.apply(stage, mesh["dp"]) for i, stage in stages.items()}
        return Pipeline(plan, wrapped, mesh, token_loss, config)

    def average(pipeline: Pipeline) -> None:
        if wrapping.average_after_step:
            average_gradients(pipeline.parameters(), pipeline.mesh["dp"].get_group())

    return TrialSetup(
        config,
        mesh={"pp": 2, "dp": plan.replicas},
        batch=(2 * plan.replicas * plan.microbatches, 6),
        build=build,
        share=lambda ids, mesh: plan.share(ids, mesh["dp"].get_local_rank()),
        average=average,
    )
