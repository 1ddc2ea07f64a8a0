"""What a kind of fault is, and the table of all kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rankbook.testbed.faults.target import Injection, Target

NAMES = ("a", "b", "c")  # of agents
TIMEOUT = 20.0  # seconds after which a rank gives up waiting for another

Inject = Callable[[Target, float], Injection]


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault. inject: makes it happen to a `Target`, given a number in [0, 1).

    sudden: whether it may come while the job still recovers from the fault before it. nodes: how
    many more there are after it. steps: how many are done meanwhile. timeout: seconds after which
    a rank gives up waiting for another. small_disk: whether it needs a disk that can be filled;
    clocks: clocks that can be set; hosts: hosts with a cable between them, and two nodes at most.
    """

    name: str
    inject: Inject
    sudden: bool = False
    nodes: int = 0
    steps: int = 0
    timeout: float = TIMEOUT
    small_disk: bool = False
    clocks: bool = False
    hosts: bool = False

    @property
    def description(self) -> str:
        """What happens, in a sentence: the first line of the function's docstring."""
        return (self.inject.__doc__ or "").partition("\n")[0]


KINDS: dict[str, FaultKind] = {}  # by name, in the order in which they joined


def fault_kind(**traits: Any) -> Callable[[Inject], Inject]:
    """Enter the function below in `KINDS`, under its name; `traits` are fields of `FaultKind`."""

    def enter(inject: Inject) -> Inject:
        KINDS[inject.__name__] = FaultKind(inject.__name__, inject, **traits)
        return inject

    return enter
