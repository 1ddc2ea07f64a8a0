"""Who waited for whom, from the moments in which each rank waited."""

from rankbook.live.ranks.timing import HOW, Timing, format_timings

CALL, LAST = "all_reduce(float32 [4]), cell line 3", "barrier(), cell line 9"


def test_a_rank_that_waits_while_another_does_not_waits_for_it():
    zero = Timing(0.0, 10.0, [[1.0, 4.0, CALL], [8.0, 8.5, LAST]])
    one = Timing(0.0, 10.0, [[3.0, 4.0, CALL]])
    assert format_timings({1: one, 0: zero}).split("\n") == [
        f"[0] 10.00 s, 3.50 s of it waiting mostly in {CALL}; 2.50 s for rank 1",
        f"[1] 10.00 s, 1.00 s of it waiting in {CALL}",
        HOW,
    ]


def test_a_rank_that_has_ended_is_waited_for_too():
    waits = Timing(0.0, 5.0, [[1.0, 5.0, LAST]])
    first, third = Timing(0.0, 1.0, []), Timing(0.0, 2.0, [])
    assert format_timings({0: first, 1: waits, 2: third}).split("\n")[:2] == [
        "[0] 1.00 s, no waiting",
        f"[1] 5.00 s, 4.00 s of it waiting in {LAST}; 4.00 s for rank 0, 4.00 s for rank 2",
    ]
