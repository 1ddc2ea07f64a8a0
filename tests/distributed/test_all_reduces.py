"""Three ways to all_reduce on real ranks: the library's sum, in as many bytes as promised."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from bookext.moving_twins.collectives import collective

from rankbook.comm.all_reduce.alpha_beta import (
    WAYS,
    predict,
    time_all_reduce,
    time_messages,
    time_ping_pong,
)
from rankbook.comm.all_reduce.by_rank_0 import all_reduce_by_rank_0
from rankbook.comm.all_reduce.halving_doubling import halving_doubling_all_reduce
from rankbook.comm.all_reduce.ring import ring_all_reduce
from tests.distributed.launch import run_ranks

pytestmark = pytest.mark.long

SIZES = [(8,), (12, 5), (1000,), (10,), (5,), (3,), (1,), (0,)]
BY_HAND = dict(
    zip(WAYS, [all_reduce_by_rank_0, ring_all_reduce, halving_doubling_all_reduce], strict=False)
)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 6, 7, 8])
def test_every_way_sums(world_size, tmp_path):
    sent = run_ranks(on_rank, tmp_path, world_size)
    for way in BY_HAND:
        # What the busiest rank sends and receives, one after the other or both ways at once, is
        # what the model lets it pay for: alpha for each message, beta for each byte.
        steps = max(rank[way][0] for rank in sent)
        nbytes = max(rank[way][1] for rank in sent)
        assert steps == predict(way, world_size, 0, 1, 0)
        assert nbytes == pytest.approx(predict(way, world_size, 840 * 8, 0, 1))
        if world_size > 1:
            foretold = collective(way, world_size)
            chunk = 840 * 8 / foretold.chunks
            steps = [message for step in foretold.steps for message in step]
            for rank, found in enumerate(sent):
                mine = [m for m in steps if m.source == rank]
                assert found[way][2] == [(m.target, m.first, m.count * chunk) for m in mine]


def on_rank() -> dict:
    for all_reduce in BY_HAND.values():
        for shape in SIZES:
            whole_numbers_are_exact(all_reduce, shape)
        every_rank_has_the_same_bits(all_reduce)
        if dist.get_world_size() > 1:
            with pytest.raises(ValueError, match=r"pass tensor.contiguous\(\)"):
                all_reduce(torch.ones(4, 4)[:, 0])
    timed_by_turns()
    x = torch.ones(840, dtype=torch.int64)  # cut evenly by 1 to 8
    messages = {way: all_reduce(x.clone()) for way, all_reduce in BY_HAND.items()}
    return {
        way: (len(moved), sum(m.nbytes for m in moved), sent_in_order(moved))
        for way, moved in messages.items()
    }


def sent_in_order(moved: list) -> list[tuple]:
    mine = [m for m in moved if m.source == dist.get_rank()]
    return [(m.target, m.chunk, m.nbytes) for m in mine]


def whole_numbers_are_exact(all_reduce, shape: tuple) -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    ramp = torch.arange(torch.Size(shape).numel(), dtype=torch.int64).view(shape)
    x = ramp * (rank + 1) + rank**2
    by_library, control = x.clone(), sum(ramp * (r + 1) + r**2 for r in range(n))
    all_reduce(x)
    dist.all_reduce(by_library)
    assert torch.equal(x, by_library) and torch.equal(x, control), shape


def every_rank_has_the_same_bits(all_reduce) -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    draws = [torch.randn(1001, generator=torch.Generator().manual_seed(r)) for r in range(n)]
    mine = draws[rank].clone()
    all_reduce(mine)
    every = [torch.empty(1001) for _ in range(n)]
    dist.all_gather(every, mine)
    assert all(torch.equal(other, mine) for other in every)
    assert torch.allclose(mine, sum(draws), atol=1e-5)


def note(order: list, name: str, x: torch.Tensor) -> None:
    order.append((name, x.nbytes))


def timed_by_turns() -> None:
    cpu, order = torch.device("cpu"), []
    ways = {name: partial(note, order, name) for name in "ab"}
    seconds = time_messages(ways, {8: 3, 64: 1}, cpu)
    assert [len(times) for times in seconds["a"]] == [3, 1]
    # a turn to warm up, then as often as asked, every other one backwards
    assert [name for name, size in order if size == 8] == list("ababbaab")
    assert [name for name, size in order if size == 64] == list("abab")
    assert time_all_reduce([8, 64], 2, cpu).shape == (2, 2)
    if dist.get_world_size() > 1:
        ping = time_ping_pong({8: 3, 64: 2}, cpu)
        assert [len(times) for times in ping] == [3, 2] and all((t > 0).all() for t in ping)
