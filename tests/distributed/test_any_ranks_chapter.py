"""What page 43 says goes wrong when the number of ranks changes.

That DDP averages averages is in test_elastic_exact.py.
"""

import pytest
import torch
from torch.utils.data import DistributedSampler

from rankbook.data import audit_samples
from rankbook.data.global_batches import GlobalBatches, load_shares


def rest_of_epoch(ranks: int, batch: int, done: int, samples: int = 96) -> list[list[int]]:
    """What each of `ranks` trains on in the rest of an epoch of which `done` samples are done."""
    shares = []
    for rank in range(ranks):
        batches = GlobalBatches(samples, batch, rank=rank, world_size=ranks)
        batches.load_state_dict({"epoch": 0, "sample": done})
        steps = range(-(-(samples - done) // batch))
        shares.append([s for _, share in zip(steps, batches, strict=False) for s in share])
    return shares


@pytest.mark.parametrize(
    ("before", "after", "never", "twice"),
    [(2, 2, 0, 0), (2, 3, 12, 0), (2, 4, 24, 0), (4, 2, 0, 24)],
)
def test_steps_skipped_are_samples_lost_or_repeated(before, after, never, twice):
    """Three steps of four samples a rank, then the rest with another number of ranks."""

    def shares(ranks: int) -> list[list[int]]:
        return [[*DistributedSampler(range(96), ranks, r)] for r in range(ranks)]

    first, rest = [s[:12] for s in shares(before)], [s[12:] for s in shares(after)]
    found = audit_samples(first + rest, 96)
    assert (found.never, found.twice) == (never, twice)


def test_a_position_in_samples_bears_other_ranks_and_another_batch():
    shares = iter(GlobalBatches(96, 12))
    first = [next(shares) + next(shares)]
    for ranks in (1, 2, 3, 5):
        for batch in (12, 20):
            assert audit_samples(first + rest_of_epoch(ranks, batch, 24), 96).exactly_once
            slipped = audit_samples(first + rest_of_epoch(ranks, batch, 36), 96)
            assert slipped.never == 12 and not slipped.exactly_once


def test_loaders_that_read_ahead_have_given_away_more_than_was_trained():
    given = []

    class Counting(GlobalBatches):
        def __iter__(self):
            for batch in super().__iter__():
                given.append(batch)
                yield batch

    loader = load_shares(torch.arange(48), Counting(48, 8), workers=1)
    for _ in zip(range(3), loader, strict=False):
        pass
    assert len(given) > 3
