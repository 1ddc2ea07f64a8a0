"""Counts of what a rank sent, by dimension of the mesh and by operation."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

OTHER = "other"
OPERATIONS = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"),
    *("reduce", "gather", "scatter", "send", "recv", "barrier"),
)


@dataclass(frozen=True)
class Message:
    """One call, of one rank. ranks: of its group. bytes, ring: as in `Count`."""

    dimension: str
    operation: str
    ranks: int
    bytes: int
    ring: float


@dataclass(frozen=True)
class Count:
    """Calls, and their bytes.

    bytes: what the rank hands in. Of an all_reduce the tensor, of an all_gather its own share, of
    a reduce_scatter and an all_to_all all shares, of a broadcast the tensor at its root and
    nothing elsewhere, of a send the message, of a recv nothing.
    ring: what the rank puts on the wire if collectives go round in rings: see `ring_bytes`.
    """

    calls: int = 0
    bytes: int = 0
    ring: float = 0.0


class Sent(Mapping[tuple[str, str], Count]):
    """What was sent: (dimension, operation) to its `Count`; those without a call are left out.

    `messages` has every call, in order.
    """

    def __init__(self, dimensions: Iterable[str] = (), messages: Iterable[Message] = ()):
        self._names = (*dimensions, OTHER)
        self.messages = list(messages)

    def total(self, dimension: str | None = None, operation: str | None = None) -> Count:
        """The sum over what is named, or over all."""
        found = [
            m for m in self.messages
            if dimension in (None, m.dimension) and operation in (None, m.operation)
        ]  # fmt: skip
        return Count(len(found), sum(m.bytes for m in found), sum(m.ring for m in found))

    def by_dimension(self) -> dict[str, Count]:
        """Each dimension that was used, in the order of the mesh; "other" is the last."""
        used = {m.dimension for m in self.messages}
        return {name: self.total(name) for name in self._names if name in used}

    def rows(self) -> list[dict]:
        """A row of a table for each pair: dimension, operation, calls, bytes, ring bytes."""
        return [
            {"dimension": dimension, "operation": operation}
            | {"calls": count.calls, "bytes": count.bytes, "ring bytes": round(count.ring)}
            for (dimension, operation), count in self.items()
        ]

    def __getitem__(self, pair: tuple[str, str]) -> Count:
        if pair not in list(self):
            raise KeyError(pair)
        return self.total(*pair)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        used = {(m.dimension, m.operation) for m in self.messages}
        return ((d, o) for d in self._names for o in OPERATIONS if (d, o) in used)

    def __len__(self) -> int:
        return len({(m.dimension, m.operation) for m in self.messages})

    def __str__(self) -> str:
        lines = [f"{'':24}{'calls':>7}{'bytes':>14}{'by a ring':>14}"]
        lines += [
            f"{d + ' ' + o:24}{count.calls:7,}{count.bytes:14,}{count.ring:14,.0f}"
            for (d, o), count in self.items()
        ]
        return "\n".join(lines if self else ["nothing was sent"])
