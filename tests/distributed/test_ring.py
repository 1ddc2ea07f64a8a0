"""The ring all_reduce on real ranks: equal to the library's, and no byte more than promised."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from rankbook.comm.all_reduce.ring import ring_all_reduce, shift

SIZES = [(8,), (12, 5), (1000,), (10,), (3,), (1,), (0,)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ring(world_size, tmp_path):
    mp.set_forkserver_preload(["torch.distributed"])
    mp.start_processes(on_rank, (str(tmp_path), world_size), world_size, start_method="forkserver")
    messages = [m for r in range(world_size) for m in torch.load(tmp_path / f"{r}")]
    by_step = {}
    for step, chunk, source, target, start, end in messages:
        assert target == (source + 1) % world_size and 0 <= start < end
        by_step.setdefault(step, []).append(chunk)
    # In every step each chunk is on its way exactly once.
    assert sorted(by_step) == list(range(2 * (world_size - 1)))
    assert all(sorted(chunks) == list(range(world_size)) for chunks in by_step.values())


def on_rank(rank: int, folder: str, world_size: int) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world_size
    )
    for shape in SIZES:
        whole_numbers_are_exact(rank, shape)
    sums_of_floats_have_the_same_bits(rank)
    if world_size > 1:
        shift_passes_to_the_right(rank)
    with pytest.raises(ValueError, match=r"pass tensor.contiguous\(\)"):
        ring_all_reduce(torch.ones(4, 4)[:, 0])
    messages = ring_all_reduce(torch.ones(64))
    torch.save([(m.step, m.chunk, m.source, m.target, m.start, m.end) for m in messages],
               f"{folder}/{rank}")  # fmt: skip
    dist.barrier()  # a group that is left while others still connect breaks theirs
    dist.destroy_process_group()


def whole_numbers_are_exact(rank: int, shape: tuple) -> None:
    n = dist.get_world_size()
    x = torch.arange(torch.Size(shape).numel(), dtype=torch.int64).view(shape) + rank
    by_library, control = x.clone(), sum(x - rank + r for r in range(n))
    sent = torch.tensor(sum(m.nbytes for m in ring_all_reduce(x)))
    dist.all_reduce(by_library)
    assert torch.equal(x, by_library) and torch.equal(x, control), shape
    if x.numel() % n == 0:
        assert sent == 2 * (n - 1) * x.nbytes // n, shape
    dist.all_reduce(sent)
    assert sent == 2 * (n - 1) * x.nbytes, shape


def sums_of_floats_have_the_same_bits(rank: int) -> None:
    n = dist.get_world_size()
    draws = [torch.randn(1001, generator=torch.Generator().manual_seed(r)) for r in range(n)]
    ring_all_reduce(draws[rank])
    every = [torch.empty(1001) for _ in range(n)]
    dist.all_gather(every, draws[rank])
    assert all(torch.equal(other, draws[rank]) for other in every)
    draws[rank] = torch.randn(1001, generator=torch.Generator().manual_seed(rank))
    assert torch.allclose(every[0], sum(draws), atol=1e-5)


def shift_passes_to_the_right(rank: int) -> None:
    n, box = dist.get_world_size(), torch.empty(1)
    shift(torch.tensor([float(rank)]), box)
    assert box.item() == (rank - 1) % n
