"""Modules that tests plan for, and functions that return none."""

import torch
from torch import nn

from rankbook.models import TransformerConfig, TransformerLM

value = 3


class Encoder(nn.Module):
    """torch's own layers, with learned positions."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(1000, 128), nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        self.inside = nn.TransformerEncoder(layer, 3)
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 1000, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.inside(x)))


class Block(nn.Module):
    """Grouped queries and a gate, by names that others use."""

    def __init__(self):
        super().__init__()
        self.n_heads, self.n_kv_heads = 8, 2
        sizes = {"wq": (128, 128), "wk": (128, 32), "wv": (128, 32), "wo": (128, 128)}
        sizes |= {"w1": (128, 320), "w3": (128, 320), "w2": (320, 128)}
        for name, size in sizes.items():
            setattr(self, name, nn.Linear(*size, bias=False))


class LlamaLike(nn.Module):
    """Two of them behind a table that is the head as well."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 128)
        self.blocks = nn.ModuleList(Block() for _ in range(2))


def encoder():
    return Encoder()


def llama_like():
    return LlamaLike()


def small():
    return TransformerLM(TransformerConfig(1000, 256, 1024, 4, 4, max_length=128))


def images():
    return nn.Sequential(*(nn.Conv2d(3, 3, 3) for _ in range(3)))


def looks_at_values():
    return Looks()


class Looks(nn.Module):
    """Cannot run without values."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, ids):
        x = self.table(ids)
        return x if x.sum().item() > 0 else -x


def large():
    """6.7 billion parameters."""
    return TransformerLM(TransformerConfig(32000, 4096, 16384, 32, 32, max_length=2048))


def a_dictionary():
    return {}


def empty():
    return nn.ReLU()


def needs_arguments(size):
    return size
