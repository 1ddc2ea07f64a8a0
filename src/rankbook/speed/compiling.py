"""torch.compile of a classifier: modes, changing lengths, and how often it had to compile."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from rankbook.speed.batches import Batch

# Lengths and token counts differ from batch to batch. Left to itself, torch.compile makes the
# first graph for one shape, and from the second shape on a graph with symbols. With dynamic=True
# symbols are there from the start.
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "dynamic": {"dynamic": True},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
}
_NUMBERS = itertools.count()
GRAPH_TOKENS = 512  # a CUDA graph serves one shape: token counts are rounded up to this multiple


def compiled(model: nn.Module, how: str | None) -> Callable[..., torch.Tensor]:
    """`model` itself if `how` is None, else a compiled call of it; it compiles when first called.

    how: "default", "dynamic", "reduce-overhead" (CUDA graphs: kernels recorded once for a shape,
    then replayed) or "max-autotune" (without CUDA graphs: one factor at a time). Raises KeyError
    for another. Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """
    if how is None:
        return model

    def call(*inputs):
        return model(*inputs)

    # TorchDynamo keeps compiled versions by code object, which all models of a class share: with
    # one of its own, each compiles for itself, and pays for it
    call.__code__ = call.__code__.replace(co_name=f"call_{next(_NUMBERS)}")
    return torch.compile(call, **OPTIONS[how])


@contextmanager
def compiling() -> Iterator[None]:
    """Let a row keep all that it compiled: after 8 versions of a function TorchDynamo would fall
    back to running without compilation."""
    with torch._dynamo.config.patch(recompile_limit=256):
        yield


def graphs() -> int:
    """How many graphs TorchDynamo has compiled in this process so far."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def rounded(batch: Batch, longest: int) -> Batch:
    """A packed `batch` with one more text at its end, of padding only, which has no label.

    So the token count is a multiple of `GRAPH_TOKENS`, and few shapes occur. longest: what the
    longest text counts as from now on, in tokens, since another number is another graph. The
    last row of the logits is the padding's. A padded batch comes back as it is.
    """
    if batch.offsets is None:
        return batch
    tail = GRAPH_TOKENS - len(batch.ids) % GRAPH_TOKENS  # from 1 on: every text needs a token
    ids = F.pad(batch.ids, (0, tail))
    offsets = torch.cat([batch.offsets, batch.offsets[-1:] + tail])
    return replace(batch, ids=ids, offsets=offsets, longest=longest)
