"""The layers of a Transformer cut among ranks: tensor parallelism with sequence parallelism.

Between layers a rank holds a part of each sequence. A layer gathers the sequence, works with its
part of the heads or columns, and sums and scatters the result: Megatron-LM's scheme,
https://arxiv.org/abs/1909.08053 and https://arxiv.org/abs/2205.05198, by torch's DTensor:
https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html
"""

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from rankbook.models.transformer import TransformerLM

SEQUENCE = Shard(1)  # of (batch, length, d_model)


def tensor_parallel(model: TransformerLM, mesh: DeviceMesh) -> TransformerLM:
    """Cut `model`, or a stage of one, among the ranks of `mesh`, in place: `mesh["tp"]`.

    What comes in and goes out, between stages, is this rank's part of the sequences (batch,
    length / tp, d_model); the head gives its part of the vocabulary (batch, length, entries here):
    the loss is `vocabulary_loss`. All ranks must hold the same values before, or none (meta).
    """
    for layer in model.layers.values():
        styles = _of_experts() if getattr(layer, "experts", None) else _of_layer()
        parallelize_module(layer, mesh, styles, src_data_rank=None)
    parallelize_module(model, mesh, _of_ends(model), src_data_rank=None)
    return model


class Gathered(SequenceParallel):
    """A norm that works on this rank's part of each sequence, and hands on the whole, gathered.

    Once for all that read it: with ColwiseParallel(input_layouts=Shard(1)), queries, keys and
    values would each gather it for themselves.
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        module = super()._apply(module, device_mesh)
        module.register_forward_hook(_gather)
        return module


def _gather(module: nn.Module, inputs: Any, output: Any) -> Any:
    return output.redistribute(placements=[Replicate()])


def _of_layer() -> dict[str, ParallelStyle]:
    columns = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    rows = {name: RowwiseParallel(output_layouts=SEQUENCE) for name in ("out", "down")}
    return {"norm1": Gathered(), "norm2": Gathered(), **columns, **rows}


def _of_experts() -> dict[str, ParallelStyle]:
    """Experts take tokens as they come: each rank's part of the sequences goes to them as it is.

    Their parameters are `expert_parallel`'s to place.
    """
    attention = {name: style for name, style in _of_layer().items() if name not in ("up", "down")}
    return attention | {"norm2": SequenceParallel(use_local_output=True)}


def _of_ends(model: TransformerLM) -> dict[str, ParallelStyle]:
    styles: dict[str, ParallelStyle] = {}
    if model.embedding is not None:
        styles["embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=SEQUENCE)
        styles["positions"] = SequenceParallel(use_local_output=True)
    if model.head is not None:
        styles |= {"norm": Gathered(), "head": ColwiseParallel()}
    return styles
