"""Which operations make Python wait for a GPU: those whose result it needs to go on."""

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# torch's marks: the result decides what Python does next (`item`), or a tensor's shape (`unique`).
# Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/tags.yaml
MARKS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def waits(work: Callable[[], object]) -> list[str]:
    """The names of the operations in `work` that make Python wait, in their order.

    Found by what the operations are, not by the clock: on any device. Copies to the host that do
    not decide on anything are not among them.
    """
    with _Noting() as noting:
        work()
    return noting.found


class _Noting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if MARKS & set(func.tags):
            self.found.append(func.name())
        return func(*args, **(kwargs or {}))
