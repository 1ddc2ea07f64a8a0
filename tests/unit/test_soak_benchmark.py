"""The soak's command line and arithmetic."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import record, soak
from rankbook.testbed.faults import Fault, FaultRun, InjectedFault


def run(
    seed: int, start: float, *seconds: float | None, problems: tuple = (), question: int = 0
) -> FaultRun:
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
        failed=[question] if question else [],
    )


def rows(warm: list[FaultRun], cold: list[FaultRun]) -> list[dict]:
    """As they are read again from the file of runs."""
    both = [soak.row("warm", run) for run in warm] + [soak.row("cold", run) for run in cold]
    return json.loads(json.dumps(both))


def test_a_row_for_each_kind_and_the_ratio_of_the_cold_ones():
    warm = [run(1, 0.5, 2.0, None), run(2, 0.7, 3.0, 4.0)]
    cold = [run(3, 4.0, 8.0, 10.0)]
    assert soak.table(rows(warm, cold)) == [
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
    never = run(2, 0.5, 2.0, problems=("step 3 was never done",), question=2)
    warm = [run(1, 0.5, 2.0), never]
    skipped = {"start": "warm", "seed": 4, "why": "network namespaces need root"}
    path = soak.report([*rows(warm, [run(9, 4.0, 8.0)]), skipped], drivers=3)
    result = json.loads(path.read_text())
    assert "1 of 2 seeds lost nothing" in result["what"]
    assert (result["passed"], result["runs"], result["minutes"]) == (2, 3, 0.5)
    assert (result["faults"], result["compared_to_the_bit"], result["drivers"]) == (3, 3, 3)
    assert result["cold_start"]["median"] == 4.0 and result["started_anew"] == {}
    assert path.name.startswith("soak-cpu-")
    (lost,) = result["lost"]
    assert (lost["start"], lost["seed"], lost["questions"]) == ("warm", 2, [2])
    assert "LOST: step 3 was never done" in lost["what"]
    assert result["skipped"] == [{"seed": 4, "why": "network namespaces need root"}]
    assert set(result["load_average"]) == {"lowest", "highest"}


def test_what_was_run_is_not_run_again(tmp_path):
    options = soak.parse(["--seeds", "6", "--from", "4", "--cold-every", "5"])
    plans = [(start, plan.seed) for start, plan in soak.wanted(options, set())]
    assert plans == [("warm", 4), ("cold", 4), *(("warm", s) for s in range(5, 10)), ("cold", 9)]
    left = soak.wanted(options, {("warm", 4), ("cold", 9), *(("warm", s) for s in range(5, 9))})
    assert [(start, plan.seed) for start, plan in left] == [("cold", 4), ("warm", 9)]


def test_what_torch_ended_runs_once_more(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    ended = replace(run(45, 1.0, 2.0), given_up=["DistStoreError: wait timeout"])
    found = rows([ended, run(46, 1.0, 2.0)], [])
    assert [(start, plan.seed) for start, plan in soak.once_more(found)] == [("identical", 45)]
    found += [soak.row("identical", run(45, 1.0, 2.0))]
    assert not soak.once_more(found)
    result = json.loads(soak.report(found, drivers=1).read_text())
    assert result["runs"] == 2 and set(result["started_anew"]) == {"45"}
    assert result["once_more"] == {"with": "TORCH_ELASTIC_WORKER_IDENTICAL=1", "runs": 1,
                                   "passed": 1, "started_anew": {}}  # fmt: skip


@pytest.mark.parametrize("failed", ["warm", "cold", "identical"])
def test_no_kind_of_run_can_fail_and_be_left_out(failed, monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    ended = replace(run(45, 1.0, 2.0), given_up=["DistStoreError: wait timeout"])
    bad = run(45, 1.0, 2.0, problems=("the agent a ended with 1",), question=1)
    found = [
        soak.row(start, bad if start == failed else ended)
        for start in ("warm", "cold", "identical")
    ]
    result = json.loads(soak.report(found, drivers=1).read_text())
    again = result["once_more"]
    missing = result["runs"] - result["passed"] + again["runs"] - again["passed"]
    assert missing == len(result["lost"]) == 1
    (lost,) = result["lost"]
    assert (lost["start"], lost["seed"], lost["questions"]) == (failed, 45, [1])
    once_more = int(failed != "identical")
    assert f"and {once_more} of the 1 that ran once more" in result["what"]


class Instead:
    """A driver that only says what it would have run."""

    def __init__(self, machines, folder, cold, references):
        self.folder = folder

    def run(self, plan):
        if plan.seed == 1:
            raise soak.CannotInject("no mount")
        if plan.seed == 2:
            raise OSError("of the driver itself")
        return replace(run(plan.seed, 1.0, 2.0), plan=plan)


def test_drivers_share_the_plans_and_each_run_is_written_at_once(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(soak, "Driver", Instead)
    file = tmp_path / "runs.jsonl"
    all_of_them = soak.wanted(soak.parse(["--seeds", "4", "--cold-every", "4"]), set())
    both = soak.Soak(all_of_them, file, tmp_path)
    both.drive(0)
    found = soak.read(file)
    assert [(row["start"], row["seed"]) for row in found] == [
        ("warm", 0), ("warm", 1), ("warm", 2), ("warm", 3), ("cold", 3)]  # fmt: skip
    assert found[1]["why"] == "no mount" and not found[2]["passed"] and found[3]["passed"]
    assert "LOST: the driver failed: OSError" in found[2]["told"]
    told = soak.Soak(all_of_them, file, tmp_path)
    told.end()
    told.drive(0)
    assert soak.read(file) == found and "seed 1: skipped, no mount" in capsys.readouterr().out


def test_what_was_under_way_while_it_was_stopped_is_run_again(monkeypatch, tmp_path):
    runs = []

    class Stopped(Instead):
        def run(self, plan):
            runs.append(plan.seed)
            if len(runs) == 1:
                soaked._woke = time.monotonic() + 0.001
                time.sleep(0.002)
            return super().run(plan)

    monkeypatch.setattr(soak, "Driver", Stopped)
    soaked = soak.Soak([("warm", soak.cold_plan(7))], tmp_path / "runs.jsonl", tmp_path)
    soaked.drive(0)
    assert runs == [7, 7] and [row["seed"] for row in soak.read(tmp_path / "runs.jsonl")] == [7]
