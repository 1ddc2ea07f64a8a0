"""All checks one after the other, each within its time."""

import importlib
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from rankbook.doctor.finding import Finding, Options, problem, skipped

CHECKS = {  # the files of this folder that look at something, and how many seconds of a minute
    "versions": 25,
    "environment": 5,
    "gpus": 25,
    "mesh": 10,
    "memory": 5,
    "network": 10,
    "all_nodes": 15,
    "links": 15,
    "clock": 10,
    "disk": 15,
    "data": 10,
    "round_trip": 40,
}


class Examination(NamedTuple):
    """The findings by check, in the order of CHECKS; which machine it was; how long it took."""

    findings: list[tuple[str, Finding]]
    machine: dict
    seconds: float

    def count(self, level: str) -> int:
        """How many findings are of `level`."""
        return sum(finding.level == level for _, finding in self.findings)

    @property
    def problems(self) -> int:
        """How many findings a job would fail of."""
        return self.count("problem")


def examine(options: Options, checks: Mapping[str, float] = CHECKS) -> Examination:
    """Look at everything, one check after the other: a measurement is disturbed by none beside it.

    checks: their names, and the seconds of each at most; whoever gives all more than the usual
    minute gives each more, in proportion. Returns after `options.seconds` at the latest, also where
    a file system or a driver hangs.
    """
    begin, patience = time.monotonic(), max(1.0, options.seconds / Options.seconds)
    found = []
    for check, limit in checks.items():
        left = options.seconds - (time.monotonic() - begin)
        if left <= 0:
            says = f"No time was left of {options.seconds:g} s."
            found.append((check, problem("deadline", says)))
            continue
        within = replace(options, seconds=min(patience * limit, left))
        found += [(check, f) for f in found_within(_findings(check, within), within.seconds)]
    return Examination(found, machine(), time.monotonic() - begin)


def _findings(check: str, options: Options) -> Callable[[], Iterator[Finding]]:
    """What the check yields; what goes wrong with it is a finding, too."""

    def findings() -> Iterator[Finding]:
        try:
            module = importlib.import_module(f"rankbook.doctor.{check}")
            yield from module.findings(options)
        except ModuleNotFoundError as error:
            yield skipped("import", f"Not looked at: this Python has no {error.name}.")
        except Exception as error:
            yield problem("error", f"The doctor's own fault: {type(error).__name__}: {error}.")

    return findings


def found_within(findings: Callable[[], Iterator[Finding]], seconds: float) -> list[Finding]:
    """What is found within `seconds`; what hangs is left behind in a thread of its own."""
    found: list[Finding] = []

    def work() -> None:
        for finding in findings():
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
