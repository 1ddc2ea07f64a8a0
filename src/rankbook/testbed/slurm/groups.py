"""Groups of processes (cgroups) for clusters that track theirs: one for each, gone with it.

Version 1 with a freezer. Source: https://docs.kernel.org/admin-guide/cgroup-v1/freezer-subsystem.html
"""

import os
from contextlib import suppress
from pathlib import Path

import psutil

FREEZER = Path("/sys/fs/cgroup/freezer")
PREFIX = "rankbook-cluster-"  # and then the process that the cluster belongs to


def possible() -> bool:
    """Whether this machine lets us make groups."""
    try:
        (probe := FREEZER / f"{PREFIX}{os.getpid()}-probe").mkdir(exist_ok=True)
        probe.rmdir()
    except OSError:
        return False
    return True


def remove(name: str) -> None:
    """Remove the group of a cluster and those in it; no process is left in them."""
    for path, _, _ in os.walk(FREEZER / name, topdown=False):
        with suppress(OSError):  # a process is still on its way out
            Path(path).rmdir()


def remove_what_the_killed_left() -> None:
    """Remove the groups of clusters whose owner was killed."""
    for path in FREEZER.glob(f"{PREFIX}*"):
        pid = path.name.removeprefix(PREFIX).split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            remove(path.name)
