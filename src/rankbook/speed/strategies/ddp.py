"""DistributedDataParallel: everything on every rank, gradients averaged during backward.

Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
)
from torch.nn.parallel import DistributedDataParallel

from rankbook.speed.strategies.strategy import Strategy, Traffic, storages

# what is done with a bucket of gradients, and bytes that each of its numbers is sent as
_HOOKS: dict[str | None, tuple[Callable, int]] = {
    None: (allreduce_hook, 4),
    "bf16": (bf16_compress_hook, 2),
}


def prepare(
    model: nn.Module,
    lr: float,
    device: torch.device,
    compress: str | None = None,
    bucket_mb: float | None = None,
    as_view: bool = True,
) -> Strategy:
    """DDP and Adam.

    compress: None, or "bf16": gradients are rounded to bfloat16, summed, and made float32 again.
    bucket_mb: MiB of gradients that are sent together; None: 25, but 1 in the first bucket, which
    so leaves early. as_view: gradients lie in the buckets from which they are sent; otherwise
    each is there twice. Raises ValueError for another `compress`.
    """
    if compress not in _HOOKS:
        raise ValueError(f"compress {compress!r} is unknown; use None or 'bf16'")
    wrapped = DistributedDataParallel(
        model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=as_view
    )
    trained = Strategy(wrapped, torch.optim.Adam(model.parameters(), lr=lr), device)
    trained.traffic = count(wrapped, compress)
    return trained


def count(wrapped: DistributedDataParallel, compress: str | None = None) -> Traffic:
    """Count what `wrapped` sends, from its next backward on."""
    traffic = Traffic()
    hook, width = _HOOKS[compress]

    def counted(group: dist.ProcessGroup | None, bucket: dist.GradBucket):
        traffic.all_reduces += 1
        traffic.bytes += bucket.buffer().numel() * width
        traffic.buckets |= storages([bucket.buffer()])
        return hook(group, bucket)

    wrapped.register_comm_hook(None, counted)
    return traffic
