"""Events of many processes in one file, and what of them counts."""

import json
import multiprocessing
import os

import pytest

from rankbook.training.elastic import Events, audit, lineage, losses, read_events
from tests.waiting import SOON


def run(attempt: str, start: float, world_size: int, steps: dict[int, list], lost: tuple = ()):
    """The events of one start: `steps` to the samples of each rank; `lost` are (step, rank)."""
    who = {"attempt": attempt, "world_size": world_size}
    yield {"event": "start", "time": start, "rank": 0, **who}
    for step, shares in steps.items():
        for rank, samples in enumerate(shares):
            if (step, rank) not in lost:
                what = {"step": step, "epoch": (step - 1) // 2, "samples": samples}
                yield {"event": "step", "time": start + step, "rank": rank, "loss": start + step,
                       **what, **who}  # fmt: skip


# epochs of two steps and four samples; the third step is lost, and done again by one rank
FIRST = [*run("a", 0.0, 2, {1: [[0], [1]], 2: [[2], [3]], 3: [[3], [0]]}, lost=((3, 1),))]
SECOND = [*run("b", 50.0, 1, {3: [[3, 0]], 4: [[1, 2]]})]


def test_lines_of_several_processes_do_not_mix(tmp_path):
    path = tmp_path / "new" / "events.jsonl"

    def write(rank: int) -> None:
        events = Events(path, rank=rank)
        for step in range(300):
            events.write("step", step=step, samples=list(range(200)))

    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write, args=(rank,)) for rank in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(SOON)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    found = read_events(path)
    assert len(found) == 900 and len(path.read_text().splitlines()) == 900
    for rank in range(3):
        assert [e["step"] for e in found if e["rank"] == rank] == list(range(300))


def test_who_says_it(tmp_path, monkeypatch):
    for name, value in {
        "RANK": "3", "WORLD_SIZE": "4", "GROUP_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RANKBOOK_NODE", raising=False)
    Events(tmp_path / "e", attempt="x").write("save", step=4, path=tmp_path)
    (event,) = read_events(tmp_path / "e")
    assert event.pop("time") > 1.7e9
    assert event == {
        "event": "save", "node": "1", "rank": 3, "world_size": 4, "pid": os.getpid(),
        "restart": 2, "attempt": "x", "step": 4, "path": str(tmp_path),
    }  # fmt: skip
    monkeypatch.setenv("RANKBOOK_NODE", "left")
    Events(tmp_path / "e").write("end")
    assert read_events(tmp_path / "e")[-1]["node"] == "left"


def test_without_a_file_nothing_is_written_and_a_torn_line_is_passed_over(tmp_path):
    Events(None).write("step", step=1)
    path = tmp_path / "events"
    path.write_text(
        '{"time": 2, "event": "end"}\n{"time": 1.5, "ev\n{"time": 1, "event": "start"}\n'
    )
    assert [event["event"] for event in read_events(path)] == ["start", "end"]
    with pytest.raises(FileNotFoundError):
        read_events(tmp_path / "none")


def test_the_last_execution_of_a_step_counts():
    found = lineage(SECOND + FIRST)
    assert {step: [e["attempt"] for e in of_step] for step, of_step in found.items()} == {
        1: ["a", "a"], 2: ["a", "a"], 3: ["b"], 4: ["b"],
    }  # fmt: skip
    assert losses(FIRST + SECOND) == {1: 1.0, 2: 2.0, 3: 53.0, 4: 54.0}


def test_the_audit_counts_every_sample():
    epochs = audit(FIRST + SECOND, 4)
    assert list(epochs) == [0, 1] and all(epoch.exactly_once for epoch in epochs.values())
    doubled = [*run("b", 50.0, 1, {3: [[3, 0]], 4: [[1, 1]]})]
    epoch = audit(FIRST + doubled, 4)[1]
    assert epoch.which(2) == [1] and epoch.which(0) == [2] and not epoch.exactly_once
    assert audit(FIRST + SECOND[:-1], 4)[1].never == 2  # an epoch that is not over


def test_a_step_that_not_all_ranks_did_is_an_error():
    with pytest.raises(ValueError, match=r"step 3 was said by ranks \[0\] of 2"):
        audit(FIRST, 4)


def test_attempts_that_trained_at_the_same_time_are_an_error():
    """Each was a run of its own, and one of them overwrote the other's checkpoints."""
    other = [*run("b", 1.5, 1, {3: [[3, 0]], 4: [[1, 2]]})]
    with pytest.raises(ValueError, match=r"attempts a and c trained at the same time, for 1\.0 s"):
        audit([*FIRST, *run("c", 1.0, 1, {1: [[0]]})], 4)
    assert audit([*FIRST[:-1], *other], 4)[1].exactly_once  # it began when the first had ended


def test_an_attempt_whose_save_was_refused_may_have_trained_beside_another():
    """It could not overwrite anything: what the other did is what counts."""
    other = [*run("c", 0.5, 1, {2: [[2, 3]], 3: [[3, 0]], 4: [[1, 2]]})]
    refused = {**FIRST[-1], "event": "refused"}
    epochs = audit([*FIRST, refused, *other], 4)
    assert all(epoch.exactly_once for epoch in epochs.values())
    with pytest.raises(ValueError, match="at the same time"):
        audit([*FIRST, {**refused, "attempt": "z"}, *other], 4)


def test_every_line_is_json_of_its_own(tmp_path):
    events = Events(tmp_path / "e")
    events.write("passed over", why='a "quoted"\nreason')
    (line,) = (tmp_path / "e").read_text().splitlines()
    assert json.loads(line)["why"] == 'a "quoted"\nreason'
