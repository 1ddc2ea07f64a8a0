"""What can go wrong, one function a kind: each makes it happen to a job that trains."""

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

from rankbook.faults.victim import Blow, Victim, choose

NAMES = ("a", "b", "c")
BRIEFLY = 0.4  # seconds that a worker is stopped and nobody misses it


def worker_killed(victim: Victim, draw: float) -> Blow:
    """SIGKILL to a worker, as when memory runs out."""
    blow = victim.renewed()
    victim.signal_worker(signal.SIGKILL, draw)
    return blow


def worker_terminated(victim: Victim, draw: float) -> Blow:
    """SIGTERM to a worker."""
    blow = victim.renewed()
    victim.signal_worker(signal.SIGTERM, draw)
    return blow


def worker_paused_briefly(victim: Victim, draw: float) -> Blow:
    """SIGSTOP, and SIGCONT so soon that nobody gives up: it goes on itself."""
    began, pid = time.time(), _pause(victim, draw, BRIEFLY)
    return Blow(began, lambda event: event["pid"] == pid)


def worker_paused_long(victim: Victim, draw: float) -> Blow:
    """SIGSTOP until the others have given up, then SIGCONT, if it still lives."""
    alone = len(victim.job.alive()) == 1  # then nobody misses it
    blow = victim.renewed()
    pid = _pause(victim, draw, victim.timeout + 1.0)
    return Blow(blow.time, lambda event: event["pid"] == pid) if alone else blow


def agent_killed(victim: Victim, draw: float) -> Blow:
    """SIGKILL to an agent; its workers end with it."""
    blow = victim.renewed()
    victim.job.signal_agent(victim.guest(draw), signal.SIGKILL)
    return blow


def node_killed(victim: Victim, draw: float) -> Blow:
    """SIGKILL to an agent and to its workers at once."""
    blow = victim.renewed()
    victim.job.kill_node(victim.guest(draw))
    return blow


def node_joins(victim: Victim, draw: float) -> Blow:
    """One more agent: over when it takes part."""
    began = time.time()
    name = choose([name for name in NAMES if name not in victim.job.running], draw)
    victim.job.start(name)
    return Blow(began, lambda event: event["node"] == name)


def node_leaves(victim: Victim, draw: float) -> Blow:
    """SIGTERM to an agent, as when a machine is wanted back."""
    blow = victim.renewed()
    victim.job.signal_agent(victim.guest(draw), signal.SIGTERM)
    return blow


def store_host_killed(victim: Victim, draw: float) -> Blow:
    """SIGKILL to the agent that hosts the store: that ends the job, which is started anew."""
    nodes, blow = len(victim.job.staying), victim.renewed()
    victim.job.signal_agent(victim.job.host, signal.SIGKILL)
    victim.job.wait_ended()
    victim.start(nodes)
    return blow


def everything_killed(victim: Victim, draw: float) -> Blow:
    """The power goes; the job is started anew."""
    nodes, blow = victim.job.staying, victim.renewed()
    for node in nodes:
        victim.job.kill_node(node)
    victim.job.wait_ended()
    victim.start(len(nodes))
    return blow


def disk_full(victim: Victim, draw: float) -> Blow:
    """No room for a checkpoint; in half of the cases a worker dies before there is some again."""
    began = time.time()
    victim.disk.fill()
    try:
        victim.wait_event("save failed", began)
        if draw >= 0.5:
            return Blow(time.time(), lambda event: True)
        blow = victim.renewed()
        victim.signal_worker(signal.SIGKILL, draw * 2)
        victim.wait_event("resume", blow.time)
        return blow
    finally:
        victim.disk.free()


def newest_damaged(victim: Victim, draw: float) -> Blow:
    """The newest checkpoint has a flipped byte, or has lost its end, when a worker dies."""
    before = victim.checkpoints.paths()
    newest = victim.job.wait(
        "another checkpoint",
        lambda: next((path for path in victim.checkpoints.paths()[:1] if path not in before), None),
    )
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    damage(choose(files, draw) if newest.is_dir() else newest, draw)
    blow = victim.renewed("passed over")
    victim.signal_worker(signal.SIGKILL, draw)
    # a newer one may have come in between: then the damaged one is not looked at
    newer = victim.checkpoints.paths()[0] != newest
    return blow._replace(sign="") if newer else blow


def damage(file: Path, draw: float) -> None:
    """Flip a bit of the file, or cut it, somewhere: `draw` chooses."""
    content = bytearray(file.read_bytes())
    place = int(draw * len(content))
    if draw < 0.5:
        content[place] ^= 1
    file.write_bytes(content if draw < 0.5 else content[:place])


def _pause(victim: Victim, draw: float, seconds: float) -> int:
    process = psutil.Process(victim.signal_worker(signal.SIGSTOP, draw))
    began = process.create_time()
    time.sleep(seconds)
    with contextlib.suppress(psutil.NoSuchProcess):
        if psutil.Process(process.pid).create_time() == began:  # nobody else's number by now
            os.kill(process.pid, signal.SIGCONT)
    return process.pid
