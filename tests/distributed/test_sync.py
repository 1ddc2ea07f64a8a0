"""Replicas that meet in every step, compressed, or now and then, beside one process.

The arithmetic is float64's: equal means equal but for its rounding, which is far below 1e-12.
"""

import pytest

from tests.distributed import sync_ranks
from tests.distributed.launch import run_ranks

SAME, APART = 1e-12, 1e-4


def on_ranks(work, folder, ranks=3):
    return run_ranks(work, folder, ranks)


def test_meeting_after_every_step_is_data_parallelism_with_sgd_and_not_with_adamw(tmp_path):
    for found in on_ranks(sync_ranks.all_every_step, tmp_path):
        for of_kind in found.values():
            assert of_kind["sgd"] < SAME
            assert of_kind["momentum"] < SAME  # and weight decay: all of it is linear
            assert of_kind["adamw"] > APART  # a mean of normalised steps is not that of the mean


def test_live_replicas_are_those_that_one_process_trains_in_turn(tmp_path):
    for found in on_ranks(sync_ranks.as_in_turn, tmp_path):
        assert max(found.values()) < SAME, found


def test_a_wrong_outer_step_is_found(tmp_path):
    for found in on_ranks(sync_ranks.sabotaged, tmp_path):
        assert min(found.values()) > APART, found


def test_fragments_that_meet_at_once_are_the_whole_model(tmp_path):
    for at_once, staggered in on_ranks(sync_ranks.all_fragments_at_once, tmp_path):
        assert at_once < SAME
        assert staggered > APART


def test_compressed_gradients_are_as_one_process_compresses_them(tmp_path):
    for found in on_ranks(sync_ranks.compressed_ways, tmp_path):
        # of the messages' float32, which the residuals round to
        assert found["with"] < 1e-6
        assert found["without"] < 1e-6
        assert found["lost"] > 1e-3  # no feedback where there should be


def test_a_newcomer_goes_on_from_what_the_others_have_agreed_on(tmp_path):
    found = on_ranks(sync_ranks.comes_and_goes, tmp_path)
    assert [new for new, _ in found] == [False, False, True]
    assert max(off for _, off in found) < SAME


def test_a_newcomer_without_the_outer_momentum_is_found(tmp_path):
    found = on_ranks(sync_ranks.comes_without_momentum, tmp_path)
    assert found[2][1] > APART


def test_a_replica_of_weight_0_changes_no_mean(tmp_path):
    assert max(on_ranks(sync_ranks.counts_nothing, tmp_path)) < SAME


@pytest.mark.parametrize("ranks", [2, 4])
def test_on_other_numbers_of_ranks_too(tmp_path, ranks):
    for found in on_ranks(sync_ranks.as_in_turn, tmp_path, ranks):
        assert max(found.values()) < SAME, found
