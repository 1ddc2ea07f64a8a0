"""In one process: what accelerate's dispatcher makes of what rank 0 reads."""

import pytest

from rankbook.data import audit_samples

dispatch = pytest.importorskip("rankbook.training.dispatch")


def test_batches_are_joined_and_cut_and_the_last_one_filled_up():
    ranks = dispatch.dispatched(range(10), 2, 3)
    assert ranks == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 0, 1]]


def test_too_few_samples_to_fill_up_with_leave_a_rank_an_empty_batch():
    assert dispatch.dispatched(range(1), 4, 3) == [[0], [0], []]


@pytest.mark.parametrize("size", range(1, 17))
def test_of_a_set_that_was_shared_out_only_the_share_of_rank_0_is_left(size):
    audit = audit_samples(dispatch.dispatched(range(0, 240, size), 4, size), 240)
    assert audit.never == 240 - len(range(0, 240, size))
