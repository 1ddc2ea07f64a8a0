"""What chapter 12 says of torch and of loaders: when one fails, its sentence has to go."""

import io
import itertools
from types import SimpleNamespace

import pytest
from torch.utils.data import DistributedSampler

from tests.distributed import data_parallel_readers
from tests.distributed.data_parallel_ranks import MIB, reading, recorded, steps
from tests.distributed.launch import run_ranks

ROUNDING = 1e-6  # of one step, in float32
TWICE, ONCE, PADDED, DROPPED = (
    [0, 11, 0, 0, 0],
    [11, 0, 0, 0, 0],
    [10, 1, 0, 0, 0],
    [10, 0, 0, 1, 0],
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of two ranks found out about steps."""
    return run_ranks(steps, tmp_path_factory.mktemp("steps"), 2)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """What each of two ranks found out about loaders."""
    folder = tmp_path_factory.mktemp("reading")
    path = folder / "lines.txt"
    path.write_text("".join(f"{i}\n" for i in range(9)), "utf-8")
    return run_ranks(reading, folder, 2, str(path), deadline=120.0)


@pytest.mark.parametrize("name", ["by hand", "DDP"])
def test_averaged_gradients_train_as_one_process(found, name):
    for rank in found:
        apart, off = rank["trainings"][name]
        assert apart == 0 and off < 1e-5


def test_three_mistakes_that_raise_nothing(found):
    for rank in found:
        assert min(rank["trainings"]["alone"]) > 0.01
        assert min(rank["trainings"]["other start"]) > 0.01
        apart, off = rank["trainings"]["only summed"]
        assert apart == 0 and off > 0.01


def test_adam_hides_the_forgotten_division(found):
    for rank in found:
        off = rank["trainings"]["Adam, only summed"][1]
        assert off < rank["trainings"]["only summed"][1] / 10


def test_shares_have_to_be_equal_and_the_loss_a_mean(found):
    for rank in found:
        shares = rank["shares"]
        assert shares["mean"] > 1e-3 and shares["weighted"] < ROUNDING
        assert shares["sum"] > 0.1 and shares["sum, times 2"] < 1e-5


def test_batch_norm_sees_the_ranks_own_rows_and_layer_norm_one_row(found):
    for rank in found:
        off, buffers = rank["BatchNorm"]
        assert off > 0.01 and buffers > 0.01
        assert rank["LayerNorm"][0] < ROUNDING


def test_sync_batch_norm_refuses_the_cpu(found):
    for rank in found:
        assert "expected input tensor to be on GPU" in rank["SyncBatchNorm"]


def test_an_unused_parameter_passes_one_step_and_fails_in_the_next(found):
    for rank in found:
        apart, error = rank["unused"]
        assert apart > 1e-3
        assert error.startswith("Expected to have finished reduction in the prior iteration")
        assert rank["find_unused"] == (0, "")


@pytest.mark.parametrize("limit", [25, 2, 1])
def test_recorded_passes(tmp_path, limit):
    """In the first pass one bucket; after it as many as fit; nothing is changed by recording."""
    ranks = run_ranks(recorded, tmp_path, 2, limit)
    assert ranks[0]["passes"] == ranks[1]["passes"]
    for r, rank in enumerate(ranks):
        assert rank["equal"]
        assert rank["own"] == rank["passes"][0][r]
        none, second_hook = rank["errors"]
        assert none.startswith("ValueError: backward pass 3 was not recorded, only 3 were")
        assert second_hook.startswith("RuntimeError: ") and "comm_hook" in second_hook
    per_bucket = min(limit, 4)
    for number, of_ranks in enumerate(ranks[0]["passes"]):
        buckets = 1 if number == 0 else 4 // per_bucket
        assert [each["rank"] for each in of_ranks] == [0, 1]
        for each in of_ranks:
            check_pass(each, buckets)


def check_pass(each: dict, buckets: int) -> None:
    """Four gradients from the last layer to the first, each in one bucket, in this order."""
    names = [name for name, _, _ in each["gradients"]]
    assert names == [f"{layer}.weight" for layer in (3, 2, 1, 0)]
    assert [nbytes for _, nbytes, _ in each["gradients"]] == [MIB] * 4
    ready = {name: time for name, _, time in each["gradients"]}
    assert [index for index, *_ in each["buckets"]] == list(range(buckets))
    assert sorted(name for _, inside, *_ in each["buckets"] for name in inside) == sorted(names)
    for _, inside, nbytes, start, end in each["buckets"]:
        assert nbytes == MIB * 4 // buckets == MIB * len(inside)
        assert max(ready[name] for name in inside) <= start < end
    assert each["start"] < min(ready.values()) and max(ready.values()) < each["end"]


@pytest.mark.parametrize("workers", [0, 2])
def test_who_reads_what(read, workers):
    for rank in read:
        found = rank[workers]
        assert found["no sampler"] == TWICE
        assert found["padded"] == PADDED and found["drop_last"] == DROPPED
        assert found["by reader"] == ONCE
        assert found["not split"] == TWICE
        assert found["4 shards"] == found["3 shards"] == ONCE
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


def test_the_ceil_split_reads_the_file_many_times(monkeypatch):
    """160 readers, one after the other: together they read each line 80.5 times."""
    lines, read = 320, []

    class Counted(io.StringIO):
        def readline(self):
            read.append(super().readline())
            return read[-1]

    monkeypatch.setattr(data_parallel_readers.Path, "open", lambda *_, **__: Counted("x\n" * lines))
    for rank, worker in itertools.product(range(16), range(10)):
        info = SimpleNamespace(id=worker, num_workers=10)
        monkeypatch.setattr(data_parallel_readers, "get_worker_info", lambda info=info: info)
        assert list(data_parallel_readers.CeilSplit("lines.txt", lines, 1, rank, 16)) == ["x", "x"]
    assert len(read) / lines == 80.5


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
