"""The benchmark of torchrun's times: its command line, its jobs, its arithmetic. It runs no job:
torchrun's defaults alone take minutes."""

import pytest

from benchmarks import elastic_times as times
from benchmarks.elastic_jobs import FAULTS, Recovery, TorchrunJob, environment


def test_a_row_changes_one_setting_and_has_its_control():
    measured = {(fault, row.settings) for row in times.ROWS for fault in row.faults}
    assert {fault for fault, _ in measured} == set(FAULTS)
    everything = times.SHORT_CONF | times.SHORT_OPTIONS
    assert everything.keys() == times.TORCHRUNS.keys()
    for row in times.ROWS:
        given = row.conf | row.options
        if row.settings == times.DEFAULTS:
            assert given == {}, "torchrun's own"
            continue
        changed = {name for name in everything if given[name] != everything[name]}
        keep_alive = {"keep_alive_interval", "keep_alive_max_attempt"}  # one factor: their product
        assert len(changed - keep_alive) + bool(changed & keep_alive) == (row.settings != "short")
        assert all((fault, times.SHORT) in measured for fault in row.faults), row


def test_defaults_are_what_torchrun_says():
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous
    from torch.distributed.run import get_args_parser

    timeout = dynamic_rendezvous.RendezvousTimeout()
    assert timeout.last_call.total_seconds() == times.TORCHRUNS["last_call_timeout"]
    interval = get_args_parser().get_default("monitor_interval")
    assert interval == times.TORCHRUNS["monitor-interval"]


def test_medians_and_ratios():
    def recoveries(fault, *seconds, cold=2.0):
        return [Recovery(fault, s, s + 0.1, cold) for s in seconds]

    rows = times.table({
        (times.KILL, times.DEFAULTS): recoveries(times.KILL, 40.0, 36.0, 38.0),
        (times.KILL, times.SHORT): recoveries(times.KILL, 5.0, 4.0, 7.0, cold=2.5),
        (times.JOIN, times.SHORT): recoveries(times.JOIN, 9.0, 8.0, 7.0, cold=9.0),
    })  # fmt: skip
    assert [(row["fault"], row["settings"]) for row in rows] == [
        (times.KILL, "defaults"), (times.KILL, "short"), (times.JOIN, "short"),
        (times.COLD, "short"),
    ]  # fmt: skip
    assert [row["median"] for row in rows] == [38.0, 5.0, 8.0, 2.5]
    assert rows[1] | {"pause": 5.1, "cold start": 2.5} == rows[1]
    assert times.verdict(rows) == {
        "death in cold starts": 2.0, "death, short over defaults": 0.13,
    }  # fmt: skip


def test_jobs_run_in_turn_and_waiting_ones_together(tmp_path, monkeypatch):
    ran = []

    def run(row, folder, workers, delay=0.0):
        assert workers == 2
        ran.append((row.settings, delay))
        return [Recovery(fault, 1.0, 1.0, 1.0) for fault in row.faults]

    monkeypatch.setattr(times, "run", run)
    found = times.measure(times.ROWS, 2, tmp_path, stagger=7.0, workers=2)
    assert all(len(recoveries) == 2 for recoveries in found.values())
    assert ran[:2] == [("short", 0.0), ("short, monitor-interval 5", 0.0)]
    delays = sorted(delay for _, delay in ran[2 : len(times.ROWS)])
    assert delays == [7.0 * n for n in range(len(times.ROWS) - 2)]


@pytest.mark.slow
def test_a_job_that_does_not_start_tells_why(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert "RANK" not in environment("a") and environment("a")["RANKBOOK_NODE"] == "a"
    conf = {"last_call_timeout": 1}
    with (
        pytest.raises(RuntimeError, match=r"(?s)the first steps did not come.*no-such-option"),
        TorchrunJob(tmp_path / "job", conf, {"no-such-option": 1}) as job,
    ):
        job.start_together()
    assert all(agent.poll() is not None for agent in job.agents.values())
