"""Stages that sleep where others compute, for timelines that show nothing but the schedule.

Four ranks that compute on two cores wait for cores as well as for each other. Four that sleep do
not: their timeline is what four machines' would be. Nothing is learnt by them.
"""

import time

import torch
from torch import nn

from rankbook.parallel.pipeline.durations import Durations
from rankbook.parallel.pipeline.plan import PipelinePlan


class SleepingStage(nn.Module):
    """Sleeps for `forward` seconds; in the backward for `input` seconds, and `weight` seconds.

    The first is for the gradient of its input, the second for that of its weight: a whole backward
    takes both. Takes ids (batch, length) if it is the `first` stage, else what another gave:
    float32 (batch, length, 1), as it gives itself.
    """

    def __init__(self, forward: float, input: float, weight: float, first: bool = False):
        super().__init__()
        self.seconds = forward, input, weight
        self.weight = nn.Parameter(torch.ones(1))
        # as in a language model, whose first stage ends in a parameter, not in its input
        self.embedding = nn.Parameter(torch.ones(1)) if first else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sleep, and give `x` times the weight, which is 1."""
        forward, input, weight = self.seconds
        if self.embedding is not None:
            x = x[..., None] * self.embedding
        _sleep(x, forward)
        return _SleepInBackward.apply(x, input) * _SleepInBackward.apply(self.weight, weight)


def sleeping_stages(
    plan: PipelinePlan, rank: int, durations: Durations, device: torch.device
) -> dict[int, nn.Module]:
    """The stages of `rank` on `device`, for a `Pipeline` of `plan`; `durations` in seconds."""
    held = plan.stages // plan.ranks
    seconds = [part / held for part in (durations.forward, durations.input, durations.weight)]
    return {
        index: SleepingStage(*seconds, first=index == 0).to(device)
        for index in plan.stages_of(rank)
    }


def sleeping_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss that takes no time; outputs (batch, length, 1), targets (batch, length)."""
    return (outputs[..., 0] - targets).mean()


class _SleepInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = gradients
        _sleep(gradient, ctx.seconds)
        return gradient, None


def _sleep(x: torch.Tensor, seconds: float) -> None:
    if x.is_cuda:  # what is asked for may not be there yet
        torch.cuda.current_stream(x.device).synchronize()
    time.sleep(seconds)
