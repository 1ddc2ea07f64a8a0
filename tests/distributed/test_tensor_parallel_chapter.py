"""Page 61 shows these failures and cures; measured with torch 2.13. The code is the page's own.

Two ranks instead of four, and float64, so that what is off by more than 1e-12 is no rounding.
"""

import pytest

from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import Layout
from tests.distributed import tensor_parallel_ranks as work
from tests.distributed.launch import run_ranks

EXACT = 1e-12


def test_one_seed_for_all_makes_equal_shards_that_never_part(tmp_path):
    for units in run_ranks(work.learned, tmp_path, 2, 0):
        assert len(units) == 4 and len(units.unique(dim=0)) == 2


def test_other_seeds_make_other_shards(tmp_path):
    for units in run_ranks(work.learned, tmp_path, 2, 1):
        assert len(units.unique(dim=0)) == 4


def test_a_layer_cut_by_hand_is_one_processs(tmp_path):
    for loss, gradients in run_ranks(work.by_hand, tmp_path, 2, False):
        assert loss < EXACT and gradients < EXACT


def test_without_f_the_loss_is_right_and_the_gradients_are_not(tmp_path):
    for loss, gradients in run_ranks(work.by_hand, tmp_path, 2, True):
        assert loss < EXACT and gradients > 0.1


def test_heads_that_do_not_divide(tmp_path):
    with pytest.raises(ValueError, match="tp=2 does not divide the model's heads, 3"):
        Layout(tp=2).check_model(TransformerConfig(8, 24, 48, heads=3, layers=1))
    for said, loss, gradients in run_ranks(work.three_heads, tmp_path, 2):
        assert "is invalid for input of size" in said
        assert loss < 0.2 and gradients > 0.1


def test_dropout_needs_a_common_stream(tmp_path):
    assert all(off > 0.1 for off in run_ranks(work.dropped, tmp_path, 2, False))


def test_with_a_common_stream_dropout_is_one_processs(tmp_path):
    assert all(off < EXACT for off in run_ranks(work.dropped, tmp_path, 2, True))


def test_an_unsharded_stream_is_taken_for_a_part_and_rank_0_has_the_right_loss(tmp_path):
    found = run_ranks(work.sequence, tmp_path, 2, False)
    assert [loss < EXACT for loss, _, _ in found] == [True, False]
    assert all(gradients > 0.5 and times == 2 for _, gradients, times in found)


def test_a_sharded_stream_is_one_processs(tmp_path):
    for loss, gradients, times in run_ranks(work.sequence, tmp_path, 2, True):
        assert loss < EXACT and gradients < EXACT and times == 1


def test_the_loss_of_a_cut_vocabulary(tmp_path):
    for loss, gradient in run_ranks(work.entropy_of_the_page, tmp_path, 2):
        assert loss < EXACT and gradient < EXACT


def test_four_live_and_64_simulated_ranks_cut_by_the_same_function():
    def function(cell_id: str) -> str:
        code = work.source(cell_id)
        start = code.index("def by_torch")
        return code[start : code.index("\n\n", start)]

    assert function("dtensor") == function("simulated")
