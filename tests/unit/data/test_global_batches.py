"""Global batches: every sample once an epoch, for any ranks, workers, and chain of restarts."""

from itertools import chain, islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset

from rankbook.data import audit_samples
from rankbook.data.global_batches import GlobalBatches, load_shares, position

SETTINGS = settings(deadline=None, database=None, max_examples=100)
SAMPLES, BATCH, RANKS = st.integers(1, 60), st.integers(1, 70), st.integers(1, 6)


def walk(samples, batch, ranks, start, steps, seed=0):
    """The shares of all ranks in `steps` steps from `start`, and where that ends."""
    walks = []
    for rank in range(ranks):
        batches = GlobalBatches(samples, batch, seed=seed, rank=rank, world_size=ranks)
        batches.load_state_dict(start)
        walks.append(iter(batches))
    shares = [[next(walk) for walk in walks] for _ in range(steps)]
    ends = [walk.state_dict() for walk in walks]
    assert all(end == ends[0] for end in ends)
    return shares, ends[0]


@SETTINGS
@given(SAMPLES, BATCH, st.lists(st.tuples(RANKS, st.integers(0, 9)), max_size=6), st.integers())
def test_every_sample_once_an_epoch_through_any_chain_of_worlds(samples, batch, worlds, seed):
    place, steps = {"epoch": 0, "sample": 0}, []
    for ranks, count in worlds:
        shares, place = walk(samples, batch, ranks, place, count, seed)
        steps += shares
    whole = [list(chain.from_iterable(shares)) for shares in steps]
    alone, end = walk(samples, batch, 1, {"epoch": 0, "sample": 0}, len(steps), seed)
    assert whole == [shares[0] for shares in alone]
    assert not steps or place == end
    per_epoch = GlobalBatches(samples, batch).per_epoch
    for first in range(0, len(whole) - per_epoch + 1, per_epoch):
        assert audit_samples(whole[first : first + per_epoch], samples).exactly_once


@SETTINGS
@given(SAMPLES, BATCH, RANKS)
def test_shares_are_as_even_as_possible(samples, batch, ranks):
    shares, _ = walk(samples, batch, ranks, {"epoch": 0, "sample": 0}, 8)
    for step in shares:
        sizes = [len(share) for share in step]
        assert max(sizes) - min(sizes) <= 1 and 0 < sum(sizes) <= batch


def test_epochs_and_seeds_have_orders_of_their_own():
    def order(seed, epoch):
        start = {"epoch": epoch, "sample": 0}
        return walk(50, 50, 1, start, 1, seed)[0][0][0]

    orders = [order(seed, epoch) for seed in (0, 1, -1) for epoch in (0, 1)]
    assert all(sorted(each) == list(range(50)) for each in orders)
    assert len({tuple(each) for each in orders}) == 6
    assert order(1, 1) == orders[3]


def test_the_position_knows_nothing_of_the_ranks():
    _, place = walk(10, 4, 3, {"epoch": 0, "sample": 0}, 2)
    assert place == {"epoch": 0, "sample": 8, "samples": 10, "seed": 0}
    _, place = walk(10, 4, 3, place, 1)
    assert place == {"epoch": 1, "sample": 0, "samples": 10, "seed": 0}
    with pytest.raises(ValueError, match="of a run with samples 10, and this one has 9"):
        GlobalBatches(9, 4).load_state_dict(place)
    with pytest.raises(ValueError, match="of a run with seed 0, and this one has 7"):
        GlobalBatches(10, 4, seed=7).load_state_dict(place)
    with pytest.raises(ValueError, match="sample 11 of epoch 0 is no position among 10 samples"):
        GlobalBatches(10, 4).load_state_dict({"epoch": 0, "sample": 11})


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"samples": 0}, "samples is 0; it has to be 1 or more"),
        ({"batch": 0}, "batch is 0; it has to be 1 or more"),
        ({"rank": 2, "world_size": 2}, "rank 2 of 2: it has to be 0 to 1"),
    ],
)
def test_wrong_numbers_are_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        GlobalBatches(**{"samples": 4, "batch": 2} | wrong)


class Numbers(Dataset):
    def __len__(self) -> int:
        return 17

    def __getitem__(self, number: int) -> tuple[int, float]:
        return number, number / 2


def read(workers, start, steps, ranks=1, rank=0):
    batches = GlobalBatches(17, 5, rank=rank, world_size=ranks)
    batches.load_state_dict(start)
    loader = load_shares(Numbers(), batches, workers)
    before = position(loader)
    taken, places = [], []
    for share in islice(loader, steps):
        taken.append([] if share is None else share[0].tolist())
        places.append(position(loader))
    return taken, [before, *places]


def test_the_loader_knows_the_position_while_workers_read_ahead():
    """And goes on at any step with another number of workers."""
    start = {"epoch": 0, "sample": 0}
    whole, places = read(0, start, 10)
    assert [place["sample"] for place in places] == [0, 5, 10, 15, 0, 5, 10, 15, 0, 5, 10]
    assert [place["epoch"] for place in places] == [0] * 4 + [1] * 4 + [2] * 3
    ahead, ahead_places = read(2, start, 10)
    assert (ahead, ahead_places) == (whole, places)
    for step in range(10):
        workers = 2 if step in (3, 6) else 0  # to start two takes a while
        rest, _ = read(workers, places[step], 10 - step)
        assert rest == whole[step:]


def test_an_empty_share_is_none_and_counts_as_a_step():
    shares = [read(0, {"epoch": 0, "sample": 15}, 2, ranks=3, rank=rank) for rank in range(3)]
    taken = [taken for taken, _ in shares]
    assert [len(share) for share in (of_rank[0] for of_rank in taken)] == [0, 1, 1]
    assert all(places[1]["epoch"] == 1 and places[1]["sample"] == 0 for _, places in shares)


def test_a_loader_leaves_the_random_numbers_as_they_are():
    """One that is begun anew after a restart must not change what dropout draws."""
    torch.manual_seed(3)
    first = torch.rand(1)
    torch.manual_seed(3)
    read(0, {"epoch": 0, "sample": 0}, 2)
    assert torch.equal(torch.rand(1), first)
