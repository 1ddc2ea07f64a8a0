"""DistilBERT for classification in plain torch, for padded and for packed batches.

The architecture is that of https://arxiv.org/abs/1910.01108: each layer normalises last, and the
first token of a text, [CLS], is what the head looks at. Parameters are named as in transformers'
DistilBertForSequenceClassification, so that published weights fit.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from rankbook.models.attention import ATTENTION, Sequences, attend
from rankbook.models.transformer import initialise

RESIDUAL = ("float32", "bf16")


@dataclass(frozen=True)
class ClassifierConfig:
    """The sizes of a model; as they stand here, DistilBERT's. Raises ValueError.

    dropout: after the embedding and after each perceptron; attention_dropout: of the attention's
    weights; head_dropout: before the last layer. max_length: the longest sequence, in tokens.
    """

    vocab_size: int = 30_522
    d_model: int = 768
    d_hidden: int = 3072
    heads: int = 12
    layers: int = 6
    max_length: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float = 0.2
    classes: int = 2

    def __post_init__(self):
        for name in ("vocab_size", "d_model", "d_hidden", "heads", "layers", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.d_model % self.heads:
            raise ValueError(
                f"d_model {self.d_model} is not divisible by the heads ({self.heads}); "
                "choose another of the two"
            )

    def forward_flop(self, lengths: Tensor) -> Tensor:
        """FLOP of one forward pass over sequences of `lengths` tokens, one number for each.

        Counted are the matrix products, two FLOP for each multiplication with its addition. All
        grow with the length but the attention's two, which grow with its square. A backward pass
        costs twice as much.
        """
        d, tokens = self.d_model, lengths.double()
        by_token = (8 * d * d + 4 * d * self.d_hidden) * tokens
        head = 2 * d * (d + self.classes)
        return self.layers * by_token + self.attention_flop(lengths) + head

    def attention_flop(self, lengths: Tensor) -> Tensor:
        """Of `forward_flop`, attention's products: queries with keys, and weights with values."""
        return self.layers * 4 * self.d_model * lengths.double().square()


class Classifier(nn.Module):
    """Token ids of some texts to their logits (batch, classes), by attention "eager" or "sdpa".

    Padded: ids (batch, length), and where they are real tokens, mask (batch, length) bool, or
    None if everywhere. Packed, that is one after the other: ids (tokens,), where each text begins
    and the last one ends, offsets (batch + 1,) int32, and the length of the longest, known to the
    host so that the device need not be asked. checkpointing: forget the activations within a
    layer, and compute them again in the backward pass. residual: the format of what each layer
    hands on and adds to; "bf16" rounds it to the format of autocast, and changes nothing outside
    of autocast.
    """

    def __init__(
        self,
        config: ClassifierConfig,
        *,
        attention: str = "eager",
        checkpointing: bool = False,
        residual: str = "float32",
    ):
        super().__init__()
        if attention not in ATTENTION:
            raise ValueError(f"attention {attention!r} is unknown; use {' or '.join(ATTENTION)}")
        if residual not in RESIDUAL:
            raise ValueError(f"residual {residual!r} is unknown; use {' or '.join(RESIDUAL)}")
        self.config, self.attention, self.checkpointing = config, attention, checkpointing
        norm = _NORMS[residual]
        self.distilbert = nn.ModuleDict(
            {
                "embeddings": Embeddings(config, norm),
                "transformer": nn.ModuleDict(
                    {
                        "layer": nn.ModuleList(
                            ClassifierLayer(config, norm) for _ in range(config.layers)
                        )
                    }
                ),
            }
        )
        self.pre_classifier = nn.Linear(config.d_model, config.d_model)
        self.classifier = nn.Linear(config.d_model, config.classes)
        self.head_dropout = nn.Dropout(config.head_dropout)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        offsets: Tensor | None = None,
        longest: int | None = None,
    ) -> Tensor:
        longest = ids.shape[1] if offsets is None else longest
        if longest is None:
            raise ValueError("packed texts need `longest`, the length of the longest, in tokens")
        if longest > self.config.max_length:
            raise ValueError(
                f"a sequence has {longest} tokens, and this model takes {self.config.max_length} "
                "at most; cut the texts when they are tokenised"
            )
        texts = (
            Sequences.padded(ids, mask)
            if offsets is None
            else Sequences.packed(ids, offsets, longest)
        )
        x = self.distilbert["embeddings"](ids, texts.positions)
        transformer = cast(nn.ModuleDict, self.distilbert["transformer"])
        for layer in cast(nn.ModuleList, transformer["layer"]):
            if self.checkpointing and self.training:
                x = checkpoint(layer, x, texts, self.attention, use_reentrant=False)
            else:
                x = layer(x, texts, self.attention)
        first = x[:, 0] if offsets is None else x[offsets[:-1]]
        return self.classifier(self.head_dropout(F.relu(self.pre_classifier(first))))

    def initialise(self, seed: int = 0) -> "Classifier":
        """Fill all parameters as DistilBERT does, with deviation 0.02, by `seed`; give itself."""
        initialise(self, seed, std=0.02)
        return self


