"""Streaming: parts of a model that meet at different steps, so that the link is never flooded.

Source: A. Douillard et al., https://arxiv.org/abs/2501.18512
"""

from collections.abc import Sequence
from typing import TypeVar

from torch import nn

Parameter = TypeVar("Parameter", bound=nn.Parameter)


def cut_evenly(parameters: Sequence[Parameter], count: int) -> list[list[Parameter]]:
    """`parameters` in `count` fragments of neighbours, of about the same number of entries.

    None is empty. Raises ValueError if there are fewer parameters than fragments.
    """
    if not 1 <= count <= len(parameters):
        raise ValueError(
            f"{len(parameters)} parameters do not make {count} fragments; use 1 to "
            f"{len(parameters)}"
        )
    left, fragments = sum(p.numel() for p in parameters), []
    rest = list(parameters)
    for missing in range(count, 0, -1):
        fragment = [rest.pop(0)]
        wanted = left / missing
        # one more while that comes nearer to an equal share, and the others keep one each
        while len(rest) >= missing and (
            missing == 1 or _entries(fragment) + rest[0].numel() / 2 <= wanted
        ):
            fragment.append(rest.pop(0))
        fragments.append(fragment)
        left -= _entries(fragment)
    return fragments


def _entries(fragment: Sequence[nn.Parameter]) -> int:
    return sum(p.numel() for p in fragment)


def is_due(step: int, every: int, fragment: int, fragments: int) -> bool:
    """Whether `fragment`, of so many, meets after inner step `step`, the first one being 1.

    Each meets once in `every` steps; the last of them where all would: in multiples of `every`.
    """
    early = every * (fragments - 1 - fragment) // fragments
    return (step + early) % every == 0
