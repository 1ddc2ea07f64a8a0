"""Lightning's Trainer on the ranks of the existing group, and what Lightning refuses here."""

import dataclasses
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from rankbook.speed.batches import Batch
from rankbook.speed.lightning_runner import Fitted, fit, import_lightning


def fit_on_ranks(
    model: nn.Module,
    batches: Sequence[Batch],
    lr: float = 5e-5,
    device: torch.device | str = "cpu",
    **settings,
) -> Fitted:
    """Train `model` once over global `batches` under a Trainer with DDP; on all ranks.

    Each rank takes its share of each batch. settings: what `fit` takes. The losses are those of
    the global batches, the same on every rank.
    """
    import_lightning()
    from lightning.pytorch.strategies import DDPStrategy

    from rankbook.speed.many.environment import on_group

    rank, ranks = dist.get_rank(), dist.get_world_size()
    fitted = fit(
        model,
        torch.optim.Adam(model.parameters(), lr=lr),
        [batch.share(rank, ranks) for batch in batches],
        device=device,
        devices=ranks,
        strategy=on_group(DDPStrategy, gradient_as_bucket_view=True),
        use_distributed_sampler=False,
        **settings,
    )
    losses = torch.tensor(fitted.losses, device=device)
    dist.all_reduce(losses)
    return dataclasses.replace(fitted, losses=(losses / ranks).tolist())
