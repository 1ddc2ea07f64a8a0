"""What the ranks of test_wikitext2_chapter.py do: page 27's best model, on a small one."""

import torch

from rankbook.models import token_loss
from rankbook.parallel.pipeline import Pipeline, PipelinePlan, stage_module
from rankbook.training import evaluate, train_step
from rankbook.training.checkpoint import PipelineCheckpoints, capture_stages
from tests.distributed.pipeline_ranks import CONFIG, CPU, MAX_NORM, SEED, batches


def best_model(folder: str) -> dict:
    """Keep a model by an alias and on disk, ruin it, and load the checkpoint into four stages."""
    plan = PipelinePlan("1f1b", 2, 4, replicas=2)
    mesh = plan.mesh("cpu")
    index = mesh["pp"].get_local_rank()
    part = stage_module(CONFIG, index, 2, CPU, SEED)
    pipeline = Pipeline(plan, {index: part}, mesh, token_loss, CONFIG)
    alias, before = part, [p.detach().clone() for p in part.parameters()]
    kept = evaluate(pipeline, batches())
    checkpoints = PipelineCheckpoints(folder, keep=1)
    checkpoints.save(1, capture_stages(pipeline))
    sgd = torch.optim.SGD(pipeline.parameters(), lr=5.0)
    for batch in batches():
        train_step(pipeline, sgd, *batch, MAX_NORM)
    moved = max(
        (p - old).abs().max().item() for p, old in zip(alias.parameters(), before, strict=True)
    )
    ruined = evaluate(pipeline, batches())
    straight = PipelinePlan("1f1b", 4, 4, replicas=1)
    line = straight.mesh("cpu")
    index = line["pp"].get_local_rank()
    four = Pipeline(
        straight, {index: stage_module(CONFIG, index, 4, CPU)}, line, token_loss, CONFIG
    )
    checkpoints.newest().load_into(four)
    return {"kept": kept, "moved": moved, "ruined": ruined, "four": evaluate(four, batches())}
