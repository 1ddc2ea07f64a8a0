"""What was given is what was said plus what is left over; without feedback it is lost."""

import pytest
import torch

from rankbook.parallel.sync import EightBit, ErrorFeedback, Sign, TopK

LENGTH, MESSAGES = 300, 20


def given() -> torch.Tensor:
    """(messages, length): noise, and a part that is always there and never large."""
    noise = torch.randn(MESSAGES, LENGTH, generator=torch.Generator().manual_seed(0))
    return noise + 0.3


@pytest.mark.parametrize("compressor", [TopK(0.05), EightBit(), Sign()], ids=str)
def test_said_and_left_over_are_all_that_was_given(compressor):
    feedback, said = ErrorFeedback(compressor), torch.zeros(LENGTH)
    for vector in given():
        said += compressor.unpack(feedback.pack("it", vector), LENGTH)
    total = given().sum(0)
    # each of the additions rounds to 2^-24 of what it adds up
    assert (said + feedback.residual["it"] - total).abs().max() < MESSAGES * 2**-22 * total.max()

    without = sum(compressor.unpack(compressor.pack(vector), LENGTH) for vector in given())
    assert (without - total).norm() > 2 * (said - total).norm()  # and it grows with each


def test_each_key_has_what_its_own_messages_left():
    feedback = ErrorFeedback(TopK(0.01))
    one, two = given()[0], given()[1]
    feedback.pack("one", one)
    before = feedback.residual["one"].clone()
    feedback.pack("two", two)
    assert torch.equal(feedback.residual["one"], before)
    assert feedback.residual.keys() == {"one", "two"}


def test_what_is_given_is_not_changed():
    vector = given()[0]
    ErrorFeedback(Sign()).pack(0, vector)
    assert torch.equal(vector, given()[0])
