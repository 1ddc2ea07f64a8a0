"""One step of a rank's part, looked at on its way."""

from collections.abc import Callable
from typing import Any

from rankbook.prove.part import RankView
from rankbook.prove.twin import TwinStep, split


def run_part(
    part: RankView,
    step: Callable[..., Any],
    model: Any,
    batch: Any,
    optimizers: list[Any],
    clip: Callable[..., Any] | None,
    max_norm: float | None,
    twin: TwinStep,
) -> tuple[float | None, float | None]:
    """One step of this rank's part, looked at on its way: its loss and its norm.

    Where `step` steps the optimizer itself, it is looked at as that begins.
    """
    entered: list[bool] = []
    part.doing = "step"
    for parameter in part.named.values():
        parameter.grad = None

    def look(*_: Any) -> None:
        if not entered:
            kind, values = ("gradient", twin.gradients)
            if max_norm is not None:
                kind, values = ("clipped", twin.clipped)
            part.look_gradients(kind, values)
        entered.append(True)

    hooks = [each.register_step_pre_hook(look) for each in optimizers]
    try:
        loss, norm = split(step(model, batch))
    finally:
        for hook in hooks:
            hook.remove()
    if not entered:
        part.look_gradients("gradient", twin.gradients)
        if clip is not None and max_norm is not None:
            part.doing = "clip"
            _, norm = split((None, clip(list(part.named.values()), max_norm)))
            part.look_gradients("clipped", twin.clipped)
        part.doing = "optimizer.step"
        for optimizer in optimizers:
            optimizer.step()
    part.look_after(twin)
    return loss, norm
