"""What the ranks of test_experts.py do: a layer of experts beside the same one in one process."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from rankbook.models.experts import BiasBalance, Experts, balance_loss

SIZES = {"d_model": 16, "d_hidden": 24, "experts": 8, "top_k": 2}
ROWS, LENGTH = 8, 6
SHARED = ("router.weight",)


def layer(group=None, **options) -> Experts:
    """The same values on every rank, and in one process."""
    torch.manual_seed(0)
    return Experts(**SIZES, group=group, **options).double()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    x, target = torch.randn(2, ROWS, LENGTH, 16, generator=torch.Generator().manual_seed(1))
    return x.double(), target.double()


def loss_of(made: Experts, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x + made(x), target)


def world() -> dist.ProcessGroup:
    assert dist.group.WORLD is not None
    return dist.group.WORLD


def control(parts: int = 1, weight: float = 0.0, **options) -> tuple[Experts, dict]:
    """One process, on the whole batch, or on its `parts` one after the other."""
    made, results = layer(**options), {"loss": 0.0, "y": [], "dropped": 0}
    x, target = (whole.clone() for whole in batch())
    x.requires_grad_()
    for piece, wanted in zip(x.chunk(parts), target.chunk(parts), strict=True):
        loss = loss_of(made, piece, wanted) / parts
        results["dropped"] += int(made.dropped)
        if weight:
            loss = loss + weight * balance_loss(made.routing) / parts
        loss.backward()
        results["loss"] += loss.item()
    return made, results | {"x": x.grad}


def compare(made: Experts, right: Experts, group: dist.ProcessGroup) -> float:
    """The largest difference of a gradient: after averaging over `group` whatever it shares."""
    mine, worst = made.mine(), 0.0
    for name, p in made.named_parameters():
        if not p.requires_grad:
            continue
        whole = right.get_parameter(name).grad
        expected = whole if name in SHARED else whole[mine]
        worst = max(worst, (p.grad - expected).abs().max().item() / whole.abs().max().item())
    return worst


def set_right(made: Experts, replicas: dist.ProcessGroup, alike: dist.ProcessGroup | None) -> None:
    """The whole batch's gradients: of means over each rank's own tokens.

    replicas: all ranks with tokens of their own: the shared parameters are averaged over them.
    alike: those that hold the same experts. An expert has the gradients of the tokens of all ranks
    of its own group already, added up.
    """
    size = dist.get_world_size(replicas)
    for name, p in made.named_parameters():
        if name in SHARED:
            dist.all_reduce(p.grad, group=replicas)
            p.grad /= size
        elif p.requires_grad:
            if alike is not None:
                dist.all_reduce(p.grad, group=alike)
            p.grad /= size


def against_one_process(options: dict, parts: bool, weight: float = 0.0) -> dict:
    """Expert parallel over all ranks: loss, outputs' and inputs' and parameters' gradients.

    parts: the control goes through the ranks' shares one after the other.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right, told = control(ranks if parts else 1, weight, **options)
    made = layer(world(), **options)
    x, target = (whole.chunk(ranks)[rank].clone() for whole in batch())
    x.requires_grad_()
    loss = loss_of(made, x, target)
    dropped = made.dropped.clone()
    if weight:
        loss = loss + weight * balance_loss(made.routing, world())
    loss.backward()
    set_right(made, world(), None)
    total = loss.detach().clone()
    for value in (total, dropped):
        dist.all_reduce(value)
    return {
        "loss": abs(total.item() / ranks - told["loss"]),
        "dropped": [int(dropped), told["dropped"]],
        "x": (x.grad / ranks - told["x"].chunk(ranks)[rank]).abs().max().item(),
        "gradients": compare(made, right, world()),
    }


