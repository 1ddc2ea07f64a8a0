"""Waiting for what a test needs to have happened: it is looked for until it is there.

No test sleeps for a time in which it should have happened, and none says how fast it was.
"""

import time
from collections.abc import Callable
from typing import TypeVar

SOON = 900.0  # seconds, for what takes moments on a free machine: what has not happened then hangs
LOOK = 0.02  # seconds between two looks

Found = TypeVar("Found")


def until(
    happened: Callable[[], Found],
    said: Callable[[], object] = lambda: "nothing",
    goes_on: Callable[[], bool] = lambda: True,
) -> Found:
    """What `happened` gives, as soon as that is true.

    Fails with what `said` gives after `SOON`, or where `goes_on` no longer holds: the program that
    should bring it about has ended.
    """
    end = time.monotonic() + SOON
    while not (found := happened()):
        if not goes_on():
            if found := happened():  # between the two looks
                break
            raise AssertionError(f"it ended, and this has not happened; it said: {said()}")
        assert time.monotonic() < end, f"it has not happened in {SOON:.0f} s; said: {said()}"
        time.sleep(LOOK)
    return found
