"""Wrong input is one clear sentence, and it comes before any process group exists."""

import re
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage

from rankbook.models import preset
from rankbook.parallel.pipeline import PipelinePlan, find_schedule, schedule_names
from rankbook.parallel.pipeline.plan import check_ids


@pytest.fixture(autouse=True)
def nothing_is_said_to_other_ranks():
    assert not dist.is_initialized()
    yield
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (("pipedream", 2, 4), "schedule 'pipedream' is unknown; use gpipe, 1f1b, interleaved1f1b"),
        (("1f1b", 4, 3), "1f1b needs at least as many microbatches as stages: 3 microbatches, 4 "),
        (("dualpipev", 2, 3), "dualpipev needs at least as many microbatches as stages: 3 micro"),
        (("interleaved1f1b", 2, 5), "cannot deal 5 microbatches to 2 ranks in 2 equal rounds; use"),
        (("interleavedzb", 3, 10), "cannot deal 10 microbatches to 3 ranks in 3 equal rounds; use"),
        (("gpipe", 2, 4, 1, 4), "gpipe runs one stage per rank, not 4 stages on 2 ranks; use 2 st"),
        (("zbv", 2, 4, 1, 6), "zbv runs exactly two stages per rank, not 6 stages on 2 ranks; use"),
        (("loopedbfs", 2, 4, 1, 3), "the same number of stages on each rank, not 3 stages on 2 ra"),
        (("gpipe", 0, 4), "a pipeline of 0 ranks and 4 microbatches cannot run"),
        (("gpipe", 2, 0), "a pipeline of 2 ranks and 0 microbatches cannot run"),
        (("gpipe", 2, 4, 0), "replicas is 0; it must be 1 or more"),
    ],
)
def test_wrong_plan(plan, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        PipelinePlan(*plan)


@pytest.mark.parametrize("name", schedule_names())
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_plan_refuses_what_torch_refuses(name, ranks):
    """And nothing else: otherwise a rank would find out in the middle."""
    kind = find_schedule(name)
    for microbatches in range(1, 13):
        stage = mock.create_autospec(PipelineStage, instance=True)
        stage.group_rank, stage.group_size, stage.submod = 0, ranks, None
        stage.num_stages = ranks * kind.stages_per_rank
        several = [stage] * kind.stages_per_rank
        try:
            kind.cls(stage if kind.placement == "single" else several, microbatches)
        except ValueError:
            with pytest.raises(ValueError, match=f"schedule {name} "):
                PipelinePlan(name, ranks, microbatches)
        else:
            PipelinePlan(name, ranks, microbatches)


def test_default_stages():
    assert PipelinePlan("1F1B", 4, 8).stages == 4
    assert PipelinePlan("zbv", 4, 8).stages == 8
    assert PipelinePlan("loopedbfs", 2, 8, stages=6).stages_of(1) == [1, 3, 5]


def test_more_stages_than_layers():
    plan = PipelinePlan("loopedbfs", 4, 8, stages=12)
    with pytest.raises(ValueError, match=r"12 stages cannot share 8 layers; use 8 stages or fewer"):
        plan.check_model(preset("tiny", 50))
    plan.check_model(preset("tiny", 50, layers=12))


def test_vocabulary_larger_than_the_embedding():
    plan, config = PipelinePlan("gpipe", 2, 4), preset("tiny", 50)
    with pytest.raises(ValueError, match=r"vocabulary has 51 entries, the model's embedding 50"):
        plan.check_model(config, vocab_size=51)
    plan.check_model(config, vocab_size=50)


@pytest.mark.parametrize("batch_size", [0, 4, 12])
def test_batch_is_not_divisible(batch_size):
    plan = PipelinePlan("gpipe", 2, 4, replicas=2)
    sentence = f"a batch of {batch_size} is not divisible by 2 replicas x 4 microbatches"
    with pytest.raises(ValueError, match=sentence):
        plan.check_batch(batch_size)


def test_shares_are_the_batch():
    plan, batch = PipelinePlan("gpipe", 2, 4, replicas=2), torch.arange(16)
    assert torch.equal(torch.cat([plan.share(batch, replica) for replica in range(2)]), batch)


@pytest.mark.parametrize("world_size", [1, 3, 8])
def test_world_size_does_not_fit(world_size):
    sentence = f"2 replicas need 4 ranks, but world_size is {world_size}; start as many"
    with pytest.raises(ValueError, match=sentence):
        PipelinePlan("gpipe", 2, 4, replicas=2).mesh("cpu", world_size)


@pytest.mark.parametrize("wrong", [-1, 50])
def test_ids_outside_of_the_vocabulary(wrong):
    ids = torch.tensor([[0, 49], [wrong, 7]])
    with pytest.raises(ValueError, match=rf"id {wrong} in tokens is outside .* 0 to 49"):
        check_ids(ids, 50, "tokens")
