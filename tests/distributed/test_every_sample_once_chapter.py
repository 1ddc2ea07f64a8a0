"""What the page on samples says of torch, torchdata and datasets: when one fails, it has to go."""

import pytest
from torch.utils.data import DistributedSampler

from tests.distributed.every_sample_once_ranks import reading
from tests.distributed.launch import run_ranks

TWICE, ONCE, PADDED, DROPPED = (
    [0, 11, 0, 0, 0],
    [11, 0, 0, 0, 0],
    [10, 1, 0, 0, 0],
    [10, 0, 0, 1, 0],
)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """What each of two ranks found out about loaders."""
    folder = tmp_path_factory.mktemp("reading")
    path = folder / "lines.txt"
    path.write_text("".join(f"{i}\n" for i in range(9)), "utf-8")
    return run_ranks(reading, folder, 2, str(path))


@pytest.mark.parametrize("workers", [0, 2])
def test_who_reads_what(read, workers):
    for rank in read:
        found = rank[workers]
        assert found["no sampler"] == TWICE
        assert found["padded"] == PADDED and found["drop_last"] == DROPPED
        assert found["by reader"] == ONCE
        assert found["not split"] == TWICE
        assert found["4 shards"] == found["3 shards"] == ONCE
        assert found["by worker"] == TWICE
        if workers:
            assert found["not shared"] == [0, 0, 11, 0, 0]
            assert found["by rank"] == TWICE
            assert found["by reader, drop_last"] == [8, 0, 0, 3, 0]
        else:
            assert found["not shared"] == TWICE
            assert found["by rank"] == ONCE


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("loader", ["StatefulDataLoader", "nodes"])
def test_in_the_middle_of_an_epoch(read, loader, workers):
    for rank in read:
        resumed, counts, afresh = rank[workers][loader]
        assert resumed and counts == PADDED
        _, twice, more, never, others = afresh
        assert twice + more == 4 and never == others == 0


def test_without_set_epoch_the_same_sample_is_never_seen(read):
    for rank in read:
        assert rank["epochs"][False] == [True, 1]
        assert rank["epochs"][True] == [False, 0]
        assert rank["epochs"]["nodes"]  # sets it by itself
        assert rank["epochs"]["IterableWrapper"] == TWICE  # and knows no ranks


def test_shards_that_do_not_divide_are_read_by_all(read):
    for rank, mine in zip(read, (6, 5), strict=True):
        assert rank["datasets"][4] == [mine, mine]
        assert rank["datasets"][3] == [mine, 11]


def test_shuffled_with_different_seeds_ranks_take_the_same_shards(read):
    for rank in read:
        assert rank["datasets"]["seed"] == ONCE
        once, twice, _, never, _ = rank["datasets"]["seeds"]
        assert twice > 0 and never > 0 and once < 11


def test_the_ceil_split_trains_on_empty_lines(read):
    for rank in read:
        for rounds in (1, 10):
            expected = [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"], ["", "", ""]]
            assert rank["ceil"][rounds] == [lines * rounds for lines in expected]
        assert "'NoneType' object has no attribute 'num_workers'" in rank["ceil"]["no workers"]


def test_workers_that_stay_have_a_copy_of_the_epoch(read):
    for rank in read:
        copied, shared = rank["stayed"]
        assert copied[0] == copied[1] == copied[2]
        assert shared[0] != shared[1] and shared[1] != shared[2]


def test_how_many_samples_a_sampler_repeats_or_drops():
    for samples in range(1, 41):
        for ranks in range(1, 9):
            for drop in (False, True):
                total = sum(
                    len(DistributedSampler(range(samples), ranks, rank, drop_last=drop))
                    for rank in range(ranks)
                )
                expected = samples - samples % ranks if drop else samples + -samples % ranks
                assert total == expected
