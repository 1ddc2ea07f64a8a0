"""What is counted of each call, on ranks that are not there: torch's fake process group."""

import pytest
import torch
import torch.distributed as dist
from bookext.moving_twins.collectives import collective
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from rankbook.comm.counts import Count, Message, Sent
from rankbook.comm.operators import CALLS
from rankbook.comm.ring_model import ring_bytes
from rankbook.comm.traffic import traffic

RANKS, RANK, N = 8, 3, 64  # N floats: 256 bytes


@pytest.fixture
def mesh():
    """Rank 3 of 8, of a mesh (pp, dp, tp) of 2 x 2 x 2; nobody else is there."""
    dist.init_process_group("fake", store=FakeStore(), rank=RANK, world_size=RANKS)
    yield init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    dist.destroy_process_group()


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("operation", "way", "handed"),
    [
        ("all_reduce", "ring", 1.0),
        ("reduce_scatter", "reduce_scatter", 1.0),
        ("all_gather", "all_gather", None),  # its share
    ],
)
def test_ring_bytes_are_what_the_steps_of_a_ring_send(operation, way, handed, n):
    """Beside the collectives of rankbook.comm, message by message."""
    steps, tensor = collective(way, n), 840
    for rank in range(n):
        sent = steps.sent(rank, len(steps.steps)) * tensor
        mine = tensor * (handed or 1 / n)
        assert ring_bytes(operation, mine, n, rank) == pytest.approx(sent, rel=1e-12)


def test_chains_and_stars():
    assert [ring_bytes("broadcast", 8, 4, rank, root=1) for rank in range(4)] == [0, 8, 8, 8]
    assert [ring_bytes("reduce", 8, 4, rank, root=1) for rank in range(4)] == [8, 0, 8, 8]
    assert [ring_bytes("scatter", 8, 4, rank, root=1) for rank in range(4)] == [0, 6, 0, 0]
    assert ring_bytes("all_to_all", 8, 4) == 6
    assert ring_bytes("all_reduce", 1000, 4) == 1500 and ring_bytes("all_gather", 1000, 4) == 3000
    assert ring_bytes("all_reduce", 1000, 1) == ring_bytes("all_gather", 1000, 1) == 0
    with pytest.raises(ValueError, match="ring_bytes: 'all_sum' is unknown; use one of all_red"):
        ring_bytes("all_sum", 8, 4)


def empty(n: int = N) -> torch.Tensor:
    return torch.empty(n)


