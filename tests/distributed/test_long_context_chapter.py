"""Page 66 shows these failures and cures; measured with torch 2.13. The code is the page's own.

In float64, so that what is off by more than 1e-12 is no rounding.
"""

import pytest

from tests.distributed import long_context_ranks as work
from tests.distributed.launch import run_ranks

pytestmark = pytest.mark.long

EXACT = 1e-12


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("order", ["blocks", "zigzag"])
def test_every_gradient_of_the_ring_is_one_processs(tmp_path, order, ranks):
    for loss, worst in run_ranks(work.ring, tmp_path, ranks, order):
        assert loss < EXACT and worst < EXACT


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_gradient_over_heads_is_one_processs(tmp_path, ranks):
    for loss, worst in run_ranks(work.heads, tmp_path, ranks):
        assert loss < EXACT and worst < EXACT


def test_the_naive_cut_has_nearly_the_loss_and_other_gradients(tmp_path):
    for loss, worst in run_ranks(work.naive, tmp_path, 2):
        assert EXACT < loss < 0.02 and worst > 0.5


def test_the_naive_cut_trains_well_and_its_model_is_worse(tmp_path):
    first, last, uncut, control = run_ranks(work.trained, tmp_path, 2, 250)[0]
    assert last < 0.3 * first
    assert uncut > last + 0.05 and uncut > 1.3 * control


def test_a_forgotten_message_leaves_the_loss_and_spoils_what_is_before(tmp_path):
    for loss, good in run_ranks(work.forgotten, tmp_path, 2):
        assert loss < EXACT
        last = [f"layers.1.{part}.weight" for part in ("down", "norm2", "out", "q", "up")]
        assert good == ["head.weight", *last, "norm.weight"]


def test_positions_from_0_and_late_shifts_are_silently_wrong(tmp_path):
    for right, from_0, late in run_ranks(work.misplaced, tmp_path, 4):
        assert max(right) < EXACT
        for loss, worst in (from_0, late):
            assert EXACT < loss < 0.03 and worst > 0.1


def test_torchs_own_needs_a_gpu(tmp_path):
    for said in run_ranks(work.official, tmp_path, 2):
        assert "does not have a sharding strategy" in said


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 64])
def test_in_zigzag_every_rank_has_as_many_meetings_at_every_step(ranks):
    for rank in range(ranks):
        meetings = work.page("ring-meetings", rank=rank, world_size=ranks)["meetings"]
        steps = [meetings(step, "zigzag") for step in range(ranks)]
        assert [len(step) for step in steps] == [3] + [2] * (ranks - 1)
        assert [sum(same for *_, same in step) for step in steps] == [2] + [0] * (ranks - 1)
