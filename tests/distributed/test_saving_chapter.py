"""What chapter 44 says of a save in the background."""

import pytest

from rankbook.training.checkpoint import ShardedCheckpoints
from tests.distributed import saving_ranks as ranks
from tests.distributed.launch import run_ranks


def test_a_save_that_returned_is_lost_with_its_ranks_and_durable_on_all_or_none(tmp_path):
    (store := tmp_path / "ranks").mkdir()
    with pytest.raises(Exception, match="SIGKILL"):
        run_ranks(ranks.killed, store, 2, str(tmp_path / "kept"))
    kept = ShardedCheckpoints(tmp_path / "kept")
    assert kept.newest().step == 20  # step 30 had returned, too
    assert list((tmp_path / "kept").glob(".step-00000030*"))  # what a restart removes
