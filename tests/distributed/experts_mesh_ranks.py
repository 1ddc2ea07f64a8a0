"""What the ranks of test_experts_mesh.py do: a model with experts on a mesh, and in one process."""

from dataclasses import replace
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from rankbook.models import (
    TransformerConfig,
    TransformerLM,
    initialise,
    token_loss,
    transformer,
)
from rankbook.models.experts import BiasBalance
from rankbook.models.transformer import initial_value
from rankbook.parallel.mesh import Layout, build, building, train_step
from rankbook.parallel.mesh.stepping import accumulate
from tests.distributed.mesh_ranks import MAX_NORM, RATE, STEPS, gradient, off

CONFIG = TransformerConfig(51, 32, 64, heads=4, layers=4, max_length=16, experts=8)
CPU = torch.device("cpu")
KINDS = {
    "": {},
    "bias": {"bias_rate": 0.01},
    "loss": {"balance_weight": 0.1},
    "capacity": {"capacity": 1.0, "bias_rate": 0.01},
}


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    text = torch.randint(51, (16, 17), generator=torch.Generator().manual_seed(1))
    return text[:, :-1], text[:, 1:]


def control(config: TransformerConfig) -> tuple[dict, list, dict]:
    """One process: the first step's gradients, (loss, norm) of all, the parameters at the end."""
    model, (tokens, targets) = TransformerLM(config), batch()
    initialise(model, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    balance = BiasBalance(model, config.bias_rate)
    gradients, told = {}, []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = token_loss(model(tokens), targets)
        loss.backward()
        gradients = gradients or {
            n: gradient(p).clone() for n, p in model.named_parameters() if p.requires_grad
        }
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        balance.step()
        told.append((loss.item(), norm.item()))
    return gradients, told, {n: p.detach() for n, p in model.named_parameters()}


def train(mesh: str, shard: str, schedule: str | None, kind: str) -> dict:
    """How far this layout is from one process, at most, in what."""
    config = replace(CONFIG, **KINDS[kind])
    gradients, told, parameters = control(config)
    length = torch.stack([g.norm() for g in gradients.values()]).norm().item()
    part = build(config, Layout.parse(mesh, shard), CPU, schedule=schedule)
    accumulate(part, *batch())
    found = {n: gradient(p).detach() for n, p in part.named_parameters() if p.requires_grad}
    result = {"gradient": off(found, gradients, floor=1e-3 * length)}
    optimizer = torch.optim.SGD(part.parameters(), lr=RATE)
    mine = [train_step(part, optimizer, *batch(), MAX_NORM) for _ in range(STEPS)]
    result["loss and norm"] = (torch.tensor(mine) / torch.tensor(told) - 1).abs().max().item()
    after = {name: p.detach() for name, p in part.named_parameters()}
    result["parameters"] = off(after, parameters, floor=0.1)
    result["biases"] = max(
        (p - parameters[n]).abs().max().item() for n, p in after.items() if n.endswith("uter.bias")
    )
    result["experts here"] = sum(
        (p.to_local() if isinstance(p, DTensor) else p).numel()
        for n, p in part.named_parameters()
        if n.endswith(("experts.up", "experts.down"))
    )
    return result | {name: value.item() for name, value in part.expert_load.items()}


def speaking(name: str, *of: Any) -> torch.Tensor:
    """Experts that give something from the first step on: a wrong way of a token is seen."""
    return initial_value(name.replace("experts.down", "experts.down, drawn"), *of)


def several(layouts: list[tuple[str, str, str | None, str]]) -> list[dict]:
    transformer.initial_value = building.initial_value = speaking
    return [train(*layout) for layout in layouts]
