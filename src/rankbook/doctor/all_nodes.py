"""The doctors of all nodes of a Slurm step meet in the checkpoint folder: is it one folder?

And how far are their clocks apart? They write down the hour, and read that of the others; no port
is opened. ``srun --nodes=2 --ntasks-per-node=1 rankbook doctor --checkpoints DIR``
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rankbook.core.atomic import hand_over
from rankbook.doctor.clock import DEAD, LATE
from rankbook.doctor.disk import lasting
from rankbook.doctor.finding import Finding, Options, number, ok, problem, skipped, warning

PAUSE = 0.01  # seconds between two looks
ENOUGH = 20  # times that the hour of each was read; the quickest reading counts


class Clock(NamedTuple):
    """How many seconds our clock is ahead of another node's, give or take `error`."""

    ahead: float
    error: float


def findings(options: Options) -> Iterator[Finding]:
    """Meet the doctors of the other nodes, where Slurm says that there are some."""
    environment = os.environ
    count = number(environment, "SLURM_STEP_NUM_NODES") or 1
    if count < 2 or environment.get("SLURM_LOCALID", "0") != "0":
        yield skipped("shared folder", "Nodes: run it on all of them at once (srun --nodes=2 ...).")
        return
    step = f"{environment['SLURM_JOB_ID']}.{environment['SLURM_STEP_ID']}"
    folder, name = lasting(options.checkpoints), environment["SLURMD_NODENAME"]
    try:
        clocks = meet(folder / f".rankbook-doctor-{step}", name, count, options.seconds - 1)
    except OSError as error:
        yield problem("shared folder", f"Nothing can be written to {folder} ({error.strerror}).")
        return
    yield from met(folder, clocks, count, options.seconds - 1)


def met(folder: Path, clocks: dict[str, Clock], count: int, seconds: float) -> Iterator[Finding]:
    """What a meeting of `seconds` at most tells. clocks: those of the nodes that were met."""
    value = {"nodes": count, "met": sorted(clocks)}
    if len(clocks) < count - 1:
        who = f" ({', '.join(sorted(clocks))})" if clocks else ""
        says = f"{len(clocks)} of {count - 1} other nodes{who} came to {folder} in {seconds:.0f} s:"
        yield problem("shared folder", f"{says} name a folder that all nodes share.", value)
    else:
        yield ok("shared folder", f"All {count} nodes see {folder}.", value)
    if clocks:
        yield apart(clocks)


def apart(clocks: dict[str, Clock]) -> Finding:
    """The clock that is the farthest from ours."""
    name, far = max(clocks.items(), key=lambda item: abs(item[1].ahead) - item[1].error)
    off = abs(far.ahead) - far.error
    value = {n: {"ahead": round(c.ahead, 3), "error": round(c.error, 3)} for n, c in clocks.items()}
    says = f"This clock and {name}'s are {abs(far.ahead):.2f} s apart, give or take {far.error:.2f}"
    if off >= DEAD:
        says += ": the agent that is ahead counts the other as dead then; set the clocks (chrony)."
        return problem("clocks", says, value)
    if off >= LATE:
        return warning("clocks", f"{says}: logs cannot be put in order; set the clocks.", value)
    return ok("clocks", f"{says}.", value)


def meet(
    folder: Path, name: str, count: int, seconds: float, now: Callable[[], float] = time.time
) -> dict[str, Clock]:
    """The clocks of those of the `count` nodes that are met in `folder` within `seconds`.

    name: of this node. now: its clock. Nobody leaves before all have read enough, so that a file
    that was there and is gone is that of a node that has; the last one takes the folder away.
    """
    end = time.monotonic() + seconds
    others: dict[str, dict] = {}  # by node, the last that it wrote
    delays: dict[str, list[float]] = {}  # by node, seconds by both clocks until it was read
    try:
        while time.monotonic() < end:
            ready = len(delays) == count - 1 and min(map(len, delays.values())) >= ENOUGH
            folder.mkdir(exist_ok=True)
            quickest = {other: min(seen) for other, seen in delays.items()}
            note = {"time": now(), "ready": ready, "delays": quickest}
            hand_over(folder / name, json.dumps(note))
            here = _read(folder, name)
            for other, note in here.items():
                if note["time"] != others.get(other, {}).get("time"):
                    delays.setdefault(other, []).append(now() - note["time"])
            gone = others.keys() - here.keys()
            others |= here
            if ready and all(note["ready"] for o, note in others.items() if o not in gone):
                break
            time.sleep(PAUSE)
    finally:
        (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others are still in it
            folder.rmdir()
    return {
        other: _clock(min(delays[other]), note["delays"][name])
        for other, note in others.items()
        if name in note["delays"]
    }


def _clock(ours: float, theirs: float) -> Clock:
    """Each delay is the true one, plus or minus what the clocks differ, as in NTP (RFC 5905)."""
    return Clock((ours - theirs) / 2, (ours + theirs) / 2)


def _read(folder: Path, name: str) -> dict[str, dict]:
    """What the others wrote. The folder is listed each time: a file server's clients look then."""
    notes = {}
    for path in folder.iterdir():
        if path.name != name and not path.name.startswith("."):
            with contextlib.suppress(FileNotFoundError):  # it has just left
                notes[path.name] = json.loads(path.read_text())
    return notes
