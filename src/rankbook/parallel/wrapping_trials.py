"""Which data-parallel wrapping of a pipeline's stages gives the gradients of the unsplit model?

The schedules call backward on a stage several times a step, some of them in halves. A wrapping that
reduces gradients from inside backward has to be told which call is the last. Here each wrapping is
tried under each schedule, on two stages' ranks x two replicas, beside the unsplit model.
"""

from dataclasses import dataclass

import torch.distributed as dist

from rankbook.core.agreement import gather
from rankbook.parallel.plan import PipelinePlan
from rankbook.parallel.schedules import find_schedule
from rankbook.parallel.trying import (
    CANNOT,
    RAISES,
    RIGHT,
    TOLERANCE,
    WRONG,
    first_line,
    quiet,
)
from rankbook.parallel.wrapping_trial import Trial
from rankbook.parallel.wrappings import find_wrapping

NOT_HERE = "ImportError", "ModuleNotFoundError"  # of wrappings that this torch does not have


@dataclass(frozen=True)
class Outcome:
    """What a wrapping did under a schedule, the same on every rank.

    microbatches: of each of the two pipelines. verdict: `RIGHT`, `WRONG`, `RAISES`, or `CANNOT` for
    what the schedule, or this torch, does not have. errors: of each optimizer step that was
    finished, the norm of (gradient - the unsplit model's) / norm of the latter. missing: how many
    of the model's parameters had no gradient at all, in the step where they were most. step,
    message: if it raised, in which optimizer step (from 1), and the first line of what.
    """

    schedule: str
    wrapping: str
    microbatches: int
    verdict: str
    errors: tuple[float, ...] = ()
    missing: int = 0
    step: int = 0
    message: str = ""


def try_wrapping(
    schedule: str,
    wrapping: str,
    microbatches: int = 4,
    steps: int = 2,
    timeout: float = 20.0,
    layers: int = 8,
) -> Outcome:
    """Train a small model for `steps` with `wrapping` under `schedule`; say what came out.

    microbatches: of each of the two pipelines. Every step begins with the unsplit model's
    parameters, so that its error is its own. Some wrappings only raise in the second step.
    layers: of the model, a multiple of the stages.

    Call it on all of exactly four ranks: two per pipeline, two replicas. All of it is done on the
    CPU over gloo groups of its own. A rank on which something is raised closes them, so that the
    others are not left waiting; where a wrapping still holds on to them, `timeout` seconds end the
    waiting. All ranks can go on to the next trial.
    Raises ValueError for an unknown name, and for another number of ranks.
    """
    find_schedule(schedule)
    made = find_wrapping(wrapping)
    if dist.get_world_size() != 4:
        raise ValueError(f"a trial takes 4 ranks, but world_size is {dist.get_world_size()}")
    of = schedule, wrapping, microbatches
    try:
        plan = PipelinePlan(schedule, 2, microbatches, replicas=2)
    except ValueError as error:
        return Outcome(*of, CANNOT, message=str(error))
    found, step, message = _run(Trial(plan, made, timeout, layers), steps)
    errors, missing = tuple(error for error, _ in found), max((n for _, n in found), default=0)
    if message:
        verdict = CANNOT if message.startswith(NOT_HERE) else RAISES
        return Outcome(*of, verdict, errors, missing, step, message)
    wrong = missing or not max(errors) <= TOLERANCE  # NaN is wrong
    return Outcome(*of, WRONG if wrong else RIGHT, errors, missing)


def _run(trial: Trial, steps: int) -> tuple[list[tuple[float, int]], int, str]:
    """What each step gave; if one raised on any rank: which (0: before the first), and what."""
    found, step, message = [], 0, ""
    try:
        with quiet():
            trial.build()
            while step < steps:
                step += 1
                found.append(trial.step())
    except Exception as raised:  # what the wrapping does is the question
        message = first_line(raised)
    trial.close(failed=bool(message))
    return found, *_agree(step, message)


def _agree(step: int, message: str) -> tuple[int, str]:
    """Step and message of the rank that raised first; what waiting ranks were told comes last."""
    raised = [(at, "gloo" in line, line) for at, line in gather((step, message)) if line]
    at, _, line = min(raised, default=(0, False, ""))
    return at, line
