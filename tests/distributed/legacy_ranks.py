"""What the ranks of test_legacy_pipe.py do: the training of `DDP(Pipe)`, in today's pipelines."""

from collections.abc import Iterator

import torch
from torch import nn

from originals.pipe_tutorial import tutorial_batch, tutorial_columns, tutorial_stages
from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import clip_grad_norm
from rankbook.parallel.pipeline import Pipeline, PipelinePlan
from rankbook.parallel.replicas import average_gradients

REPLICAS = STAGES = 2


def loss_fn(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())  # float64 as it is


def batches(
    ids: torch.Tensor, settings: dict, replica: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(tokens, targets) of each step of a replica, both (rows, length)."""
    columns = tutorial_columns(ids, settings["rows"], replica, REPLICAS)
    for batch in range(settings["batches"]):
        tokens, targets = tutorial_batch(columns, batch * settings["length"])
        yield tokens, targets.view_as(tokens)  # mistakes included: numbered as they were


def train_whole(ids: torch.Tensor, settings: dict) -> list[list[float]]:
    """The losses of the unsplit model, in this process, for both replicas' batches: by replica."""
    config = TransformerConfig(**settings["config"])
    model = nn.Sequential(*tutorial_stages(config, STAGES, 0))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
    losses = []
    for both in zip(*(batches(ids, settings, r) for r in range(REPLICAS)), strict=True):
        optimizer.zero_grad()
        by_replica = [loss_fn(model(tokens), targets) for tokens, targets in both]
        torch.stack(by_replica).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["max_norm"])
        optimizer.step()
        losses.append([loss.item() for loss in by_replica])
    return [list(losses) for losses in zip(*losses, strict=True)]


def train_pipelines(ids: torch.Tensor, settings: dict) -> list[float]:
    """The losses on four ranks, the mean over both replicas, as many microbatches as chunks."""
    torch.set_default_dtype(torch.float64)
    config = TransformerConfig(**settings["config"])
    plan = PipelinePlan("gpipe", STAGES, settings["chunks"], replicas=REPLICAS)
    mesh = plan.mesh("cpu")
    index, replica = mesh["pp"].get_local_rank(), mesh["dp"].get_local_rank()
    part = tutorial_stages(config, STAGES, 0)[index]
    pipeline = Pipeline(plan, {index: part}, mesh, loss_fn, config)
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=settings["lr"])
    losses = []
    for tokens, targets in batches(ids, settings, replica):
        optimizer.zero_grad()
        losses.append(pipeline.step(tokens, targets).item())
        average_gradients(pipeline.parameters(), mesh["dp"].get_group())
        clip_grad_norm(pipeline.parameters(), settings["max_norm"], mesh)
        optimizer.step()
    return losses
