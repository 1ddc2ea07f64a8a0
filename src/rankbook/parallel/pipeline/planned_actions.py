"""What each rank does in which order: the lists that torch's own schedules run, without ranks.

Schedules for several stages make the lists of all ranks when they are made, and run them as they
are. GPipe and 1F1B run a loop instead. For them torch 2.13 has lists as well, for its
visualizer only; that of 1F1B is wrong on the last rank, which it starts at microbatch 1. So here
their loop itself is run, once for each rank, with a stage that takes notes and does nothing else.
"""

from typing import NamedTuple, cast

from torch import nn
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, _Action

from rankbook.parallel.pipeline.plan import PipelinePlan


class PlannedAction(NamedTuple):
    """One action before it has a time; kind is "F", "B", "I" or "W", as in a `Timeline`."""

    stage: int
    kind: str
    microbatch: int

    @property
    def name(self) -> str:
        """As torch writes it: ``3F0`` is the forward of microbatch 0 by stage 3."""
        return f"{self.stage}{self.kind}{self.microbatch}"


# For each rank its actions in order. Those in one tuple, torch's OVERLAP_F_B, are one to it: what
# they send leaves when all of them are done.
ActionLists = dict[int, list[tuple[PlannedAction, ...]]]


def action_lists(plan: PipelinePlan) -> ActionLists:
    """What each rank of one pipeline of `plan` computes in a step, and in which order."""
    if not issubclass(plan.kind.cls, PipelineScheduleMulti):
        return {rank: _dry_run(plan, rank) for rank in range(plan.ranks)}
    # every rank makes the lists of all of them
    cls = _without(plan.kind.cls, "_prepare_schedule_with_comms")
    stages = [_NotingStage(plan, index, rank=0) for index in plan.stages_of(0)]
    orders = cls(stages, plan.microbatches).pipeline_order
    return {
        rank: [_planned(action) for action in orders[rank] if action is not None]
        for rank in range(plan.ranks)
    }


def _planned(action: _Action) -> tuple[PlannedAction, ...]:
    parts = action.sub_actions or (action,)
    return tuple(
        # what computes has a microbatch; only unsharding and the like have none
        PlannedAction(
            part.stage_index, part.computation_type.value, cast(int, part.microbatch_index)
        )
        for part in parts
    )


def _dry_run(plan: PipelinePlan, rank: int) -> list[tuple[PlannedAction, ...]]:
    stage = _NotingStage(plan, rank, rank)
    cls = _without(plan.kind.cls, "_initialize_stage", "_get_pipeline_order")
    cls(stage, plan.microbatches)._step_microbatches()
    return [(action,) for action in stage.planned]


def _without(cls: type, *names: str) -> type:
    """`cls` with these methods empty: they need other ranks, or take long, and order nothing."""
    return type(cls.__name__, (cls,), dict.fromkeys(names, lambda *_: None))


class _NotingStage:
    """Where a schedule expects a stage: notes what it is told to do, has nothing to exchange."""

    def __init__(self, plan: PipelinePlan, index: int, rank: int):
        self.stage_index, self.num_stages = index, plan.stages
        self.group_rank, self.group_size = rank, plan.ranks
        self.is_first, self.is_last = index == 0, index == plan.stages - 1
        self.submod = nn.Identity()
        self.planned = []

    def forward_one_chunk(self, microbatch: int, *_, **__) -> None:
        self.planned.append(PlannedAction(self.stage_index, "F", microbatch))

    def backward_one_chunk(self, microbatch: int, **_) -> None:
        self.planned.append(PlannedAction(self.stage_index, "B", microbatch))

    def get_fwd_recv_ops(self, microbatch: int) -> list:
        return []

    get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = get_fwd_recv_ops

    def perform_reduce_grad(self, scale: int) -> None:
        pass
