"""What the ranks of test_mesh.py do: train on a mesh, and compare with one process."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.tensor import DTensor

from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.parallel.mesh import Layout, build, train_step, vocabulary_loss
from rankbook.parallel.mesh.stepping import accumulate

# a vocabulary that neither 2 nor 4 divides
CONFIG = TransformerConfig(51, d_model=32, d_hidden=64, heads=4, layers=4, max_length=16)
CPU, STEPS, MAX_NORM = torch.device("cpu"), 2, 0.5
RATE = 0.1  # of plain SGD: an error in a gradient stays as large as it is


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    text = torch.randint(51, (16, 17), generator=torch.Generator().manual_seed(1))
    return text[:, :-1], text[:, 1:]


def control() -> tuple[dict[str, torch.Tensor], list[tuple[float, float]], dict]:
    """One process: the first step's gradients, (loss, norm) of all, the parameters at the end."""
    model, (tokens, targets) = TransformerLM(CONFIG), batch()
    initialise(model, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    gradients, told = {}, []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = token_loss(model(tokens), targets)
        loss.backward()
        gradients = gradients or {n: gradient(p).clone() for n, p in model.named_parameters()}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        told.append((loss.item(), norm.item()))
    return gradients, told, {n: p.detach() for n, p in model.named_parameters()}


def gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def off(
    found: dict[str, torch.Tensor], right: dict[str, torch.Tensor], floor: float = 0.0
) -> float:
    """The largest relative error of one tensor. floor: the least norm that counts for the whole."""
    worst = torch.zeros(())
    for name, tensor in found.items():
        scale = right[name].norm().clamp(min=floor)
        worst = torch.maximum(worst, (whole(tensor) - right[name]).norm() / scale)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return worst.item()


def train(mesh: str, shard: str, schedule: str | None) -> dict:
    """How far this layout is from one process, at most, in what."""
    gradients, told, parameters = control()
    # a bias of the keys changes no attention: its true gradient is 0, and what is there rounding
    length = torch.stack([g.norm() for g in gradients.values()]).norm().item()
    part = build(CONFIG, Layout.parse(mesh, shard), CPU, schedule=schedule)
    accumulate(part, *batch())
    found = {name: gradient(p).detach() for name, p in part.named_parameters()}
    result = {"gradient": off(found, gradients, floor=1e-3 * length)}
    part.evaluate(*(part.plan.share(ids, part.mesh["dp"].get_local_rank()) for ids in batch()))
    optimizer = torch.optim.SGD(part.parameters(), lr=RATE)
    mine = [train_step(part, optimizer, *batch(), MAX_NORM) for _ in range(STEPS)]
    loss_and_norm = torch.tensor(mine) / torch.tensor(told) - 1
    result["loss and norm"] = loss_and_norm.abs().max().item()
    after = {name: p.detach() for name, p in part.named_parameters()}
    result["parameters"] = off(after, parameters, floor=0.1)
    return result


def several(layouts: list[tuple[str, str, str | None]]) -> list[dict]:
    return [train(*layout) for layout in layouts]


def held(layouts: list[tuple[str, str]]) -> list[int]:
    """How many numbers of the model this rank has in each (layout, shard)."""
    parts = [build(CONFIG, Layout.parse(*layout), CPU) for layout in layouts]
    return [
        sum((p.to_local() if isinstance(p, DTensor) else p).numel() for p in part.parameters())
        for part in parts
    ]


def cross_entropy(vocab_size: int) -> dict:
    """The cut loss and its gradient beside torch's, with targets that do not count."""
    generator = torch.Generator().manual_seed(3)
    logits = 30 * torch.randn(2, 5, vocab_size, generator=generator, dtype=torch.float64)
    targets = torch.randint(vocab_size, (2, 5), generator=generator)
    targets[0, 3:] = -100
    reference = logits.clone().requires_grad_()
    right = F.cross_entropy(reference.flatten(0, 1), targets.flatten())
    (2 * right).backward()
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = logits.chunk(size, dim=-1)[rank].clone().requires_grad_()
    group = dist.group.WORLD
    assert group is not None
    loss = vocabulary_loss(vocab_size, group)(mine, targets)
    (2 * loss).backward()
    expected = gradient(reference).chunk(size, dim=-1)[rank]
    return {
        "loss": (loss - right).abs().item(),
        "gradient": (gradient(mine) - expected).abs().max().item(),
    }
