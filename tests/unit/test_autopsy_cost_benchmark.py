"""The benchmark of the recorder: its command line, its ratios, and two jobs that take turns."""

from typing import ClassVar

import pytest

from benchmarks import autopsy_cost as cost


def test_ratios_are_of_neighbours_in_time():
    plain, recorded = cost.table({
        "plain": [0.010, 0.020, 0.040], "recorded": [0.011, 0.021, 0.080],
    })  # fmt: skip
    assert (plain["median"], recorded["median"]) == (20.0, 21.0)
    assert recorded["times plain"] == 1.1 and "times plain" not in plain


class Pretended:
    """A job whose steps take no time; `ran` tells whose turn it was."""

    ran: ClassVar[list[bool]] = []
    records = True

    def __init__(self, folder, recorded):
        self.recorded = recorded
        if recorded and self.records:
            (folder / "records").mkdir()
            (folder / "records" / "a.json").touch()

    def block(self, steps):
        self.ran.append(self.recorded)
        return 0.001

    def end(self):
        pass


def test_jobs_take_turns_and_begin_by_turns(monkeypatch):
    monkeypatch.setattr(cost, "Job", Pretended)
    monkeypatch.setattr(Pretended, "ran", [])
    cost.measure(2)
    assert Pretended.ran[2 * cost.WARM_UP :] == [False, True, True, False]


def test_a_job_that_records_nothing_is_no_comparison(monkeypatch):
    monkeypatch.setattr(cost, "Job", Pretended)
    monkeypatch.setattr(Pretended, "records", False)
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        cost.measure(1)


@pytest.mark.slow
def test_both_jobs_train_and_one_records():
    times = cost.measure(2, block=0.02)
    assert {way: len(seconds) for way, seconds in times.items()} == {"plain": 2, "recorded": 2}
    assert all(second > 0 for seconds in times.values() for second in seconds)
