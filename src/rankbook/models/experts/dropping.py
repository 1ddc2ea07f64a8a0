"""How many tokens an expert takes, and which ones it does not.

Source of capacities by groups of tokens: https://arxiv.org/abs/2006.16668, section 2.2.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def capacity(tokens: int, experts: int, top_k: int, factor: float) -> int:
    """The most of `tokens` that one expert takes: `factor` times an equal share, rounded up.

    Raises ValueError if `factor` is not above 0.
    """
    if factor <= 0:
        raise ValueError(f"a capacity of {factor} equal shares takes nothing; use 1.25, say")
    return math.ceil(min(tokens, tokens * top_k * factor / experts))


def served(chosen: Tensor, experts: int, limit: int) -> Tensor:
    """Which choices find room: True where fewer than `limit` of the same row came before.

    chosen: (rows, length, top_k), numbers of experts. Who comes first in a row is served first, and
    with all of its choices: so what a token gets depends on earlier tokens of its own row alone,
    neither on later ones, which a causal model must not know, nor on other rows. Returns bool, of
    the shape of `chosen`.
    """
    in_turn = chosen.flatten(1)  # (rows, length * top_k)
    one_hot = F.one_hot(in_turn, experts)
    before = (one_hot.cumsum(dim=1) - one_hot).gather(2, in_turn[..., None])[..., 0]
    return torch.lt(before, limit).view_as(chosen)
