"""Run a trial: does a model on ranks have the gradients of the same model in one process?"""

import logging
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from rankbook.core.agreement import gather
from rankbook.parallel.trials.trial import Trial, TrialSetup

RIGHT, WRONG, RAISES, CANNOT = "right", "SILENTLY WRONG", "raises", "cannot run"
TOLERANCE = 1e-5  # relative, of float32 sums in another order
NOT_HERE = "ImportError", "ModuleNotFoundError"  # of what this torch does not have


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came out of a trial, the same on every rank; a subclass names what was tried.

    verdict: `RIGHT`, `WRONG`, `RAISES`, or `CANNOT` for what its plan, or this torch, does not
    have. errors: of each optimizer step that was finished, the norm of (gradient - the whole
    model's) / norm of the latter, over all ranks. norms: of the same, the relative error of the
    norm before clipping, on the rank where it was largest; none without clipping. missing: how many
    of the model's parameters had no gradient at all, in the step where they were most. step: if it
    raised, in which optimizer step (0: before the first). message: the first line of what.
    """

    verdict: str
    errors: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    missing: int = 0
    step: int = 0
    message: str = ""

    def row(self, without: str, width: int) -> dict:
        """As a result file has it: what was tried first, three digits, no line of torch's source.

        without: what is not measured here, "norms" or "missing". width: of the message.
        """
        digits = {
            name: [float(f"{error:.3g}") for error in getattr(self, name)]
            for name in ("errors", "norms")
        }
        message = textwrap.shorten(self.message, width, placeholder=" ...")
        common = {field.name for field in fields(Outcome)}
        tried = {name: value for name, value in vars(self).items() if name not in common}
        row = tried | vars(self) | digits | {"message": message}
        return {name: value for name, value in row.items() if name != without}


def run_trial(setup: TrialSetup, steps: int, timeout: float) -> Outcome:
    """Train by `setup` for `steps` beside one process; what came out.

    Every step begins with the whole model's parameters, so that its error is its own.

    Call it on all ranks of its mesh. All of it is done on the CPU over gloo groups of its own. A
    rank on which something is raised closes them, so that the others are not left waiting; where
    something still holds on to them, `timeout` seconds end the waiting. All ranks can go on to the
    next trial.
    """
    trial = Trial(setup, timeout)
    step, message = _run(trial, steps)
    trial.close(failed=bool(message))
    if message:
        verdict = CANNOT if message.startswith(NOT_HERE) else RAISES
    else:
        close = all(error <= TOLERANCE for error in (*trial.errors, *trial.norms))  # NaN is not
        verdict = RIGHT if close and not trial.missing else WRONG
    return Outcome(
        verdict=verdict,
        errors=tuple(trial.errors),
        norms=tuple(trial.norms),
        missing=trial.missing,
        step=step,
        message=message,
    )


def _run(trial: Trial, steps: int) -> tuple[int, str]:
    """Build and step; if it raised on any rank: in which step (0: before the first), and what."""
    parts = [(0, trial.build), *((n, part) for n in range(1, steps + 1) for part in trial.parts)]
    message = ""
    for step, part in parts:
        try:
            with _quiet():
                part()
        except Exception as raised:  # what it does is the question
            message = _first_line(raised)
            raised.__traceback__ = None  # it holds on to the groups
        if message:
            trial.close(failed=True)  # ranks that wait in one of its groups are told so
        # the world's group is used by all of them, or by none
        if message := _agree(message):
            return step, message
    return 0, ""


def _agree(message: str) -> str:
    """What some rank raised; what waiting ranks were told comes last."""
    return min((("gloo" in line, line) for line in gather(message) if line), default=(0, ""))[1]


def _first_line(error: BaseException) -> str:
    """The type and the first words of what was raised, at the bottom of its causes."""
    while error.__cause__:  # stages say where, and name as the cause what it was
        error = error.__cause__
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings, and the whole schedule in the log when one of its actions fails."""
    log = logging.getLogger("torch.distributed.pipelining.schedules")
    before = log.disabled
    log.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = before
