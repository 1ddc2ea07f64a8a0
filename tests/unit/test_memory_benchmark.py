"""The benchmark of memory: every set-up trains on the same batch, on as many ranks as it says."""

import pytest

from benchmarks import memory


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_set_ups_differ_in_one_thing_and_share_the_batch(ranks):
    found = memory.setups(ranks)
    assert next(iter(found)) == "plain"  # what the others are multiples of
    for how in found.values():
        assert how.ranks == ranks
        assert how.sequences * how.microbatches * how.dp == memory.ROWS
