"""Ranks that make different calls: named at once; without the check, what gloo does instead."""

import pytest

from rankbook.live.failure.report import MISMATCH
from tests.live.kernel import Notebook
from tests.live.report import called, died, fails, gone

RANKS = [2, 4]  # one against one, and one against three
CALLS = {
    "operation": (
        "if rank == 1:\n    dist.broadcast(torch.ones(4), 0)\n"
        "else:\n    dist.all_reduce(torch.ones(4))",
        called(0, "all_reduce(float32 [4])", 5),
        called(1, "broadcast(float32 [4], src=0)", 3),
    ),
    "shape": (
        "dist.all_reduce(torch.ones(8 if rank == 1 else 4))",
        called(0, "all_reduce(float32 [4])", 2),
        called(1, "all_reduce(float32 [8])", 2),
    ),
    "dtype": (
        "dist.all_reduce(torch.ones(4, dtype=torch.int32 if rank == 1 else torch.float32))",
        called(0, "all_reduce(float32 [4])", 2),
        called(1, "all_reduce(int32 [4])", 2),
    ),
    "source": (
        "dist.broadcast(torch.ones(4), src=rank % 2)",
        called(0, "broadcast(float32 [4], src=0)", 2),
        called(1, "broadcast(float32 [4], src=1)", 2),
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_mismatch_is_named(live, what):
    code, *calls = CALLS[what]
    result = live.run(f"%%ranks\n{code}")
    assert result.error.startswith(fails(MISMATCH))
    for call in calls:
        assert call in result.error.split("\n")
    assert not live.run("%%ranks\ndist.barrier()").error


def test_calls_that_may_differ_do_not_raise(live):
    code = """%%ranks
gathered = [torch.zeros(1) for _ in range(world_size)] if rank == 0 else None
dist.gather(torch.tensor([float(rank)]), gathered, dst=0)
objects = [None] * world_size
dist.all_gather_object(objects, "x" * rank)
half = dist.new_group([0, 1])
if rank < 2:
    dist.all_reduce(torch.ones(rank * 0 + 1), group=half)
handle = dist.all_reduce(torch.ones(1), async_op=True)
handle.wait()
objects[-1]"""
    result = live.run(code)
    assert (result.error, "'x" in result.text) == ("", True)


@pytest.fixture(scope="module")
def own():
    """A notebook beside that of `live`."""
    with Notebook() as nb:
        assert not nb.run("%load_ext rankbook").error
        yield nb


@pytest.fixture
def unchecked(own):
    """Two ranks without the check, new ones: a test may end them."""
    assert not own.run("%ranks start -n 2 --no-check --timeout 3600").error
    yield own
    assert not own.run("%ranks stop").error


SHORT = """%%ranks
from datetime import timedelta
dist.barrier()
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=5))"""


def test_unchecked_operations_time_out_and_are_named(unchecked):
    assert not unchecked.run(SHORT).error  # from here on, a time-out that a test can wait for
    result = unchecked.run(f"%%ranks\n{CALLS['operation'][0]}")
    assert result.error.startswith(fails(MISMATCH))
    assert called(1, "broadcast(float32 [4], src=0)", 3) in result.error


def test_unchecked_dtypes_of_one_size_give_garbage_silently(unchecked):
    code = "%%ranks\nt = torch.ones(4, dtype=torch.int32 if rank == 1 else torch.float32)\n"
    result = unchecked.run(code + "dist.all_reduce(t)\nprint(t[0].item() == 2)")
    assert result.error == ""
    assert "False" in result.text  # at least one rank holds a wrong sum, and nothing was said


def test_a_mismatch_that_passed_is_no_cause_of_a_later_failure(unchecked):
    code = "%%ranks\ndist.all_reduce(torch.ones(4, dtype=[torch.float32, torch.int32][rank]))"
    assert not unchecked.run(code).error
    code = "dist.all_reduce(torch.ones(1)) if rank == 0 else dist.destroy_process_group()"
    result = unchecked.run(f"%%ranks\n{code}")
    assert result.error.startswith(fails("rank 0")), result.error
    assert MISMATCH not in result.error


def test_unchecked_shapes_end_a_process(unchecked):
    result = unchecked.run(f"%%ranks\n{CALLS['shape'][0]}")
    assert any(gone(rank, died(-6)) in result.error for rank in range(2))
