"""What a folder says of a job: the last attempt, who is gone, and what cannot be read."""

import json
import os
import pickle

import pytest

from rankbook.autopsy import judge, read
from tests.unit.autopsy.made import NOW, call, nccl_dump, record

WAITING = [call(1), call(2, done=False)]


def kinds(folder) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.kind, finding.ranks) for finding in judge(read(folder))]


def test_a_rank_that_has_not_come(tmp_path):
    record(tmp_path, 0, WAITING)
    record(tmp_path, 1, [call(1)])
    [finding] = judge(read(tmp_path))
    assert (finding.kind, finding.ranks) == ("missing", (1,))
    assert finding.text == (
        "Rank 1 has not come to all_reduce(float32 [4]), call 2 of the default group, in which "
        "rank 0 has waited for 58 s. Rank 1 is at train.py:12 in step."
    )


def test_a_rank_that_only_just_waits_is_no_finding(tmp_path):
    record(tmp_path, 0, WAITING, since=NOW - 1)
    record(tmp_path, 1, [call(1)])
    assert kinds(tmp_path) == []


def test_all_have_come_and_none_gets_on(tmp_path):
    record(tmp_path, 0, WAITING)
    record(tmp_path, 1, WAITING, node=1, host="n2")
    [finding] = judge(read(tmp_path))
    assert (finding.kind, finding.ranks) == ("network", (0, 1))
    assert "Look at the network between the nodes 0 (n1), 1 (n2), and at " in finding.text


def test_one_is_still_in_a_call_that_the_other_has_left(tmp_path):
    record(tmp_path, 0, [call(1), call(2), call(3, done=False)])
    record(tmp_path, 1, WAITING)
    [finding] = judge(read(tmp_path))
    assert (finding.kind, finding.ranks) == ("network", (1,))
    assert finding.text.startswith("Rank 1 is still in all_reduce(float32 [4]), call 2 ")


def test_a_node_of_which_nothing_is_heard(tmp_path):
    for rank in range(4):
        record(tmp_path, rank, WAITING, ago=60.0 * (rank > 1), node=rank // 2,
               host=f"n{1 + rank // 2}", world_size=4)  # fmt: skip
    finding, *_ = judge(read(tmp_path))
    assert (finding.kind, finding.ranks) == ("node", (2, 3))
    assert finding.text == (
        "Node 1 (n2) is silent: ranks 2 and 3 were last heard from 60 s before the others. "
        "It is down, or cut off."
    )


def test_the_one_that_raised_is_the_cause_and_not_its_victim(tmp_path):
    closed = {"how": "raised", "type": "RuntimeError", "text": "Connection closed by peer",
              "frames": [], "time": NOW}  # fmt: skip
    mine = {**closed, "type": "ValueError", "text": "no such batch"}
    record(tmp_path, 0, WAITING, ended=closed)
    record(tmp_path, 1, [call(1)], ended=mine)
    [finding] = judge(read(tmp_path))
    assert (finding.kind, finding.text) == ("raised", "Rank 1 raised ValueError: no such batch.")


def test_two_that_receive_from_each_other(tmp_path):
    inside = [["/x/torch/distributed/distributed_c10d.py", 9, "recv", "", False]]
    line = ["/job/train.py", 12, "step", "dist.recv(box, other)", True]
    threads = [{"name": "MainThread", "frames": [*inside, line]}]
    for rank in range(2):
        record(tmp_path, rank, [], peer=1 - rank, threads=threads)
    [finding] = judge(read(tmp_path))
    assert (finding.kind, finding.ranks) == ("p2p", (0, 1))
    assert finding.text == "Ranks 0 and 1 wait in recv from each other, and neither sends."


