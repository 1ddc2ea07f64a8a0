"""The twin's side of a proof: what one step of it gives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from rankbook.prove.names import Named, submodules


@dataclass
class TwinStep:
    """What one step of the twin gives: gradients before and after clipping, parameters after."""

    loss: float | None = None
    norm: float | None = None
    before: Named = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    clipped: dict[str, torch.Tensor | None] = field(default_factory=dict)
    after: Named = field(default_factory=dict)
    buffers: Named = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def forget_gradients(self) -> None:
        """They have been compared; what is left says whether anything changed."""
        self.gradients, self.clipped = {}, {}


def run_twin(
    step: Callable[..., Any],
    twin: nn.Module,
    parameters: Named,
    optimizers: list[Any],
    batch: Any,
    max_norm: float | None,
) -> TwinStep:
    """One step of the twin, by torch's own clipping; the order in which gradients are produced."""
    done = TwinStep(before=copies(parameters))
    hooks = [
        parameter.register_post_accumulate_grad_hook(_note(done.order, name))
        for name, parameter in parameters.items()
        if parameter.requires_grad
    ]
    for parameter in parameters.values():
        parameter.grad = None
    try:
        returned = step(twin, batch)
    finally:
        for hook in hooks:
            hook.remove()
    done.loss, _ = split(returned)
    done.order += [name for name in parameters if name not in done.order]
    done.gradients = {
        name: None if p.grad is None else p.grad.detach().clone() for name, p in parameters.items()
    }
    if max_norm is not None:
        done.norm = number(nn.utils.clip_grad_norm_(list(parameters.values()), max_norm))
        done.clipped = {
            name: None if p.grad is None else p.grad.detach().clone()
            for name, p in parameters.items()
        }
    for optimizer in optimizers:
        optimizer.step()
    if optimizers:
        done.after = copies(parameters)
    done.buffers = copies(dict(twin.named_buffers()))
    return done


def _note(order: list[str], name: str) -> Callable[[torch.Tensor], None]:
    return lambda _: None if name in order else order.append(name)


def copies(tensors: Named) -> Named:
    """Of all of them."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def split(returned: Any) -> tuple[float | None, float | None]:
    """Loss and norm of what a step returned: the loss, or both, or nothing."""
    loss, norm = (*returned, None)[:2] if isinstance(returned, tuple) else (returned, None)
    return number(loss), number(norm)


def number(value: Any) -> float | None:
    """The number in a tensor of one element, which may be a DTensor; None of None."""
    if value is None:
        return None
    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    return float(value.detach()) if isinstance(value, torch.Tensor) else float(value)


@dataclass(frozen=True)
class Modes:
    """The modes in which the modules of a model are; whether one of them drops at random."""

    training: frozenset[bool]
    drops: bool


def modes_of(model: Any) -> Modes:
    """Which modes its modules are in (training or not), and whether any dropout drops."""
    modules = list(submodules(model))
    drops = (m.training and "Dropout" in type(m).__name__ and m.p for m in modules)
    return Modes(frozenset(m.training for m in modules), any(drops))
