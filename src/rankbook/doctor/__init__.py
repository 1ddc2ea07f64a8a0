"""``rankbook doctor``: what will go wrong on this machine, before a job does.

One room for each kind of finding. A room has a function ``findings(asked)``, which yields what it
finds; it is made of small functions that are given what they look at. Needs nothing but torch.
"""

import importlib
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from rankbook.doctor.finding import Asked, Finding, problem, skipped

ROOMS = {  # and how many seconds each may take
    "versions": 25,
    "environment": 5,
    "gpus": 25,
    "memory": 5,
    "network": 10,
    "meeting": 15,
    "clock": 10,
    "disk": 15,
    "data": 10,
    "round_trip": 40,
}


class Examination(NamedTuple):
    """The findings by room, in the order of ROOMS; which machine it was; how long it took."""

    findings: list[tuple[str, Finding]]
    machine: dict
    seconds: float

    def count(self, level: str) -> int:
        return sum(finding.level == level for _, finding in self.findings)

    @property
    def problems(self) -> int:
        return self.count("problem")


def examine(asked: Asked, rooms: dict[str, float] = ROOMS) -> Examination:
    """Look at everything, one room after the other: a measurement is disturbed by none beside it.

    Returns after `asked.seconds` at the latest, also where a file system or a driver hangs.
    """
    begin = time.monotonic()
    found = []
    for room, limit in rooms.items():
        left = asked.seconds - (time.monotonic() - begin)
        if left <= 0:
            found += [(room, problem("deadline", f"No time was left of {asked.seconds:g} s."))]
            continue
        within = replace(asked, seconds=min(limit, left))
        look = _visit(room, within)
        found += [(room, finding) for finding in until(look, within.seconds)]
    return Examination(found, machine(), time.monotonic() - begin)


def _visit(room: str, asked: Asked) -> Callable[[], Iterator[Finding]]:
    def look():
        try:
            module = importlib.import_module(f"rankbook.doctor.{room}")
            yield from module.findings(asked)
        except ModuleNotFoundError as error:
            yield skipped("import", f"Not looked at: this Python has no {error.name}.")
        except Exception as error:
            yield problem("error", f"The doctor's own fault: {type(error).__name__}: {error}.")

    return look


def until(look: Callable[[], Iterator[Finding]], seconds: float) -> list[Finding]:
    """What `look` finds within `seconds`; what hangs is left behind in a thread of its own."""
    found: list[Finding] = []

    def work():
        for finding in look():
            found.append(finding)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    late = "Hung for {:.0f} s: whatever it looked at would hold up a job, too; see what it is."
    return [*found, problem("deadline", late.format(seconds))] if thread.is_alive() else found


def machine() -> dict:
    """Which machine this is, and when it was looked at: what two documents are told apart by."""
    return {
        "host": socket.gethostname(),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": sys.executable,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }
