"""Fewer bytes for a vector of numbers: the largest entries, eight bits each, or the signs.

A compressor turns a vector into a message of bytes, and a message back into a vector that is
near to the first. How long a message is depends on the vector's length alone, so that ranks know
the size of each other's messages before they come.
"""

from dataclasses import dataclass
from math import ceil
from typing import Protocol

import torch


class Compressor(Protocol):
    """Whatever packs a vector into bytes."""

    def pack(self, vector: torch.Tensor) -> torch.Tensor:
        """vector: (length,), floating. Returns the message: (bytes,), uint8, on its device."""
        ...

    def unpack(self, message: torch.Tensor, length: int) -> torch.Tensor:
        """The vector, float32, (length,), that `message` stands for."""
        ...


@dataclass(frozen=True)
class TopK:
    """The `share` of the entries that are largest in magnitude, with their places; the rest is 0.

    8 bytes an entry that is kept: its value, float32, and its place, int32. Source: D. Alistarh et
    al., https://arxiv.org/abs/1809.10505. Raises ValueError unless 0 < share <= 1.
    """

    share: float = 0.01

    def __post_init__(self):
        if not 0 < self.share <= 1:
            raise ValueError(f"TopK keeps a share of {self.share}; use one in (0, 1]")

    def pack(self, vector: torch.Tensor) -> torch.Tensor:
        """See `Compressor`."""
        kept = max(1, round(self.share * len(vector)))
        places = vector.abs().topk(kept, sorted=False).indices
        values = vector[places].float()
        return torch.cat([_bytes(values), _bytes(places.int())])

    def unpack(self, message: torch.Tensor, length: int) -> torch.Tensor:
        """See `Compressor`."""
        values, places = message.clone().chunk(2)
        vector = torch.zeros(length, device=message.device)
        vector[places.view(torch.int32).long()] = values.view(torch.float32)
        return vector


@dataclass(frozen=True)
class EightBit:
    """Each entry as a whole number of -127 ... 127 times a step that its block has, rounded.

    A byte an entry, and 4 bytes a block for the step: the block's largest magnitude / 127. No entry
    is further off than half a step. Source: T. Dettmers, https://arxiv.org/abs/1511.04561, which
    uses other steps.
    """

    block: int = 1024

    def pack(self, vector: torch.Tensor) -> torch.Tensor:
        """See `Compressor`."""
        blocks = _blocks(vector, self.block)
        steps = blocks.abs().amax(dim=1) / 127
        smallest = torch.finfo(torch.float32).tiny  # a block of zeros has the step 0
        numbers = (blocks / steps[:, None].clamp(min=smallest)).round().to(torch.int8)
        return torch.cat([_bytes(steps), _bytes(numbers.flatten()[: len(vector)])])

    def unpack(self, message: torch.Tensor, length: int) -> torch.Tensor:
        """See `Compressor`."""
        steps, numbers = _split(message, ceil(length / self.block))
        return numbers.view(torch.int8) * _each(steps, self.block)[:length]


@dataclass(frozen=True)
class Sign:
    """A bit an entry: the mean magnitude of its block, up or down.

    With 4 bytes a block for that mean. Without error feedback it need not converge: S. P.
    Karimireddy et al., https://arxiv.org/abs/1901.09847.
    """

    block: int = 1024

    def pack(self, vector: torch.Tensor) -> torch.Tensor:
        """See `Compressor`."""
        means = torch.stack([part.float().abs().mean() for part in vector.split(self.block)])
        bits = torch.zeros(ceil(len(vector) / 8) * 8, dtype=torch.uint8, device=vector.device)
        bits[: len(vector)] = vector >= 0
        return torch.cat([_bytes(means), (bits.view(-1, 8) << _places(bits)).sum(1).byte()])

    def unpack(self, message: torch.Tensor, length: int) -> torch.Tensor:
        """See `Compressor`."""
        means, packed = _split(message, ceil(length / self.block))
        bits = (packed[:, None] >> _places(packed)) & 1
        return (2.0 * bits.flatten()[:length] - 1) * _each(means, self.block)[:length]


def _places(like: torch.Tensor) -> torch.Tensor:
    """Where in its byte each of eight bits stands."""
    return torch.arange(8, dtype=torch.uint8, device=like.device)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def _blocks(vector: torch.Tensor, size: int) -> torch.Tensor:
    """(blocks, size), float32; the last one is filled up with zeros."""
    missing = -len(vector) % size
    return torch.nn.functional.pad(vector.float(), (0, missing)).view(-1, size)


def _split(message: torch.Tensor, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The number of each block, float32, and the bytes after them."""
    return message[: 4 * blocks].clone().view(torch.float32), message[4 * blocks :]


def _each(of_block: torch.Tensor, size: int) -> torch.Tensor:
    """The number of its block, for each entry."""
    return of_block.repeat_interleave(size)
