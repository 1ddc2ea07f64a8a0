"""torch.compile of a classifier: modes, changing lengths, and how often it had to compile."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

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
GRAPH_TOKENS = 512  # a CUDA graph serves one shape: token counts are rounded up to this multiple


def compiled(model: nn.Module, how: str | None) -> nn.Module:
    """`model` itself if `how` is None, else `torch.compile` of it; it compiles when first called.

    how: "default", "dynamic", "reduce-overhead" (CUDA graphs: kernels recorded once for a shape,
    then replayed) or "max-autotune" (without CUDA graphs: one factor at a time). Raises KeyError
    for another. Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """
    return model if how is None else cast(nn.Module, torch.compile(model, **OPTIONS[how]))


@contextmanager
def compiling() -> Iterator[None]:
    """Let rows that take turns each keep what they compiled.

    TorchDynamo counts compiled versions by the code of the function, which all models of a
    process share; after 8 it falls back to running without compilation, silently.
    """
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
