"""A collective, step by step: who sends which chunks to whom, and what each rank holds then.

No ranks are needed. What `ring`, `halving_doubling` and `by_rank_0` send on real ranks is compared
with it in tests/distributed; the tree is the binomial one of Thakur, Rabenseifner and Gropp,
https://doi.org/10.1177/1094342005051521
"""

from collections.abc import Iterable
from dataclasses import dataclass

ALL_REDUCES = ("by rank 0", "tree", "ring", "halving and doubling")
HALVES = ("reduce_scatter", "all_gather")  # of the ring, as collectives of their own


@dataclass(frozen=True)
class Sent:
    """One message: `count` chunks from `first` on. adds: the target adds them to its own."""

    source: int
    target: int
    first: int
    count: int
    adds: bool

    @property
    def chunks(self) -> range:
        """The numbers of the chunks in it."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Collective:
    """What `n` ranks do. chunks: how many the tensor is cut into. steps: the messages of each step.

    All messages of a step are under way at the same time: each rank sends and receives at most one.
    """

    way: str
    n: int
    chunks: int
    steps: list[list[Sent]]

    def held(self, done: int) -> list[list[set[int]]]:
        """After `done` steps, for each rank and chunk: the ranks whose numbers are in the sum."""
        gathers = self.way == "all_gather"  # there, a rank brings its own chunk and no other
        held = [
            [{rank} if chunk == rank or not gathers else set() for chunk in range(self.chunks)]
            for rank in range(self.n)
        ]
        for messages in self.steps[:done]:
            sent = [(m, [set(held[m.source][chunk]) for chunk in m.chunks]) for m in messages]
            for m, sums in sent:
                for chunk, ranks in zip(m.chunks, sums, strict=True):
                    mine = held[m.target][chunk] if m.adds else set()
                    held[m.target][chunk] = ranks | mine
        return held

    def sent(self, rank: int, done: int) -> float:
        """What `rank` has sent in the first `done` steps, in tensors."""
        count = sum(m.count for step in self.steps[:done] for m in step if m.source == rank)
        return count / self.chunks

    def seconds(self, done: int, nbytes: float, alpha: float, beta: float) -> float:
        """By the alpha-beta model, until `done` steps are over; the tensor has `nbytes`.

        The messages of a step do not slow each other down. alpha in s, beta in s/byte.
        """
        in_a_row = sum(max(m.count for m in step) for step in self.steps[:done])
        return done * alpha + in_a_row / self.chunks * nbytes * beta


def collective(way: str, n: int) -> Collective:
    """The steps of one of ALL_REDUCES or HALVES on `n` ranks.

    Raises ValueError for another way, and for less than two ranks.
    """
    if way not in (*ALL_REDUCES, *HALVES):
        ways = ", ".join((*ALL_REDUCES, *HALVES))
        raise ValueError(f"collective: {way!r} is unknown; use one of {ways}")
    if n < 2:
        raise ValueError(f"collective: {n} ranks send nothing; two is the least")
    if way == "by rank 0":
        return Collective(way, n, 1, _by_rank_0(n))
    if way == "tree":
        return Collective(way, n, 1, _tree(n))
    if way == "halving and doubling":
        power = 1 << n.bit_length() - 1  # the largest power of two up to n
        return Collective(way, n, power, _halving_doubling(n, power))
    if way == "reduce_scatter":  # begins one chunk earlier than the ring: rank i ends with chunk i
        return Collective(way, n, n, _around(n, -1, adds=True))
    if way == "all_gather":
        return Collective(way, n, n, _around(n, 0, adds=False))
    return Collective(way, n, n, _around(n, 0, adds=True) + _around(n, 1, adds=False))


def _around(n: int, ahead: int, adds: bool) -> list[list[Sent]]:
    """Once around the ring: each rank begins with the chunk of its own number plus `ahead`."""
    return [
        [Sent(rank, (rank + 1) % n, (rank + ahead - step) % n, 1, adds) for rank in range(n)]
        for step in range(n - 1)
    ]


def _by_rank_0(n: int) -> list[list[Sent]]:
    there = [[Sent(rank, 0, 0, 1, True)] for rank in range(1, n)]
    return there + [[Sent(0, rank, 0, 1, False)] for rank in range(1, n)]


def _tree(n: int) -> list[list[Sent]]:
    """Sums go up in pairs, then in pairs of pairs; the total goes down the same way."""
    distances = [1 << level for level in range((n - 1).bit_length())]
    up = [[Sent(r, r - d, 0, 1, True) for r in range(d, n, 2 * d)] for d in distances]
    down = [[Sent(r - d, r, 0, 1, False) for r in range(d, n, 2 * d)] for d in distances[::-1]]
    return up + down


def _halving_doubling(n: int, power: int) -> list[list[Sent]]:
    """As `halve_and_double`; ranks from `power` on hand their tensor to one below before it."""
    first, size = [0] * power, power
    halving, doubling = [], []
    while size > 1:
        size //= 2
        kept = [first[rank] + (size if rank & size else 0) for rank in range(power)]
        halving.append(_exchange(size, (kept[rank ^ size] for rank in range(power)), size, True))
        first = kept
    while size < power:
        doubling.append(_exchange(size, first, size, False))
        first = [min(first[rank], first[rank ^ size]) for rank in range(power)]
        size *= 2
    if power == n:
        return halving + doubling
    fold = [Sent(rank, rank - power, 0, power, True) for rank in range(power, n)]
    back = [Sent(rank - power, rank, 0, power, False) for rank in range(power, n)]
    return [fold, *halving, *doubling, back]


def _exchange(distance: int, first: Iterable[int], count: int, adds: bool) -> list[Sent]:
    return [Sent(rank, rank ^ distance, at, count, adds) for rank, at in enumerate(first)]
