"""A causal Transformer language model that can be cut into stages without renaming a parameter.

Batch first: microbatches cut the first dimension, so no layer may mix what lies along it.
Normalisation comes first in each layer, with one more after the last: that trains without a
warm-up (https://arxiv.org/abs/2002.04745). Positions are sinusoids (https://arxiv.org/abs/1706.03762)
as in the original: they add no parameters to the count and none to the first stage.
"""

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

_PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 64, "d_hidden": 256, "heads": 4, "layers": 8, "dropout": 0.0},
    "original": {"d_model": 4096, "d_hidden": 4096, "heads": 16, "layers": 8, "dropout": 0.2},
}


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a model. `max_length`: the longest sequence, in tokens. Raises ValueError."""

    vocab_size: int
    d_model: int
    d_hidden: int
    heads: int
    layers: int
    dropout: float = 0.0
    max_length: int = 512

    def __post_init__(self):
        for name in ("vocab_size", "d_model", "d_hidden", "heads", "layers", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.d_model % (2 * self.heads):
            raise ValueError(
                f"d_model {self.d_model} is not divisible by twice the heads ({self.heads}); "
                "choose another of the two"
            )


def preset(name: str, vocab_size: int, **changes) -> TransformerConfig:
    """The sizes named "tiny" (for CPUs) or "original" (about 1 billion parameters).

    vocab_size: of the data. changes: fields of `TransformerConfig` that shall differ. Raises
    ValueError for another name.
    """
    if name not in _PRESETS:
        raise ValueError(f"preset {name!r} is unknown; use {' or '.join(_PRESETS)}")
    return TransformerConfig(vocab_size, **(_PRESETS[name] | changes))


class TransformerLM(nn.Module):
    """Token ids (batch, length) to logits (batch, length, vocab_size).

    Any part may be missing: `embedding`, `norm` and `head` may be None, `layers` keeps its keys
    when some are deleted. A stage made this way has the whole model's parameter names, so that
    one checkpoint serves any number of stages. Without an embedding the input is what the stage
    before gave, (batch, length, d_model); without a head, that is the output.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.embedding: TokenEmbedding | None = TokenEmbedding(config)
        self.layers = nn.ModuleDict(
            {str(i): TransformerLayer(config) for i in range(config.layers)}
        )
        self.norm: nn.LayerNorm | None = nn.LayerNorm(config.d_model)
        self.head: nn.Linear | None = nn.Linear(config.d_model, config.vocab_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x)
        if self.norm is None or self.head is None:
            return x
        return self.head(self.norm(x))

    def keep(self, layers: Iterable[int], *, first: bool, last: bool) -> "TransformerLM":
        """Delete, in place, all but `layers`, the embedding if `first`, norm and head if `last`."""
        kept = {str(i) for i in layers}
        for name in [name for name in self.layers if name not in kept]:
            del self.layers[name]
        if not first:
            self.embedding = None
        if not last:
            self.norm = self.head = None
        return self


class TokenEmbedding(nn.Embedding):
    """Token ids (batch, length) to vectors (batch, length, d_model) that know their position."""

    def __init__(self, config: TransformerConfig):
        super().__init__(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        positions = sinusoids(config.max_length, config.d_model)
        # not in checkpoints: it can be computed
        self.register_buffer("positions", positions, persistent=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        x = super().forward(input) * math.sqrt(self.embedding_dim)
        return self.dropout(x + self.positions[: input.shape[1]])


class TransformerLayer(nn.Module):
    """Causal self-attention, then a two-layer perceptron: (batch, length, d_model), both ways."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        d = config.d_model
        self.heads = config.heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, config.d_hidden), nn.Linear(config.d_hidden, d)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attend(self.norm1(x)))
        hidden = self.dropout(F.relu(self.up(self.norm2(x))))
        return x + self.dropout(self.down(hidden))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Each position in `x` (batch, length, d_model) looks at itself and earlier ones only."""
        batch, length, d = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (batch, heads, length, d_head)
        drop = self.dropout.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, d))


def sinusoids(length: int, d_model: int) -> torch.Tensor:
    """Sines (even columns) and cosines (odd ones) of falling frequency: (length, d_model)."""
    rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@torch.no_grad()
def initialise(model: nn.Module, seed: int, std: float | None = None) -> None:
    """Fill every parameter by a rule that knows only the seed and the parameter's name.

    So a stage that was made alone, on any device, holds exactly the whole model's values.
    Matrices are normal with standard deviation `std`, 1/sqrt(columns) if None; norms are 1,
    biases 0.
    Fills the positions too, which a model made on the meta device lacks.
    """
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            # the CPU's generator on every device; it uses 32 bits of a seed, which a crc32 fills
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
            normal = torch.randn(parameter.shape, generator=generator, device="cpu")
            parameter.copy_(normal * (std or parameter.shape[1] ** -0.5))
        else:
            parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    for module in model.modules():
        if isinstance(module, TokenEmbedding):
            module.positions.copy_(sinusoids(*module.positions.shape))
