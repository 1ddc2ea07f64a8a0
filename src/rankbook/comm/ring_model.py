"""What a rank sends round a ring, and how long that takes by the alpha-beta model.

Sources: Thakur, Rabenseifner and Gropp, section 4, https://doi.org/10.1177/1094342005051521;
Patarasuk and Yuan, https://doi.org/10.1016/j.jpdc.2008.09.002
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """From one member of a ring to the next: alpha seconds a message, and beta seconds a byte."""

    name: str
    alpha: float
    beta: float


def ring_bytes(operation: str, nbytes: float, n: int, rank: int = 0, root: int = 0) -> float:
    """What `rank` of `n` sends if `operation` goes round a ring.

    nbytes: of the tensor that the rank has in it, as in `Count`; of a broadcast the tensor on every
    rank. rank, root: within the group. A broadcast and a reduce go along a chain, in which the last
    rank sends nothing; gather, scatter and all_to_all send each share straight to its rank, here
    shares of equal size. Raises ValueError for another operation.
    """
    factors = {
        "all_reduce": 2 * (n - 1) / n,
        "reduce_scatter": (n - 1) / n,
        "all_gather": n - 1,
        "all_to_all": (n - 1) / n,
        "broadcast": (rank + 1 - root) % n != 0,
        "reduce": rank != root,
        "gather": rank != root,
        "scatter": (n - 1) / n * (rank == root),
        **{"send": 1, "recv": 0, "barrier": 0},
    }
    if operation not in factors:
        raise ValueError(f"ring_bytes: {operation!r} is unknown; use one of {', '.join(factors)}")
    return float(factors[operation] * nbytes)


def half_ring(n: int, nbytes: float, link: Link, calls: float = 1) -> float:
    """Seconds of an all_gather or a reduce_scatter of `nbytes`, the whole, in `calls` calls."""
    return (n - 1) * (calls * link.alpha + nbytes / n * link.beta)


def ring(n: int, nbytes: float, link: Link) -> float:
    """Seconds of an all_reduce of `nbytes` by a ring of `n`: 2 (n - 1) steps, a chunk in each."""
    return 2 * half_ring(n, nbytes, link)
