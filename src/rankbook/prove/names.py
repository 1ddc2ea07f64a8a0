"""The parameters and buffers of a rank's part, by the names that the twin has for them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

# what wrappers put into names: torch.compile, checkpoint_wrapper, FSDP1; DDP's is removed last,
# as a model may have a child of that name
WRAPPERS = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}
Named = dict[str, torch.Tensor]


def modules_of(model: Any) -> list[Any]:
    """`model`, or several: those of a rank that has more than one stage."""
    if model is None:
        return []
    if isinstance(model, dict):
        return list(model.values())
    if isinstance(model, Iterable) and not hasattr(model, "named_parameters"):
        return list(model)
    return [model]


def submodules(model: Any) -> Iterator[nn.Module]:
    """All modules in it, also in an object that is none but keeps a dictionary `modules`."""
    for part in modules_of(model):
        inside = part if isinstance(part, nn.Module) else getattr(part, "modules", None)
        for module in modules_of(inside):
            if isinstance(module, nn.Module):
                yield from module.modules()


def twin_parameters(twin: nn.Module) -> tuple[Named, dict[str, str]]:
    """The twin's parameters by name, and of every name, a tied one's too, the first of its names.

    Raises ValueError where two tensors get one name once wrappers' words are removed.
    """
    first: dict[int, str] = {}
    known: dict[str, str] = {}
    for name, parameter in twin.named_parameters(remove_duplicate=False):
        known[_bare(name)] = first.setdefault(id(parameter), _bare(name))
    return {_bare(name): p for name, p in twin.named_parameters()}, known


def part_parameters(
    model: Any, known: dict[str, str], rename: Callable[[str], str] | None
) -> Named:
    """This rank's parameters by the twin's names.

    Raises ValueError for one that the twin has not, and where two get one name.
    """
    found: Named = {}
    reshard(model)
    for module in modules_of(model):
        for given, parameter in module.named_parameters():
            name = known_name(given, known, rename)
            if name is None:
                raise ValueError(
                    f"parameter {given} is not in the twin, whose names begin with "
                    f"{', '.join(list(known)[:3])}; say what it is called there: names=function"
                )
            if name in found and found[name] is not parameter:
                name = _other_alias(name, known, found)
            found[name] = parameter
    return found


def part_buffers(model: Any, known: dict[str, str], rename: Callable[[str], str] | None) -> Named:
    """This rank's buffers that the twin has, too, by the twin's names."""
    found: Named = {}
    for module in modules_of(model):
        for given, buffer in getattr(module, "named_buffers", lambda: ())():
            name = known_name(given, known, rename)
            if name is not None:
                found[name] = buffer
    return found


def known_name(
    given: str, known: dict[str, str], rename: Callable[[str], str] | None
) -> str | None:
    """What the twin calls the parameter `given`: None if nothing it has fits."""
    for name in _candidates(rename(given) if rename else given):
        if name in known:
            return known[name]
    return None


def _candidates(name: str) -> Iterator[str]:
    yield name
    yield _bare(name)
    while name.startswith("module."):  # DDP around the whole part
        name = name.removeprefix("module.")
        yield _bare(name)
    yield ".".join(word for word in _bare(name).split(".") if word != "module")


def _bare(name: str) -> str:
    return ".".join(word for word in name.split(".") if word not in WRAPPERS)


def _other_alias(name: str, known: dict[str, str], found: Named) -> str:
    """Another of a tied parameter's names, for a part that holds it twice."""
    for alias, first in known.items():
        if first == name and alias not in found:
            return alias
    raise ValueError(f"two parameters of this rank's part are {name} of the twin")


def reshard(model: Any) -> None:
    """Of FSDP2's modules that a forward pass left gathered: the parameters are shards again."""
    kind: Any = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
    for module in submodules(model):
        if isinstance(module, kind):
            module.reshard()
