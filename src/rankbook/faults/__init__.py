"""Faults on purpose: jobs of several agents, what can go wrong with them, and what must not."""

from rankbook.later import later

_LATER = {
    "CannotMount": "disk",
    "Driver": "driver",
    "Fault": "plan",
    "Job": "job",
    "KINDS": "plan",
    "Plan": "plan",
    "QUICK": "job",
    "Run": "run",
    "Stuck": "job",
    "draw_plan": "plan",
}

__all__ = [*_LATER]
__getattr__ = later(__name__, _LATER)


def __dir__() -> list[str]:
    return __all__
