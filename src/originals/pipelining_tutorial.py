"""PyTorch's tutorial on pipelining under its own names, in a small size: model, split and loss.

Kept as it is there, mistakes included: `TransformerLM` is the book's own model. Written from what
the tutorial says, https://docs.pytorch.org/tutorials/intermediate/pipelining_tutorial.html;
`T51_gpipe` shows the same code cell by cell, and `tests/originals` holds it to the listing.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage


@dataclass
class ModelArgs:
    """The model's sizes; the tutorial's are 512, 8, 8 and 10,000."""

    dim: int = 64
    n_layers: int = 8
    n_heads: int = 4
    vocab_size: int = 1000


class Transformer(nn.Module):
    """Token ids (batch, length) to logits (batch, length, vocab_size), or part of the way.

    options: of every `nn.TransformerDecoderLayer`. The tutorial passes none, so the layers take the
    first dimension for the length, drop out a tenth, and nothing masks later tokens. As a stage,
    whatever is missing is passed over: embedding, norm and output may be None, layers deleted.
    """

    def __init__(self, args: ModelArgs, **options):
        super().__init__()
        self.tok_embeddings: nn.Embedding | None = nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleDict()
        for i in range(args.n_layers):
            layer = nn.TransformerDecoderLayer(args.dim, args.n_heads, **options)
            self.layers[str(i)] = layer
        self.norm: nn.LayerNorm | None = nn.LayerNorm(args.dim)
        self.output: nn.Linear | None = nn.Linear(args.dim, args.vocab_size)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        if self.tok_embeddings is not None:
            h = self.tok_embeddings(h)
        for layer in self.layers.values():
            h = layer(h, h)  # its second argument is the memory
        if self.norm is not None:
            h = self.norm(h)
        return h if self.output is None else self.output(h).clone()  # `nn.Linear` returns a view


def manual_model_split(
    model: Transformer, stage_index: int, num_stages: int, device: torch.device
) -> PipelineStage:
    """Make the whole `model` its stage `stage_index`, in place, by the tutorial's rule.

    The rule knows stages 0 and 1. With any other index the model stays whole.
    """
    if stage_index == 0:
        for i in range(4, 8):
            del model.layers[str(i)]
        model.norm = model.output = None
    elif stage_index == 1:
        for i in range(4):
            del model.layers[str(i)]
        model.tok_embeddings = None
    return PipelineStage(model, stage_index, num_stages, device)


def tokenwise_loss_fn(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy over all tokens: a scalar."""
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
