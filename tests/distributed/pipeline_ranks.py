"""What the ranks of test_pipelines.py do: train in a pipeline, and compare with the whole model."""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from rankbook.models import TransformerConfig, TransformerLM, initialise
from rankbook.models.loss import token_loss
from rankbook.parallel.mesh import clip_grad_norm
from rankbook.parallel.pipeline import (
    Pipeline,
    PipelinePlan,
    find_schedule,
    stage_module,
    traced_modules,
)
from rankbook.parallel.replicas import average_gradients

# nine layers do not divide by 2, 4 or 8 stages
CONFIG = TransformerConfig(vocab_size=50, d_model=32, d_hidden=64, heads=4, layers=9, max_length=16)
CPU = torch.device("cpu")
SEED, BATCH, LENGTH, STEPS, MAX_NORM = 7, 16, 6, 3, 0.5
# a bias of the keys changes no attention: its gradient is 0 but for rounding. AdamW's usual eps
# of 1e-8 is small beside that rounding, and would make whole steps of it
ADAMW = {"lr": 1e-3, "eps": 1e-5}


@dataclass
class Step:
    """One optimizer step of the unsplit model: what the pipeline must repeat."""

    loss: torch.Tensor
    gradients: dict[str, torch.Tensor]
    norm: torch.Tensor
    clipped: dict[str, torch.Tensor]
    parameters: dict[str, torch.Tensor]
    evaluated: torch.Tensor


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    texts = torch.randint(CONFIG.vocab_size, (STEPS, BATCH, LENGTH + 1), generator=generator)
    return [(text[:, :-1], text[:, 1:]) for text in texts]


def unsplit() -> list[Step]:
    model = TransformerLM(CONFIG)
    initialise(model, SEED)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    steps = []
    for tokens, targets in batches():
        optimizer.zero_grad()
        loss = token_loss(model(tokens), targets)
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        clipped = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
        with torch.no_grad():
            evaluated = token_loss(model(tokens), targets)
        steps.append(Step(loss.detach(), gradients, norm, clipped, parameters, evaluated))
    return steps


def make(plan: PipelinePlan, tracer: bool = False) -> Pipeline:
    mesh = plan.mesh("cpu")
    indices = plan.stages_of(mesh["pp"].get_local_rank())
    if tracer:
        whole = TransformerLM(CONFIG)
        initialise(whole, SEED)
        rows = BATCH // plan.replicas // plan.microbatches
        example = torch.zeros(rows, LENGTH, dtype=torch.int64)
        every = traced_modules(whole, example, plan.stages)
        modules = {i: every[i] for i in indices}
    else:
        modules = {i: stage_module(CONFIG, i, plan.stages, CPU, SEED) for i in indices}
    return Pipeline(plan, modules, mesh, token_loss, CONFIG)


def compare(pipeline: Pipeline, steps: list[Step]) -> dict[str, float]:
    """Train as `unsplit` did; the largest absolute differences that this rank sees."""
    errors = dict.fromkeys(("loss", "gradient", "norm", "clipped", "parameter", "evaluated"), 0.0)

    def note(what: str, mine: torch.Tensor, theirs: torch.Tensor) -> None:
        errors[what] = max(errors[what], (mine.detach() - theirs).abs().max().item())

    dp = pipeline.mesh["dp"].get_group()
    replica = pipeline.mesh["dp"].get_local_rank()
    optimizer = torch.optim.AdamW(pipeline.parameters(), **ADAMW)
    for (tokens, targets), step in zip(batches(), steps, strict=True):
        share = [pipeline.plan.share(ids, replica) for ids in (tokens, targets)]
        optimizer.zero_grad()
        note("loss", pipeline.step(*share), step.loss)
        average_gradients(pipeline.parameters(), dp)
        for name, parameter in pipeline.named_parameters():
            note("gradient", parameter.grad, step.gradients[name])
        note("norm", clip_grad_norm(pipeline.parameters(), MAX_NORM, pipeline.mesh), step.norm)
        for name, parameter in pipeline.named_parameters():
            note("clipped", parameter.grad, step.clipped[name])
        optimizer.step()
        for name, parameter in pipeline.named_parameters():
            note("parameter", parameter, step.parameters[name])
        note("evaluated", pipeline.evaluate(*share), step.evaluated)
    return errors


def train_all(ranks: int, replicas: int, names: list[str], tracer: bool = False) -> dict:
    """Each schedule: errors, the names of this rank's parameters, seconds."""
    steps = unsplit()
    results = {}
    for name in names:
        start = time.monotonic()
        microbatches = max(4, find_schedule(name).stages_per_rank * ranks)
        plan = PipelinePlan(name, ranks, microbatches, replicas)
        pipeline = make(plan, tracer)
        errors = compare(pipeline, steps)
        results[name] = {
            "errors": errors,
            "parameters": [name for name, _ in pipeline.named_parameters()],
            "seconds": time.monotonic() - start,
        }
        dist.barrier()
    return results


def wrong_batches() -> list[str]:
    """What each rank is told about batches that do not suit; then the pipeline still works."""
    pipeline = make(PipelinePlan("1f1b", dist.get_world_size(), 4))
    tokens, targets = batches()[0]
    high = targets.clone()
    high[-1, -1] = CONFIG.vocab_size  # only the last microbatch is wrong
    told = []
    long = tokens.repeat(1, 3)
    unequal = tokens, targets[:, :3]
    for wrong in [(tokens[:6], targets[:6]), unequal, (long, long), (tokens, high)]:
        try:
            pipeline.step(*wrong)
        except ValueError as error:
            told.append(str(error))
    pipeline.step(tokens, targets)
    return told


def other_shapes(name: str) -> list[float]:
    """The losses of batches of several sizes, in one pipeline, between training steps."""
    pipeline = make(PipelinePlan(name, dist.get_world_size(), 4))
    tokens, targets = batches()[0]
    losses = []
    for rows, length in [(16, 6), (8, 6), (16, 3), (16, 6)]:
        batch = tokens[:rows, :length], targets[:rows, :length]
        losses += [pipeline.evaluate(*batch).item(), pipeline.step(*batch).item()]
    return losses


def clip_sharded() -> list[float]:
    """The norm, and what clipping leaves, of stages whose replicas share their parameters."""
    plan = PipelinePlan("1f1b", 2, 4, replicas=2)
    mesh = plan.mesh("cpu")
    index = mesh["pp"].get_local_rank()
    module = stage_module(CONFIG, index, 2, CPU, SEED)
    if index == 0:  # one stage of DTensors, one of both kinds
        fully_shard(module, mesh=mesh["dp"])
    else:
        fully_shard(module.head, mesh=mesh["dp"])
    pipeline = Pipeline(plan, {index: module}, mesh, token_loss, CONFIG)
    replica = mesh["dp"].get_local_rank()
    pipeline.step(*(plan.share(ids, replica) for ids in batches()[0]))
    plain = [p for p in pipeline.parameters() if not isinstance(p, DTensor)]
    average_gradients(plain, mesh["dp"].get_group())
    norms = [clip_grad_norm(pipeline.parameters(), MAX_NORM, mesh) for _ in range(2)]
    return [norm.item() for norm in norms] + [float(len(plain))]
