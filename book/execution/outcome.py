"""What came of an execution."""

from dataclasses import asdict, dataclass, field


@dataclass
class Failure:
    """Why a page stopped.

    kind: "raised" (a cell did), "died" (a process of it), "stalled" (nothing in it got on).
    cell: its id; "" before the first. reason: one line. report: what the cell showed.
    """

    kind: str
    cell: str
    reason: str
    report: str = ""


@dataclass
class Outcome:
    """An execution: the notebook in `executed`, seconds by the clock, and what it took.

    cpu: seconds of processor time, of all its processes. peak_bytes: the most memory they held at
    one time, 0 where nobody looked. by_process, by_cell: seconds of processor time where they were
    seen; what lives for less than a second may be in `cpu` only.
    """

    executed: str
    seconds: float = 0.0
    cpu: float = 0.0
    peak_bytes: int = 0
    by_process: dict[str, float] = field(default_factory=dict)
    by_cell: dict[str, float] = field(default_factory=dict)
    failure: Failure | None = None

    @classmethod
    def of(cls, facts: dict) -> "Outcome":
        """From what `as_dict` gave."""
        failure = facts.pop("failure")
        return cls(**facts, failure=Failure(**failure) if failure else None)

    def as_dict(self) -> dict:
        """As JSON can hold it."""
        return asdict(self)
