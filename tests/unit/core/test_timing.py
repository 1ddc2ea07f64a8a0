"""By turns: the order in which ways are timed, and what a drifting machine does to a ratio."""

import pytest

from rankbook.core import timing
from rankbook.core.timing import gain, time_interleaved


def test_all_warm_up_and_then_take_turns():
    done = []
    ways = {name: lambda name=name: done.append(name) for name in "abc"}
    seconds = time_interleaved(ways, 3)
    assert "".join(done) == "abc" + "abc" + "cba" + "abc"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_drift_hits_all_ways_alike(monkeypatch):
    clock, work = [0.0], [0]

    def job():
        work[0] += 1
        clock[0] += 1.0 if work[0] <= 16 else 2.0  # slower from then on

    monkeypatch.setattr(timing, "now", lambda device: clock[0])
    found = time_interleaved({"a": job, "b": job}, 15)
    assert gain(found["a"], found["b"])["median"] == 1.0
    work[0] = 0  # one after the other, the same two look different
    apart = [time_interleaved({name: job}, 15)[name] for name in "ab"]
    assert gain(*apart)["median"] == 0.5


@pytest.mark.parametrize(("ways", "count"), [("ab", 2), ("ab", 8), ("abc", 4), ("abcdef", 4)])
def test_a_steady_drift_cancels_in_an_even_number_of_turns(monkeypatch, ways, count):
    clock, length = [0.0], [1.0]

    def job():
        length[0] *= 1.01
        clock[0] += length[0]

    monkeypatch.setattr(timing, "now", lambda device: clock[0])
    found = time_interleaved(dict.fromkeys(ways, job), count)
    for way in ways[1:]:
        assert abs(gain(found["a"], found[way])["median"] - 1) < 2e-3  # the order costs 1 to 5 %


def test_what_cannot_be_timed_is_refused():
    with pytest.raises(ValueError, match="one way at least"):
        time_interleaved({})
    with pytest.raises(ValueError, match="one repeat"):
        time_interleaved({"a": int}, 0)
    with pytest.raises(ValueError, match="use one of own, slowest rank, rank 0"):
        time_interleaved({"a": int}, clock="mine")
    with pytest.raises(ValueError):
        gain([1.0], [1.0, 2.0])
