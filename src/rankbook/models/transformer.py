"""A causal Transformer language model that can be cut into stages without renaming a parameter.

Batch first: microbatches cut the first dimension, so no layer may mix what lies along it.
Normalisation comes first in each layer, with one more after the last: that trains without a
warm-up (https://arxiv.org/abs/2002.04745). Positions are sinusoids (https://arxiv.org/abs/1706.03762)
as in the original: they add no parameters to the count and none to the first stage.
"""

import math
import zlib
from collections.abc import Callable, Iterable
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
    """The sizes of a model. `max_length`: the longest sequence, in tokens. Raises ValueError.

    experts: of each layer, in place of its perceptron, as large as that is; 0: none. Each token
    goes through `top_k` of them. capacity, balance_weight: `capacity_factor` and `balance_weight`
    of `rankbook.models.experts.Experts`. bias_rate: of `BiasBalance`, which the training does.
    """

    vocab_size: int
    d_model: int
    d_hidden: int
    heads: int
    layers: int
    dropout: float = 0.0
    max_length: int = 512
    experts: int = 0
    top_k: int = 2
    capacity: float | None = None
    balance_weight: float = 0.0
    bias_rate: float = 0.0

    def __post_init__(self):
        for name in ("vocab_size", "d_model", "d_hidden", "heads", "layers", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.d_model % (2 * self.heads):
            raise ValueError(
                f"d_model {self.d_model} is not divisible by twice the heads ({self.heads}); "
                "choose another of the two"
            )
        if self.experts < 0:
            raise ValueError(f"experts is {self.experts}; it must be 0, for none, or more")
        if self.experts and not 1 <= self.top_k <= self.experts:
            raise ValueError(
                f"top_k is {self.top_k}, and there are {self.experts} experts; "
                f"use 1 to {self.experts}"
            )
        if self.capacity is not None and self.capacity <= 0:
            raise ValueError(
                f"a capacity of {self.capacity} equal shares takes nothing; use 1.25, say"
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

    Any part may be missing: `embedding` with `positions`, and `norm` with `head` may be None,
    `layers` keeps its keys when some are deleted. A stage made this way has the whole model's
    parameter names, so that one checkpoint serves any number of stages. Without an embedding the
    input is what the stage before gave, (batch, length, d_model); without a head, that is the
    output.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.embedding: nn.Embedding | None = nn.Embedding(config.vocab_size, config.d_model)
        self.positions: Positions | None = Positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleDict(
            {str(i): TransformerLayer(config) for i in range(config.layers)}
        )
        self.norm: nn.LayerNorm | None = nn.LayerNorm(config.d_model)
        self.head: nn.Linear | None = nn.Linear(config.d_model, config.vocab_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None and self.positions is not None:
            x = self.dropout(self.positions(self.embedding(x)))
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
            self.embedding = self.positions = None
        if not last:
            self.norm = self.head = None
        return self


def from_the_start(length: int) -> list[tuple[int, int]]:
    """The stretches, (start, end), of a sequence that a model gets `length` tokens of: all."""
    return [(0, length)]


class Positions(nn.Module):
    """Token vectors (batch, length, d_model) to vectors that know their position, as large.

    places: of how many tokens, to the stretches of the whole sequence that they are; the first
    ones unless somebody changes it.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        table = sinusoids(config.max_length, config.d_model)
        # not in checkpoints: it can be computed
        self.register_buffer("table", table, persistent=False)
        self.places: Callable[[int], list[tuple[int, int]]] = from_the_start

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [self.table[start:end] for start, end in self.places(x.shape[1])]
        return x * math.sqrt(x.shape[-1]) + (rows[0] if len(rows) == 1 else torch.cat(rows))


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float
) -> torch.Tensor:
    """Each token looks at itself and earlier ones: all are (batch, heads, length, d_head)."""
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)


class TransformerLayer(nn.Module):
    """Causal self-attention, then a two-layer perceptron: (batch, length, d_model), both ways.

    `experts` are None, or in the perceptron's place.
    Queries, keys and values have a matrix each: cut by rows into equal parts, each part is of whole
    heads. `attend` and the perceptron take what parts they have for the whole. attention: what
    `attend` gives q, k, v and the share of the weights to drop; another one may know of tokens that
    are elsewhere.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        d = config.d_model
        self.d_head = d // config.heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))
        self.experts = _experts(config) if config.experts else None
        if self.experts is None:
            self.up, self.down = nn.Linear(d, config.d_hidden), nn.Linear(config.d_hidden, d)
        self.dropout = nn.Dropout(config.dropout)
        self.attention: Callable[..., torch.Tensor] = causal_attention

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attend(self.norm1(x)))
        x2 = self.norm2(x)
        if self.experts is not None:
            return x + self.dropout(self.experts(x2))
        hidden = self.dropout(F.relu(self.up(x2)))
        return x + self.dropout(self.down(hidden))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Each position in `x` (batch, length, d_model) looks at itself and earlier ones only."""
        batch, length, _ = x.shape
        q, k, v = (
            linear(x).view(batch, length, -1, self.d_head).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )  # each (batch, heads, length, d_head)
        drop = self.dropout.p if self.training else 0.0
        y = self.attention(q, k, v, drop)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


def _experts(config: TransformerConfig) -> nn.Module:
    from rankbook.models.experts import Experts  # it takes time to load, and few models need it

    return Experts(
        config.d_model,
        config.d_hidden,
        config.experts,
        config.top_k,
        config.capacity,
        dropout=config.dropout,
        balance_weight=config.balance_weight,
    )


def sinusoids(length: int, d_model: int) -> torch.Tensor:
    """Sines (even columns) and cosines (odd ones) of falling frequency: (length, d_model)."""
    rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@torch.no_grad()
def initialise(model: nn.Module, seed: int, std: float | None = None) -> None:
    """Fill every parameter by a rule that knows only the seed and the parameter's name.

    So a stage that was made alone, on any device, holds exactly the whole model's values.
    Matrices, also stacked ones, are normal with standard deviation `std`, 1/sqrt(columns) if None;
    norms are 1, biases 0, and 0 is what experts give at first.
    Fills the positions too, which a model made on the meta device lacks.
    """
    for name, parameter in model.named_parameters():
        parameter.copy_(initial_value(name, parameter.shape, seed, std))
    for module in model.modules():
        if isinstance(module, Positions):
            module.table.copy_(sinusoids(*module.table.shape))


def initial_value(
    name: str, shape: torch.Size, seed: int, std: float | None = None
) -> torch.Tensor:
    """What `initialise` gives the parameter `name` of this `shape`: float32, on the CPU."""
    if name.endswith("experts.down"):
        # experts that say nothing yet: which of them rounding chooses for a token, where two are
        # as probable, makes no difference in the first steps, on however many ranks
        return torch.zeros(shape, device="cpu")
    if len(shape) < 2:
        return torch.full(shape, 1.0 if name.endswith("weight") else 0.0, device="cpu")
    # the CPU's generator on every device; it uses 32 bits of a seed, which a crc32 fills
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    normal = torch.randn(shape, generator=generator, device="cpu")
    return normal * (std or shape[-1] ** -0.5)
