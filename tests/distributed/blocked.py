"""Whether a process is in a call in which it waits for another: found out, not slept for."""

import time

import psutil

LOOKS, BETWEEN = 20, 0.02  # seconds between two looks: longer in all than a step's pace


def blocked(pid: int) -> bool:
    """Whether the main thread of `pid` sleeps at all of some looks, and never woke up between.

    The kernel counts how often a thread has gone to sleep. One that has slept long enough is awake
    then, or waits for a core, on however slow a machine: only who waits for somebody sleeps on.
    """
    seen = {_look(pid)}
    for _ in range(LOOKS):
        time.sleep(BETWEEN)
        seen.add(_look(pid))
    return len(seen) == 1 and seen.pop()[0] == psutil.STATUS_SLEEPING


def _look(pid: int) -> tuple[str, int]:
    """What its main thread does, and how often it has gone to sleep so far."""
    process = psutil.Process(pid)
    return process.status(), process.num_ctx_switches().voluntary
