"""What the ranks of test_legacy_pipe.py do: the training of `Pipe`, in today's pipeline."""

import torch
import torch.distributed as dist
from torch import nn

from rankbook.models import TransformerLM, initialise, preset
from rankbook.parallel import Pipeline, PipelinePlan, clip_grad_norm, stage_module


def loss_fn(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())  # float64 as it is


def batches(rows: torch.Tensor, length: int):
    """(tokens, targets) of each step, both (rows, length)."""
    return zip(rows[:, :-1].split(length, 1), rows[:, 1:].split(length, 1), strict=True)


def whole_model(settings: dict) -> TransformerLM:
    model = TransformerLM(preset("tiny", settings["vocabulary"]))
    initialise(model, 0)
    return model


def train_whole(rows: torch.Tensor, settings: dict) -> list[float]:
    """The losses of the unsplit model, in this process."""
    model = whole_model(settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
    losses = []
    for tokens, targets in batches(rows, settings["length"]):
        optimizer.zero_grad()
        loss = loss_fn(model(tokens), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["max_norm"])
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_pipeline(rows: torch.Tensor, settings: dict) -> list[float]:
    """The losses of the same model, a stage on each rank, as many microbatches as Pipe's chunks."""
    torch.set_default_dtype(torch.float64)
    config, ranks = preset("tiny", settings["vocabulary"]), dist.get_world_size()
    plan = PipelinePlan("gpipe", ranks, settings["chunks"])
    mesh = plan.mesh("cpu")
    index = mesh["pp"].get_local_rank()
    module = stage_module(config, index, ranks, torch.device("cpu"), 0)
    pipeline = Pipeline(plan, {index: module}, mesh, loss_fn, config)
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=settings["lr"])
    losses = []
    for tokens, targets in batches(rows, settings["length"]):
        optimizer.zero_grad()
        losses.append(pipeline.step(tokens, targets).item())
        clip_grad_norm(pipeline.parameters(), settings["max_norm"], mesh["pp"].get_group())
        optimizer.step()
    return losses
