"""Page 68 shows these failures; measured with torch 2.13, torchft 0.2. If one goes, it changes."""

from importlib.util import find_spec

import pytest
import torch

from rankbook.comm import Link, ring
from rankbook.testbed import slow_step
from rankbook.testbed.hosts import why_not_slow
from tests.distributed.launch import run_ranks
from tests.distributed.slow_links_ranks import forgotten, returned, with_torchft

needs_torchft = pytest.mark.skipif(
    find_spec("torchft") is None, reason="torchft has wheels for Linux on x86-64 only"
)
DELAY = 0.02
REASON = why_not_slow(DELAY)


def test_what_is_never_among_the_largest_never_moves(tmp_path):
    for found in run_ranks(forgotten, tmp_path, 2, False):
        assert found["still"] > 0.3 and found["learnt"] > 0


def test_with_feedback_all_move(tmp_path):
    for found in run_ranks(forgotten, tmp_path, 2, True):
        assert found["still"] == 0 and found["learnt"] > 0


def test_who_just_takes_part_again_stays_another_model(tmp_path):
    first, *others, back = run_ranks(returned, tmp_path, 3, True)
    assert all(torch.equal(first, other) for other in others)
    assert (first - back).abs().max() > 1e-3


def test_who_is_brought_up_to_date_is_the_same_model(tmp_path):
    first, *others = run_ranks(returned, tmp_path, 3, False)
    assert all(torch.equal(first, other) for other in others)


@needs_torchft
def test_fragments_with_an_outer_optimizer_each_are_the_rooms(tmp_path):
    ranks = run_ranks(with_torchft, tmp_path, 2, 2)
    for found in ranks:
        torch.testing.assert_close(found["theirs"], found["ours"], rtol=1e-12, atol=1e-12)
    assert torch.equal(ranks[0]["theirs"], ranks[1]["theirs"])


@needs_torchft
def test_one_outer_optimizer_of_two_fragments_makes_two_models(tmp_path):
    one, other = run_ranks(with_torchft, tmp_path, 2, 1)
    assert torch.equal(one["ours"], other["ours"])
    assert (one["theirs"] - other["theirs"]).abs().max() > 1e-3


@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_a_step_over_a_slow_cable_takes_what_the_cable_needs():
    link = Link("10 Mbit/s, 20 ms", DELAY, 8 / 10e6)
    _, slow = slow_step.step_seconds(10e6, DELAY)
    # the cable is never faster, but a bucket of two frames goes at once
    assert slow > 0.97 * ring(2, slow_step.NBYTES, link)
