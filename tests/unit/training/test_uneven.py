"""Uneven inputs with one rank, and the reference, by hand. Several ranks: tests/distributed."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from rankbook.training import equal_steps, train_uneven, uneven_reference, weigh_inputs
from rankbook.training.microsteps import samples_of
from rankbook.training.uneven import WAYS, factors, turns


@pytest.fixture
def group(tmp_path):
    """This process as the only rank."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def slope() -> tuple[nn.Module, torch.optim.Optimizer]:
    """One parameter w, at 1. With targets 1, the loss of an input x is w x."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def product(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs * targets).mean()


def batch(*xs: float) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.tensor(xs).float()[:, None]
    return inputs, torch.ones_like(inputs)


# rank 0: two batches; rank 1: one of two samples, one of one, one more
SHARDS = [[batch(1, 2), batch(3, 5)], [batch(4, 6), batch(7), batch(9, 11)]]


@pytest.mark.parametrize(
    ("how", "gradients"),
    [
        # of each step, by hand: means 1.5 4 | 5 7 10
        ("join", [(1.5 + 5) / 2, (4 + 7) / 2, 10 / 2]),
        ("join-remaining", [(1.5 + 5) / 2, (4 + 7) / 2, 10]),
        ("has-data", [(1 + 2 + 4 + 6) / 4, (3 + 5 + 7) / 3, 10]),
        ("once", [(1 + 2 + 4 + 6) / 4, (3 + 5 + 7) / 3, 10]),
        ("drop", [(1.5 + 5) / 2, (4 + 7) / 2]),
        ("pad", [(1.5 + 5) / 2, (4 + 7) / 2, (1.5 + 10) / 2]),
    ],
)
def test_reference_by_hand(how, gradients):
    model, optimizer = slope()
    uneven_reference(model, optimizer, SHARDS, product, how)
    assert model.weight.item() == pytest.approx(1 - 0.1 * sum(gradients))


@pytest.mark.parametrize(
    ("how", "taken"), [("drop", "ab"), ("pad", "aba"), ("join", "ab"), ("has-data", "ab")]
)
def test_turns_of_the_shorter_rank(how, taken):
    assert turns("ab", [2, 3], how) == list(taken)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("join", [1 / 4] * 2), ("join-remaining", [1 / 2] * 2), ("has-data", [2 / 3, 1 / 3])],
)
def test_factors_of_two_batches_on_four_ranks(how, expected):
    assert factors([batch(1, 2), batch(3)], 4, how) == expected


@pytest.mark.parametrize("how", WAYS)
def test_one_rank_trains_plainly(how, group):
    model, optimizer = slope()
    passed = train_uneven(model, optimizer, SHARDS[1], product, how)
    assert passed.took == [0, 1, 2]
    assert model.weight.item() == pytest.approx(1 - 0.1 * (5 + 7 + 10))
    (weights,) = weigh_inputs([4], how)
    assert weights.tolist() == [1, 1, 1, 1]


def test_lockstep_on_one_rank(group):
    turns = list(equal_steps(iter("abc"), weight=lambda letter: 1))
    assert turns == [("a", 1, True), ("b", 1, True), ("c", 1, True)]


def test_lockstep_weighs_by_samples_within_a_step(group):
    turns = list(equal_steps(SHARDS[1], accumulate=2))
    assert [turn.scale for turn in turns] == [pytest.approx(s) for s in (2 / 3, 1 / 3, 1)]
    assert [turn.last for turn in turns] == [False, True, True]


def test_a_batch_without_weight_moves_nothing(group):
    turns = list(equal_steps("ab", accumulate=2, weight=lambda letter: float(letter == "b")))
    assert [turn.scale for turn in turns] == [0, 1]
    assert [turn.scale for turn in equal_steps("a", weight=lambda letter: 0.0)] == [0]


def test_samples_of_a_batch():
    tokens = torch.zeros(3, 5)
    assert samples_of(tokens) == samples_of((tokens, 1)) == samples_of([tokens]) == 3


def test_what_cannot_be_meant(group):
    with pytest.raises(ValueError, match=r"how 'skip' is unknown; use join, .*, pad, once"):
        uneven_reference(*slope(), SHARDS, product, "skip")
    with pytest.raises(ValueError, match=r"how 'once' is unknown; use join, .*, pad$"):
        train_uneven(*slope(), SHARDS[0], product, "once")
    with pytest.raises(ValueError, match="of 2 ranks, not of 1"):
        weigh_inputs([1, 2], "join")
    with pytest.raises(ValueError, match="accumulate 0"):
        next(equal_steps(SHARDS[0], accumulate=0))