def test_an_error_is_told_by_its_first_line_without_the_place_in_torch(tmp_path):
    """torch's own errors go on with the frames of its C++."""
    text = "[/x/gloo/pair.cc:553] No such device.\nException raised from here (frame #0: 0x1f)"
    error = {"how": "raised", "type": "RuntimeError", "text": text, "frames": [], "time": NOW}
    record(tmp_path, 0, [call(1)])
    record(tmp_path, 1, [call(1)], ended=error)
    [finding] = judge(read(tmp_path))
    assert finding.text == "Rank 1 raised RuntimeError: No such device."


def test_a_crash_is_read_from_the_stacks_beside(tmp_path):
    record(tmp_path, 0, WAITING)
    path = record(tmp_path, 1, [call(1)])
    path.with_suffix(".stacks").write_text("Fatal Python error: Segmentation fault\n\nThread")
    assert [f.text for f in judge(read(tmp_path))] == ["Rank 1 crashed: Segmentation fault."]


def test_a_job_that_was_killed_as_a_whole_still_says_who_was_missing(tmp_path):
    record(tmp_path, 0, WAITING).with_suffix(".stacks").write_text("Current thread 0x1")
    record(tmp_path, 1, [call(1)]).with_suffix(".stacks").write_text("Current thread 0x1")
    assert kinds(tmp_path) == [("missing", (1,))]


def test_only_the_last_attempt_counts(tmp_path):
    for rank in range(2):
        record(tmp_path, rank, [call(1)], ago=50)
        record(tmp_path, rank, [call(1)], pid=200 + rank, restart=1, started=NOW - 40,
               ended={"how": "ended"})  # fmt: skip
    job = read(tmp_path)
    assert {rank.restart for rank in job.ranks.values()} == {1}
    assert judge(job) == []


def test_a_run_before_in_the_same_folder_is_left_out(tmp_path):
    record(tmp_path, 0, WAITING, ago=80)
    record(tmp_path, 1, [call(1)], ago=80)
    record(tmp_path, 0, [call(1)], pid=300, started=NOW - 50)
    assert list(read(tmp_path).ranks) == [0]
    assert kinds(tmp_path) == [("absent", (1,))]


def test_a_helper_that_a_rank_has_started_is_not_the_rank(tmp_path):
    record(tmp_path, 0, WAITING)
    record(tmp_path, 0, [], pid=500, ppid=100, started=NOW - 20)
    record(tmp_path, 1, [call(1)])
    assert kinds(tmp_path) == [("missing", (1,))]


def test_without_the_recorder_the_stacks_remain(tmp_path):
    record(tmp_path, 0, [], recorder=False)
    assert any("TORCH_FR_BUFFER_SIZE=0" in note for note in read(tmp_path).notes)


def test_dumps_alone_are_enough(tmp_path):
    for rank, dump in enumerate((nccl_dump(2, "started"), nccl_dump(1, "completed"))):
        path = tmp_path / f"nccl_trace_rank_{rank}"
        path.write_bytes(pickle.dumps(dump))
        os.utime(path, (NOW + 600, NOW + 600))
    job = read(tmp_path)
    assert (job.members, len(job.ranks)) == ({"0": [0, 1]}, 2)
    assert [entry.done for entry in job.ranks[0].entries] == [False]
    assert kinds(tmp_path) == [("missing", (1,))]


def test_a_torn_file_is_named_and_the_others_are_read(tmp_path):
    record(tmp_path, 0, WAITING)
    torn = record(tmp_path, 1, [call(1)])
    torn.write_text(torn.read_text()[:-40])
    os.utime(torn, (NOW, NOW))
    job = read(tmp_path)
    assert list(job.ranks) == [0]
    assert any(note.startswith(f"{torn.name} is left out") for note in job.notes)


def test_an_error_file_of_torchrun_is_told(tmp_path):
    record(tmp_path, 0, [call(1)])
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "error.json").write_text(json.dumps({"message": "ValueError: no"}))
    assert "torchrun's error file of local rank 1: ValueError: no" in read(tmp_path).notes


def test_no_folder_and_no_records(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        read(tmp_path / "none")
    with pytest.raises(ValueError, match="holds no record of any rank"):
        read(tmp_path)
