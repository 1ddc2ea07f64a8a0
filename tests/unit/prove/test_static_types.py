"""What spmd_types finds without a rank: of the errors of chapter 63, those of layouts.

Its messages are quoted there. It sees no number: a wrong divisor or a seed takes `prove`.
"""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import layer_norm

spmd = pytest.importorskip("spmd_types")


@pytest.fixture
def tp():
    """The tensor-parallel group of a mesh of 2 x 2 ranks that do not exist, types being checked."""
    from spmd_types.checker import typecheck
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        with spmd.set_current_mesh(mesh), typecheck():
            yield mesh.get_group("tp"), mesh.get_group("dp")
    finally:
        dist.destroy_process_group()


def typed(shape, groups, of_tp):
    """A tensor whose ranks of dp have the same, and whose ranks of tp what `of_tp` says."""
    tp, dp = groups
    tensor = torch.randn(*shape, requires_grad=True)
    spmd.assert_type(tensor, {tp: of_tp, dp: spmd.R})
    return tensor


def test_a_norm_under_sequence_parallelism_needs_its_gradient_summed(tp):
    stream, weight = typed((2, 3, 8), tp, spmd.V), typed((8,), tp, spmd.I)
    with pytest.raises(spmd.SpmdTypeError, match=r"Invariant type .* cannot mix") as error:
        layer_norm(stream, (8,), weight)
    assert "all-reduce in backward" in str(error.value)
    summed = spmd.convert(weight, tp[0], src=spmd.I, dst=spmd.R)
    assert layer_norm(stream, (8,), summed).shape == (2, 3, 8)


def test_a_bias_that_each_rank_adds_to_its_part_of_a_sum(tp):
    hidden, weight = typed((2, 8), tp, spmd.V), typed((8, 4), tp, spmd.V)
    bias = typed((4,), tp, spmd.R)
    part = hidden @ weight
    spmd.assert_type(part, {tp[0]: spmd.P, tp[1]: spmd.R})
    with pytest.raises(spmd.SpmdTypeError, match="gets summed N times across ranks"):
        part + bias
    assert (spmd.all_reduce(part, tp[0], src=spmd.P, dst=spmd.R) + bias).shape == (2, 4)


def test_two_parts_of_sums_are_not_multiplied(tp):
    part = typed((4,), tp, spmd.P)
    with pytest.raises(spmd.SpmdTypeError, match="Partial in multiple factors"):
        part * part
