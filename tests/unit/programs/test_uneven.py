"""The program uneven: its options, its shards, and a run of one process."""

import pytest
import torch
import torch.distributed as dist

from rankbook.programs.uneven import run as uneven
from rankbook.programs.uneven.options import WAYS, read


@pytest.fixture(autouse=True)
def two_ranks(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("", [5, 6]),
        ("--inputs 3 9", [3, 9]),
        ("--inputs 0 1", [0, 1]),
        ("--samples 7 --how pad", [4, 3]),
        ("--samples 2", [1, 1]),
    ],
)
def test_inputs_of_each_rank(line, counts):
    assert read(line.split()).inputs == tuple(counts)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--samples 1", "1 samples cannot be dealt out to 2 ranks; use --samples 2 or more"),
        ("--inputs 5", "--inputs names 1 ranks, but there are 2; give one number a rank"),
        ("--inputs 0 0", "--inputs gives no rank an input"),
        ("--inputs 0 3 --how pad", "--how pad needs an input on every rank"),
        ("--inputs 5 6 --samples 9", "argument --samples: not allowed with argument --inputs"),
        ("--inputs 2.5 3", "argument --inputs: 2.5 is no whole number of 0 or more"),
        ("--how joined", "argument --how: invalid choice: 'joined'"),
        ("--epoch 2", "unrecognized arguments: --epoch 2"),
        ("--epochs 0", "argument --epochs: 0 is no whole number of 1 or more"),
        ("--lr 0", "argument --lr: 0 is no number above 0"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence):
    with pytest.raises(ValueError) as told:
        read(line.split())
    assert sentence in str(told.value) and "\n" not in str(told.value)


def test_without_torchrun_it_says_so(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(ValueError, match="no process group is described here; start it with torch"):
        read([])


def test_inputs_of_ranks_are_different_text():
    shards = [uneven.shard([2, 3], rank) for rank in range(2)]
    assert [len(batches) for batches in shards] == [2, 3]
    tokens = [tokens for batches in shards for tokens, _ in batches]
    assert all(each.shape == (uneven.ROWS, uneven.LENGTH) for each in tokens)
    assert len({tuple(each.flatten().tolist()) for each in tokens}) == 5
    first, targets = shards[0][0]
    assert torch.equal(first[:, 1:], targets[:, :-1])


@pytest.mark.parametrize("how", WAYS)
def test_one_process(how, tmp_path, monkeypatch, capsys):
    def init(backend, timeout):
        dist.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
        )
        return torch.device("cpu")

    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(uneven, "init", init)
    result = uneven.main(f"--inputs 3 --how {how} --epochs 2".split())
    assert result["took"] == [3] and result["times"] == {1: 3}
    assert result["after"] < result["before"] - 0.5
    said = capsys.readouterr().out
    assert "rank 0: 3 inputs, trained on 3 in an epoch" in said
    assert "inputs taken once 3, more often 0, never 0" in said
