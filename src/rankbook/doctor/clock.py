"""Clocks: of agents, which compare their hours, and of the file server, which stamps files."""

import contextlib
import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rankbook.doctor.disk import kind_of, lasting, on_network
from rankbook.doctor.finding import Finding, Options, ok, problem, skipped, warning

LATE = 1.0  # seconds: lines of two nodes' logs cannot be put in order any more
DEAD = 15.0  # seconds: of two torchrun agents, the one ahead then counts the other as dead (below)
UNSYNCHRONISED = 0x0040  # STA_UNSYNC of adjtimex(2)


def findings(options: Options) -> Iterator[Finding]:
    """Whether the clock is set by others, and how far it is from the file server's."""
    yield synchronised(kernel_status())
    folder = lasting(options.checkpoints)
    with contextlib.suppress(OSError):  # an unwritable folder is what the check disk reports
        yield against_files(*file_skew(folder), kind_of(folder))


def kernel_status() -> int | None:
    """The status bits of the kernel's clock, see adjtimex(2); None where nothing tells."""
    if not sys.platform.startswith("linux"):
        return None
    # struct timex: unsigned int modes, four longs, then int status; the rest is not looked at
    timex = (ctypes.c_long * 64)()
    if ctypes.CDLL(None).adjtimex(ctypes.byref(timex)) < 0:
        return None
    return ctypes.c_int.from_buffer(timex, 5 * ctypes.sizeof(ctypes.c_long)).value


def synchronised(status: int | None) -> Finding:
    """status: as `kernel_status` returns it."""
    if status is None:
        return skipped("clock", "Clock: this system does not say who sets it.")
    if status & UNSYNCHRONISED:
        says = "Nothing tells the kernel that its clock is right (NTP): of two nodes 15 s apart, "
        says += "the one ahead counts the other as dead; start chrony or ntpd."
        return warning("clock", says, False)
    return ok("clock", "The clock is kept right by others (NTP).", True)


def file_skew(folder: Path) -> tuple[float, float]:
    """How far this clock is ahead of that of the file system of `folder`, and the error, in s.

    A file is written and flushed; its time is given by the file server, within the time it took.
    """
    with tempfile.TemporaryFile(dir=folder, prefix=".rankbook-doctor-") as file:
        before = time.time()
        file.write(b"tick")
        file.flush()
        os.fsync(file.fileno())
        stamped = os.fstat(file.fileno()).st_mtime
        after = time.time()
    tick = 0.01  # files are stamped by a clock that moves some hundred times a second
    return (before + after) / 2 - stamped, (after - before) / 2 + tick


def against_files(ahead: float, error: float, kind: str) -> Finding:
    """ahead: seconds of this clock before the file system's, give or take `error`; kind: its type.

    torchrun's agents write the hour into the rendezvous and compare it with their own: a node whose
    last word is older than 3 intervals of 5 s is removed. Source: torch 2.13,
    distributed/elastic/rendezvous/dynamic_rendezvous.py, _sanitize.
    """
    value = {"ahead": round(ahead, 3), "error": round(error, 3), "file_system": kind}
    off = max(0.0, abs(ahead) - error)
    way = "ahead of" if ahead > 0 else "behind"
    says = f"The clock is {abs(ahead):.1f} s {way} the file server's ({kind}): "
    if off >= DEAD:
        says += "of two torchrun agents so far apart, the one ahead counts the other as dead; "
        return problem("file clock", f"{says}set it (chrony).", value)
    if off >= LATE:
        return warning("file clock", f"{says}logs cannot be put in order; set it.", value)
    if not on_network(kind):
        says = f"File clock: {kind} is a file system of this machine, so it has the same clock."
        return skipped("file clock", says, value)
    says = f"The clock agrees with the file server's ({kind}) within {abs(ahead) + error:.2f} s."
    return ok("file clock", says, value)
