"""Which ranks hang, from two looks at them, and what is said of it."""

import pytest

from rankbook.live.failure import hang
from rankbook.live.failure.call import Call

REDUCE = Call("all_reduce", "all_reduce(float32 [4])", 3, cpu=1.0, number=7)


@pytest.mark.parametrize(
    ("before", "now", "hangs"),
    [
        (REDUCE, REDUCE, True),
        (None, REDUCE, False),  # seen once
        (REDUCE, Call("all_reduce", REDUCE.text, 3, cpu=1.0, number=8), False),  # the next one
        (REDUCE, Call("all_reduce", REDUCE.text, 4, cpu=1.0, number=7), False),
        (REDUCE, Call("all_reduce", REDUCE.text, 3, cpu=1.9, number=7), False),  # it works
        (Call(line=3), Call(line=3), False),  # it waits for no rank
    ],
)
def test_a_rank_hangs_that_has_not_moved_in_a_collective(before, now, hangs):
    found = hang.waiting({"[0]": now}, {} if before is None else {"[0]": before})
    assert list(found) == (["[0]"] if hangs else [])
