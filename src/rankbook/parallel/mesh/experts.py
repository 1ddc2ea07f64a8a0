"""Experts on a mesh: which ranks hold which, whose gradients they get, how busy they are.

Each of the `ep` replicas of a group holds some of the experts, and all else as every replica does.
So there are two kinds of parameters, whose gradients are averaged over different groups.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from rankbook.core.dtensor import to_local
from rankbook.models.experts import Experts
from rankbook.models.experts.balancing import move, tally
from rankbook.models.transformer import TransformerConfig, TransformerLM
from rankbook.parallel.replicas.averaging import average_gradients

WITH_TOKENS = ("dp", "ep", "cp", "tp")  # along these, ranks have different tokens


def expert_parallel(stage: TransformerLM, mesh: DeviceMesh, microbatches: int) -> TransformerLM:
    """Divide the experts of `stage` among the ranks of `mesh["ep"]`, in place; the rest stays.

    mesh: `Layout.mesh`. Ranks of tensor parallelism hold the same experts, and each sends its own
    part of the sequences. microbatches: of a step, which are counted; to learn the shapes, a
    pipeline runs its stages once more before the first. All ranks must hold the same values
    before, or none (meta).
    """
    used = [name for name in ("ep", "tp") if _size(mesh, name) > 1]
    for experts in experts_of(stage):
        experts.router.window = microbatches
        experts.balance_groups = _groups(mesh)
        # over tp gradients are summed: each rank gives its share of the loss
        experts.balance_weight /= mesh["tp"].size()
        if "ep" in used:
            experts.group = mesh["ep"].get_group()
            experts.mine()  # raises where they cannot be divided
        if "tp" in used:
            _place(experts.router, "weight", mesh["tp"], [Replicate()])
        if used:
            cuts = [Shard(0) if name == "ep" else Replicate() for name in used]
            for name in ("up", "down"):
                _place(experts, name, mesh[tuple(used)], cuts)
    return stage


def experts_of(stage: nn.Module) -> list[Experts]:
    """The layers of experts in `stage`."""
    return [module for module in stage.modules() if isinstance(module, Experts)]


def not_for_fsdp(stage: nn.Module) -> set[nn.Parameter]:
    """What every replica keeps whole: biases that no gradient moves."""
    return {experts.router.bias for experts in experts_of(stage)}


def average_over_ep(parameters: Iterable[nn.Parameter], mesh: DeviceMesh) -> None:
    """Gradients of the mean over the ranks of `mesh["ep"]`, of that of each rank's own tokens.

    An expert has the gradients of all these ranks' tokens already, added up: they came to it.
    """
    divided, shared = [], []
    for parameter in parameters:
        (divided if is_divided(parameter) else shared).append(parameter)
    average_gradients(shared, mesh["ep"].get_group())
    for parameter in divided:
        assert parameter.grad is not None
        to_local(parameter.grad).div_(mesh["ep"].size())


def is_divided(parameter: nn.Parameter) -> bool:
    """Whether ranks along "ep" hold different parts of it."""
    return isinstance(parameter, DTensor) and "ep" in (parameter.device_mesh.mesh_dim_names or ())


@torch.no_grad()
def rebalance(
    stages: Iterable[nn.Module], config: TransformerConfig, mesh: DeviceMesh
) -> dict[str, Tensor]:
    """Move the biases by what has been chosen since the last call, on all ranks of `mesh`.

    stages: this rank's, of the model that `config` describes. Returns scalars over the whole batch,
    the same on all ranks: "balance", the mean over layers of `balance_loss`, whether it is trained
    on or not; "busiest", the most that an expert of any layer was chosen, in equal shares;
    "dropped", the share of the choices that were dropped.
    """
    routers = [e.router for stage in stages for e in experts_of(stage)]
    tallies = tally(routers, _groups(mesh))
    counts, mass, dropped = tallies.unbind(dim=1)
    move(routers, counts, config.bias_rate)
    shares = counts / counts.sum(dim=1, keepdim=True)
    losses = config.experts * (shares * mass / mass.sum(dim=1, keepdim=True)).sum(dim=1)
    sums = torch.stack([losses.sum(), dropped.sum(), counts.sum()])
    busiest = config.experts * shares.max()
    pipeline = mesh["pp"].get_group()
    dist.all_reduce(sums, group=pipeline)
    dist.all_reduce(busiest, dist.ReduceOp.MAX, group=pipeline)
    return {
        "balance": sums[0] / config.layers,
        "busiest": busiest,
        "dropped": sums[1] / sums[2],
    }


def _place(module: nn.Module, name: str, mesh: DeviceMesh, placements: list) -> None:
    whole = getattr(module, name)
    placed = distribute_tensor(whole.detach(), mesh, placements, src_data_rank=None)
    setattr(module, name, nn.Parameter(placed))


def _groups(mesh: DeviceMesh) -> tuple[dist.ProcessGroup, ...]:
    """Those along which the tokens of a batch are spread."""
    return tuple(mesh[name].get_group() for name in WITH_TOKENS if _size(mesh, name) > 1)


def _size(mesh: DeviceMesh, name: str) -> int:
    return mesh[name].size() if name in (mesh.mesh_dim_names or ()) else 1
