"""Three routes from a pretrained model to a task: which parameters learn, and what a step costs.

The routes are those of https://arxiv.org/abs/1801.06146 and of most texts since: features that are
extracted once, the last layer with a new head, or all layers.
"""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from rankbook.models.attention import Sequences
from rankbook.models.classifier import Classifier
from rankbook.speed.batches import Batch

ROUTES = {
    "features": "one pass over the reviews without gradients; a linear classifier learns",
    "last layer": "the last layer and the head learn, the rest is frozen",
    "all layers": "everything learns",
}
POOLING = ("first", "mean")


def train_only(model: Classifier, route: str) -> list[nn.Parameter]:
    """Freeze what `route` does not train, in place; the parameters that learn.

    By ``requires_grad``: autograd then goes back no further than the first that learns. For
    "features" nothing of the model does. Raises ValueError for an unknown route.
    """
    if route not in ROUTES:
        raise ValueError(f"route {route!r} is unknown; use one of: {', '.join(ROUTES)}")
    last = f"distilbert.transformer.layer.{model.config.layers - 1}."
    learn = {"features": ("none",), "last layer": (last, "pre_classifier.", "classifier.")}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(route == "all layers" or name.startswith(learn[route]))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def body(model: Classifier, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """What the layers make of padded ids (rows, length), before the head: (..., d_model)."""
    texts = Sequences.padded(ids, mask)
    x = model.distilbert["embeddings"](ids, texts.positions)
    transformer = cast(nn.ModuleDict, model.distilbert["transformer"])
    for layer in cast(nn.ModuleList, transformer["layer"]):
        x = layer(x, texts, model.attention)
    return x


@torch.no_grad()
def extract(model: Classifier, batches: Iterable[Batch], pooling: str = "first") -> Tensor:
    """One vector a review, (reviews, d_model), in the order of `batches`, which are padded.

    pooling: "first", the first token's, which the head looks at as well, or the "mean" of the
    real tokens. In evaluation mode, and without gradients. Raises ValueError.
    """
    if pooling not in POOLING:
        raise ValueError(f"pooling {pooling!r} is unknown; use {' or '.join(POOLING)}")
    model.eval()
    return torch.cat([_pooled(body(model, b.ids, b.mask), b, pooling) for b in batches])


def _pooled(hidden: Tensor, batch: Batch, pooling: str) -> Tensor:
    if pooling == "first" or batch.mask is None:
        return hidden[:, 0] if pooling == "first" else hidden.mean(1)
    weights = batch.mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1)


def route_flop(model: Classifier, route: str, batch: Batch) -> int:
    """FLOP of what `route` does with a padded `batch`: a forward pass, or forward and backward.

    The matrix products, counted as torch carries them out; autograd leaves gradients in `model`.
    How far back it goes is up to what ``requires_grad``, as `train_only` sets it.
    """
    with FlopCounterMode(display=False) as counter:
        if route == "features":
            extract(model, [batch])
        else:
            F.cross_entropy(model(*batch.inputs), batch.labels).backward()
    return counter.get_total_flops()
