"""A job in training as the faults see it: whom they hit, and when it is over."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rankbook.testbed.faults.clocks import Clocks
from rankbook.testbed.faults.disk import SmallDisk
from rankbook.testbed.faults.elastic_job import ElasticJob, Stuck
from rankbook.testbed.faults.slow_disk import SlowDisk
from rankbook.testbed.hosts import Host
from rankbook.training.checkpoint import Store

T = TypeVar("T")


class Injection(NamedTuple):
    """A fault that has been injected, and what must hold after it.

    time: when (unix seconds). over: whether an event is of a process that steps only when the job
    is over it; such a step must come. sign: the name of an event that must come, too, or "".
    """

    time: float
    over: Callable[[dict], bool]
    sign: str = ""


@dataclass
class Target:
    """A job in training as the faults see it.

    start: starts so many agents of it anew, as a scheduler does when all have ended. timeout:
    seconds after which a rank gives up waiting for another. slow: how long its workers' fsync
    takes. disk: where the checkpoints are, if it can be filled. clocks: of its nodes, if they can
    be set. hosts: that its nodes are on, if it has some of its own.
    """

    job: ElasticJob
    start: Callable[[int], None]
    checkpoints: Store
    timeout: float
    slow: SlowDisk
    disk: SmallDisk | None = None
    clocks: Clocks | None = None
    hosts: tuple[Host, Host] | None = None

    def guest(self, draw: float) -> str:
        """A node that does not host the store."""
        return choose([node for node in self.job.staying if node != self.job.host], draw)

    def signal_worker(self, signum: int, draw: float) -> int:
        """Send a signal to some worker; return its process id."""
        while True:
            alive = self.job.wait("a worker that runs", self.job.alive)
            # it may end by itself in this moment, when the job still recovers from something
            with contextlib.suppress(KeyError, ProcessLookupError):
                return self.job.signal_worker(choose(sorted(alive), draw), signum)

    def kill_workers(self, ranks: Sequence[int]) -> None:
        """SIGKILL to these ranks in one instant, as far as they still run."""
        alive = self.job.alive()
        for rank in ranks:
            with contextlib.suppress(KeyError, ProcessLookupError):
                os.kill(alive[rank], signal.SIGKILL)

    def restart_expected(self, sign: str = "") -> Injection:
        """An injection made now that ends all workers: others step when the job is over it."""
        old = {event["pid"] for event in self.job.read()} | set(self.job.alive().values())
        return Injection(self.job.now(), lambda event: event["pid"] not in old, sign)

    def departure_expected(self, node: str) -> Injection:
        """An injection made now that ends the agent of `node`.

        Nobody misses one that has no workers while others have some: its clock was wrong, say.
        """
        alive = self.job.alive()
        if alive and not self.job.alive(node):
            return Injection(self.job.now(), lambda event: True)
        return self.restart_expected()

    @contextlib.contextmanager
    def cable_pulled(self) -> Iterator[None]:
        """For the length of a ``with``: the two hosts do not reach each other."""
        assert self.hosts is not None, "the driver gives hosts to a kind that needs some"
        self.hosts[1].cut()
        try:
            yield
        finally:
            self.hosts[1].mend()

    @contextlib.contextmanager
    def clock_wrong(self, node: str, seconds: float) -> Iterator[None]:
        """For the length of a ``with``: the node's clock is ahead by so much, or behind."""
        assert self.clocks is not None, "the driver gives clocks to a kind that needs some"
        self.clocks.set(node, seconds)
        try:
            yield
        finally:
            self.clocks.set(node, 0)

    @contextlib.contextmanager
    def slow_disk(self, seconds: float) -> Iterator[None]:
        """For the length of a ``with``: each fsync takes so much longer."""
        self.slow.set(seconds)
        try:
            yield
        finally:
            self.slow.set(0)

    def wait_saving(self) -> None:
        """Until a checkpoint is being written that was not when this was called."""

        def growing() -> set:
            return set(self.checkpoints.folder.rglob(".step-*.tmp"))

        before = growing()
        self.job.wait("a save under way", lambda: growing() - before)

    def wait_over(self, injection: Injection) -> dict:
        """The first step that shows that the job is over it."""
        return self.job.wait("a step of those who go on", lambda: first_over(self.job, injection))

    def wait_event(self, name: str, after: float) -> dict:
        """The first event `name` seen later than `after` (unix seconds)."""
        return self.job.wait(
            f"the event {name!r}",
            lambda: next(
                (e for e in self.job.events if e["event"] == name and e["seen"] > after), None
            ),
        )


def first_over(job: ElasticJob, injection: Injection) -> dict | None:
    """The first step that shows that the job is over it, if there is one yet."""
    after = (e for e in job.steps() if e["seen"] > injection.time)
    return next((e for e in after if injection.over(e)), None)


def choose(some: Sequence[T], draw: float) -> T:
    """One of `some`, by a number in [0, 1). Raises Stuck if nothing is left."""
    if not some:
        raise Stuck("nothing is left that this could happen to")
    return some[int(draw * len(some))]
