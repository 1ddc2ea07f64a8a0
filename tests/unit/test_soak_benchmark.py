"""The soak's command line and arithmetic."""

import json
from pathlib import Path

import pytest

from benchmarks import record, soak
from rankbook.testbed.faults import Fault, FaultRun, InjectedFault


def run(seed: int, start: float, *seconds: float | None, problems: tuple = ()) -> FaultRun:
    plan = soak.cold_plan(seed)
    killed = Fault("worker_killed", 5, 0.5)
    injected = [InjectedFault(killed, 6, 1.0, each, 2) for each in seconds]
    return FaultRun(
        plan,
        Path("somewhere"),
        list(problems),
        injected,
        worlds=[2],
        exactly=True,
        start=start,
        seconds=10.0,
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--seeds 2", "--repeats 2 gives no median and spread; use 3 or more"),
        ("--cold-every 0", "--cold-every 0: use 1 or more"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence, capsys):
    with pytest.raises(SystemExit) as end:
        soak.parse(line.split())
    assert end.value.code == 2 and sentence in capsys.readouterr().err


def test_a_row_for_each_kind_and_the_ratio_of_the_cold_ones():
    warm = [run(1, 0.5, 2.0, None), run(2, 0.7, 3.0, 4.0)]
    cold = [run(3, 4.0, 8.0, 10.0)]
    assert soak.table(warm, cold) == [
        {"processes": "warm", "fault": soak.START, "count": 2, "repeats": 2, "median": 0.6,
         "p10": 0.5, "p90": 0.7},
        {"processes": "warm", "fault": "worker_killed", "count": 4, "repeats": 3, "median": 3.0,
         "p10": 2.0, "p90": 4.0},
        {"processes": "cold", "fault": soak.START, "count": 1, "repeats": 1, "median": 4.0,
         "p10": 4.0, "p90": 4.0, "times the start": 1.0},
        {"processes": "cold", "fault": "worker_killed", "count": 2, "repeats": 2, "median": 9.0,
         "p10": 8.0, "p90": 10.0, "times the start": 2.25},
    ]  # fmt: skip


def test_what_was_lost_is_listed(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    warm = [run(1, 0.5, 2.0), run(2, 0.5, 2.0, problems=("step 3 was never done",))]
    path = soak.report(warm, [run(9, 4.0, 8.0)], [], [0.5, 1.5], 120.0)
    result = json.loads(path.read_text())
    assert "1 of 2 seeds lost nothing" in result["what"]
    assert (result["passed"], result["runs"], result["minutes"]) == (2, 3, 2.0)
    assert result["cold_start"]["median"] == 4.0 and result["started_anew"] == {}
    assert path.name.startswith("soak-cpu-")
    assert [lost["seed"] for lost in result["lost"]] == [2]
    assert "LOST: step 3 was never done" in result["lost"][0]["what"]
    assert result["load_average"] == {"lowest": 0.5, "highest": 1.5}
