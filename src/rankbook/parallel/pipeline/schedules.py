"""The seven pipeline schedules: which stages a rank holds, how many microbatches they need.

GPipe: https://arxiv.org/abs/1811.06965. 1F1B, interleaved: https://arxiv.org/abs/2104.04473.
Looped, breadth first: https://arxiv.org/abs/2211.05953. Zero bubble, and its V:
https://arxiv.org/abs/2401.10241, https://arxiv.org/abs/2405.15362. DualPipe, cut in half to a V:
https://arxiv.org/abs/2412.19437.
All are run by https://docs.pytorch.org/docs/stable/distributed.pipelining.html.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """A schedule: its `name`, and what it asks of stages and microbatches.

    torch_name: what torch's `get_schedule_class` and torchtitan's configuration call it. placement:
    "single" (one stage per rank), "loop" (rank r of P holds r, r + P, r + 2P, ...) or "v" (rank r
    holds r and 2P - 1 - r: down and up again, so rank 0 has the first and the last).
    splits_backward: it calls the two halves of a backward pass apart (gradients of the input, then
    of the parameters), which neither a layer of FSDP2 nor a compiled one survives. fills: it needs
    a microbatch for each stage. in_rounds: its microbatches come in equal rounds.
    """

    name: str
    torch_name: str
    placement: str
    splits_backward: bool = False
    fills: bool = False
    in_rounds: bool = False

    @property
    def cls(self) -> type:
        """Torch's class that runs it."""
        # a plan asks only the other facts, and has no seconds to wait for torch
        from torch.distributed.pipelining.schedules import get_schedule_class

        return get_schedule_class(self.torch_name)

    @property
    def stages_per_rank(self) -> int:
        """How many stages a rank holds if nothing else is asked for."""
        return 1 if self.placement == "single" else 2

    def stages_of(self, rank: int, ranks: int, stages: int) -> list[int]:
        """The indices of the stages, of all `stages`, on `rank` of a pipeline of `ranks` ranks."""
        if self.placement == "v":
            return [rank, stages - 1 - rank]
        return list(range(rank, stages, ranks))

    def least_microbatches(self, stages: int) -> int:
        """The fewest microbatches that it can run on `stages` stages."""
        return stages if self.fills else 1

    def check(self, ranks: int, stages: int, microbatches: int) -> None:
        """Raise ValueError unless it can run so many stages and microbatches on `ranks`."""
        if ranks < 1 or microbatches < 1:
            raise ValueError(
                f"a pipeline of {ranks} ranks and {microbatches} microbatches cannot run; "
                "both must be 1 or more"
            )
        self._check_stages(ranks, stages)
        if microbatches < self.least_microbatches(stages):
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
        Schedule("gpipe", "GPipe", "single"),
        Schedule("1f1b", "1F1B", "single", fills=True),
        Schedule("interleaved1f1b", "Interleaved1F1B", "loop", in_rounds=True),
        Schedule("loopedbfs", "LoopedBFS", "loop"),
        Schedule("interleavedzb", "InterleavedZeroBubble", "loop", True, in_rounds=True),
        Schedule("zbv", "ZBVZeroBubble", "v", True),
        Schedule("dualpipev", "DualPipeV", "v", True, fills=True),
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
