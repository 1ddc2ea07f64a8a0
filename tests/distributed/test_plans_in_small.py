"""Setups on live ranks with pretended cards and links: they train the same model, and sleep."""

import pytest

from tests.distributed.launch import run_ranks
from tests.distributed.plans_ranks import LINK, ROWS, asked, losses


def setup(**given) -> dict:
    share = ROWS // given.get("dp", 1) // given.get("microbatches", 1)
    return given | {"sequences": share, "precision": "float32"}


SETUPS = [
    setup(tp=4),
    setup(dp=4, zero=3, microbatches=2),  # a loop over small batches
    setup(dp=4, zero=3, shard=2),
    setup(dp=4, microbatches=2),
    setup(pp=4, microbatches=2, schedule="gpipe"),
    setup(pp=2, dp=2, zero=3, microbatches=4),
]


def test_every_setup_trains_the_same_model(tmp_path):
    for rank in run_ranks(losses, tmp_path, 4, SETUPS):
        for found in rank:
            # float32, summed in another order
            assert found == pytest.approx(rank[0], rel=1e-4)
        assert rank[0][2] < rank[0][0]


def test_replicas_of_two_nodes_sleep_for_their_gradients(tmp_path):
    """tp=2 stays inside, dp=2 crosses: 2 steps a call, and the ring's bytes."""
    for found in run_ranks(asked, tmp_path, 4, "dp=2,tp=2", "none"):
        calls, sent = found["dp"]
        assert calls > 4 * 16  # every parameter's gradient, and the loss
        # the norm over all four: 6 steps, 4 bytes, by two ranks' cards
        norm = 6 * LINK.alpha + 6 * LINK.beta / 2
        assert found["slept"] == pytest.approx(2 * calls * LINK.alpha + sent * LINK.beta + norm)
        assert found["tp"][0] > 0


def test_only_the_hop_between_nodes_sleeps(tmp_path):
    """pp=4, 4 microbatches of 2 rows: 1 sends to 2 forward, 2 to 1 backward; 0 and 3 are inside."""
    ranks = run_ranks(asked, tmp_path, 4, "pp=4", "none")
    message = LINK.alpha + 2 * 8 * 16 * 4 * LINK.beta
    everybody = ranks[0]["slept"]  # the loss and the norm, all_reduces of all
    assert ranks[3]["slept"] == pytest.approx(everybody)
    assert everybody == pytest.approx(2 * (6 * LINK.alpha + 6 * LINK.beta / 2))
    for middle in ranks[1:3]:
        assert middle["slept"] - everybody == pytest.approx(4 * message)
