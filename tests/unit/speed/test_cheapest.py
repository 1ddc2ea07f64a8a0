"""Which strategy fits: formulas by hand, and what the chart on page 38 is drawn from."""

import pytest

from rankbook.speed.strategies.cheapest import WAYS, cheapest
from rankbook.speed.strategies.deepspeed import settings
from rankbook.speed.strategies.memory import Bytes
from rankbook.speed.strategies.peak import PEAKS, ParameterCounts, peak
from rankbook.speed.strategies.watch import Tape, sent_in_rings, watch

SHAPE = ParameterCounts(total=1000, layer=200, largest=100)


def test_peaks_by_hand():
    bucket = 40 / 2**20  # MiB
    assert peak("ddp", SHAPE, 4) == Bytes(4000, 4400, 8000)
    assert peak("ddp, no view", SHAPE, 4) == Bytes(4000, 4000, 8000, buffers=4000)
    assert peak("fsdp2, kept", SHAPE, 4) == Bytes(1000, 0, 2000, gathered=4000 + 1600)
    assert peak("deepspeed2", SHAPE, 4, bucket) == Bytes(4000, 1040, 3000, buffers=440)
    assert peak("deepspeed2, bf16", SHAPE, 4, bucket) == Bytes(2000, 520, 3000, buffers=220)
    assert peak("deepspeed3", SHAPE, 4, bucket).total == 20 * 250 + 3 * 400 + 40
    with pytest.raises(ValueError, match="way 'zero' has no formula; use alone, ddp"):
        peak("zero", SHAPE, 4)


@pytest.mark.parametrize("way", PEAKS)
def test_more_ranks_never_need_more(way):
    needs = [peak(way, SHAPE, ranks).total for ranks in (1, 2, 8)]
    assert needs == sorted(needs, reverse=True)


def test_the_cheapest_that_fits():
    p = 10**9
    shape = ParameterCounts(p, p // 32, p // 64)

    def chosen(ranks, card):
        way = cheapest(shape, ranks, card)
        return way.name if way else None

    assert chosen(8, 20e9) == "DDP"
    assert chosen(8, 10e9) == "FSDP2, kept"
    assert chosen(8, 3e9) == "FSDP2"
    assert chosen(1, 10e9) == "ZeRO 2, state on the host"
    assert chosen(1, 1e9) == "FSDP2, all on the host"
    assert chosen(8, 1e7) is None
    assert cheapest(shape, 8, 20e9, activations=10e9).name == "FSDP2, kept"
    with pytest.raises(ValueError, match="there must be ranks and a card"):
        cheapest(shape, 0, 1e9)


def test_ways_are_in_the_order_of_what_they_cost():
    costs = [(t["pcie"], t["network"]) for t in (way.traffic(SHAPE, 8) for way in WAYS)]
    assert costs == sorted(costs)
    assert WAYS[0].traffic(SHAPE, 4) == {"network": 2 * 4000 * 3 / 4, "pcie": 0}
    assert WAYS[-1].traffic(SHAPE, 4)["pcie"] == 3 * 1000


@pytest.mark.parametrize(("ranks", "way"), [(8, "FSDP2, all on the host"), (16, "FSDP2")])
def test_thirty_billion_parameters_on_80_gb(ranks, way):
    p = 30 * 10**9
    found = cheapest(ParameterCounts(p, p // 32, p // 64), ranks, card=80e9, activations=10e9)
    assert found and found.name == way


@pytest.mark.parametrize(
    ("full", "phase"), [(0, "forward"), (1, "backward"), (2, "backward"), (3, "update")]
)
def test_the_phase_of_the_fullest_moment(full, phase):
    moments = [{"parameters": 1 + (i == full)} for i in range(4)]
    tape = Tape(moments, {"forward": 0, "backward": 1, "update": 3}, {})
    assert tape.fullest == phase


def test_a_configuration_of_deepspeed_may_be_copied():
    """What is printed on page 38: bf16, the rows that are trained, nothing hushed up."""
    config = settings(2, bucket=10**8, rows=16)
    assert config["bf16"] == {"enabled": True} and config["gradient_accumulation_steps"] == 1
    assert config["train_micro_batch_size_per_gpu"] == 16
    assert not [key for key in config if "untested" in key or "force" in key]


def test_a_ring_by_hand():
    messages = [("allreduce_", 100), ("_allgather_base_", 40), ("barrier", 8), ("broadcast_", 7)]
    assert sent_in_rings(messages, 4) == {"allreduce": 150.0, "allgather": 30.0, "broadcast": 7}


def test_watch_wants_a_step_to_warm_up():
    with pytest.raises(ValueError, match="two batches or more"):
        watch(lambda: None, [None])
