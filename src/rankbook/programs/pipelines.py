"""Three training steps in a pipeline, beside the same three in one process.

torchrun --standalone --nproc-per-node 2 -m rankbook.programs.pipelines --schedule zbv
"""

import argparse
import os
from collections.abc import Sequence

import torch
import torch.distributed as dist

from rankbook.data.embedded import prose
from rankbook.models import TransformerLM, initialise, preset
from rankbook.parallel import (
    Pipeline,
    PipelinePlan,
    clip_grad_norm,
    init,
    schedule_names,
    stage_module,
)
from rankbook.programs.report import end
from rankbook.training.loss import token_loss

CONFIG = preset("tiny", vocab_size=256)  # the tokens are bytes
SEED, STEPS, BATCH, LENGTH, MAX_NORM = 0, 3, 16, 64, 0.5
SGD = {"lr": 0.5}
TOLERANCE = 1e-5  # three steps of float32, summed in another order


def main(arguments: Sequence[str] | None = None) -> dict:
    """Run on every rank; return the losses, and how far they are from one process.

    arguments: those of the command line. Raises RuntimeError if losses or parameters differ by
    more than the tolerance.
    """
    plan = parse(arguments)
    device = init()
    rank = dist.get_rank()
    modules = {i: stage_module(CONFIG, i, plan.stages, device, SEED) for i in plan.stages_of(rank)}
    pipeline = Pipeline(plan, modules, plan.mesh(device.type), token_loss, CONFIG)
    losses = train(pipeline)
    control, expected = in_one_process(device)
    off = max(
        (mine - control.get_parameter(name)).abs().max().item()
        for name, mine in pipeline.named_parameters()
    )
    off = max(off, *(abs(a - b) for a, b in zip(losses, expected, strict=True)))
    if off > TOLERANCE:
        raise RuntimeError(f"rank {rank}: {plan.schedule} is off by {off:.1e} from one process")
    dist.destroy_process_group()
    return {"schedule": plan.schedule, "stages": list(modules), "losses": losses, "off": off}


def parse(arguments: Sequence[str] | None) -> PipelinePlan:
    """The plan that the command line asks for; what cannot run ends here, with one sentence."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schedule", default="1f1b", help=", ".join(schedule_names()))
    parser.add_argument("--microbatches", type=int, default=8)
    options = parser.parse_args(arguments)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    try:
        plan = PipelinePlan(options.schedule, ranks, options.microbatches)
        plan.check_model(CONFIG)
        plan.check_batch(BATCH)
    except ValueError as error:
        parser.error(str(error))
    return plan


def train(pipeline: Pipeline) -> list[float]:
    """The loss of each step."""
    optimizer = torch.optim.SGD(pipeline.parameters(), **SGD)
    losses = []
    for tokens, targets in batches():
        optimizer.zero_grad()
        losses.append(pipeline.step(tokens, targets).item())
        clip_grad_norm(pipeline.parameters(), MAX_NORM, pipeline.mesh["pp"].get_group())
        optimizer.step()
    return losses


def in_one_process(device: torch.device) -> tuple[TransformerLM, list[float]]:
    """The control: the whole model, trained on the same batches."""
    model = TransformerLM(CONFIG).to(device)
    initialise(model, SEED)
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    losses = []
    for tokens, targets in batches():
        optimizer.zero_grad()
        loss = token_loss(model(tokens.to(device)), targets.to(device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tokens and targets of each step: (batch, length), on the CPU."""
    size = BATCH * (LENGTH + 1)
    text = torch.tensor(list(prose()["train"].encode()[: STEPS * size]))
    rows = text.view(STEPS, BATCH, LENGTH + 1)
    return [(row[:, :-1], row[:, 1:]) for row in rows]


if __name__ == "__main__":
    print(main(), flush=True)
    end()
