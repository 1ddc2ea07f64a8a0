"""What four gloo ranks send, beside the formulas, for each kind of parallelism by itself."""

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.traffic_ranks import HIDDEN, ROWS, WIDTH, everything

FLOAT = 4
MODEL = 2 * WIDTH * HIDDEN * FLOAT  # bytes of both matrices
ACTIVATION = ROWS * WIDTH * FLOAT


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_ranks(everything, tmp_path_factory.mktemp("ranks"), 4)


def test_ddp_reduces_every_gradient_once(ranks):
    for found in ranks:
        assert found["DDP"] == [["dp", "all_reduce", 1, MODEL, 2 * 3 * MODEL // 4]]


def test_fsdp_gathers_and_scatters_its_share_and_tp_sums_the_stream(ranks):
    """A root that was never freed gathers once; each rank of tp has half of the model."""
    half = MODEL // 2
    for found in ranks:
        assert found["FSDP x TP"] == [
            ["shard", "all_gather", 1, half // 2, half // 2],
            ["shard", "reduce_scatter", 1, half, half // 2],
            # forward of what is cut by rows, and backward of what is cut by columns
            ["tp", "all_reduce", 2, 2 * ACTIVATION, 2 * ACTIVATION],
        ]


def test_hsdp_reduces_shards_among_replicas(ranks):
    for found in ranks:
        assert found["HSDP"] == [
            ["replicate", "all_reduce", 1, MODEL // 2, MODEL // 2],
            ["shard", "all_gather", 1, MODEL // 2, MODEL // 2],
            ["shard", "reduce_scatter", 1, MODEL, MODEL // 2],
        ]


def test_a_stage_sends_activations_down_and_gradients_up(ranks):
    for rank, found in enumerate(ranks):
        sides = (rank > 0) + (rank < 3)  # its neighbours
        assert found["pipeline"] == [
            ["pp", "send", 3 * sides, sides * ACTIVATION, sides * ACTIVATION],
            ["pp", "recv", 3 * sides, 0, 0],
        ]


def test_a_ring_made_of_messages_sends_what_the_formula_says(ranks):
    for found in ranks:
        (send, recv) = found["ours"]
        assert send == ["dp", "send", 6, 2 * 3 * 48, 2 * 3 * 48]  # 2 (n - 1) chunks of 12 floats
        assert recv == ["dp", "recv", 6, 0, 0]


def test_another_threads_collectives_are_not_seen(ranks):
    """As the documentation says; if this fails, it can promise more."""
    assert all(found["a thread"] == [] for found in ranks)
