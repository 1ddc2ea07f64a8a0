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


def test_the_words():
    load = Call(None, "time.sleep(9)", 6, stack=("cell line 7", "cell line 6, in load"))
    flat = Call(None, "", 6, stack=("cell line 6",))
    assert hang.format_hang(
        {"[0]": REDUCE}, {"[1]": load, "[2]": flat}, {"[3]": "has finished"}
    ) == [
        "[0] still waits in all_reduce(float32 [4]), cell line 3",
        "[1] has not come: it is in time.sleep(9), cell line 6",
        "      cell line 7",
        "      cell line 6, in load",
        "[2] has not come: it is in cell line 6",
        "[3] has finished",
    ]
