"""Number formats: which matmuls run in, and what is kept in 32 bits all the same."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from rankbook.speed.batches import Batch
    from rankbook.speed.loop import Training

SIXTEEN = {"fp16": torch.float16, "bf16": torch.bfloat16}


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """The context for a forward pass in "fp16" or "bf16"; for the others it changes nothing."""
    dtype = SIXTEEN.get(precision, torch.bfloat16)
    return torch.autocast(device.type, dtype, enabled=precision in SIXTEEN)


@contextmanager
def matmuls(precision: str) -> Iterator[None]:
    """Let float32 matmuls of this process use TF32 within, if `precision` is "tf32".

    The setting is the process's, not the model's: recipes that take turns must set it each time.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def formats(training: "Training", batch: "Batch") -> dict[str, dict]:
    """The number formats of one step of `training` on `batch`, as they really are.

    ``parameters``, ``gradients``, ``optimizer state``: how many numbers of each format.
    ``activations``: for each operation of the forward pass, the formats of its results. The step
    is a real one: the model learns from it.
    """
    batch = batch.to(training.device)
    with _Results() as results, autocast(training.recipe.precision, training.device):
        training.model(*batch.inputs)
    training.step(batch)
    parameters = list(training.model.parameters())
    slots = (slot for state in training.optimizer.state.values() for slot in state.values())
    return {
        "parameters": _counted(parameters),
        "activations": {op: " / ".join(sorted(names)) for op, names in results.formats.items()},
        "gradients": _counted([p.grad for p in parameters if p.grad is not None]),
        "optimizer state": _counted([s for s in slots if torch.is_tensor(s) and s.dim()]),
    }


def _counted(tensors: list[torch.Tensor]) -> dict[str, int]:
    counts = Counter()
    for tensor in tensors:
        counts[_name(tensor)] += tensor.numel()
    return dict(counts)


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class _Results(TorchDispatchMode):
    """Notes the floating-point formats of what each operation returns."""

    def __init__(self):
        super().__init__()
        self.formats: dict[str, set[str]] = {}

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if torch.is_tensor(tensor) and tensor.is_floating_point():
                self.formats.setdefault(op.overloadpacket.__name__, set()).add(_name(tensor))
        return result
