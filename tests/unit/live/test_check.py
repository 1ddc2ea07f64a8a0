"""The board where ranks compare their calls, without processes."""

import inspect

import pytest
import torch
import torch.distributed as dist

from rankbook.live.ranks.check import COLLECTIVES, CallBoard, CollectiveMismatch, describe


@pytest.fixture
def boards(tmp_path):
    boards = [CallBoard(str(tmp_path), rank, 3) for rank in range(3)]
    yield boards
    for board in boards:
        board.close()


def test_equal_calls_pass_in_any_order(boards):
    for rank in (2, 0, 1):
        boards[rank].note("world", "barrier()")
    for _ in range(2):
        for board in boards:
            board.note("world", "all_reduce(float32 [4])")


def test_the_second_comer_raises_and_names_both_calls(boards):
    boards[0].note("world", "all_reduce(float32 [4])")
    with pytest.raises(CollectiveMismatch) as error:
        boards[1].note("world", "all_reduce(float32 [8])")
    assert str(error.value) == (
        "rank 1 called all_reduce(float32 [8]) where rank 0 called all_reduce(float32 [4])"
    )


def test_groups_are_counted_apart(boards):
    boards[0].note("a", "barrier()")
    boards[1].note("b", "all_reduce(float32 [1])")
    boards[1].note("a", "barrier()")
    boards[0].note("b", "all_reduce(float32 [1])")


def test_a_rank_far_ahead_is_compared_call_by_call(boards):
    for i in range(100):
        boards[0].note("world", f"all_reduce(float32 [{i}])")
    for i in range(99):
        boards[1].note("world", f"all_reduce(float32 [{i}])")
    with pytest.raises(CollectiveMismatch):
        boards[1].note("world", "barrier()")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_arguments_compared_exist(name):
    parameters = inspect.signature(getattr(dist, name)).parameters
    assert set(COLLECTIVES[name]) <= set(parameters)


def test_calls_read_as_a_reader_would_write_them():
    tensor = torch.ones(2, 3, dtype=torch.bfloat16)
    assert (
        describe("broadcast", {"tensor": tensor, "src": 0}) == "broadcast(bfloat16 [2, 3], src=0)"
    )
    assert describe("all_reduce", {"tensor": tensor, "op": dist.ReduceOp.SUM}) == (
        "all_reduce(bfloat16 [2, 3])"
    )
    assert describe("all_reduce", {"tensor": tensor, "op": dist.ReduceOp.MAX}) == (
        "all_reduce(bfloat16 [2, 3], op=MAX)"
    )
    assert describe("all_gather", {"tensor_list": [tensor, tensor]}) == (
        "all_gather(2 x bfloat16 [2, 3])"
    )
