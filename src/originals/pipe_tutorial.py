"""The model of PyTorch's Pipe-and-DDP tutorial, and how that tutorial cuts its batches.

It is kept as it was, mistakes included: `TransformerLM` is the book's own model. Runs on torch 2.3,
the last with `Pipe`, as well as on today's. Written from what the tutorial says of itself,
https://pytorch.org/tutorials/advanced/ddp_pipeline.html (removed in 2024).
"""

import math

import torch
from torch import nn

from rankbook.models.transformer import TransformerConfig, sinusoids

SPREAD = 0.1  # of the embedding's and the head's first weights, to both sides of 0


class TutorialEmbedding(nn.Module):
    """Ids (batch, length) to vectors (length, batch, d_model): the layers want the length first."""

    positions: torch.Tensor

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.table = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        positions = sinusoids(config.max_length, config.d_model)
        self.register_buffer("positions", positions[:, None], persistent=False)
        nn.init.uniform_(self.table.weight, -SPREAD, SPREAD)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids.t()) * math.sqrt(self.table.embedding_dim)
        return self.dropout(x + self.positions[: len(x)])


class TutorialHead(nn.Module):
    """Vectors (length, batch, d_model) to logits (batch, length, vocab_size).

    `Pipe` joins the chunks of a batch along the first dimension, so that must be the batch again.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.linear = nn.Linear(config.d_model, config.vocab_size)
        nn.init.uniform_(self.linear.weight, -SPREAD, SPREAD)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).transpose(0, 1)


def tutorial_stages(config: TransformerConfig, stages: int, seed: int) -> list[nn.Sequential]:
    """The model in `stages` parts, ids (batch, length) to logits (batch, length, vocab_size).

    Normalisation comes after each layer. Nothing masks the later tokens: an `nn.Sequential` hands
    on one argument, and the mask would be a second. All parts are made, with torch's own first
    weights after `torch.manual_seed(seed)`: a rank keeps its own. Raises ValueError unless each
    stage gets equally many layers.
    """
    if stages < 1 or config.layers % stages:
        raise ValueError(f"{config.layers} layers do not make {stages} equal stages")
    sizes = config.d_model, config.heads, config.d_hidden, config.dropout
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        embedding = TutorialEmbedding(config)
        layers = [nn.TransformerEncoderLayer(*sizes) for _ in range(config.layers)]
        head = TutorialHead(config)
    count = config.layers // stages
    parts: list[list[nn.Module]] = [[*layers[i * count :][:count]] for i in range(stages)]
    parts[0].insert(0, embedding)
    parts[-1].append(head)
    return [nn.Sequential(*part) for part in parts]


def tutorial_columns(
    ids: torch.Tensor, rows: int, replica: int = 0, replicas: int = 1
) -> torch.Tensor:
    """The text `ids` (tokens,) as `rows` columns, (time, rows); a replica's stretch of the time.

    What is left over at the end is dropped.
    """
    columns = ids[: len(ids) // rows * rows].view(rows, -1).t()
    share = len(columns) // replicas
    return columns[replica * share : (replica + 1) * share].contiguous()


def tutorial_batch(
    columns: torch.Tensor, start: int, length: int = 35
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids (rows, length) from `start` on, and as many targets in one dimension.

    The tutorial's mistake is kept: the targets are numbered through time first, all rows of the
    first moment, then of the second; the model's outputs row by row.
    """
    length = min(length, len(columns) - 1 - start)
    targets = columns[start + 1 : start + 1 + length]
    return columns[start : start + length].t(), targets.reshape(-1)
