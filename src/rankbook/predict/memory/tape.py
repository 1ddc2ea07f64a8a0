"""What a watched step held, moment by moment."""

from dataclasses import dataclass, field

KINDS = ("parameters", "gradients", "optimizer", "gathered", "buffers", "activations", "logits")
HOST = "host"


@dataclass(frozen=True)
class Tape:
    """A step: `moments` are bytes by part after each operation (of a GPU: allocation).

    begins: at which moment "forward", "backward" (the first microbatch's) and "update" begin. The
    parts are `memory_of`'s, but for workspace, which is with the activations; and "host", what
    waits in the host's memory: it does not count. resident: bytes by which the process grew in such
    a step, as the kernel says, or those of which torch's allocator knows on a GPU; None if unknown.
    entries: (birth, death, bytes, part) of each storage, moments of the step; born before: 0.
    """

    moments: list[dict[str, int]]
    begins: dict[str, int]
    loss: float = 0.0
    resident: int | None = None
    entries: list[tuple[int, int, int, str]] = field(default_factory=list, repr=False)
    totals: list[int] = field(default_factory=list, repr=False)

    def __post_init__(self):
        sums = (sum(size for part, size in m.items() if part != HOST) for m in self.moments)
        self.totals.extend(sums)

    @property
    def fullest(self) -> int:
        """Which moment is the fullest."""
        return max(range(len(self.totals)), key=self.totals.__getitem__)

    @property
    def peak(self) -> dict[str, int]:
        """Bytes by part at the fullest moment."""
        return self.moments[self.fullest]

    @property
    def total(self) -> int:
        """Bytes at the fullest moment, those on the host not among them."""
        return self.totals[self.fullest]

    @property
    def phase(self) -> str:
        """Where the fullest moment is: "forward", "backward" or "update"."""
        return max((when, name) for name, when in self.begins.items() if when <= self.fullest)[1]

    def most(self, part: str) -> int:
        """The most that `part` ever has in the step."""
        return max(moment[part] for moment in self.moments)