CASES = {  # of the group "tp", two ranks, of which this is 1
    "all_reduce": (lambda g: dist.all_reduce(empty(), group=g), 256, 256),
    "all_gather list": (lambda g: dist.all_gather([empty(), empty()], empty(), group=g), 256, 256),
    "all_gather": (lambda g: dist.all_gather_into_tensor(empty(128), empty(), group=g), 256, 256),
    "reduce_scatter list": (
        lambda g: dist.reduce_scatter(empty(), [empty(), empty()], group=g), 512, 256,
    ),
    "reduce_scatter": (
        lambda g: dist.reduce_scatter_tensor(empty(32), empty(), group=g), 256, 128,
    ),
    "all_to_all list": (
        lambda g: dist.all_to_all([empty(4), empty(8)], [empty(4), empty(8)], group=g), 48, 16,
    ),
    "all_to_all": (lambda g: dist.all_to_all_single(empty(), empty(), group=g), 256, 128),
    "all_to_all splits": (
        lambda g: dist.all_to_all_single(empty(), empty(), [48, 16], [16, 48], group=g), 256, 64,
    ),
    "broadcast mine": (lambda g: dist.broadcast(empty(), group_src=1, group=g), 256, 256),
    "broadcast": (lambda g: dist.broadcast(empty(), group_src=0, group=g), 0, 0),
    "reduce": (lambda g: dist.reduce(empty(), group_dst=0, group=g), 256, 256),
    "gather": (lambda g: dist.gather(empty(), group_dst=0, group=g), 256, 256),
    "scatter": (
        lambda g: dist.scatter(empty(), [empty(), empty()], group_src=1, group=g), 512, 256,
    ),
    "send": (lambda g: dist.send(empty(), group_dst=0, group=g), 256, 256),
    "recv": (lambda g: dist.recv(empty(), group_src=0, group=g), 0, 0),
    "barrier": (lambda g: dist.barrier(g), 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_call_of_torch_distributed(mesh, name):
    call, nbytes, ring = CASES[name]
    with traffic(mesh) as sent:
        call(mesh["tp"].get_group())
    pair = "tp", name.split()[0]
    assert dict(sent) == {pair: Count(1, nbytes, ring)}
    assert sent.messages == [Message(*pair, 2, nbytes, ring)]


def test_a_group_is_the_dimension_with_its_ranks(mesh):
    both = mesh["pp", "dp"]._flatten("both")
    again = dist.new_group([2, 3])  # as "tp"
    across = dist.new_group([1, 3, 4])
    with traffic(mesh) as sent:
        for group in [*map(mesh.get_group, ("tp", "dp", "pp")), both.get_group(), again, across]:
            dist.all_reduce(empty(), group=group)
        dist.all_reduce(empty())
    assert {name: count.calls for name, count in sent.by_dimension().items()} == {
        "pp": 1, "dp": 1, "tp": 2, "both": 1, "other": 2,
    }  # fmt: skip
    assert list(sent.by_dimension()) == ["pp", "dp", "tp", "both", "other"]
    assert sent.total("both") == Count(1, 256, 2 * 3 / 4 * 256)
    with traffic() as nameless:
        dist.all_reduce(empty())
    assert dict(nameless) == {("other", "all_reduce"): Count(1, 256, 2 * 7 / 8 * 256)}


def test_a_group_within_a_dimension_is_of_it(mesh):
    """HSDP's are."""
    flat = init_device_mesh("cpu", (8,), mesh_dim_names=("dp",))
    with traffic(flat) as sent:
        dist.all_reduce(empty(), group=mesh.get_group("tp"))
    assert dict(sent) == {("dp", "all_reduce"): Count(1, 256, 256)}


def test_groups_of_one_rank_send_nothing(mesh):
    flat = init_device_mesh("cpu", (8, 1), mesh_dim_names=("dp", "tp"))
    with traffic(flat) as sent:
        dist.all_reduce(empty(), group=flat.get_group("tp"))
        dist.all_reduce(empty())  # the group of all: "dp" has the same ranks
    assert list(sent) == [("dp", "all_reduce")]


def test_what_dtensor_does_is_seen_as_collectives(mesh):
    tp = mesh["tp"]
    cut = DTensor.from_local(torch.empty(4, 8), tp, [Shard(0)])
    sums = DTensor.from_local(torch.empty(4, 8), tp, [Partial()])
    with traffic(mesh) as sent:
        cut.redistribute(placements=[Replicate()]).to_local()
        sums.redistribute(placements=[Replicate()]).to_local()
        sums.redistribute(placements=[Shard(0)]).to_local()
    assert dict(sent) == {
        ("tp", "all_reduce"): Count(1, 128, 128),
        ("tp", "all_gather"): Count(1, 128, 128),
        ("tp", "reduce_scatter"): Count(1, 128, 64),
    }


def test_nested_blocks_both_see(mesh):
    with traffic(mesh) as outer:
        dist.all_reduce(empty(), group=mesh.get_group("tp"))
        with traffic(mesh) as inner:
            dist.all_reduce(empty(), group=mesh.get_group("dp"))
        dist.barrier()
    dist.all_reduce(empty())
    assert list(inner.by_dimension()) == ["dp"]
    assert list(outer.by_dimension()) == ["dp", "tp", "other"]


def test_sums_and_a_table():
    sent = Sent(("pp", "tp"), [
        Message("tp", "all_gather", 2, 100, 100.0),
        Message("pp", "send", 2, 4000, 4000.0),
        Message("tp", "all_gather", 2, 50, 50.0),
    ])  # fmt: skip
    assert sent["tp", "all_gather"] == Count(2, 150, 150.0)
    assert len(sent) == 2 and ("tp", "send") not in sent
    with pytest.raises(KeyError):
        sent["pp", "recv"]
    assert sent.total() == Count(3, 4150, 4150.0) and sent.total(operation="send").bytes == 4000
    assert sent.rows()[0] == {
        "dimension": "pp", "operation": "send", "calls": 1, "bytes": 4000, "ring bytes": 4000,
    }  # fmt: skip
    assert str(sent).splitlines()[1:] == [
        "pp send                       1         4,000         4,000",
        "tp all_gather                 2           150           150",
    ]
    assert str(Sent()) == "nothing was sent"


def test_no_operator_of_torch_is_forgotten():
    """A new one of torch's has to be put into CALLS, or here."""
    nothing_sent = {"wait_tensor", "_wrap_tensor_autograd", "check_for_nan", "batch_p2p_ops"}
    found = {
        schema.name.split("::")[1]
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.split("::")[0] in ("c10d", "_c10d_functional")
    }
    assert found - nothing_sent <= CALLS.keys(), found - nothing_sent - CALLS.keys()
