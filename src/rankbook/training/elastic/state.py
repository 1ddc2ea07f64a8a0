"""What a run is at a step: taken out of it, put back, and agreed on by all ranks."""

from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from rankbook.training.elastic.checkpoints import CheckpointError, Checkpoints, Kept, step_of
from rankbook.training.elastic.random_state import random_state, seed_from, set_random_state
from rankbook.training.elastic.together import from_first, gather, place


def capture(
    model: nn.Module,
    optimizer: Optimizer,
    position: dict,
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
        "model": bare(model).state_dict(),
        **{name: part.state_dict() if part else None for name, part in parts.items()},
        "kinds": {name: type(part).__name__ for name, part in parts.items() if part},
        "position": position,
        "rng": gather(random_state()),
    }


def restore(
    state: dict, model: nn.Module, optimizer: Optimizer, scheduler: Any = None, scaler: Any = None
) -> dict:
    """Put a captured `state` back and return its position; on all ranks.

    In a world of the same size each rank goes on with its random numbers; in another they are
    seeded from the position and the rank. Raises ValueError, before anything is changed, if the
    state is of another model, optimizer, scheduler or scaler.
    """
    model = bare(model)
    parts = {"optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    if trouble := _other_parts(state, parts) or _other_model(state, model, optimizer):
        raise ValueError(trouble)
    if "shards" in state:  # so far it holds shapes only: each rank reads what it needs
        from rankbook.training.elastic.sharded import read_shards

        state = read_shards(state, model, optimizer)
    model.load_state_dict(state["model"])
    for name, part in parts.items():
        if part:
            part.load_state_dict(state[name])
    rank, ranks = place()
    if len(state["rng"]) == ranks:
        set_random_state(state["rng"][rank])
    else:
        seed_from(state["position"], rank)
    return state["position"]


def load_newest(checkpoints: Checkpoints) -> Kept | None:
    """The newest good checkpoint, the same on all ranks, or None if there is none.

    Rank 0 looks, and says what it passes over; the others read the one it found. Raises
    CheckpointError, on all ranks, if one of them cannot: is the folder on all nodes the same?
    """
    here: list[Kept | None] = [None]

    def look() -> tuple[str, list[str]]:
        here[0] = checkpoints.newest()
        return here[0].path.name if here[0] else "", [p.name for p in checkpoints.paths()]

    (name, names), trouble = from_first(look), None
    if place()[0]:
        try:
            here[0] = _same(checkpoints, name, names)
        except (OSError, ValueError) as error:
            trouble = f"{error}"
    if any(troubles := gather(trouble)):
        raise CheckpointError(next(filter(None, troubles)))
    return here[0]


def save_together(checkpoints: Checkpoints, step: int, state: dict) -> Path | None:
    """Save `state`, that after optimizer step `step`; on all ranks, one or all of which write.

    Returns where it is, once it is there: None on other ranks than 0, and where the save goes on
    while training does. Raises what `save` raises, on all ranks.
    """
    if checkpoints.collective:
        return checkpoints.save(step, state)
    path = from_first(lambda: checkpoints.save(step, state))
    return None if place()[0] else path


def bare(model: nn.Module) -> nn.Module:
    """The model without DDP and torch.compile around it, whose names do not depend on them."""
    while isinstance(model, DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = getattr(model, "_orig_mod", None) or model.module
    return model


def _same(checkpoints: Checkpoints, name: str, names: list[str]) -> Kept | None:
    """The checkpoint `name` that rank 0 found, as this rank sees it; `names` are all in its sight.

    None if it found no good one, and this rank does not see others than it.
    """
    rank, folder = place()[0], checkpoints.folder
    seen = {path.name: path for path in checkpoints.paths()}
    if not name and seen.keys() <= set(names):
        return None
    if name not in seen:
        raise CheckpointError(
            f"rank {rank} sees {len(seen)} checkpoints in {folder}, but rank 0 found "
            f"{name or 'no good one'} there; name a folder that all nodes share"
        )
    return Kept(step_of(seen[name]), checkpoints.read(seen[name]), seen[name])


def _other_parts(state: dict, parts: dict) -> str:
    """Why the state is not one of these parts, or nothing."""
    if missing := {"model", "optimizer", "kinds", "position", "rng"} - state.keys():
        return f"the checkpoint has no {min(missing)}; it is not one of a training run"
    kinds = {name: type(part).__name__ for name, part in parts.items() if part}
    for name in parts:
        kept, here = state["kinds"].get(name), kinds.get(name)
        if kept != here:
            return (
                f"the checkpoint was saved with {kept or 'no'} {name}, and this run has "
                f"{here or 'none'}; use the same, or another folder"
            )
    return ""


def _other_model(state: dict, model: nn.Module, optimizer: Optimizer) -> str:
    """Why the state is not of this model and this optimizer's groups, or nothing."""
    cure = "use the same model, or another folder"
    own, kept = model.state_dict(), state["model"]
    if differing := sorted(own.keys() ^ kept.keys()):
        side = "not in it" if differing[0] in own else "not in this one"
        return f"the checkpoint is of another model: {differing[0]} is {side}; {cure}"
    for name, tensor in own.items():
        there, here = getattr(kept[name], "shape", None), getattr(tensor, "shape", None)
        if there != here:
            return (
                f"the checkpoint is of another model: its {name} is {tuple(there)}, here it is "
                f"{tuple(here)}; {cure}"
            )
    there = [len(group["params"]) for group in state["optimizer"]["param_groups"]]
    here = [len(group["params"]) for group in optimizer.param_groups]
    if there != here:
        return (
            f"the checkpoint's optimizer has groups of {there} parameters, and this run's of "
            f"{here}; {cure}"
        )
    return ""
