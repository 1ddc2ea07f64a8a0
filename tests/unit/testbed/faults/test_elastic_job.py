"""A job's record is read line by line, and what does not come is said."""

import json

import pytest

from rankbook.live.torchrun.launch import Launch
from rankbook.live.torchrun.session import Torchrun
from rankbook.testbed.faults import ElasticJob, Stuck
from rankbook.testbed.faults.elastic_job import REVIVALS


@pytest.fixture
def job(tmp_path):
    torchrun = Torchrun()  # starts nothing before it is asked to
    yield ElasticJob(torchrun, tmp_path, [])
    torchrun.close()


def test_a_line_is_read_when_it_is_whole(job):
    assert job.read() == []
    first, second = ({"event": "step", "step": step, "time": step} for step in (1, 2))
    text = json.dumps(first) + "\n" + json.dumps(second)
    job.record.write_text(text)
    assert [event["step"] for event in job.read()] == [1]
    seen = job.now()
    assert job.events[0]["seen"] <= seen
    with job.record.open("a") as file:
        file.write("\n")
    assert job.read() == job.steps() and job.events[0].items() > first.items()
    assert job.events[1].items() > second.items() and job.events[1]["seen"] >= seen


def test_what_was_written_last_is_not_missed(job):
    job.record.write_text('{"event": "step", "step": 3, "time": 1, "world_size": 2}\n')
    assert job.wait_step(2)["step"] == 3


def test_waiting_for_a_job_that_has_ended_is_stuck(job):
    job.record.write_text('{"event": "end"}\n')
    with pytest.raises(
        Stuck, match=r"for step 4 and no agent runs any more; the last event: .*end"
    ):
        job.wait_step(4)
    assert job.finish() == {} and job.running == [] and job.alive() == {}


class Launches:
    """A session in which every agent ends at once: code, trouble and who killed it are given."""

    def __init__(self, *ends: tuple[int, str, str]):
        self.ends, self.nodes = list(ends), {}

    def run_node(self, order, *_, **options):
        code, trouble, killed = self.ends.pop(0)
        self.nodes[order.node] = launch = Launch(order, None, [])
        launch.code, launch.trouble, launch.killed_by_reader = code, trouble, killed
        launch.done.set()

    def node(self, name):
        return self.nodes[name]


def test_a_node_that_was_cut_off_may_end_as_it_likes(tmp_path):
    job = ElasticJob(Launches((1, "RendezvousConnectionError", "")), tmp_path, [])
    job.start("a")
    job.let_end("a")
    assert job.finish() == {} and not job.given_up and job.staying == []


def test_agents_that_gave_up_are_started_anew_and_others_are_not(tmp_path):
    gave_up, killed, failed, well = (1, "DistStoreError", ""), (-9, "", "SIGKILL"), (1, "", ""), 0
    job = ElasticJob(Launches(gave_up, (well, "", "")), tmp_path, [])
    job.start("a")
    assert job.finish() == {"a": 0} and job.given_up == ["DistStoreError"]
    assert [launch.spec.node for launch in job.launches] == ["a", "a"]
    for end, codes in ((killed, {}), (failed, {"a": 1}), ((well, "", ""), {"a": 0})):
        job = ElasticJob(Launches(end), tmp_path, [])
        job.start("a")
        assert job.finish() == codes and not job.given_up


def test_a_job_whose_agents_always_give_up_is_given_up(tmp_path):
    job = ElasticJob(Launches(*[(1, "DistStoreError", "")] * (REVIVALS + 1)), tmp_path, [])
    job.start("a")
    with pytest.raises(Stuck, match="no agent runs any more"):
        job.wait_step(1)
    assert len(job.given_up) == REVIVALS
