"""The gradients of a live step, put together: whole, under the whole model's names."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from rankbook.predict.memory.live import LiveStep


def loss_and_gradients(
    step: LiveStep, tokens: Tensor, targets: Tensor
) -> tuple[float, dict[str, Tensor]]:
    """A batch's loss, and the gradients of this rank's stage, whole, in 32 bits; on all ranks.

    tokens, targets: the whole batch, as for `step`. Nothing is updated. What is cut among ranks, by
    tensor parallelism, FSDP2 or ZeRO 2, is gathered.
    """
    step.optimizer.zero_grad()
    loss = step.accumulate(tokens, targets).item()
    found = {}
    named = step.part.named_parameters()
    for (name, parameter), piece in zip(named, step.optimizer.pieces, strict=True):
        gradient = parameter.grad
        if gradient is None:  # ZeRO 2 has cut it; what microbatches added up is not divided yet
            mean = _gathered(piece) / step.optimizer.times
            gradient = _alike(mean.view(_local(parameter).shape), parameter)
        whole = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
        found[name] = whole.detach().float().clone()
    step.optimizer.zero_grad()
    return loss, found


def _gathered(piece) -> Tensor:
    """All ranks' pieces of one gradient, flat."""
    if piece.sharing.group is None:
        return piece.gradient[: piece.flat.numel()]
    pieces = [torch.empty_like(piece.gradient) for _ in range(piece.ranks)]
    dist.all_gather(pieces, piece.gradient, group=piece.sharing.group)
    return torch.cat(pieces)[: piece.flat.numel()]


def _local(parameter: Tensor) -> Tensor:
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def _alike(local: Tensor, parameter: Tensor) -> Tensor:
    """`local` as the part of a DTensor that `parameter` is."""
    if not isinstance(parameter, DTensor):
        return local
    return DTensor.from_local(
        local, parameter.device_mesh, parameter.placements,
        shape=parameter.shape, stride=parameter.stride(),
    )  # fmt: skip
