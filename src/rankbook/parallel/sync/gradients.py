"""Replicas that meet in every step, with compressed gradients."""

from collections.abc import Iterable

import torch.distributed as dist
from torch import nn

from rankbook.core.dtensor import to_local
from rankbook.parallel.sync.compressors import Compressor
from rankbook.parallel.sync.exchange import Exchange


class CompressedGradients:
    """Data parallelism whose gradients go compressed: `average` stands before `optimizer.step`.

    The arguments are those of `Exchange`; without a compressor it is plain data parallelism. All
    gradients go as one vector. sent: bytes so far.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        compressor: Compressor | None = None,
        feedback: bool = True,
        group: dist.ProcessGroup | None = None,
    ):
        self.parameters = list(parameters)
        self.exchange = Exchange(group, compressor, feedback)

    @property
    def sent(self) -> int:
        """Bytes that this rank has sent, as a ring sends them."""
        return self.exchange.sent

    def average(self) -> None:
        """Replace each gradient by the mean of what the ranks' messages say. All ranks call.

        Raises ValueError where a parameter has no gradient: the messages would not fit together.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if len(gradients) < len(self.parameters):
            missing = len(self.parameters) - len(gradients)
            raise ValueError(
                f"{missing} of {len(self.parameters)} parameters have no gradient; call average "
                "after backward, with the parameters that it reaches"
            )
        for gradient, mean in zip(gradients, self.exchange.mean(gradients), strict=True):
            to_local(gradient).copy_(mean)
