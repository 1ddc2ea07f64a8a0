"""What makes a step hold less between forward and backward: computing anew, or the host's memory.

Both by torch's own means, https://docs.pytorch.org/docs/stable/checkpoint.html and
https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from rankbook.core.dtensor import to_local
from rankbook.models.transformer import TransformerLM

aten = torch.ops.aten
# what the selective way keeps: matrices' results, and what other ranks' were needed for
KEPT = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default}
SENT = "reduce_scatter_tensor"


def checkpoint_layers(model: TransformerLM, how: str) -> None:
    """Have each layer of `model` compute anew, in its backward pass, what it need not keep.

    how: "none"; "layers", all but its input; "selective", all but its input and what its matrices
    gave. In place; names of parameters stay. Raises ValueError for anything else.
    """
    if how not in ("none", "layers", "selective"):
        raise ValueError(f"checkpointing {how!r} is unknown; use one of none, layers, selective")
    if how == "none":
        return
    options: dict[str, Any] = {"use_reentrant": False}
    if how == "selective":
        options["context_fn"] = partial(create_selective_checkpoint_contexts, _policy)
    for layer in model.layers.values():
        # not a wrapper: FSDP2's and tensor parallelism's hooks are on the module, and stay there
        layer.forward = partial(checkpoint, layer.forward, **options)  # type: ignore[assignment]


def _policy(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    keeps = operation in KEPT or SENT in str(operation)
    return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE


class OnHost(saved_tensors_hooks):
    """Within it, what autograd saves waits in the host's memory: `save_on_cpu`, but for parameters.

    parameters: storages that stay where they are; torch's own would copy them for every
    microbatch. On a CPU the host's memory is the device's, and torch's own then does nothing at
    all: here a copy is made there as well, so that a CPU shows what a GPU would hold. marking: the
    context in which that copy is made.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        marking: Callable[[], AbstractContextManager] = nullcontext,
    ):
        torchs = save_on_cpu(pin_memory=torch.cuda.is_available())
        # gathered parameters come and go: known by being leaves, or views of one
        kept = {to_local(p.detach()).untyped_storage()._cdata for p in parameters}

        def pack(tensor: torch.Tensor) -> Any:
            base = tensor if tensor._base is None else tensor._base
            if isinstance(base, nn.Parameter) or _storage(tensor) in kept:
                return tensor
            if tensor.is_cpu:
                with marking():
                    return tensor.device, tensor.clone()
            return torchs.pack_hook(tensor)

        def unpack(packed: Any) -> torch.Tensor:
            if isinstance(packed, torch.Tensor):
                return packed
            device, tensor = packed
            return tensor.clone() if device.type == "cpu" else torchs.unpack_hook(packed)

        super().__init__(pack, unpack)


def _storage(tensor: torch.Tensor) -> int:
    return to_local(tensor).untyped_storage()._cdata
