"""What all trials have in common: their verdicts, and how they are run and reported.

A trial puts a model on ranks in some way, and compares what it does with the model in one process.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

RIGHT, WRONG, RAISES, CANNOT = "right", "SILENTLY WRONG", "raises", "cannot run"
TOLERANCE = 1e-5  # relative, of float32 sums in another order


def first_line(error: BaseException) -> str:
    """The type and the first words of what was raised, at the bottom of its causes."""
    while error.__cause__:  # stages say where, and name as the cause what it was
        error = error.__cause__
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


@contextmanager
def quiet() -> Iterator[None]:
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
