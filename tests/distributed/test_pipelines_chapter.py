"""What chapter 21 says of torch, and of failing stages: when one fails, its sentence has to go."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from rankbook.models import TransformerLM, initialise
from rankbook.parallel import traced_modules
from tests.distributed.launch import run_ranks
from tests.distributed.pipeline_ranks import CONFIG
from tests.live.kernel import Notebook

WIDTH, LENGTH, BATCH = 32, 6, 8


def decoder_layer(**options) -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerDecoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, **options)


class TwoLayers(nn.Module):
    """The original's stage: decoder layers that are given their input as memory, too."""

    def __init__(self, **options):
        super().__init__()
        self.layers = nn.ModuleList(decoder_layer(**options) for _ in range(2))

    def forward(self, h):
        for layer in self.layers:
            h = layer(h, h)
        return h


def batch() -> torch.Tensor:
    return torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))


def off(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


@torch.no_grad()
def through_pipeline(options: dict) -> list[float]:
    """How far a pipeline of 1 and of 4 microbatches is from the unsplit model, on rank 1."""
    stages = [TwoLayers(**options) for _ in range(2)]
    rank, h = dist.get_rank(), batch()
    unsplit = stages[1](stages[0](h))
    differences = []
    for microbatches in (1, 4):
        stage = PipelineStage(stages[rank], rank, 2, torch.device("cpu"))
        output = ScheduleGPipe(stage, microbatches).step(*[h] * (rank == 0))
        differences.append(off(output, unsplit) if rank == 1 else 0.0)
    return differences


def test_without_batch_first_the_pipeline_is_not_the_model(tmp_path):
    _, (one, four) = run_ranks(through_pipeline, tmp_path, 2, {})
    assert one <= 1e-5 and four > 0.1


def test_with_batch_first_it_is(tmp_path):
    _, differences = run_ranks(through_pipeline, tmp_path, 2, {"batch_first": True})
    assert max(differences) <= 1e-5


@torch.no_grad()
def test_without_batch_first_a_token_sees_other_texts_and_no_other_word():
    layer, h = decoder_layer(), batch()
    other_text, later_token = h.clone(), h.clone()
    other_text[0] += torch.randn(LENGTH, WIDTH)
    later_token[:, -1] += torch.randn(BATCH, WIDTH)
    y = layer(h, h)
    assert off(layer(other_text, other_text)[1:], y[1:]) > 0.01
    assert off(layer(later_token, later_token)[:, 0], y[:, 0]) <= 1e-6


@torch.no_grad()
def test_a_batch_of_equal_tokens_hides_it():
    layer, h = decoder_layer(), torch.randn(WIDTH).expand(BATCH, LENGTH, WIDTH)
    parts = torch.cat([layer(part, part) for part in h.chunk(4)])
    assert off(layer(h, h), parts) <= 1e-5


@torch.no_grad()
def test_a_decoder_layer_sees_the_future_masked_or_not():
    """Its memory is its input: a mask for its own attention does not help."""
    layer, h = decoder_layer(batch_first=True), batch()
    later = h.clone()
    later[:, -1] += torch.randn(BATCH, WIDTH)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    for masks in ({}, {"tgt_mask": mask}):
        assert off(layer(later, later, **masks)[:, 0], layer(h, h, **masks)[:, 0]) > 0.01
    both = {"tgt_mask": mask, "memory_mask": mask}
    assert off(layer(later, later, **both)[:, 0], layer(h, h, **both)[:, 0]) <= 1e-6


@torch.no_grad()
def test_a_decoder_layer_knows_no_order():
    layer, h = decoder_layer(batch_first=True), batch()
    shuffled = torch.cat([h[:, torch.randperm(LENGTH - 1)], h[:, -1:]], dim=1)
    assert off(layer(shuffled, shuffled)[:, -1], layer(h, h)[:, -1]) <= 1e-5


@torch.no_grad()
def test_our_model_sees_neither_other_texts_nor_the_future():
    model = TransformerLM(CONFIG)
    initialise(model, 0)
    x = torch.randint(CONFIG.vocab_size, (BATCH, LENGTH))
    other_text, later_token = x.clone(), x.clone()
    other_text[0] = (x[0] + 1) % CONFIG.vocab_size
    later_token[:, -1] = (x[:, -1] + 1) % CONFIG.vocab_size
    assert off(model(other_text)[1:], model(x)[1:]) <= 1e-6
    assert off(model(later_token)[:, :-1], model(x)[:, :-1]) <= 1e-6
    assert off(model(later_token)[:, -1], model(x)[:, -1]) > 0.01


def three_steps_without_zero_grad() -> list[float]:
    torch.manual_seed(0)
    rank = dist.get_rank()
    part, h = nn.Linear(WIDTH, WIDTH), batch()
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
    norms = []
    for _ in range(3):
        schedule.step(*[h] * (rank == 0), target=h)
        norms.append(part.weight.grad.norm().item())
    return norms


def test_gradients_of_earlier_steps_are_divided_again(tmp_path):
    """By torch's `scale_grads`: 1, 1 + 1/4, 1 + 1/4 + 1/16 times the gradient."""
    for first, second, third in run_ranks(three_steps_without_zero_grad, tmp_path, 2):
        assert second / first == pytest.approx(1 + 1 / 4, rel=1e-4)
        assert third / first == pytest.approx(1 + 1 / 4 + 1 / 16, rel=1e-4)


def test_a_traced_stage_takes_one_shape_only():
    ids = torch.zeros(4, LENGTH, dtype=torch.int64)
    stages = traced_modules(TransformerLM(CONFIG), ids, stages=2)
    assert stages[0](ids).shape == (4, LENGTH, CONFIG.d_model)
    with pytest.raises(RuntimeError):
        stages[0](ids[:2])


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
    assert result.error.startswith("CellFailed: rank 1 raised RuntimeError")
    assert "imed out" not in result.error  # the others were freed, nobody waited for a time-out
    assert "ValueError: boom" in result.error
    for rank in (0, 2):
        assert f"rank {rank} was blocked in schedule.step(*inputs, target=x)" in result.error
    assert not live.run(SCHEDULE.replace("fault ==", "None ==")).error


def test_a_rank_that_dies_in_the_middle_of_a_schedule(live):
    result = live.run(SCHEDULE.replace("fault ==", "'dies' =="))
    assert result.error.startswith("CellFailed: rank 1 is gone: killed by SIGKILL")
    assert "imed out" not in result.error
    assert not live.run("%ranks restart").error
    assert not live.run(SCHEDULE.replace("fault ==", "None ==")).error
