"""What the ranks of test_pipe_ddp_chapter.py do: the failures of page 26, on a small model."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rankbook.models import token_loss
from rankbook.parallel.pipeline import Pipeline, PipelinePlan, stage_module
from rankbook.parallel.replicas import average_gradients
from tests.distributed.pipeline_ranks import CONFIG, CPU, MAX_NORM, SEED, batches, unsplit

PLAN = PipelinePlan("gpipe", 2, 4, replicas=2)


def trained(options: dict | None, steps: int) -> tuple[Pipeline, torch.nn.Module, list[dict]]:
    """This rank's stage after SGD steps, in DDP with `options`; the gradients of every step."""
    mesh = PLAN.mesh("cpu")
    index, replica = mesh["pp"].get_local_rank(), mesh["dp"].get_local_rank()
    part = stage_module(CONFIG, index, 2, CPU, SEED)
    wrapped = part
    if options is not None:
        wrapped = DistributedDataParallel(part, process_group=mesh["dp"].get_group(), **options)
    pipeline = Pipeline(PLAN, {index: wrapped}, mesh, token_loss, CONFIG)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    gradients = []
    for tokens, targets in batches()[:steps]:
        optimizer.zero_grad()
        pipeline.step(PLAN.share(tokens, replica), PLAN.share(targets, replica))
        gradients.append({name: p.grad.clone() for name, p in part.named_parameters()})
        optimizer.step()
    return pipeline, part, gradients


def static_graph() -> dict:
    """What DDP(static_graph=True) does to this rank's stage, beside one process and beside none."""
    pipeline, part, wrapped = trained({"static_graph": True}, steps=3)
    _, _, bare = trained(None, steps=1)
    right = unsplit()[0].gradients
    off = sum((gradient - right[name]).square().sum() for name, gradient in wrapped[0].items())
    of = sum(right[name].square().sum() for name in wrapped[0])
    values = torch.cat([p.detach().flatten() for p in part.parameters()])
    both = values.clone()
    dist.all_reduce(both, group=pipeline.mesh["dp"].get_group())
    return {
        "error": (off / of).sqrt().item(),
        "as without": all(torch.equal(g, bare[0][name]) for name, g in wrapped[0].items()),
        "apart": (2 * values - both).abs().max().item(),
    }


def clip_by_parts() -> list[float]:
    """The whole model's norm after each rank clipped its own part, and the cosine of the turn."""
    pipeline, part, _ = trained(None, steps=1)
    average_gradients(part.parameters(), pipeline.mesh["dp"].get_group())
    before = torch.cat([p.grad.flatten() for p in part.parameters()])
    torch.nn.utils.clip_grad_norm_(part.parameters(), MAX_NORM)
    after = torch.cat([p.grad.flatten() for p in part.parameters()])
    products = torch.stack([before @ before, after @ after, before @ after])
    dist.all_reduce(products, group=pipeline.mesh["pp"].get_group())
    b, a, both = products.tolist()
    return [a**0.5, both / (a * b) ** 0.5]
