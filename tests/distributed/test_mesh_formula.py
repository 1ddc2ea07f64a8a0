"""What every rank sends in a step, call by call, is what the formula says: exactly."""

import pytest
import torch.distributed as dist

from tests.distributed.launch import run_ranks
from tests.distributed.mesh_formula_ranks import counted_and_foretold

pytestmark = pytest.mark.long

CASES = {
    4: [
        ("dp=4", "none", None),
        ("dp=4", "fsdp", None),
        ("dp=4", "2", None),
        ("tp=4", "none", None),
        ("pp=4", "none", None),
        ("dp=2,tp=2", "fsdp", None),
        ("pp=2,dp=2", "none", "gpipe"),
        ("pp=2,dp=2", "fsdp", "interleaved1f1b"),
        ("pp=2,dp=2", "fsdp", "loopedbfs"),
        ("pp=2,dp=2", "fsdp", "interleavedzb"),
        ("pp=2,tp=2", "none", "interleavedzb"),
        ("cp=4", "none", None),
        ("cp=2,tp=2", "none", None),
        ("dp=2,cp=2", "fsdp", None),
        ("pp=2,cp=2", "none", "interleavedzb"),
    ],
    8: [("pp=2,dp=2,tp=2", "fsdp", None), ("dp=4,tp=2", "2", None)],
}


def on_rank(world_size: int) -> list[tuple]:
    return counted_and_foretold(dist.get_rank(), CASES[world_size])


@pytest.mark.parametrize("world_size", CASES)
def test_counted_is_foretold(tmp_path, world_size):
    ranks = run_ranks(on_rank, tmp_path, world_size, world_size)
    for rank, found in enumerate(ranks):
        for case, (counted, foretold) in zip(CASES[world_size], found, strict=True):
            assert counted == foretold, f"rank {rank}, {case}"
            assert counted, f"rank {rank}, {case}: nothing was sent"
