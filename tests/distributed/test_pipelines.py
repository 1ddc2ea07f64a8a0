"""Every schedule, on 1, 2 and 4 ranks and on 2 x 2, trains exactly as the unsplit model does."""

import time

import pytest
import torch

from rankbook.models import TransformerLM, initialise
from rankbook.models.loss import token_loss
from rankbook.parallel.pipeline import schedule_names
from tests.distributed import launch
from tests.distributed.launch import run_ranks
from tests.distributed.pipeline_ranks import (
    CONFIG,
    MAX_NORM,
    SEED,
    batches,
    clip_sharded,
    other_shapes,
    train_all,
    unsplit,
    wrong_batches,
)

pytestmark = pytest.mark.long

SHAPES = {"1": (1, 1), "2": (2, 1), "4": (4, 1), "2x2": (2, 2)}
TOLERANCE = 1e-6  # absolute, in float32


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Results of one launch per shape of the mesh, for all schedules: starting ranks is slow."""
    done = {}

    def train(shape: str) -> list[dict]:
        if shape not in done:
            ranks, replicas = SHAPES[shape]
            folder = tmp_path_factory.mktemp("ranks")
            args = (ranks, replicas, schedule_names())
            done[shape] = run_ranks(train_all, folder, ranks * replicas, *args)
        return done[shape]

    return train


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", schedule_names())
def test_schedule_equals_the_unsplit_model(name, shape, trained):
    by_rank = [results[name] for results in trained(shape)]
    for result in by_rank:
        assert max(result["errors"].values()) <= TOLERANCE, result["errors"]
    # each parameter of the whole model is on one rank of each pipeline, under its own name
    _, replicas = SHAPES[shape]
    held = sorted(name for result in by_rank for name in result["parameters"])
    whole = [name for name, _ in TransformerLM(CONFIG).named_parameters()]
    assert held == sorted(whole * replicas)


def test_tracer_equals_the_unsplit_model(tmp_path):
    names = ["1f1b", "zbv"]  # a stage per rank, and several
    by_rank = run_ranks(train_all, tmp_path, 2, 2, 1, names, True)
    for name in names:
        held = [parameter for results in by_rank for parameter in results[name]["parameters"]]
        assert sorted(held) == sorted(name for name, _ in TransformerLM(CONFIG).named_parameters())
        for results in by_rank:
            assert max(results[name]["errors"].values()) <= TOLERANCE, results[name]["errors"]


def test_the_comparison_could_fail():
    """The unsplit model's figures are far above the tolerances, and the clipping does clip."""
    steps = unsplit()
    assert all(step.norm > 1.2 * MAX_NORM for step in steps)
    assert all(step.loss != steps[0].loss for step in steps[1:])
    for name, gradient in steps[0].gradients.items():
        if not name.endswith("k.bias"):  # which changes no attention: 0 but for rounding
            assert gradient.abs().max() > 1e-4
    moved = steps[-1].parameters["layers.8.up.weight"] - steps[0].parameters["layers.8.up.weight"]
    assert moved.abs().max() > 1e-3 and torch.isfinite(moved).all()


def test_a_wrong_batch_is_one_sentence_on_every_rank(tmp_path):
    told = run_ranks(wrong_batches, tmp_path, 2)
    assert told[0] == told[1]
    not_divisible, unequal, long, outside = told[0]
    assert "a batch of 6 is not divisible by 1 replicas x 4 microbatches" in not_divisible
    assert "tokens (16, 6) and targets (16, 3) must both be (batch, length)" in unequal
    assert "sequences of 18 tokens are longer than the model's max_length, 16; cut them" in long
    assert "id 50 in targets is outside of the model's vocabulary, 0 to 49" in outside


@pytest.mark.parametrize("name", ["1f1b", "dualpipev"])
def test_batches_of_other_shapes(name, tmp_path):
    model = TransformerLM(CONFIG)
    initialise(model, SEED)
    tokens, targets = batches()[0]
    expected = []
    for rows, length in [(16, 6), (8, 6), (16, 3), (16, 6)]:
        expected += [token_loss(model(tokens[:rows, :length]), targets[:rows, :length]).item()] * 2
    for losses in run_ranks(other_shapes, tmp_path, 2, name):
        assert losses == pytest.approx(expected, abs=TOLERANCE)


def test_clipping_counts_sharded_gradients_as_a_whole(tmp_path):
    norm = unsplit()[0].norm.item()
    for rank, (before, after, plain) in enumerate(run_ranks(clip_sharded, tmp_path, 4)):
        assert before == pytest.approx(norm, abs=TOLERANCE)
        assert after == pytest.approx(MAX_NORM, abs=1e-5)
        assert (plain > 0) == (rank >= 2)


def test_a_rank_that_does_not_come_ends_the_launch(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "SOON", 6.0)
    with pytest.raises(TimeoutError, match="2 ranks were not done in 6 s"):
        run_ranks(time.sleep, tmp_path, 2, 3600.0)
