"""Which tokens of a sequence are whose, and how much work that is under a causal mask.

"blocks": rank r of n has the r-th of n equal stretches; the last rank's queries look at nearly
everything, the first's at little. "zigzag": of 2n stretches it has the r-th and the r-th from the
end, and all ranks have the same work. Source: https://arxiv.org/abs/2311.09431, which balances the
ring by another order, in stripes; in zigzag order whole blocks stay empty, and are skipped.
"""

from collections.abc import Sequence

import torch

ORDERS = ("blocks", "zigzag")


def stretches(length: int, ranks: int, rank: int, order: str = "zigzag") -> list[tuple[int, int]]:
    """The (start, end) of each stretch of `length` tokens that is `rank`'s, in order, all equal.

    Raises ValueError, in one sentence, for what cannot be cut, and for an unknown order.
    """
    if order not in ORDERS:
        raise ValueError(f"order {order!r} is unknown; use {' or '.join(ORDERS)}")
    if not 0 <= rank < ranks:
        raise ValueError(f"rank {rank} is none of {ranks}; use 0 to {ranks - 1}")
    parts = ranks if order == "blocks" else 2 * ranks
    if length < 1 or length % parts:
        raise ValueError(
            f"{length} tokens are not cut into {parts} equal parts, as {ranks} ranks in order "
            f"{order} need them; use a multiple of {parts}, padding what is shorter"
        )
    size = length // parts
    mine = (rank,) if order == "blocks" else (rank, parts - 1 - rank)
    return [(part * size, (part + 1) * size) for part in mine]


def positions(length: int, ranks: int, rank: int, order: str = "zigzag") -> torch.Tensor:
    """Where the tokens of `rank` stand in the whole sequence of `length`: int64, (length / ranks,).

    Raises ValueError as `stretches`.
    """
    return torch.cat([torch.arange(*ends) for ends in stretches(length, ranks, rank, order)])


def shard(
    tensor: torch.Tensor, ranks: int, rank: int, order: str = "zigzag", dim: int = 1
) -> torch.Tensor:
    """Shard `dim` of whole sequences over `ranks`, in `order`: the 1/ranks that is `rank`'s.

    Differentiable. Raises ValueError as `stretches`.
    """
    mine = stretches(tensor.shape[dim], ranks, rank, order)
    return torch.cat([tensor.narrow(dim, start, end - start) for start, end in mine], dim)


def unshard(pieces: Sequence[torch.Tensor], order: str = "zigzag", dim: int = 1) -> torch.Tensor:
    """Inverse of `shard`: whole sequences from every rank's piece, in the order of the ranks.

    Raises ValueError as `stretches`.
    """
    ranks, length = len(pieces), sum(piece.shape[dim] for piece in pieces)
    found: dict[int, torch.Tensor] = {}
    for rank, piece in enumerate(pieces):
        mine = stretches(length, ranks, rank, order)
        for (start, _), part in zip(mine, piece.chunk(len(mine), dim), strict=True):
            found[start] = part
    return torch.cat([found[start] for start in sorted(found)], dim)


def pairs(length: int, ranks: int, rank: int, order: str = "zigzag") -> int:
    """How many pairs of a query of `rank` and a key, not later, a causal mask leaves.

    All ranks together have length * (length + 1) / 2. Raises ValueError as `stretches`.
    """
    return int((positions(length, ranks, rank, order) + 1).sum())
