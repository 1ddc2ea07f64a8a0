"""Which ways of putting the dimensions together give the step of one process, on which layouts?

Each way is tried on each layout beside the whole model: loss falls with most of the wrong ones.
"""

from dataclasses import dataclass

import torch.distributed as dist

from rankbook.core.agreement import gather
from rankbook.mesh.layout import Layout
from rankbook.mesh.trial import LAYERS, Trial
from rankbook.mesh.ways import find_way
from rankbook.parallel.trying import (
    CANNOT,
    RAISES,
    RIGHT,
    TOLERANCE,
    WRONG,
    first_line,
    quiet,
)


@dataclass(frozen=True)
class LayoutOutcome:
    """What a way did on a layout, the same on every rank.

    layout: as `Layout.parse` reads it. verdict: `RIGHT`, `WRONG`, `RAISES`, or `CANNOT` for what
    the layout does not have. errors: of each optimizer step that was finished, the norm of (clipped
    gradient - the whole model's) / norm of the latter, over all ranks. norms: of the same, the
    relative error of the gradient's norm, on the rank where it was largest. step, message: if it
    raised, in which optimizer step (0: before the first), and the first line of what.
    """

    layout: str
    way: str
    verdict: str
    errors: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    step: int = 0
    message: str = ""


def try_layout(
    layout: str, way: str, steps: int = 2, timeout: float = 20.0, layers: int = LAYERS
) -> LayoutOutcome:
    """Train a small model for `steps` on `layout`, put together in this `way`; say what came out.

    layout: "pp=2,dp=2,tp=2", or with cp; who shares a copy is the way's. way: one of
    `LAYOUT_WAYS`. Every step begins with the whole model's parameters, so that its error is its
    own. layers: of the model, as many as the pipeline has stages or more.

    Call it on all of the layout's ranks. All of it is done on the CPU over gloo groups of its own.
    A rank on which something is raised closes them, so that the others are not left waiting; where
    something still holds on to them, `timeout` seconds end the waiting. All ranks can go on to the
    next trial. Raises ValueError for an unknown way or layout, and for another number of ranks.
    """
    made, parsed = find_way(way), Layout.parse(layout)
    if parsed.ep > 1:
        raise ValueError(f"the model tried here has no experts to divide; leave ep out of {layout}")
    if dist.get_world_size() != parsed.ranks:
        world = dist.get_world_size()
        raise ValueError(f"{layout} takes {parsed.ranks} ranks, but world_size is {world}")
    try:
        made.layout(parsed)
    except ValueError as error:
        return LayoutOutcome(layout, way, CANNOT, message=str(error))
    trial = Trial(parsed, made, timeout, layers)
    step, message = _run(trial, steps)
    errors, norms = tuple(trial.errors), tuple(trial.norms)
    trial.close()
    if message:
        return LayoutOutcome(layout, way, RAISES, errors, norms, step, message)
    right = max(*errors, *norms) <= TOLERANCE  # NaN is wrong
    return LayoutOutcome(layout, way, RIGHT if right else WRONG, errors, norms)


def _run(trial: Trial, steps: int) -> tuple[int, str]:
    """Build and step; if it raised on any rank: in which step (0: before the first), and what."""
    parts = [(0, trial.build), *((n, part) for n in range(1, steps + 1) for part in trial.parts)]
    message = ""
    for step, part in parts:
        try:
            with quiet():
                part()
        except Exception as raised:  # what the way does is the question
            message = first_line(raised)
            raised.__traceback__ = None  # it holds on to the groups
        if message:
            trial.close()  # ranks that wait in one of its groups are told so
        # the world's group is used by all of them, or by none
        if message := _agree(message):
            return step, message
    return 0, ""


def _agree(message: str) -> str:
    """What some rank raised; what waiting ranks were told comes last."""
    return min((("gloo" in line, line) for line in gather(message) if line), default=(0, ""))[1]