def two_groups() -> dict:
    """dp=2, ep=2: two pairs of ranks; each expert twice. And what one group for all would do."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "ep"))
    right, _ = control()
    found = {}
    for way in ("right", "all averaged over all", "experts over their own group only"):
        made = layer(mesh["ep"].get_group())
        x, target = (whole.chunk(4)[dist.get_rank()] for whole in batch())
        loss_of(made, x, target).backward()
        if way == "right":
            set_right(made, world(), mesh["dp"].get_group())
        elif way == "all averaged over all":
            for p in made.parameters():
                if p.grad is not None:
                    dist.all_reduce(p.grad)
                    p.grad /= 4
        else:
            set_right(made, world(), None)
        found[way] = compare(made, right, world())
    return found


def balance() -> dict:
    """The auxiliary loss of all tokens: of one process, ours, and the mean of local ones."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right = layer()
    x, _ = batch()
    right(x)
    whole = balance_loss(right.routing)
    whole.backward()
    made = layer()
    made(x.chunk(ranks)[rank])
    ours, local = balance_loss(made.routing, world()), balance_loss(made.routing)
    gradients = {}
    for name, loss in (("ours", ours), ("local", local)):
        (gradient,) = torch.autograd.grad(loss, made.router.weight, retain_graph=True)
        dist.all_reduce(gradient)
        gradient /= ranks
        expected = right.router.weight.grad
        gradients[name] = ((gradient - expected).norm() / expected.norm()).item()
    mean = local.detach().clone()
    dist.all_reduce(mean)
    return {
        "whole": whole.item(),
        "ours": ours.item(),
        "mean of local": mean.item() / ranks,
        "gradient of ours": gradients["ours"],
        "gradient of local": gradients["local"],
    }


def biases() -> dict:
    """Three steps of the bias on the ranks' own tokens, and on all of them in one process."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, _ = batch()
    right, made = layer(), layer(world())
    pairs = ((right, BiasBalance(right, 0.05)), (made, BiasBalance(made, 0.05, world())))
    alone = layer(world())
    lonely = BiasBalance(alone, 0.05)
    for _ in range(3):
        right(x)
        made(x.chunk(ranks)[rank])
        alone(x.chunk(ranks)[rank])
        counts = [balance.step().tolist() for _, balance in pairs]
        lonely.step()
    lowest, highest = alone.router.bias.detach().clone(), alone.router.bias.detach().clone()
    dist.all_reduce(lowest, dist.ReduceOp.MIN)
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    return {
        "counts": counts,
        "bias": made.router.bias.tolist(),
        "right": right.router.bias.tolist(),
        "alone differ": bool((lowest != highest).any()),
    }


def uneven() -> dict:
    """Every token goes to the experts of rank 0; then ranks bring different numbers of tokens."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    made, right = layer(world()), layer()
    for each in (made, right):
        each.router.bias.data[:2] = 10.0
    x = batch()[0][0][: rank + 1]
    mine, whole = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = made(mine), right(whole)
    y.square().sum().backward()
    expected.square().sum().backward()
    zeros = bool((made.up.grad == 0).all())
    return {
        "y": (y - expected).abs().max().item(),
        "x": (mine.grad - whole.grad).abs().max().item(),
        "no work": zeros,
        "rank": rank,
        "ranks": ranks,
    }


def everything() -> dict:
    """All of it in one start."""
    both = {"no drops": {}, "per row": {"capacity_factor": 1.0}}
    found = {name: against_one_process(options, parts=False) for name, options in both.items()}
    per_rank = {"capacity_factor": 1.0, "per": "rank"}
    found["per rank"] = against_one_process(per_rank, parts=True)
    found["per rank, whole control"] = against_one_process(per_rank, parts=False)
    found["with the loss"] = against_one_process({}, parts=False, weight=0.1)
    found["balance"] = balance()
    found["biases"] = biases()
    found["uneven"] = uneven()
    if dist.get_world_size() == 4:
        found["two groups"] = two_groups()
    return found


def refused() -> str:
    try:
        Experts(16, 24, 5, 2, group=world())
    except ValueError as error:
        return str(error)
    return ""
