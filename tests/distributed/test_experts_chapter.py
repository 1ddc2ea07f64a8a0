"""Page 67 shows these failures and cures; measured with torch 2.13. The code is the page's own."""

import pytest

from tests.distributed import experts_chapter_ranks as work
from tests.distributed.launch import run_ranks

EXACT = 1e-12


@pytest.mark.parametrize("limit", [None, 12])
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_layer_by_hand_is_one_processs_with_and_without_drops(tmp_path, ranks, limit):
    for off in run_ranks(work.by_hand, tmp_path, ranks, limit):
        assert max(off) < EXACT


def test_a_way_there_without_a_gradient_leaves_only_the_inputs_wrong(tmp_path):
    for *others, x in run_ranks(work.by_hand, tmp_path, 2, None, True):
        assert max(others) < EXACT and x > 0.1


def test_equal_tokens_go_to_one_rank_which_runs_out_of_memory(tmp_path):
    found = run_ranks(work.one_rank_has_all, tmp_path, 4, None)
    assert found == [[4 * 4096 * 2, True]] + [[0, False]] * 3


def test_a_capacity_lets_it_fit(tmp_path):
    found = run_ranks(work.one_rank_has_all, tmp_path, 4, 1024)
    assert found == [[4 * 1024 * 2, False]] + [[0, False]] * 3


def test_experts_have_another_group_and_a_divisor(tmp_path):
    for found in run_ranks(work.averages, tmp_path, 4):
        assert all(shared < 1e-6 for shared, _, _ in found.values())
        assert found["everything"][1] > 0.5
        assert found["by_group"][2] == pytest.approx(2, rel=1e-5)
        assert found["halved"][1] < 1e-6


def test_a_router_that_is_taken_for_an_expert_parts(tmp_path):
    assert run_ranks(work.routers, tmp_path, 4) == [[2, 1]] * 4


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_balance_loss_needs_counts_of_all_ranks_and_one_division(tmp_path, ranks):
    for local, of_all, twice in run_ranks(work.balance, tmp_path, ranks):
        assert local > 0.01 and of_all < 1e-6
        assert twice == pytest.approx(1 - 1 / ranks, rel=1e-5)
