"""The seven pipeline schedules: which stages a rank holds, how many microbatches they need.

GPipe: https://arxiv.org/abs/1811.06965. 1F1B, interleaved: https://arxiv.org/abs/2104.04473.
Looped, breadth first: https://arxiv.org/abs/2211.05953. Zero bubble, and its V:
https://arxiv.org/abs/2401.10241, https://arxiv.org/abs/2405.15362. DualPipe, cut in half to a V:
https://arxiv.org/abs/2412.19437.
All are run by https://docs.pytorch.org/docs/stable/distributed.pipelining.html.
"""

from dataclasses import dataclass

from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, _PipelineSchedule


@dataclass(frozen=True)
class Schedule:
    """A schedule: its `name`, the class that runs it, and what it asks of stages and microbatches.

    placement: "single" (one stage per rank), "loop" (rank r of P holds r, r + P, r + 2P, ...) or
    "v" (rank r holds r and 2P - 1 - r: down and up again, so rank 0 has the first and the last).
    splits_backward: it calls the two halves of a backward pass apart (gradients of the input, then
    of the parameters), which neither a layer of FSDP2 nor a compiled one survives. fills: it needs
    a microbatch for each stage. in_rounds: its microbatches come in equal rounds.
    """

    name: str
    cls: type
    placement: str
    splits_backward: bool = False
    fills: bool = False
    in_rounds: bool = False

    @property
    def stages_per_rank(self) -> int:
        """How many stages a rank holds if nothing else is asked for."""
        return 1 if self.placement == "single" else 2

    def stages_of(self, rank: int, ranks: int, stages: int) -> list[int]:
        """The indices of the stages, of all `stages`, on `rank` of a pipeline of `ranks` ranks."""
        if self.placement == "v":
            return [rank, stages - 1 - rank]
        return list(range(rank, stages, ranks))

    def check(self, ranks: int, stages: int, microbatches: int) -> None:
        """Raise ValueError unless it can run so many stages and microbatches on `ranks`."""
        if ranks < 1 or microbatches < 1:
            raise ValueError(
                f"a pipeline of {ranks} ranks and {microbatches} microbatches cannot run; "
                "both must be 1 or more"
            )
        self._check_stages(ranks, stages)
        if self.fills and microbatches < stages:
            raise ValueError(
                f"schedule {self.name} needs at least as many microbatches as stages: "
                f"{microbatches} microbatches, {stages} stages; use {stages} microbatches or more"
            )
        if self.in_rounds:
            rounds = max(1, microbatches // ranks)
            if microbatches % rounds:
                raise ValueError(
                    f"schedule {self.name} cannot deal {microbatches} microbatches to {ranks} "
                    f"ranks in {rounds} equal rounds; use {microbatches // ranks * ranks}"
                )

    def _check_stages(self, ranks: int, stages: int) -> None:
        held = f"{stages} stages on {ranks} rank{'s' * (ranks > 1)}"
        if self.placement == "single" and stages != ranks:
            raise ValueError(
                f"schedule {self.name} runs one stage per rank, not {held}; "
                f"use {ranks} stages, or a schedule for several stages per rank, as loopedbfs"
            )
        if self.placement == "v" and stages != 2 * ranks:
            raise ValueError(
                f"schedule {self.name} runs exactly two stages per rank, not {held}; "
                f"use {2 * ranks} stages"
            )
        if stages < ranks or stages % ranks:
            raise ValueError(
                f"schedule {self.name} runs the same number of stages on each rank, not {held}; "
                f"use a multiple of {ranks} stages"
            )


_SCHEDULES = {
    schedule.name: schedule
    for schedule in (
        Schedule("gpipe", torch_schedules.ScheduleGPipe, "single"),
        Schedule("1f1b", torch_schedules.Schedule1F1B, "single", fills=True),
        Schedule(
            "interleaved1f1b", torch_schedules.ScheduleInterleaved1F1B, "loop", in_rounds=True
        ),
        Schedule("loopedbfs", torch_schedules.ScheduleLoopedBFS, "loop"),
        Schedule(
            "interleavedzb",
            torch_schedules.ScheduleInterleavedZeroBubble,
            "loop",
            True,
            in_rounds=True,
        ),
        Schedule("zbv", torch_schedules.ScheduleZBVZeroBubble, "v", True),
        Schedule("dualpipev", torch_schedules.ScheduleDualPipeV, "v", True, fills=True),
    )
}


def schedule_names() -> list[str]:
    """The names that `find_schedule` knows."""
    return list(_SCHEDULES)


def find_schedule(name: str) -> Schedule:
    """The schedule called `name`, in any case. Raises ValueError for an unknown name."""
    if name.lower() not in _SCHEDULES:
        raise ValueError(f"schedule {name!r} is unknown; use {', '.join(_SCHEDULES)}")
    return _SCHEDULES[name.lower()]


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
