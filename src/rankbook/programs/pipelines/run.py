"""Three training steps in a pipeline, beside the same three in one process.

torchrun --standalone --nproc-per-node 2 -m rankbook.programs.pipelines --schedule zbv
"""

import sys

import torch
import torch.distributed as dist

from rankbook.core.agreement import agree
from rankbook.core.placement import init
from rankbook.data.embedded import prose
from rankbook.models import TransformerLM, initialise, preset
from rankbook.models.loss import token_loss
from rankbook.parallel.mesh import clip_grad_norm
from rankbook.parallel.pipeline import Pipeline, PipelinePlan, stage_module
from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.pipelines.options import read

CONFIG = preset("tiny", vocab_size=256)  # the tokens are bytes
SEED, STEPS, BATCH, LENGTH, MAX_NORM = 0, 3, 16, 64, 0.5
SGD = {"lr": 0.5}
# three steps of length 0.25, rate x norm, along gradients that float32 gives to about 1e-5 in
# another order of summation; and losses near 5, with a few of their last bits
TOLERANCE = 5e-5


def main(arguments: list[str] | None = None) -> dict:
    """Run on every rank; return the losses, and how far they are from one process.

    What cannot run ends here, with one sentence for all ranks, and so does a run of which losses or
    parameters differ by more than the tolerance.
    """
    with exit_on_user_error("pipelines"):
        options = read(sys.argv[1:] if arguments is None else arguments)
        plan = PipelinePlan(options.schedule, options.ranks, options.microbatches)
        plan.check_model(CONFIG)
        plan.check_batch(BATCH)
        device = init()
    with exit_on_user_error("pipelines", ArithmeticError):
        result = compare(plan, device)
    dist.destroy_process_group()
    return result


def compare(plan: PipelinePlan, device: torch.device) -> dict:
    """Train both; ArithmeticError, on all ranks, if they differ by more than the tolerance."""
    rank = dist.get_rank()
    stages: dict[int, torch.nn.Module] = {
        index: stage_module(CONFIG, index, plan.stages, device, SEED)
        for index in plan.stages_of(rank)
    }
    pipeline = Pipeline(plan, stages, plan.mesh(device.type), token_loss, CONFIG)
    losses = train(pipeline)
    control, expected = in_one_process(device)
    off = max(
        (mine - control.get_parameter(name)).abs().max().item()
        for name, mine in pipeline.named_parameters()
    )
    off = max(off, *(abs(a - b) for a, b in zip(losses, expected, strict=True)))
    agree(lambda: check(plan.schedule, off))
    return {"schedule": plan.schedule, "stages": list(stages), "losses": losses, "off": off}


def check(schedule: str, off: float) -> None:
    """Raise ArithmeticError if `off` is more than the tolerance."""
    if not off <= TOLERANCE:  # nan is not
        raise ArithmeticError(f"{schedule} is off by {off:.1e} from one process")


def train(pipeline: Pipeline) -> list[float]:
    """The loss of each step."""
    optimizer = torch.optim.SGD(pipeline.parameters(), **SGD)
    losses = []
    for tokens, targets in batches():
        optimizer.zero_grad()
        losses.append(pipeline.step(tokens, targets).item())
        clip_grad_norm(pipeline.parameters(), MAX_NORM, pipeline.mesh)
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
