"""The first dozen kinds: each is one function here, with what is said of it above it.

The seeds up to 199 draw from these; see `hard_kinds` for those that joined later.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

from rankbook.testbed.faults.kind import NAMES, fault_kind
from rankbook.testbed.faults.target import Injection, Target, choose

BRIEFLY = 0.4  # seconds that a worker is stopped and nobody misses it


def damage(file: Path, draw: float) -> None:
    """Flip a bit of the file, or cut it, somewhere: `draw`, in [0, 1), chooses."""
    content = bytearray(file.read_bytes())
    place = int(draw * len(content))
    if draw < 0.5:
        content[place] ^= 1
    file.write_bytes(content if draw < 0.5 else content[:place])


def _pause(target: Target, draw: float, seconds: float) -> int:
    """Stop a worker for so long; its process id."""
    process = psutil.Process(target.signal_worker(signal.SIGSTOP, draw))
    began = process.create_time()
    time.sleep(seconds)
    with contextlib.suppress(psutil.NoSuchProcess):
        if psutil.Process(process.pid).create_time() == began:  # nobody else's number by now
            os.kill(process.pid, signal.SIGCONT)
    return process.pid


@fault_kind(sudden=True)
def worker_killed(target: Target, draw: float) -> Injection:
    """SIGKILL to a worker, as when memory runs out."""
    injection = target.restart_expected()
    target.signal_worker(signal.SIGKILL, draw)
    return injection


@fault_kind(sudden=True)
def worker_terminated(target: Target, draw: float) -> Injection:
    """SIGTERM to a worker."""
    injection = target.restart_expected()
    target.signal_worker(signal.SIGTERM, draw)
    return injection


@fault_kind()
def worker_paused_briefly(target: Target, draw: float) -> Injection:
    """SIGSTOP, and SIGCONT so soon that nobody gives up: it goes on itself."""
    began, pid = target.job.now(), _pause(target, draw, BRIEFLY)
    return Injection(began, lambda event: event["pid"] == pid)


@fault_kind(timeout=4.0)
def worker_paused_long(target: Target, draw: float) -> Injection:
    """SIGSTOP until the others have given up, then SIGCONT, if it still lives."""
    alone = len(target.job.alive()) == 1  # then nobody misses it
    injection = target.restart_expected()
    pid = _pause(target, draw, target.timeout + 1.0)
    return Injection(injection.time, lambda event: event["pid"] == pid) if alone else injection


@fault_kind(sudden=True, nodes=-1)
def agent_killed(target: Target, draw: float) -> Injection:
    """SIGKILL to an agent; its workers end with it."""
    guest = target.guest(draw)
    injection = target.departure_expected(guest)
    target.job.signal_agent(guest, signal.SIGKILL)
    return injection


@fault_kind(sudden=True, nodes=-1)
def node_killed(target: Target, draw: float) -> Injection:
    """SIGKILL to an agent and to its workers at once."""
    guest = target.guest(draw)
    injection = target.departure_expected(guest)
    target.job.kill_node(guest)
    return injection


@fault_kind(sudden=True, nodes=+1, steps=25)
def node_joins(target: Target, draw: float) -> Injection:
    """One more agent: over when it takes part."""
    began = target.job.now()
    name = choose([name for name in NAMES if name not in target.job.running], draw)
    target.job.start(name)
    return Injection(began, lambda event: event["node"] == name)


@fault_kind(nodes=-1)
def node_leaves(target: Target, draw: float) -> Injection:
    """SIGTERM to an agent, as when a machine is wanted back."""
    guest = target.guest(draw)
    injection = target.departure_expected(guest)
    target.job.signal_agent(guest, signal.SIGTERM)
    return injection


@fault_kind()
def store_host_killed(target: Target, draw: float) -> Injection:
    """SIGKILL to the agent that hosts the store: that ends the job, which is started anew."""
    nodes, injection = len(target.job.staying), target.restart_expected()
    target.job.signal_agent(target.job.host, signal.SIGKILL)
    target.job.wait_ended()
    target.start(nodes)
    return injection


@fault_kind()
def everything_killed(target: Target, draw: float) -> Injection:
    """The power goes; the job is started anew."""
    nodes, injection = target.job.staying, target.restart_expected()
    for node in nodes:
        target.job.kill_node(node)
    target.job.wait_ended()
    target.start(len(nodes))
    return injection


@fault_kind(steps=4, small_disk=True)
def disk_full(target: Target, draw: float) -> Injection:
    """No room for a checkpoint; in half of the cases a worker dies before there is some again."""
    assert target.disk is not None, "the driver gives a small disk to a kind that needs one"
    began = target.job.now()
    target.disk.fill()
    try:
        target.wait_event("save failed", began)
        if draw >= 0.5:
            return Injection(target.job.now(), lambda event: True)
        injection = target.restart_expected()
        target.signal_worker(signal.SIGKILL, draw * 2)
        target.wait_event("resume", injection.time)
        return injection
    finally:
        target.disk.free()


@fault_kind(steps=4)
def newest_damaged(target: Target, draw: float) -> Injection:
    """The newest checkpoint has a flipped byte, or has lost its end, when a worker dies."""
    before = target.checkpoints.paths()

    def another() -> Path | None:
        paths = target.checkpoints.paths()
        # with one behind it: a run whose only checkpoint is damaged rightly refuses to begin anew
        return paths[0] if len(paths) > 1 and paths[0] not in before else None

    newest = target.job.wait("another checkpoint", another)
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    damage(choose(files, draw) if newest.is_dir() else newest, draw)
    injection = target.restart_expected("passed over")
    target.signal_worker(signal.SIGKILL, draw)
    # a newer one may have come in between: then the damaged one is not looked at
    newer = target.checkpoints.paths()[0] != newest
    return injection._replace(sign="") if newer else injection
