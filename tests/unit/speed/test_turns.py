"""Turns: the order in which ways are timed, and what a drifting machine does to a ratio."""

import pytest

from rankbook.speed import turns
from rankbook.speed.turns import gain, in_turns


def test_all_warm_up_and_then_take_turns():
    done = []
    ways = {name: lambda name=name: done.append(name) for name in "abc"}
    seconds = in_turns(ways, turns=3)
    assert "".join(done) == "abc" + "abc" + "cba" + "abc"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_drift_hits_all_ways_alike(monkeypatch):
    clock, work = [0.0], [0]

    def job():
        work[0] += 1
        clock[0] += 1.0 if work[0] <= 16 else 2.0  # slower from then on

    monkeypatch.setattr(turns, "now", lambda device: clock[0])
    found = in_turns({"a": job, "b": job}, turns=15)
    assert gain(found["a"], found["b"])["median"] == 1.0
    work[0] = 0  # one after the other, the same two look different
    apart = [in_turns({name: job}, turns=15)[name] for name in "ab"]
    assert gain(*apart)["median"] == 0.5


@pytest.mark.parametrize(("ways", "count"), [("ab", 2), ("ab", 8), ("abc", 4), ("abcdef", 4)])
def test_a_steady_drift_cancels_in_an_even_number_of_turns(monkeypatch, ways, count):
    clock, length = [0.0], [1.0]

    def job():
        length[0] *= 1.01
        clock[0] += length[0]

    monkeypatch.setattr(turns, "now", lambda device: clock[0])
    found = in_turns(dict.fromkeys(ways, job), turns=count)
    for way in ways[1:]:
        assert abs(gain(found["a"], found[way])["median"] - 1) < 2e-3  # the order costs 1 to 5 %


def test_what_cannot_be_timed_is_refused():
    with pytest.raises(ValueError, match="one way at least"):
        in_turns({})
    with pytest.raises(ValueError, match="one turn"):
        in_turns({"a": int}, turns=0)
    with pytest.raises(ValueError):
        gain([1.0], [1.0, 2.0])
