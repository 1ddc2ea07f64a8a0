"""The model of PyTorch's tutorial on pipelining, and its rule for cutting it in two.

Kept as it is there, mistakes included: `TransformerLM` is the book's own model. Written from what
the tutorial says, https://docs.pytorch.org/tutorials/intermediate/pipelining_tutorial.html;
`tests/originals` holds both to its listing.
"""

import torch
from torch import nn

LAYERS = 8


class TutorialDecoder(nn.Module):
    """Token ids (batch, length) to logits (batch, length, vocab_size), or part of the way.

    options: of every `nn.TransformerDecoderLayer`. The tutorial passes none, so the layers take the
    first dimension for the length, drop out a tenth, and nothing masks later tokens. As a stage,
    whatever is missing is passed over: embedding, norm and head may be None, layers deleted.
    """

    def __init__(self, vocab_size: int, d_model: int, heads: int, **options):
        super().__init__()
        self.embedding: nn.Embedding | None = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleDict(
            {str(i): nn.TransformerDecoderLayer(d_model, heads, **options) for i in range(LAYERS)}
        )
        self.norm: nn.LayerNorm | None = nn.LayerNorm(d_model)
        self.head: nn.Linear | None = nn.Linear(d_model, vocab_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x, x)  # its second argument is the memory
        if self.norm is not None:
            x = self.norm(x)
        return x if self.head is None else self.head(x)


def keep_half(model: TutorialDecoder, index: int) -> TutorialDecoder:
    """Make the whole `model` its stage `index`, in place, by the tutorial's rule.

    The rule knows stages 0 and 1. With any other index the model stays whole.
    """
    dropped = {0: range(LAYERS // 2, LAYERS), 1: range(LAYERS // 2)}.get(index, range(0))
    for i in dropped:
        del model.layers[str(i)]
    if index == 0:
        model.norm = model.head = None
    elif index == 1:
        model.embedding = None
    return model
