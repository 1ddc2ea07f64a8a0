"""A job's record is read line by line, and what does not come is said."""

import json

import pytest

from rankbook.faults import Job, Stuck
from rankbook.live.torchrun.session import Torchrun


@pytest.fixture
def job(tmp_path):
    torchrun = Torchrun()  # starts nothing before it is asked to
    yield Job(torchrun, tmp_path, [])
    torchrun.close()


def test_a_line_is_read_when_it_is_whole(job):
    assert job.read() == []
    first, second = ({"event": "step", "step": step, "time": step} for step in (1, 2))
    text = json.dumps(first) + "\n" + json.dumps(second)
    job.record.write_text(text)
    assert job.read() == [first]
    with job.record.open("a") as file:
        file.write("\n")
    assert job.read() == [first, second] == job.steps()


def test_what_was_written_last_is_not_missed(job):
    job.record.write_text('{"event": "step", "step": 3, "time": 1, "world_size": 2}\n')
    assert job.wait_step(2)["step"] == 3
    assert job.wait_world(2)["step"] == 3


def test_waiting_for_a_job_that_has_ended_is_stuck(job):
    job.record.write_text('{"event": "end"}\n')
    with pytest.raises(
        Stuck, match=r"for step 4 and no agent runs any more; the last event: .*end"
    ):
        job.wait_step(4)
    with pytest.raises(Stuck, match="in a world of 3 and no agent runs"):
        job.wait_world(3)
    assert job.finish() == {} and job.running == [] and job.alive() == {}
