"""What a proof is given: the twin, this rank's part, and what must be the same on all ranks."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from rankbook.prove.digest import digest, leaves
from rankbook.prove.names import Named, part_buffers, part_parameters
from rankbook.prove.optimizers import settings_of
from rankbook.prove.part import RankView
from rankbook.prove.pieces import Layout
from rankbook.prove.twin import modes_of

SAFETY = 8  # times the rounding that is expected; a real error is rarely below 1000 times


class Side(NamedTuple):
    """The twin, its parameters, of each of a tied one's names the first, its buffers."""

    model: nn.Module
    parameters: Named
    first: dict[str, str]
    buffers: Named

    def tensors(self) -> list[torch.Tensor]:
        """All of them."""
        return [*self.parameters.values(), *self.buffers.values()]


def compared_before(
    model: Any,
    side: Side,
    layout: Layout,
    names: Callable[[str], str] | None,
    batch: Any,
    tolerance: float | None,
) -> RankView:
    """This rank's part, compared with the twin before the step. Raises ValueError."""
    layout.check(side.first)
    mine = part_parameters(model, side.first, names)
    buffers = part_buffers(model, {name: name for name in side.buffers}, names)
    rounding = _rounding([*mine.values(), *side.parameters.values()])
    if tolerance is None:
        tolerance = SAFETY * (rounding + _of_sums(rounding, side.parameters, batch))
    part = RankView(mine, buffers, side.first, layout, tolerance, rounding)
    part.fits(side.parameters)
    part.look_before(side.parameters, side.buffers)
    return part


def told_by(
    side: Side, part: RankView, model: Any, optimizers: list[Any], batch: Any
) -> dict[str, Any]:
    """What the other ranks have to know before the step."""
    settings, strangers = settings_of(optimizers, part.named)
    return {
        "settings": {side.first[name]: each for name, each in settings.items()},
        "strangers": strangers,
        "modes": modes_of(model),
        "batch": digest(batch),
        "twin": digest(side.tensors()),
        "tolerance": part.tolerance,
        "before": part.facts,
    }


def same_everywhere(everyone: list[dict[str, Any]]) -> None:
    """Raise ValueError where ranks have different batches or twins."""
    advice = {
        "batch": "give every rank the whole batch, of which step takes its share",
        "twin": "make it from the same seed, or load the same values",
    }
    for what, do in advice.items():
        words = [each[what] for each in everyone]
        for rank, word in enumerate(words):
            if word != words[0]:
                raise ValueError(f"rank {rank} has another {what} than rank 0: {do}")


def _rounding(tensors: Iterable[torch.Tensor]) -> float:
    """Of one stored value of the coarsest dtype, relative."""
    floats = (t.dtype for t in tensors if t.dtype.is_floating_point or t.dtype.is_complex)
    return max((torch.finfo(dtype).eps for dtype in floats), default=0.0)


def _of_sums(rounding: float, twin: Named, batch: Any) -> float:
    """Of a sum of as many numbers as make one element of a gradient, in float32 or better."""
    added = max((t.numel() for t in leaves(batch) if isinstance(t, torch.Tensor)), default=1)
    added += max((max(t.shape, default=1) for t in twin.values()), default=1)
    return min(rounding, torch.finfo(torch.float32).eps) * math.sqrt(added)
