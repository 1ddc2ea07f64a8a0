"""Agreement in a world of one; on several ranks: tests/distributed/test_agreement.py."""

import pytest

from rankbook.core.agreement import (
    agree,
    broadcast_from_rank0,
    gather,
    rank0_first,
    rank_and_world,
)


def test_one_process_is_a_world_of_one():
    assert rank_and_world() == (0, 1)
    value = object()  # nothing is pickled
    assert gather(value) == [value]
    for call in (agree, broadcast_from_rank0, rank0_first):
        assert call(lambda: value) is value


@pytest.mark.parametrize("call", [agree, broadcast_from_rank0, rank0_first])
def test_alone_an_error_stays_what_it_is(call):
    error = FileNotFoundError(2, "no such file", "x")

    def fail():
        raise error

    with pytest.raises(FileNotFoundError) as told:
        call(fail)
    assert told.value is error
