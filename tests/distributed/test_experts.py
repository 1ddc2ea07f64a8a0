"""Experts on several ranks compute what they compute in one process; and what would not be it."""

import pytest

from tests.distributed.experts_ranks import everything, refused
from tests.distributed.launch import run_ranks

# float64 rounds at 1e-16; sums of some hundreds of products, in another order
ROUNDING = 1e-12
RANKS = (2, 4)


@pytest.fixture(scope="module", params=RANKS)
def ranks(request, tmp_path_factory):
    return run_ranks(everything, tmp_path_factory.mktemp("ranks"), request.param)


@pytest.mark.parametrize("what", ["no drops", "per row", "per rank", "with the loss"])
def test_losses_and_all_gradients_are_one_process(ranks, what):
    for found in ranks:
        one = found[what]
        assert max(one["loss"], one["x"], one["gradients"]) < ROUNDING
        mine, right = one["dropped"]
        assert mine == right and (mine > 0) == what.startswith("per")


def test_a_capacity_per_rank_drops_otherwise_than_one_process(ranks):
    """It counts the tokens that a rank brings: other ranks, other drops, another loss."""
    for found in ranks:
        one = found["per rank, whole control"]
        assert one["dropped"][0] != one["dropped"][1]
        assert one["loss"] > 1e-6 and one["gradients"] > 1e-3


def test_the_balance_loss_is_that_of_all_tokens(ranks):
    for found in ranks:
        one = found["balance"]
        assert one["ours"] == pytest.approx(one["whole"], abs=ROUNDING)
        assert one["gradient of ours"] < ROUNDING


def test_a_mean_of_local_losses_is_not_and_depends_on_the_number_of_ranks(tmp_path_factory):
    means = {}
    for count in RANKS:
        folder = tmp_path_factory.mktemp("ranks")
        (one, *_) = (found["balance"] for found in run_ranks(everything, folder, count))
        means[count] = one["mean of local"]
        assert one["mean of local"] - one["whole"] > 0.01
        assert one["gradient of local"] > 0.05
    assert means[4] - means[2] > 0.01


def test_biases_move_as_in_one_process_and_alike_on_all_ranks(ranks):
    for found in ranks:
        one = found["biases"]
        assert one["counts"][0] == one["counts"][1]
        assert one["bias"] == one["right"] and any(one["bias"])
        assert one["alone differ"]  # each by its own tokens: ranks then choose differently


def test_all_tokens_to_one_rank_and_different_numbers_of_them(ranks):
    for found in ranks:
        one = found["uneven"]
        assert max(one["y"], one["x"]) < ROUNDING
        assert one["no work"] == (one["rank"] > 0)


def test_shared_and_expert_parameters_have_two_groups(ranks):
    """dp=2, ep=2: averaging all over all ranks adds up different experts."""
    for found in ranks:
        if "two groups" in found:
            ways = found["two groups"]
            assert ways.pop("right") < ROUNDING
            assert min(ways.values()) > 0.1


def test_experts_that_ranks_cannot_share_are_refused(tmp_path):
    for said in run_ranks(refused, tmp_path, 2):
        assert said == (
            "2 ranks cannot hold equally many of 5 experts; choose a divisor, or another number "
            "of experts"
        )
