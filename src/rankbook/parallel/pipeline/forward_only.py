"""What is left of one of torch's schedules for `eval()`: its forward passes."""

from torch.distributed.pipelining.schedules import PipelineScheduleMulti, _PipelineSchedule


def forward_only(schedule: _PipelineSchedule) -> _PipelineSchedule:
    """Make torch's `schedule`, in place, fit for `eval()` only.

    `eval()` of schedules for several stages still walks through the backward actions, and fails
    where two neighbouring stages are on one rank (torch 2.13: "can't steal_bwd_input"). Without
    those actions the order of what is left, which every two ranks agree on, does not change.
    """
    if isinstance(schedule, PipelineScheduleMulti):
        keep = {"F", "SEND_F", "RECV_F", "UNSHARD", "RESHARD"}
        # torch sets it when it makes the schedule, out of its class
        orders = schedule.pipeline_order_with_comms  # pyrefly: ignore[missing-attribute]
        for rank, actions in orders.items():
            flat = [part for action in actions for part in (action.sub_actions or [action])]
            forward = [action for action in flat if action.computation_type.value in keep]
            orders[rank] = _without_idle(forward)
    return schedule


def _without_idle(actions: list) -> list:
    """`actions` without gathering a sharded stage, and letting it go, where no forward is between.

    Those were for backward; torch 2.13 stops there: "Resharding stage_idx=1 without unsharding".
    """
    gathered, idle = {}, set()  # by stage, the action that gathered it and was not used yet
    for place, action in enumerate(actions):
        kind, stage = action.computation_type.value, action.stage_index
        if kind == "UNSHARD":
            gathered[stage] = place
        elif kind == "F":
            gathered.pop(stage, None)
        elif kind == "RESHARD" and stage in gathered:
            idle |= {place, gathered.pop(stage)}
    idle.update(gathered.values())
    return [action for place, action in enumerate(actions) if place not in idle]
