"""Sequences cut among ranks, in zigzag order: the parts of a model that have to know of it.

All else in a Transformer works on each token alone. See `rankbook.parallel.context`.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

from rankbook.models.loss import IGNORED
from rankbook.models.transformer import TransformerLayer, TransformerLM
from rankbook.parallel.context import ring_attention, stretches


def context_parallel(model: TransformerLM, group: dist.ProcessGroup) -> TransformerLM:
    """Let `model`, or a stage, take its part of each sequence, in place; group: of a mesh's "cp".

    What comes in is what `rankbook.parallel.context.shard` gives this rank, in zigzag order. Ranks
    of tensor parallelism, each with its own heads, have a ring each.
    """
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    for layer in model.layers.values():
        assert isinstance(layer, TransformerLayer)
        layer.attention = partial(_attention, group)
    if model.positions is not None:
        model.positions.places = lambda length: stretches(length * ranks, ranks, rank)
    return model


def _attention(
    group: dist.ProcessGroup, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float
) -> torch.Tensor:
    assert not dropout, "Layout.check_model refuses it"
    return ring_attention(q, k, v, group)


def shared_mean(
    loss: Callable[..., torch.Tensor], group: dist.ProcessGroup
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """`loss` of this rank's tokens, weighed so that its mean over `group` is that of all tokens.

    loss: (logits, targets, count), as `token_loss`. Of a padded sequence one rank may have many
    tokens that count, and another none: a mean of the ranks' means would be another number.
    """

    def weighed(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        count = (targets != IGNORED).sum().float()
        dist.all_reduce(count, group=group)
        return loss(logits, targets, count / dist.get_world_size(group))

    return weighed
