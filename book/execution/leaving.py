"""A process that leaves nothing behind: what it started, and what that started, ends with it."""

import ctypes
import os
from contextlib import suppress

import psutil

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """What is orphaned below this process becomes its child, not init's. Linux."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below() -> list[psutil.Process]:
    """All processes below this one."""
    with suppress(psutil.Error):
        return psutil.Process().children(recursive=True)
    return []


def end_all_below() -> None:
    """End every process below this one, and wait until none is left."""
    while left := below():
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                pass
