"""Gradient clipping by the norm of the whole model, whose stages lie on several ranks.

Source of the clipping: R. Pascanu et al., https://arxiv.org/abs/1211.5063, section 3.2.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def clip_grad_norm(
    parameters: Iterable[nn.Parameter], max_norm: float, group: dist.ProcessGroup
) -> torch.Tensor:
    """Scale the gradients, in place, so that the whole model's 2-norm is at most `max_norm`.

    parameters: those of this rank's stages. group: the ranks of this pipeline,
    `mesh["pp"].get_group()`; all of them must call. Sharded gradients (DTensor, of fully_shard)
    count as a whole. Returns the norm before clipping: a scalar, the same on all ranks.
    Each stage clipped by its own norm would change the gradient's direction.
    """
    parameters = [p for p in parameters if p.grad is not None]
    kinds = [  # torch's functions do not take both kinds in one call
        [p for p in parameters if not isinstance(p.grad, DTensor)],
        [p for p in parameters if isinstance(p.grad, DTensor)],
    ]
    # every stage has parameters, so there is at least one norm, and it is on the right device
    norms = [get_total_norm([p.grad for p in kind if p.grad is not None]) for kind in kinds if kind]
    whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    squares = torch.stack(whole).square().sum()
    dist.all_reduce(squares, group=group)
    norm = squares.sqrt()
    for kind in kinds:
        clip_grads_with_norm_(kind, max_norm, norm)
    return norm
