"""What chapter 21 says of torch, and of failing stages: when one fails, its sentence has to go."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    ScheduleGPipe,
    SplitPoint,
    pipeline,
)

from rankbook.models import TransformerLM, initialise, token_loss
from rankbook.models.loss import IGNORED
from rankbook.parallel.pipeline import stage_module, traced_modules
from tests.distributed.launch import run_ranks
from tests.distributed.pipeline_ranks import CONFIG, CPU
from tests.live.kernel import Notebook
from tests.live.report import blocked, died, fails, gone, raised

WIDTH, LENGTH, BATCH = 32, 6, 8
mse = nn.functional.mse_loss


def two_halves() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))


def gradients_by_torch() -> float:
    """How far this rank's gradient is from one process, after a step of 4 microbatches."""
    rank, whole = dist.get_rank(), two_halves()
    x, y = torch.randn(2, BATCH, WIDTH)
    (control,) = torch.autograd.grad(mse(whole(x), y), whole[rank].weight)
    stage = PipelineStage(whole[rank], rank, 2, CPU)
    schedule = ScheduleGPipe(stage, 4, loss_fn=mse)
    schedule.step(*[x] * (rank == 0), **({"target": y} if rank == 1 else {}))
    return (whole[rank].weight.grad - control).abs().max().item()


def test_the_last_rank_alone_needs_targets_and_gradients_are_divided(tmp_path):
    assert max(run_ranks(gradients_by_torch, tmp_path, 2)) <= 1e-6


def gradients(schedule, module, x, y, **options):
    """This rank's gradients, in one row, of a step that starts from none."""
    module.zero_grad()
    rank = dist.get_rank()
    schedule.step(*[x] * (rank == 0), target=y, **options)
    return torch.cat([p.grad.flatten() for p in module.parameters()])


def of_padded() -> dict:
    """Relative errors of a padded batch's gradients, on this rank, by how they are weighted."""
    rank, rows = dist.get_rank(), 10
    torch.manual_seed(0)
    x = torch.randint(CONFIG.vocab_size, (16, LENGTH))
    y = x.roll(-1, dims=1)
    y[rows:] = IGNORED
    whole = TransformerLM(CONFIG)
    initialise(whole, 0)
    token_loss(whole(x[:rows]), y[:rows]).backward()
    part = stage_module(CONFIG, rank, 2, CPU, 0)
    control = torch.cat([whole.get_parameter(n).grad.flatten() for n, _ in part.named_parameters()])

    def error(scale: bool, count: int | None) -> float:
        stage = PipelineStage(part, rank, 2, CPU)
        schedule = ScheduleGPipe(stage, 4, loss_fn=token_loss, scale_grads=scale)
        found = gradients(schedule, part, x, y, loss_kwargs={"count": count})
        return ((found - control).norm() / control.norm()).item()

    tokens = rows * LENGTH
    return {
        "mean of means": error(True, None),
        "sum over the batch's tokens": error(False, tokens),
        "one token too many": error(False, tokens + 1),
        "divided twice": error(True, tokens),
    }


def test_a_padded_batch_needs_the_sum_of_losses_over_the_batchs_tokens(tmp_path):
    for errors in run_ranks(of_padded, tmp_path, 2):
        assert errors.pop("sum over the batch's tokens") < 1e-6, errors
        assert min(errors.values()) > 1e-2, errors


