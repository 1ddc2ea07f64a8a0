"""The kinds that joined later: cables, clocks, slow disks, two at once, and at the worst moment.

A new kind comes at the end of this file; `plan.COUNTS` says which seeds draw from how many.
"""

import signal
import time

from rankbook.testbed.faults import kinds
from rankbook.testbed.faults.kind import KINDS, fault_kind
from rankbook.testbed.faults.target import Injection, Target, choose

__all__ = ["KINDS"]  # complete when this module is loaded

CUT = 1.5  # seconds without a cable that nobody misses: a heartbeat is missed after 5
WRONG = 2.0  # seconds for which a clock is wrong: two heartbeats
SLOW = 0.6  # seconds that fsync takes on a slow disk


@fault_kind(hosts=True)
def link_cut_briefly(target: Target, draw: float) -> Injection:
    """The cable is pulled, and put back so soon that nobody gives up."""
    old, began = set(target.job.alive().values()), target.job.now()
    with target.cable_pulled():
        time.sleep(CUT)
    return Injection(began + CUT, lambda event: event["pid"] in old)


@fault_kind(hosts=True, nodes=-1, timeout=4.0)
def link_cut(target: Target, draw: float) -> Injection:
    """The cable is pulled until the node without the store has ended by itself."""
    guest = target.guest(draw)
    injection = target.departure_expected(guest)
    with target.cable_pulled():
        target.job.let_end(guest)
    return injection


@fault_kind(steps=8, timeout=4.0)
def disk_slow(target: Target, draw: float) -> Injection:
    """Each fsync takes a second, or longer than ranks wait for each other, for some saves."""
    began = target.job.now()

    def enough() -> bool:
        named = [event["event"] for event in target.job.events if event["seen"] > began]
        # a new start: the folder is tried out before ranks join, so they may not get further
        return "leave" in named or "start" in named or named.count("save") == 2

    with target.slow_disk(1.0 if draw < 0.5 else target.timeout + 2.0):
        target.job.wait("two saves, or a rank that gives up", enough)
    return Injection(target.job.now(), lambda event: True)


@fault_kind(clocks=True, steps=20)
def clock_jumps(target: Target, draw: float) -> Injection:
    """A node's clock jumps by seconds to hours, ahead or back, and is put right after a while."""
    with target.clock_wrong(choose(target.job.staying, draw), shift(draw)):
        time.sleep(WRONG)
    return Injection(target.job.now(), lambda event: True)


@fault_kind(clocks=True, steps=20)
def clock_wrong_in_restart(target: Target, draw: float) -> Injection:
    """A worker is killed while a node's clock is wrong; the clock is put right when some go on."""
    with target.clock_wrong(choose(target.job.staying, draw), shift(draw)):
        time.sleep(WRONG)
        injection = target.restart_expected()
        target.signal_worker(signal.SIGKILL, draw)
        target.wait_over(injection)
    return injection


@fault_kind(sudden=True)
def two_workers_killed(target: Target, draw: float) -> Injection:
    """SIGKILL to two workers in the same instant, of one node or of two."""
    ranks = sorted(target.job.wait("a worker that runs", target.job.alive))
    one = choose(ranks, draw)
    injection = target.restart_expected()
    target.kill_workers([one, choose([r for r in ranks if r != one] or ranks, 7 * draw % 1)])
    return injection


@fault_kind(sudden=True, nodes=-1)
def worker_and_node_killed(target: Target, draw: float) -> Injection:
    """SIGKILL to a node, and in the same instant to a worker of another."""
    guest, injection = target.guest(draw), target.restart_expected()
    others = [node for node in target.job.staying if node != guest]
    target.kill_workers([rank for node in others for rank in target.job.alive(node)][:1])
    target.job.kill_node(guest)
    return injection


@fault_kind(steps=5)
def killed_in_save(target: Target, draw: float) -> Injection:
    """SIGKILL while a checkpoint is being written: to a worker, or to everything."""
    with target.slow_disk(SLOW):
        target.wait_saving()
        if draw < 0.3:
            return kinds.everything_killed(target, draw)
        return kinds.worker_killed(target, (draw - 0.3) / 0.7)


@fault_kind(nodes=-1)
def agent_killed_in_rendezvous(target: Target, draw: float) -> Injection:
    """SIGKILL to an agent while all of them meet, as a worker has died."""
    guest = target.guest(draw)
    target.signal_worker(signal.SIGKILL, draw)
    target.job.wait("agents without workers", lambda: not target.job.alive())
    time.sleep(2 * draw)  # from before the others have come to after the ranks are dealt
    injection = target.departure_expected(guest)
    target.job.signal_agent(guest, signal.SIGKILL)
    return injection


@fault_kind()
def worker_killed_at_birth(target: Target, draw: float) -> Injection:
    """SIGKILL to a worker that has just been started anew, before its group is complete."""
    old = set(target.job.alive().values())
    target.signal_worker(signal.SIGKILL, draw)
    target.job.wait("a new worker", lambda: set(target.job.alive().values()) - old)
    return kinds.worker_killed(target, draw)


def shift(draw: float) -> float:
    """Seconds, from 10 to 10,000, either way: ahead in half of the cases."""
    size = 10 ** (1 + 3 * (2 * draw % 1))
    return round(size if draw < 0.5 else -size, 1)
