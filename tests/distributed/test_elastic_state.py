"""State that survives, on several ranks."""

import pytest
import torch

from tests.distributed import elastic_state_ranks as ranks
from tests.distributed.launch import run_ranks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("elastic")


def launch(work, folder, world_size: int, *args) -> list:
    """What `work(*args)` gives on each rank."""
    folder.mkdir()
    return run_ranks(work, folder, world_size, *args)


def test_dropout_goes_on_with_the_masks_of_each_rank(folder):
    first, second = launch(ranks.with_dropout, folder / "a", 2, str(folder / "dropout"))
    for rank in (first, second):
        assert rank["resumed"] == rank["losses"][ranks.GOOD :]
        assert rank["equal"]
    assert not torch.equal(first["masks"], second["masks"])
    assert first["path"].startswith("step-00000004-") and second["path"] == first["path"]


def test_the_trouble_of_one_rank_is_that_of_all_in_one_sentence(folder):
    found = launch(ranks.troubles, folder / "b", 2, str(folder / "b"))
    assert found[0] == found[1]
    told = found[0]
    at = folder / "b"
    for name in ("file", "sharded"):
        assert told[name].startswith(f"CheckpointError: step 1 was not saved in {at}/file: ")
        assert told[name].endswith("; name a folder, not a file")
    assert told["no folder"].startswith(f"CheckpointError: the checkpoints in {at}/file cannot be")
    assert told["a class"].startswith("ValueError: state['x'] is a builtins.builtin_function_or")
    assert told["shards"] == (
        "ValueError: state['model']['0.weight'] is sharded over ranks; save it with "
        "ShardedCheckpoints"
    )
    assert told["elsewhere"].startswith(
        f"CheckpointError: rank 1 sees 0 checkpoints in {at}, but rank 0 found step-00000001-"
    )
    assert told["lost"] == (
        f"CheckpointError: rank 1 sees 1 checkpoints in {at}/of-rank-0, but rank 0 found no good "
        "one there; name a folder that all nodes share (rank 1)"
    )
    assert told["none"] == "None"
    assert told["all bad"].startswith(f"CheckpointError: no checkpoint in {folder}/b/bad is whole")
    assert told["all bad"].endswith("bring one back from a copy, or move them away to begin anew")


def test_a_save_that_fails_in_the_background_is_told(folder):
    first, second = launch(ranks.failing, folder / "c", 2, str(folder / "failing"))
    lines = [f"step {n} was not saved in {folder}/failing: file too large" for n in (2, 3)]
    assert [line.startswith(lines[0]) for line in first["said"]] == [True]  # at the next save
    assert second["said"] == []  # one rank says it
    for rank in (first, second):
        assert [line.startswith(lines[1]) for line in rank["raised"]] == [True]  # by wait
        assert rank["newest"] == ["1"]


@pytest.fixture(scope="module")
def uninterrupted(folder) -> list[float]:
    """The losses of a run on 2 ranks, which leaves two good checkpoints and a torn one."""
    with pytest.raises(Exception, match="SIGKILL"):
        launch(ranks.sharded_run, folder / "d", 2, str(folder))
    kept = sorted(path.name[:13] for path in (folder / "kept").iterdir())
    assert kept == [".step-0000000", "step-00000002", "step-00000004"]
    return torch.load(folder / "losses.pt", weights_only=True)


@pytest.mark.parametrize(
    "world_size,shard",
    [(1, False), (2, True), (3, True)],
    ids=["one process, whole", "2 ranks, sharded", "3 ranks, sharded"],
)
def test_shards_of_two_ranks_go_on_in_any_world(folder, uninterrupted, world_size, shard):
    found = launch(ranks.sharded_resume, folder / f"{world_size}", world_size, str(folder), shard)
    for rank in found:
        assert rank["step"] == ranks.GOOD  # the one after it was torn
        torch.testing.assert_close(
            rank["losses"], uninterrupted[ranks.GOOD :], rtol=0, atol=0 if world_size == 2 else 1e-5
        )
    assert len({tuple(rank["drawn"].tolist()) for rank in found}) == world_size
