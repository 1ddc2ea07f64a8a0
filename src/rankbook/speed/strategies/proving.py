"""What all ranks together make of one global batch, for the proofs of `rankbook.speed.proof`."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from rankbook.speed.batches import Batch
from rankbook.speed.proof import Outcome, gradients_of


def outcome_of_ranks(wrapped: nn.Module, batch: Batch) -> Outcome:
    """The global mean loss, all logits (rows, classes), and the gradients that this rank has then.

    wrapped: a model in DDP, or a bare one: each rank then keeps the gradients of its own share.
    batch: the global one; each rank computes its share, without dropout. All ranks call. Raises
    ValueError for rows that cannot be shared evenly.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = wrapped.module if isinstance(wrapped, DistributedDataParallel) else wrapped
    device = next(model.parameters()).device
    share, mode = batch.share(rank, ranks).to(device), wrapped.training
    wrapped.eval()  # a rank would draw other dropout than one process does
    wrapped.zero_grad()
    logits = wrapped(*share.inputs)
    loss = F.cross_entropy(logits, share.labels)
    loss.backward()
    wrapped.train(mode)
    total, shares = loss.detach().clone(), [torch.empty_like(logits) for _ in range(ranks)]
    dist.all_reduce(total)
    dist.all_gather(shares, logits.detach())
    rows = torch.stack(shares, dim=1).flatten(0, 1)  # rank r had rows r, r + ranks, ...
    return Outcome(total.item() / ranks, rows.cpu().double(), gradients_of(model))
