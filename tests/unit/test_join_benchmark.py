"""The benchmark of Join: its command line, its arithmetic, and a block of steps."""

from unittest import mock

import torch.distributed as dist
from torch.distributed.algorithms.join import Join

from benchmarks import join


def test_what_a_way_adds_is_beside_its_neighbour_in_time():
    ddp, more = [0.001, 0.002, 0.004], [0.002, 0.003, 0.012]
    rows = join.table({
        ("3 x 64", "DDP"): ddp, ("3 x 64", "Join"): more, ("3 x 64", "leaving Join"): [0.1] * 3,
    })  # fmt: skip
    assert [row["way"] for row in rows] == ["DDP", "Join", "leaving Join"]
    assert [row["median"] for row in rows] == [2, 3, 100]
    assert rows[1]["more"] == 1 and rows[1]["95%"] == [1, 8]
    assert "more" not in rows[0] | rows[2]
    assert rows[0]["parameters"] == 3 * 64 * 65


def test_the_bounds_of_a_median():
    assert join.middle([float(n) for n in range(1, 101)]) == (50.5, 41, 60)


def test_a_block_of_steps_in_each_way(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        blocks = {way: join.block_of("3 x 64", way) for way in join.WAYS}
        blocks["Join"]()  # what it leaves behind must not be in another's model
        found = {way: block() for way, block in blocks.items()}
        calls = notifications(blocks)
        # A DDP that outlives its group ends gloo's threads while it holds the GIL, for which one
        # of them may be waiting: the process stood still here, within 30 runs of 400.
        del blocks
    finally:
        dist.destroy_process_group()
    assert {way: list(times) for way, times in found.items()} == {
        "DDP": ["DDP"],
        "Join": ["Join", "leaving Join"],
        "lockstep": ["lockstep", "leaving lockstep"],
    }
    assert all(seconds > 0 for times in found.values() for seconds in times.values())
    assert calls == {"DDP": 0, "Join": join.STEPS, "lockstep": 0}


def notifications(blocks):
    """How often a block of each way tells Join of an input."""
    notify, calls = Join.notify_join_context, {}
    for way, block in blocks.items():
        answers = []
        with mock.patch.object(
            Join,
            "notify_join_context",
            lambda it, said=answers: said.append(notify(it)) or said[-1],
        ):
            block()
        calls[way] = sum(answer is not None for answer in answers)
    return calls
