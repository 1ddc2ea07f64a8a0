"""Cutting a model into stages: by hand, from deletable parts, or by the tracer.

Both keep the names of the whole model's parameters. Source:
https://docs.pytorch.org/docs/stable/distributed.pipelining.html#step-1-build-pipelinestage
"""

from itertools import pairwise

import torch
from torch import nn
from torch.distributed.pipelining import SplitPoint, pipeline

from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise


def split_layers(layers: int, stages: int) -> list[range]:
    """Which of `layers` each of `stages` gets: their numbers differ by one at most.

    Where they do not divide, the first stages get one more: the last has the head to do as well.
    Raises ValueError if there are more stages than layers.
    """
    if not 1 <= stages <= layers:
        raise ValueError(f"{stages} stages cannot share {layers} layers; use 1 to {layers} stages")
    size, more = divmod(layers, stages)
    starts = [stage * size + min(stage, more) for stage in range(stages + 1)]
    return [range(start, end) for start, end in pairwise(starts)]


def keep_stage(model: TransformerLM, index: int, stages: int) -> TransformerLM:
    """Make the whole `model` its stage `index`, in place: whatever is not of the stage is deleted.

    Raises ValueError if there are more stages than layers.
    """
    mine = split_layers(len(model.layers), stages)[index]
    return model.keep(mine, first=index == 0, last=index == stages - 1)


def stage_module(
    config: TransformerConfig, index: int, stages: int, device: torch.device, seed: int = 0
) -> TransformerLM:
    """Stage `index` of `stages` on `device`, with the values of the whole model of the same `seed`.

    config: of the whole model, which exists on the meta device only, without memory: a rank needs
    its part's.
    """
    with torch.device("meta"):
        model = TransformerLM(config)
    model = keep_stage(model, index, stages).to_empty(device=device)
    initialise(model, seed)
    return model


def traced_modules(
    model: TransformerLM, example: torch.Tensor, stages: int
) -> dict[int, nn.Module]:
    """All stages {index: module}, cut out of the graph that `torch.export` traces from `model`.

    example: ids of ONE microbatch (batch, length), where the model is; the graphs take this shape
    only. Dropout is traced as the model's mode has it, and `eval()` cannot take it out again.
    Raises ValueError if there are more stages than layers.
    """
    starts = [layers[0] for layers in split_layers(len(model.layers), stages)]
    before = {f"layers.{start}": SplitPoint.BEGINNING for start in starts[1:]}
    traced = pipeline(model, mb_args=(example,), split_spec=before)
    return {index: traced.get_stage_module(index) for index in range(stages)}
