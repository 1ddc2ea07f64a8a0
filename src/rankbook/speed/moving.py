"""A model and what its optimizer remembers, brought to another device together."""

import torch
from torch import nn
from torch.optim import Optimizer


def move(model: nn.Module, optimizer: Optimizer, device: torch.device | str) -> None:
    """Bring parameters, gradients, buffers and the optimizer's moments to `device`, in place.

    The optimizer keeps its parameters, which are the same objects. The number of the step, of
    shape (), stays where it is: most optimizers want it on the CPU.
    """
    model.to(device)
    for slots in optimizer.state.values():
        for name, slot in slots.items():
            if torch.is_tensor(slot) and slot.dim():
                slots[name] = slot.to(device)