def stale() -> float:
    """How far a schedule that keeps two losses of a failed step is off, relative, on this rank."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    x = torch.randint(CONFIG.vocab_size, (BATCH, LENGTH))
    y = x.roll(-1, dims=1)
    part = stage_module(CONFIG, rank, 2, CPU, 0)

    def new():
        return ScheduleGPipe(PipelineStage(part, rank, 2, CPU), 4, loss_fn=token_loss)

    fresh, old = gradients(new(), part, x, y), new()
    if rank == 1:  # as a third microbatch that raises leaves them
        for targets in y.chunk(4)[:2]:
            received = torch.randn(2, LENGTH, CONFIG.d_model)
            old._internal_losses.append(token_loss(part(received), targets))
    found = gradients(old, part, x, y)
    return ((found - fresh).norm() / fresh.norm()).item()


def test_an_old_schedule_is_wrong_on_both_ranks(tmp_path):
    assert min(run_ranks(stale, tmp_path, 2)) > 0.1


def test_a_backward_pass_ends_where_the_process_does():
    first, second = two_halves()
    h = first(torch.randn(BATCH, WIDTH))
    received = h.detach().clone()  # as through send and recv
    second(received).sum().backward()
    assert first.weight.grad is None
    received.requires_grad_()
    second(received).sum().backward()
    h.backward(received.grad)
    assert first.weight.grad is not None


@pytest.mark.parametrize("stages", [1, 2, 3, 9])
def test_stages_are_pieces_of_one_checkpoint(stages):
    whole = TransformerLM(CONFIG)
    initialise(whole, 0)
    pieces = {}
    for index in range(stages):
        piece = stage_module(CONFIG, index, stages, CPU, 0).state_dict()
        assert not pieces.keys() & piece.keys()
        pieces |= piece
    assert pieces.keys() == whole.state_dict().keys()
    assert all(torch.equal(pieces[name], value) for name, value in whole.state_dict().items())


def test_a_traced_stage_takes_one_shape_only():
    ids = torch.zeros(4, LENGTH, dtype=torch.int64)
    stages = traced_modules(TransformerLM(CONFIG), ids, stages=2)
    assert stages[0](ids).shape == (4, LENGTH, CONFIG.d_model)
    with pytest.raises(RuntimeError):
        stages[0](ids[:2])


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = two_halves()

    def forward(self, h):
        h = self.first(h)
        return self.second(h if h.mean() > 0 else -h)


def test_the_tracer_refuses_a_branch_on_data():
    with pytest.raises(RuntimeError):
        pipeline(
            Branching(), (torch.randn(BATCH, WIDTH),), split_spec={"second": SplitPoint.BEGINNING}
        )


SCHEDULE = """%%ranks
import os, signal
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

class Stage(nn.Linear):
    forwards = 0
    def forward(self, x):
        self.forwards += 1
        if rank == 1 and self.forwards > 2 and fault == "raises":
            raise ValueError("boom")
        if rank == 1 and self.forwards > 2 and fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)

stage = PipelineStage(Stage(4, 4), rank, world_size, device)
schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
x = torch.ones(8, 4)
inputs = [x] if rank == 0 else []
schedule.step(*inputs, target=x)
"""


@pytest.fixture(scope="module")
def live():
    """A notebook with three ranks that have run a pipeline."""
    with Notebook() as notebook:
        assert not notebook.run("%load_ext rankbook\n%ranks start -n 3").error
        assert not notebook.run(SCHEDULE.replace("fault ==", "None ==")).error
        yield notebook


def test_a_stage_that_raises_in_the_middle_of_a_schedule(live):
    result = live.run(SCHEDULE.replace("fault ==", "'raises' =="))
    assert result.error.startswith(fails(raised(1, "RuntimeError")))
    assert "imed out" not in result.error  # the others were freed, nobody waited for a time-out
    assert "ValueError: boom" in result.error
    for rank in (0, 2):
        assert blocked(rank, "schedule.step(*inputs, target=x)") in result.error
    assert not live.run(SCHEDULE.replace("fault ==", "None ==")).error


def test_a_rank_that_dies_in_the_middle_of_a_schedule(live):
    result = live.run(SCHEDULE.replace("fault ==", "'dies' =="))
    assert result.error.startswith(fails(gone(1, died(-9))))
    assert "imed out" not in result.error
    assert not live.run("%ranks restart").error
    assert not live.run(SCHEDULE.replace("fault ==", "None ==")).error
