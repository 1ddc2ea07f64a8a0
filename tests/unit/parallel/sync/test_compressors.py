"""Messages: how long, how near to what was packed, and what is made of awkward vectors."""

import pytest
import torch

from rankbook.parallel.sync import EightBit, Sign, TopK

ALL = [TopK(0.1), EightBit(), Sign(), EightBit(block=3), Sign(block=3)]


def vector(length: int) -> torch.Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("compressor", ALL, ids=str)
@pytest.mark.parametrize("length", [1, 7, 8, 1024, 1025])
def test_a_message_is_bytes_and_its_length_is_that_of_any_such_vector(compressor, length):
    message = compressor.pack(vector(length))
    assert message.dtype == torch.uint8
    assert message.shape == compressor.pack(torch.zeros(length)).shape
    assert compressor.unpack(message, length).shape == (length,)


@pytest.mark.parametrize("compressor", ALL, ids=str)
def test_it_may_stand_anywhere_in_a_longer_one(compressor):
    """A float needs its four bytes in line; in the middle of a message they may not be."""
    packed = compressor.pack(vector(50))
    longer = torch.cat([packed.new_zeros(3), packed])
    assert torch.equal(compressor.unpack(longer[3:], 50), compressor.unpack(packed, 50))


def test_the_largest_entries_are_kept_as_they_are_and_cost_eight_bytes():
    message = TopK(0.25).pack(torch.tensor([1.0, -9.0, 2.0, 3.0, 0.0, 8.0, -1.0, 0.5]))
    assert len(message) == 2 * 8
    assert TopK(0.25).unpack(message, 8).tolist() == [0, -9, 0, 0, 0, 8, 0, 0]


def test_of_a_short_vector_one_is_kept():
    assert TopK(0.01).unpack(TopK(0.01).pack(vector(3)), 3).count_nonzero() == 1


@pytest.mark.parametrize("share", [0, -0.1, 1.1])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match=r"use one in \(0, 1\]"):
        TopK(share)


def test_eight_bits_are_off_by_half_a_step_of_their_block_at_most():
    given = vector(2500) * torch.tensor([1e-3, 1.0, 1e3]).repeat_interleave(1024)[:2500]
    found = EightBit().unpack(EightBit().pack(given), 2500)
    for before, after in zip(given.split(1024), found.split(1024), strict=True):
        step = before.abs().max() / 127
        assert (before - after).abs().max() <= step * (0.5 + 1e-5)
    assert len(EightBit().pack(given)) == 2500 + 3 * 4


def test_of_signs_a_bit_is_sent_and_the_mean_magnitude():
    given = torch.tensor([3.0, -1.0, 2.0, -2.0, 1.0, 1.0, -10.0, 8.0, -1.0])
    found = Sign(block=8).unpack(Sign(block=8).pack(given), 9)
    assert found.tolist() == [3.5, -3.5, 3.5, -3.5, 3.5, 3.5, -3.5, 3.5, -1.0]
    assert len(Sign(block=8).pack(given)) == 2 * 4 + 2  # two blocks, nine bits


@pytest.mark.parametrize("compressor", ALL, ids=str)
def test_zeros_stay_zeros_and_what_is_no_number_stays_none(compressor):
    zeros = torch.zeros(40)
    assert compressor.unpack(compressor.pack(zeros), 40).tolist() == zeros.tolist()
    assert (
        not compressor.unpack(
            compressor.pack(zeros.index_fill(0, torch.tensor([9]), torch.nan)), 40
        )
        .isfinite()
        .all()
    )
