"""A job in training as the faults see it: whom they hit, and when it is over."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rankbook.checkpoint import Store
from rankbook.testbed.faults.disk import SmallDisk
from rankbook.testbed.faults.elastic_job import ElasticJob, Stuck

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
    seconds after which a rank gives up waiting for another. disk: where the checkpoints are, if
    it can be filled.
    """

    job: ElasticJob
    start: Callable[[int], None]
    checkpoints: Store
    timeout: float
    disk: SmallDisk | None = None

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

    def restart_expected(self, sign: str = "") -> Injection:
        """An injection made now that ends all workers: others step when the job is over it."""
        old = {event["pid"] for event in self.job.read()} | set(self.job.alive().values())
        return Injection(time.time(), lambda event: event["pid"] not in old, sign)

    def wait_event(self, name: str, after: float) -> dict:
        """The first event `name` later than `after` (unix seconds)."""
        return self.job.wait(
            f"the event {name!r}",
            lambda: next(
                (e for e in self.job.events if e["event"] == name and e["time"] > after), None
            ),
        )


def choose(some: Sequence[T], draw: float) -> T:
    """One of `some`, by a number in [0, 1). Raises Stuck if nothing is left."""
    if not some:
        raise Stuck("nothing is left that this could happen to")
    return some[int(draw * len(some))]
