"""What a run is at a step: taken out of model and optimizer, and put back."""

from collections.abc import Mapping
from typing import Any, cast

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from rankbook.core.agreement import agree, gather, rank_and_world
from rankbook.training.checkpoint.random_state import random_state, seed_from, set_random_state

_CURE = "use the same model, or another folder"


def capture(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    position: dict | None = None,
    scheduler: Any = None,
    scaler: Any = None,
) -> dict:
    """All that the next step depends on; on all ranks, which get the same.

    position: where in the data the run is, in plain values that mean the same in any world.
    scheduler, scaler: of the learning rate and of mixed precision, where there are. The tensors
    are the living ones, so save them before the next step. Wrappings (DDP, torch.compile) are
    looked through; parameters that are sharded (FSDP2) stay so, for ShardedCheckpoints.
    """
    parts = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    return {
        "model": unwrap_model(model).state_dict(),
        **{name: part.state_dict() if part else None for name, part in parts.items()},
        "kinds": kinds(parts),
        "position": position or {},
        "rng": gather(random_state()),
    }


def restore(
    state: dict,
    model: nn.Module,
    optimizer: Optimizer | None = None,
    scheduler: Any = None,
    scaler: Any = None,
) -> dict:
    """Put a captured `state` back and return its position; on all ranks.

    In a world of the same size each rank goes on with its random numbers; in another they are
    seeded from the position and the rank. Without an optimizer the model is filled, and nothing
    else is touched. Raises ValueError, on all ranks and before anything is changed, if the state
    is of another model, optimizer, scheduler or scaler on one of them.
    """
    parts = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    agree(lambda: check_suits(state, unwrap_model(model), parts))
    return put_back(state, unwrap_model(model), parts)


def put_back(state: dict, model: nn.Module, parts: Mapping[str, Any]) -> dict:
    """`restore` of a state that is known to suit."""
    model.load_state_dict(state["model"])
    for name, part in parts.items():
        if part:
            part.load_state_dict(state[name])
    if parts["optimizer"]:
        restore_rng(state)
    return state["position"]


def unwrap_model(model: nn.Module) -> nn.Module:
    """The model without DDP and torch.compile around it, whose names do not depend on them."""
    while isinstance(model, DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = cast(nn.Module, getattr(model, "_orig_mod", None) or model.module)
    return model


def kinds(parts: Mapping[str, Any]) -> dict[str, str]:
    """The class of each part that is there."""
    return {name: type(part).__name__ for name, part in parts.items() if part}


def restore_rng(state: dict) -> None:
    """Let this rank draw the random numbers that would have come next."""
    rank, ranks = rank_and_world()
    if len(state["rng"]) == ranks:
        set_random_state(state["rng"][rank])
    else:
        seed_from(state["position"], rank)


def check_suits(state: dict, model: nn.Module, parts: Mapping[str, Any]) -> None:
    """Raise ValueError if the state is not of such a model, or not of these parts."""
    check_parts(state, parts)
    check_shapes(_shapes(model.state_dict()), _shapes(state["model"]))
    if optimizer := parts["optimizer"]:
        there = [len(group["params"]) for group in state["optimizer"]["param_groups"]]
        here = [len(group["params"]) for group in optimizer.param_groups]
        if there != here:
            raise ValueError(
                f"the checkpoint's optimizer has groups of {there} parameters, and this run's of "
                f"{here}; {_CURE}"
            )


def check_parts(state: dict, parts: Mapping[str, Any]) -> None:
    """Raise ValueError if the state was not captured with parts of the same classes.

    Without any, only the model is asked for: any state has one.
    """
    if missing := {"model", "optimizer", "kinds", "position", "rng"} - state.keys():
        raise ValueError(f"the checkpoint has no {min(missing)}; it is not one of a training run")
    own = kinds(parts)
    if not own:
        return
    for name in parts:
        kept, here = state["kinds"].get(name), own.get(name)
        if kept != here:
            raise ValueError(
                f"the checkpoint was saved with {kept or 'no'} {name}, and this run has "
                f"{here or 'none'}; use the same, or another folder"
            )


def check_shapes(own: Mapping[str, Any], kept: Mapping[str, Any], part: bool = False) -> None:
    """Raise ValueError if the names and shapes of the model's tensors differ from those `kept`.

    part: `own` is a part of the model; what else is kept does not matter.
    """
    if differing := sorted(own.keys() - kept.keys() if part else own.keys() ^ kept.keys()):
        side = "not in it" if differing[0] in own else "not in this one"
        raise ValueError(f"the checkpoint is of another model: {differing[0]} is {side}; {_CURE}")
    for name, here in own.items():
        if kept[name] != here:
            raise ValueError(
                f"the checkpoint is of another model: its {name} is {kept[name]}, here it is "
                f"{here}; {_CURE}"
            )


def _shapes(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(getattr(value, "shape", ())) for name, value in tensors.items()}
