"""What a step really computes in, and what is kept in 32 bits all the same."""

from collections import Counter
from collections.abc import Iterable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rankbook.speed.batches import Batch
from rankbook.speed.loop import Training
from rankbook.speed.precision import autocast


def formats(training: Training, batch: Batch) -> dict[str, dict]:
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


def _counted(tensors: Iterable[torch.Tensor]) -> dict[str, int]:
    counts: Counter[str] = Counter()
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

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if torch.is_tensor(tensor) and tensor.is_floating_point():
                self.formats.setdefault(func.overloadpacket.__name__, set()).add(_name(tensor))
        return result
