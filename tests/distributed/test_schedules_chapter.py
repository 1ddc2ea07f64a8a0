"""What page 23 says of schedules on live ranks: when one fails, its sentence has to go."""

from copy import deepcopy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage

from rankbook.parallel.pipeline import (
    Durations,
    PipelinePlan,
    SavedBytes,
    gaps,
    peak,
    record,
    simulate,
)
from tests.distributed.launch import run_ranks

RANKS, MICROBATCHES, ROWS, WIDTH = 3, 4, 4, 8
NAMES = ["gpipe", "1f1b", "interleaved1f1b", "loopedbfs", "interleavedzb", "zbv"]
SPLIT = {"interleavedzb", "zbv"}
TENSOR = ROWS * WIDTH * 4  # bytes, in float32
TOLERANCE = 1e-6  # sums of a few float32 gradients below 1, in another order
mse = nn.functional.mse_loss


def build() -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2 * RANKS)]
    x, y = torch.randn(2, MICROBATCHES * ROWS, WIDTH)
    return nn.Sequential(*layers), x, y


def step(name: str, saved: SavedBytes) -> dict:
    """One step of torch's schedule beside one process; what was recorded of it."""
    rank, plan = dist.get_rank(), PipelinePlan(name, RANKS, MICROBATCHES)
    whole, x, y = build()
    size = 2 * RANKS // plan.stages
    control = {i: whole[i * size : (i + 1) * size] for i in plan.stages_of(rank)}
    parts = deepcopy(control)
    stages = [PipelineStage(p, i, plan.stages, torch.device("cpu")) for i, p in parts.items()]
    schedule = plan.kind.cls(stages if len(stages) > 1 else stages[0], MICROBATCHES, loss_fn=mse)
    inputs = [x] if 0 in parts else []
    target = {"target": y} if plan.stages - 1 in parts else {}
    schedule.step(*inputs, **target)
    for part in parts.values():
        part.zero_grad()
        saved.watch(part)
    with record() as recording:
        schedule.step(*inputs, **target)
    timeline = recording.gather()
    mse(whole(x), y).backward()
    pairs = [
        pair for i in parts
        for pair in zip(parts[i].parameters(), control[i].parameters(), strict=True)
    ]  # fmt: skip
    return {
        "order": timeline.order(rank),
        "held": peak(timeline, rank),
        "error": max((p.grad - q.grad).abs().max().item() for p, q in pairs),
        "size": min(q.grad.abs().max().item() for _, q in pairs),
        "bytes": saved.peak / (TENSOR * (size + 1)),  # in microbatches of one stage
        "left": saved.now,
    }


def all_steps() -> dict[str, dict]:
    return {name: step(name, SavedBytes()) for name in NAMES}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return run_ranks(all_steps, tmp_path_factory.mktemp("ranks"), RANKS)


@pytest.mark.parametrize("name", NAMES)
def test_torch_does_what_the_pictures_show(name, ran):
    drawn = simulate(PipelinePlan(name, RANKS, MICROBATCHES))
    for rank, found in enumerate(result[name] for result in ran):
        assert found["order"] == drawn.order(rank)
        assert found["held"] == peak(drawn, rank)
        counted = drawn.in_flight(rank)
        assert found["bytes"] <= counted and found["left"] == 0
        assert name in SPLIT or found["bytes"] == counted


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_one_process(name, ran):
    for found in (result[name] for result in ran):
        assert found["error"] <= TOLERANCE < 1e-4 < found["size"]


def limited(name: str) -> int:
    """The most bytes of a rank that has room for three microbatches."""
    saved = SavedBytes(limit=3 * 3 * TENSOR)
    step(name, saved)
    return saved.peak


def test_1f1b_keeps_a_limit_of_as_many_microbatches_as_ranks(tmp_path):
    assert run_ranks(limited, tmp_path, RANKS, "1f1b") == [n * 3 * TENSOR for n in (3, 2, 1)]


def test_gpipe_does_not(tmp_path):
    with pytest.raises(Exception, match=r"MemoryError: 1,152 bytes are held for backward"):
        run_ranks(limited, tmp_path, RANKS, "gpipe")


def summary(name: str, **durations: float) -> tuple:
    line = simulate(PipelinePlan(name, RANKS, MICROBATCHES), Durations(**durations))
    idle = [sum(end - start for start, end in gaps(line, rank)) for rank in line.ranks]
    return line.span, idle, [peak(line, rank) for rank in line.ranks]


def test_what_each_schedule_removes():
    assert summary("gpipe") == (18, [6] * 3, [4, 4, 4])
    assert summary("1f1b") == (18, [6] * 3, [3, 2, 1])
    assert summary("interleaved1f1b") == (15, [3] * 3, [4, 3.5, 2.5])
    assert summary("loopedbfs") == (15, [3] * 3, [4, 4, 4])
    assert summary("interleavedzb") == (13, [1] * 3, [3.5, 3.5, 3.5])
    assert summary("zbv") == (13, [1] * 3, [2.5, 3, 3])
    assert summary("zbv", communication=0.25)[0] < summary("interleavedzb", communication=0.25)[0]


def bubbles(name: str, microbatches: int) -> list[float]:
    """Of each rank, in F, from its first F to its last W."""
    line = simulate(PipelinePlan(name, RANKS, microbatches))
    mine = [line.computed(rank) for rank in range(RANKS)]
    return [actions[-1].end - actions[0].start - 3 * microbatches for actions in mine]


def test_by_the_papers_count_the_v_has_no_bubble_from_eight_microbatches_on():
    assert bubbles("zbv", 4) == [1, 0.5, 0]
    assert bubbles("zbv", 8) == bubbles("zbv", 16) == [0, 0, 0]
    assert bubbles("1f1b", 8) == [6, 3, 0]  # another schedule does not pass for it


def test_interleaved_1f1b_wants_equal_rounds():
    PipelinePlan("interleaved1f1b", RANKS, MICROBATCHES)
    with pytest.raises(ValueError, match=r"16 microbatches to 3 ranks in 5 equal rounds; use 15"):
        PipelinePlan("interleaved1f1b", RANKS, 16)


def test_dualpipev_wants_as_many_microbatches_as_stages():
    with pytest.raises(ValueError, match=r"at least as many microbatches as stages: 4 .* 6 stages"):
        PipelinePlan("dualpipev", RANKS, MICROBATCHES)
