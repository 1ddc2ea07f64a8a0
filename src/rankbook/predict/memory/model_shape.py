"""The sizes of a decoder-only Transformer, and what follows from them: parameters, arithmetic."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a plan is made without torch
    from rankbook.models.transformer import TransformerConfig


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a model; `sequence` is the length it trains at, in tokens.

    kv_heads: heads of keys and values, fewer than `heads` with grouped queries (0: as many).
    head_size: 0 for hidden / heads. gated: the perceptron has a third matrix (SwiGLU). tied: the
    head is the embedding. biases: every matrix but the head has one, and norms have one.
    positions: learned ones, in the embedding. relu: where the perceptron is not gated, ReLU and
    not GELU, which keeps its input. dropout: behind attention and the perceptron. Raises ValueError
    for a size that cannot be.
    """

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    sequence: int = 2048
    kv_heads: int = 0
    head_size: int = 0
    gated: bool = False
    tied: bool = False
    biases: bool = True
    head_bias: bool = False
    positions: bool = False
    relu: bool = False
    dropout: bool = False

    def __post_init__(self):
        for name in ("layers", "hidden", "heads", "feed_forward", "vocabulary", "sequence"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if not self.head_size and self.hidden % self.heads:
            raise ValueError(
                f"a hidden size of {self.hidden} is not divisible by {self.heads} heads; "
                "give head_size, or change one of the two"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} heads cannot share {self.kv_heads} heads of keys and values evenly; "
                "choose a divisor"
            )

    @classmethod
    def of(cls, config: "TransformerConfig", window: int = 0) -> "ModelShape":
        """Of the book's own model, trained on sequences of `window` tokens (0: the longest).

        Raises ValueError for one with experts: how full they are is no matter of sizes.
        """
        if config.experts:
            raise ValueError(
                f"this formula does not know a model with {config.experts} experts: how many "
                "tokens each holds is the router's choice; measure it"
            )
        return cls(
            config.layers,
            config.d_model,
            config.heads,
            config.d_hidden,
            config.vocab_size,
            window or config.max_length,
            head_bias=True,
            relu=True,
            dropout=config.dropout > 0,
        )

    @property
    def queries(self) -> int:
        """Columns of the queries: heads x head size."""
        return self.heads * (self.head_size or self.hidden // self.heads)

    @property
    def keys(self) -> int:
        """Columns of the keys, and of the values."""
        return self.queries * (self.kv_heads or self.heads) // self.heads

    @property
    def layer(self) -> int:
        """Parameters of a layer: attention's four matrices, the perceptron's, two norms."""
        attention = self.hidden * (2 * self.queries + 2 * self.keys)
        perceptron = (3 if self.gated else 2) * self.hidden * self.feed_forward
        biases = self.queries + 2 * self.keys + 2 * self.hidden  # q, k, v; out, down
        biases += (2 if self.gated else 1) * self.feed_forward
        norms = 2 * self.hidden
        return attention + perceptron + norms + (self.biases and biases + norms)

    @property
    def embedding(self) -> int:
        """Parameters before the first layer."""
        return (self.vocabulary + (self.sequence if self.positions else 0)) * self.hidden

    @property
    def head(self) -> int:
        """Parameters behind the last layer: the norm, and the head unless it is the embedding."""
        norm = self.hidden * (2 if self.biases else 1)
        bias = self.vocabulary if self.head_bias else 0
        return norm + bias + (0 if self.tied else self.vocabulary * self.hidden)

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.embedding + self.layers * self.layer + self.head

    @property
    def flops_of_layer(self) -> float:
        """Floating-point operations of a layer's forward pass for one token, attention causal.

        A multiplication and an addition for each parameter of a matrix; scores and their sums over
        half the sequence. Source: https://arxiv.org/abs/2104.04473, appendix.
        """
        matrices = self.hidden * (2 * self.queries + 2 * self.keys)
        matrices += (3 if self.gated else 2) * self.hidden * self.feed_forward
        return 2 * matrices + 2 * self.sequence * self.queries

    @property
    def flops_of_head(self) -> float:
        """The same of the head: logits over the vocabulary."""
        return 2 * self.hidden * self.vocabulary

    @property
    def flops(self) -> float:
        """Floating-point operations of a training step for one token: forward, and twice that."""
        return 3 * (self.layers * self.flops_of_layer + self.flops_of_head)