class SixteenBitNorm(nn.LayerNorm):
    """LayerNorm of (..., d_model) that reads and writes the format of autocast, if that is on.

    Autocast itself would have a GPU read and write 32 bits here. Mean and deviation are computed in
    32 bits all the same: torch's kernels convert each number after they have read it.
    """

    def forward(self, input: Tensor) -> Tensor:
        kind = input.device.type
        if not torch.is_autocast_enabled(kind):
            return super().forward(input)
        dtype = torch.get_autocast_dtype(kind)
        with torch.autocast(kind, enabled=False):
            # a GPU's kernel wants weights of the same format
            weight, bias = self.weight.to(dtype), self.bias.to(dtype)
            return F.layer_norm(input.to(dtype), self.normalized_shape, weight, bias, self.eps)


_NORMS: dict[str, type[nn.LayerNorm]] = {"float32": nn.LayerNorm, "bf16": SixteenBitNorm}


class Embeddings(nn.Module):
    """Ids and positions of one shape to vectors (..., d_model)."""

    def __init__(self, config: ClassifierConfig, norm: type[nn.LayerNorm] = nn.LayerNorm):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.d_model)
        self.position_embeddings = nn.Embedding(config.max_length, config.d_model)
        self.LayerNorm = norm(config.d_model, eps=1e-12)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.word_embeddings(ids) + self.position_embeddings(positions)
        return self.dropout(self.LayerNorm(x))


class ClassifierLayer(nn.Module):
    """Attention, then a two-layer perceptron; each is added to its input, then normalised."""

    def __init__(self, config: ClassifierConfig, norm: type[nn.LayerNorm] = nn.LayerNorm):
        super().__init__()
        self.attention = Attention(config)
        self.sa_layer_norm = norm(config.d_model, eps=1e-12)
        self.ffn = Perceptron(config)
        self.output_layer_norm = norm(config.d_model, eps=1e-12)

    def forward(self, x: Tensor, texts: Sequences, attention: str) -> Tensor:
        x = self.sa_layer_norm(x + self.attention(x, texts, attention))
        return self.output_layer_norm(x + self.ffn(x))


class Attention(nn.Module):
    """Every token looks at every real token of its own text: (..., d_model), both ways."""

    def __init__(self, config: ClassifierConfig):
        super().__init__()
        self.heads, self.dropout = config.heads, config.attention_dropout
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = (
            nn.Linear(config.d_model, config.d_model) for _ in range(4)
        )

    def forward(self, x: Tensor, texts: Sequences, attention: str) -> Tensor:
        q, k, v = (
            linear(x).unflatten(-1, (self.heads, -1))
            for linear in (self.q_lin, self.k_lin, self.v_lin)
        )
        y = attend(q, k, v, texts, attention, self.dropout if self.training else 0.0)
        return self.out_lin(y.flatten(-2))


class Perceptron(nn.Module):
    """The two-layer perceptron of a layer: (..., d_model), both ways."""

    def __init__(self, config: ClassifierConfig):
        super().__init__()
        self.lin1 = nn.Linear(config.d_model, config.d_hidden)
        self.lin2 = nn.Linear(config.d_hidden, config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.lin2(F.gelu(self.lin1(x))))
