"""The optimizers of the ranks, and the twin's: of the same classes, with the same settings."""

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from rankbook.prove.names import Named

LEFT_OUT = ("params", "param_names")  # of a group: what isn't a setting


@dataclass(frozen=True)
class Settings:
    """How one parameter is optimized: by which of the optimizers, its class, the group's values."""

    optimizer: int
    kind: type
    defaults: dict[str, Any]
    group: dict[str, Any]


def innermost(optimizer: Any) -> Any:
    """The optimizer that a wrapper (ZeroRedundancyOptimizer and others) steps."""
    for name in ("optim", "optimizer"):
        inner = getattr(optimizer, name, None)
        if isinstance(inner, torch.optim.Optimizer):
            return innermost(inner)
    return optimizer


def settings_of(optimizers: list[Any], mine: Named) -> tuple[dict[str, Settings], list[Settings]]:
    """The settings of each of this rank's parameters; those of others that the optimizers hold."""
    names = {id(parameter): name for name, parameter in mine.items()}
    found: dict[str, Settings] = {}
    strangers: list[Settings] = []
    for index, optimizer in enumerate(optimizers):
        inner = innermost(optimizer)
        for group in optimizer.param_groups:
            values = {key: value for key, value in group.items() if key not in LEFT_OUT}
            for parameter in group["params"]:
                known = Settings(index, type(inner), dict(inner.defaults), values)
                if id(parameter) in names:
                    found[names[id(parameter)]] = known
                else:
                    strangers.append(known)
    return found, strangers


def all_settings(everyone: list[dict[str, Any]], twin: Named) -> dict[str, Settings]:
    """The settings of each parameter of the twin that an optimizer holds, from what ranks told.

    Where one holds tensors that are no parameters of the model, it was meant for those that no
    optimizer holds.
    """
    settings = {name: s for each in reversed(everyone) for name, s in each["settings"].items()}
    strangers = [each["strangers"][0] for each in everyone if each["strangers"]]
    if strangers:
        lost = [name for name, p in twin.items() if p.requires_grad and name not in settings]
        settings |= dict.fromkeys(lost, strangers[0])
    return settings


def twin_optimizers(settings: dict[str, Settings], twin: Named) -> list[torch.optim.Optimizer]:
    """Optimizers of the same classes, with the same settings of each parameter, for the twin.

    Raises ValueError where a class cannot be made from groups and its defaults.
    """
    made = []
    for index in sorted({each.optimizer for each in settings.values()}):
        groups: dict[str, dict[str, Any]] = {}
        kind, defaults = object, {}
        for name in twin:
            if name in settings and settings[name].optimizer == index:
                of = settings[name]
                kind, defaults = of.kind, of.defaults
                groups.setdefault(repr(of.group), {**of.group, "params": []})
                groups[repr(of.group)]["params"].append(twin[name])
        made.append(_make(kind, list(groups.values()), defaults))
    return made


def _make(kind: Any, groups: list[dict[str, Any]], defaults: dict[str, Any]) -> Any:
    try:
        takes = inspect.signature(kind.__init__).parameters
        return kind(groups, **{k: v for k, v in defaults.items() if k in takes})
    except Exception as error:
        raise ValueError(
            f"no {kind.__name__} could be made for the twin ({type(error).__name__}: {error}); "
            "give one: twin_optimizer="
        ) from error
