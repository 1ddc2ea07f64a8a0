"""The mean of vectors over those who are there, as they are or compressed; bytes are counted."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.distributed as dist

from rankbook.comm.ring_model import ring_bytes
from rankbook.core.dtensor import to_local
from rankbook.parallel.sync.compressors import Compressor
from rankbook.parallel.sync.feedback import ErrorFeedback


class Exchange:
    """Means over a `group` of ranks, all of which call the same, in the same order.

    compressor: messages of a few bytes are gathered by all; None: the vector as it is, by
    all_reduce. feedback: what a message leaves out is in the next one (`ErrorFeedback`).
    sent: bytes of this rank's messages so far, as a ring sends them. group: None for all ranks.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        compressor: Compressor | None = None,
        feedback: bool = True,
    ):
        self.group, self.compressor, self.sent = group, compressor, 0
        self.feedback = ErrorFeedback(compressor) if compressor and feedback else None

    @property
    def ranks(self) -> int:
        """How many there are."""
        return dist.get_world_size(self.group)

    def mean(
        self, tensors: Sequence[torch.Tensor], key: Hashable = 0, weight: float = 1.0
    ) -> list[torch.Tensor]:
        """The mean of each tensor over the ranks; new ones. See `begin`."""
        return self.begin(tensors, key, weight).wait()

    def begin(
        self, tensors: Sequence[torch.Tensor], key: Hashable = 0, weight: float = 1.0
    ) -> "Pending":
        """Send; `wait` of what is returned gives the means, and time may pass in between.

        tensors: of one device, of the same shapes on all ranks; of a DTensor, its part counts.
        key: which of several sets of tensors it is. weight: how much this rank's count; 0 for one
        that has nothing to say, however wrong its numbers are.
        """
        local = [to_local(tensor) for tensor in tensors]
        shapes = [tensor.shape for tensor in local]
        vector = torch.cat([tensor.flatten() for tensor in local])
        if not weight:
            vector = torch.zeros_like(vector)
        own = torch.tensor([weight], dtype=torch.float32, device=vector.device)
        if self.compressor is None:
            return self._reduce(vector, own, shapes)
        return self._gather(vector, own, shapes, key)

    def _reduce(self, vector: torch.Tensor, own: torch.Tensor, shapes: list) -> "Pending":
        sums = torch.cat([vector * own.to(vector.dtype), own.to(vector.dtype)])
        self.sent += round(ring_bytes("all_reduce", sums.nbytes, self.ranks))
        work = dist.all_reduce(sums, group=self.group, async_op=True)
        return Pending(work, sums, shapes)

    def _gather(
        self, vector: torch.Tensor, own: torch.Tensor, shapes: list, key: Hashable
    ) -> "Pending":
        compressor = cast(Compressor, self.compressor)
        packed = self.feedback.pack(key, vector) if self.feedback else compressor.pack(vector)
        message = torch.cat([own.view(torch.uint8), packed])
        self.sent += round(ring_bytes("all_gather", message.nbytes, self.ranks))
        messages = message.new_empty(self.ranks, len(message))
        of_each = list(messages.unbind(0))
        work = dist.all_gather(of_each, message, group=self.group, async_op=True)
        return Pending(work, messages, shapes, compressor, vector.dtype)


@dataclass
class Pending:
    """Means that are on their way."""

    work: dist.Work | None
    buffer: torch.Tensor
    shapes: list[torch.Size]
    compressor: Compressor | None = None
    dtype: torch.dtype | None = None
    means: list[torch.Tensor] | None = None

    @classmethod
    def done(cls, means: list[torch.Tensor]) -> "Pending":
        """Means that have come already."""
        return cls(None, torch.empty(0), [], means=means)

    def wait(self) -> list[torch.Tensor]:
        """The means, of the shapes that were given. Nobody there: zeros."""
        if self.means is None:
            cast(dist.Work, self.work).wait()
            sums, weight = self._sums()
            mean = sums / weight if weight else sums
            lengths = [shape.numel() for shape in self.shapes]
            parts = zip(mean.split(lengths), self.shapes, strict=True)
            self.means = [part.view(shape) for part, shape in parts]
        return self.means

    def _sums(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.compressor is None:
            return self.buffer[:-1], self.buffer[-1]
        length = sum(shape.numel() for shape in self.shapes)
        total = torch.zeros(length, device=self.buffer.device)
        weights = self.buffer.new_zeros((), dtype=torch.float32)
        for message in self.buffer:  # in the order of the ranks: the same sum on each of them
            weight = message[:4].clone().view(torch.float32)[0]
            total += weight * self.compressor.unpack(message[4:], length)
            weights += weight
        return total.to(self.dtype), weights
