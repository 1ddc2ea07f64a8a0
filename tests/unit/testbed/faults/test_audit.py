"""The checks after a run find what they look for, and nothing in a run that is right."""

import copy
import os
import subprocess
import sys
import time

import pytest
import torch

from rankbook.testbed.faults import audit

SAMPLES, STEPS = 5, 6  # batches of 2, 2 and 1: two epochs


def record() -> list[dict]:
    """Two ranks, whose step 3 was done, lost, and done again by a later start."""
    events = []
    for attempt, steps in (("one", (1, 2, 3)), ("two", (3, 4, 5, 6))):
        for step in steps:
            for rank in (0, 1):
                sample = (step - 1) % 3 * 2 + rank
                events.append({
                    "event": "step", "attempt": attempt, "step": step, "rank": rank,
                    "world_size": 2, "time": float(len(events)), "loss": 1 / step,
                    "epoch": (step - 1) // 3, "samples": [sample] if sample < SAMPLES else [],
                    "pid": 1 << 30,
                })  # fmt: skip
    return events


REFERENCE = audit.Reference({step: 1 / step for step in range(1, STEPS + 1)}, {})


def problems(events: list[dict]) -> list[str]:
    found = audit.lost_steps(events, STEPS) + audit.wrong_samples(events, SAMPLES)
    return found + audit.wrong_losses(events, REFERENCE)


def find(events: list[dict], step: int, rank: int, attempt: str = "two") -> dict:
    return next(e for e in events if (e["step"], e["rank"], e["attempt"]) == (step, rank, attempt))


def test_a_right_record_has_no_problems():
    assert problems(record()) == []
    assert audit.world_sizes(record()) == {2}


def test_a_step_that_was_lost_does_not_count():
    events = record()
    find(events, 3, 0, "one").update(samples=[0, 1, 2], loss=9.0)
    assert problems(events) == []


def test_a_sample_that_counts_twice_and_one_that_never_does():
    events = record()
    find(events, 4, 1)["samples"] = [0]
    assert problems(events) == ["epoch 1: 5 samples: 3 once, 1 twice, 1 never"]


def test_a_missing_step():
    events = [event for event in record() if event["step"] != 6]
    assert problems(events) == [
        "step 6 was never done",
        "epoch 1: 5 samples: 4 once, 0 twice, 1 never",
    ]


def test_a_step_too_many():
    events = record() + [e | {"step": 7, "samples": [], "loss": 1 / 7} for e in record()[-2:]]
    found = problems(events)
    assert "step 7 is beyond the last, 6" in found
    assert "the loss of 1 steps is off, first of step 7, by inf" in found


def test_a_step_that_only_one_rank_finished():
    events = record()
    events.remove(find(events, 5, 1))
    (problem,) = problems(events)
    assert problem.startswith("step 5 was said by ranks [0] of 2")


@pytest.mark.parametrize("loss", [1 / 5 + 2e-5, float("nan")])
def test_another_loss(loss):
    events = record()
    for rank in (0, 1):
        find(events, 5, rank)["loss"] = loss
    (problem,) = problems(events)
    assert problem.startswith("the loss of 1 steps is off, first of step 5")


def test_two_worlds_at_once():
    events = record()
    find(events, 3, 1, "one")["time"] = find(events, 3, 0)["time"] + 0.5
    (problem,) = problems(events)
    assert problem.startswith("attempts one and two trained at the same time, for 0.5 s")


def test_other_parameters():
    wanted = {"weight": torch.ones(3), "bias": torch.zeros(2)}
    near, far = copy.deepcopy(wanted), copy.deepcopy(wanted)
    near["weight"][1] += 1e-6
    far["weight"][1] = float("nan")
    assert audit.wrong_parameters(wanted, wanted, exactly=True) == []
    assert audit.wrong_parameters(near, wanted, exactly=False) == []
    assert "to the bit" in audit.wrong_parameters(near, wanted, exactly=True)[0]
    assert "within 1e-05: nan apart" in audit.wrong_parameters(far, wanted, exactly=False)[0]
    assert audit.wrong_parameters({"bias": wanted["bias"]}, wanted, exactly=False) == [
        "the parameters are ['bias'], not ['bias', 'weight']"
    ]


def test_agents_that_did_not_end_well():
    assert audit.bad_ends({"a": 0, "b": 0}) == []
    assert audit.bad_ends({"a": 0, "b": 1}) == ["the agent b ended with 1"]
    assert audit.bad_ends({}) == ["no agent was left to end"]


def test_files_left_among_the_checkpoints(tmp_path):
    (tmp_path / "step-00000004-0123456789abcdef.pt").touch()
    assert audit.left_files(tmp_path) == []
    (tmp_path / ".step-00000008.12345678.tmp").touch()
    assert audit.left_files(tmp_path) == [
        ".step-00000008.12345678.tmp was left among the checkpoints"
    ]


def test_a_worker_that_still_runs():
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        events = [{"pid": sleeper.pid, "time": time.time()}]
        assert audit.left_processes(events) == [f"worker {sleeper.pid} still runs"]
        assert audit.left_processes([{"pid": os.getpid(), "time": 1.0}]) == []  # a later process
    finally:
        sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert audit.left_processes(events) == []  # dead, though nobody has waited for it
    sleeper.wait()
    assert audit.left_processes(events) == []
