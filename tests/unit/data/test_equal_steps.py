"""In one process: the batches come again and again, and each pass is told."""

import itertools

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from rankbook.data.equal_steps import EqualStepsLoader

CPU = torch.device("cpu")


class Numbers(IterableDataset):
    """0 to n - 1, each with the number of the epoch."""

    def __init__(self, n: int):
        self.n, self.epoch = n, None

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self):
        return ({"labels": torch.tensor([self.epoch, number])} for number in range(self.n))


def test_epochs_follow_each_other_and_are_told():
    told = []
    loader = DataLoader(Numbers(5), batch_size=2)
    batches = EqualStepsLoader(loader, CPU, lambda epoch, samples: told.append((epoch, samples)))
    seen = [batch["labels"].tolist() for batch in itertools.islice(batches, 7)]
    assert seen[:3] == [[[0, 0], [0, 1]], [[0, 2], [0, 3]], [[0, 4]]]
    assert seen[3:6] == [[[1, 0], [1, 1]], [[1, 2], [1, 3]], [[1, 4]]]
    assert seen[6] == [[2, 0], [2, 1]]
    assert told == [(0, 5), (1, 5)]


def test_the_loaders_own_set_epoch_comes_first():
    loader = DataLoader(Numbers(1), batch_size=1)
    loader.set_epoch = lambda epoch: loader.dataset.set_epoch(epoch + 10)
    first = next(iter(EqualStepsLoader(loader, CPU)))
    assert first["labels"].tolist() == [[10, 0]]


def test_a_set_without_epochs_begins_again():
    rows = [{"labels": torch.tensor([n])} for n in range(2)]
    loader = DataLoader(rows, batch_size=2)
    seen = [batch["labels"] for batch in itertools.islice(EqualStepsLoader(loader, CPU), 3)]
    assert [batch.flatten().tolist() for batch in seen] == [[0, 1]] * 3


def test_an_empty_set_is_an_error_and_not_an_endless_loop():
    with pytest.raises(ValueError, match="no batch on any rank: its data set is empty"):
        next(iter(EqualStepsLoader(DataLoader(Numbers(0), batch_size=1), CPU)))


@pytest.mark.parametrize("done", [1, 2, 3, 4, 6])
def test_what_was_given_is_not_given_again(done):
    """From the middle and the end of an epoch, with what was drawn in between."""

    def begin(told: list) -> EqualStepsLoader:
        loader = DataLoader(Numbers(5), batch_size=2)  # which draws a number when it begins
        return EqualStepsLoader(loader, CPU, lambda *told_of: told.append(told_of))

    torch.manual_seed(1)
    told = []
    whole, seen = begin(told), []
    for batch in itertools.islice(whole, 9):
        seen.append((batch["labels"].tolist(), torch.rand(1).item()))
        if len(seen) == done:
            position, state = whole.state_dict(), torch.get_rng_state()
    again = begin(told_again := [])
    again.load_state_dict(position)
    torch.set_rng_state(state)
    rest = [
        (batch["labels"].tolist(), torch.rand(1).item())
        for batch in itertools.islice(again, 9 - done)
    ]
    assert rest == seen[done:]
    assert told_again == told[position["epoch"] :]  # of all of its samples
