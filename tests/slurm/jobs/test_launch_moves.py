"""Nodes that are drained, jobs that are put aside, arrays: the launch files lose nothing."""

import time
from collections.abc import Callable

import pytest

from rankbook.elastic import losses, read_events
from rankbook.programs.elastic import run as elastic
from rankbook.testbed.faults.audit import (
    Reference,
    left_files,
    lost_steps,
    world_sizes,
    wrong_losses,
    wrong_parameters,
    wrong_samples,
)
from rankbook.testbed.faults.reference import read_parameters

SOON = 180.0  # seconds, for what takes ten on a free machine
SAMPLES, STEPS = 18, 60  # 3 steps an epoch; enough to act on a job before it has done them
RUN = f"--samples {SAMPLES} --global-batch 6 --steps {STEPS} --save-every 1000 --backend gloo"
SETTINGS = (
    "OMP_NUM_THREADS=1 LAUNCH_WATCH=0.5 LAUNCH_RDZV=join_timeout=60,last_call_timeout=1,"
    "read_timeout=60,keep_alive_interval=1,keep_alive_max_attempt=5"
)


class Training:
    """The elastic program as a job of the cluster, and its record."""

    def __init__(self, cluster, name: str):
        self.cluster, self.checkpoints = cluster, cluster.folder / name / "checkpoints"
        self.record, self.job = cluster.folder / name / "events.jsonl", 0
        self.words = f"rankbook.programs.elastic {RUN} --checkpoint {self.checkpoints}"
        self.words += f" --events {self.record}"

    def submit(self, script: str, options: str = "", settings: str = "") -> None:
        line = f"{SETTINGS} {settings} sbatch --parsable {script} {self.words} {options}"
        self.job = int(self.cluster.login(line))

    def events(self) -> list[dict]:
        return read_events(self.record) if self.record.exists() else []

    def steps(self) -> list[int]:
        return [event["step"] for event in self.events() if event["event"] == "step"]

    def once(self) -> bool:
        """Whether no rank did a step again: what was done was saved when a node left."""
        done = [(e["step"], e["rank"]) for e in self.events() if e["event"] == "step"]
        return len(done) == len(set(done))

    def until_step(self, step: int, nodes: int = 1) -> None:
        """Wait until `nodes` nodes have done this step or a later one together."""

        def done() -> bool:
            steps = [event for event in self.events() if event["event"] == "step"]
            return any(e["step"] >= step and e["world_size"] >= nodes for e in steps)

        until(done, lambda: self.cluster.log(self.job))

    def start_again_now(self) -> None:
        """End the two minutes that Slurm waits with a job that goes back into the queue."""
        self.cluster.wait(self.job, "PENDING", SOON)
        # not at once: a node refuses a job that it has ended in this very second
        self.cluster.login(f"scontrol update JobId={self.job} StartTime=now+2")

    def finish(self) -> str:
        self.cluster.wait(self.job, "COMPLETED", SOON)
        assert "torch" not in self.cluster.login("ps -eo args"), "the job left processes"
        return self.cluster.log(self.job)

    def problems(self, reference: Reference, exactly: bool = False) -> list[str]:
        """Nothing lost, nothing twice, and the same numbers in the end."""
        events, wanted = self.events(), reference.parameters[STEPS]
        return [
            *lost_steps(events, STEPS),
            *wrong_samples(events, SAMPLES),
            *wrong_losses(events, reference),
            *wrong_parameters(read_parameters(self.checkpoints, STEPS), wanted, exactly),
            *left_files(self.checkpoints),
        ]

    def result(self) -> Reference:
        return Reference(losses(self.events()), {STEPS: read_parameters(self.checkpoints, STEPS)})


def until(holds: Callable[[], object], said: Callable[[], str]) -> None:
    end = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < end, f"it did not happen in {SOON:.0f} s: {said()}"
        time.sleep(0.1)


@pytest.fixture
def training(cluster, request):
    return Training(cluster, request.node.name)


@pytest.fixture(scope="module")
def alone(cluster):
    """The same training in one process, which nothing happens to."""
    reference = Training(cluster, "alone")
    elastic.main(reference.words.split()[1:])
    return reference.result()


@pytest.fixture
def resume(cluster):
    """Take drained nodes back after the test."""
    yield
    for node in cluster.nodes:
        cluster.login(f"scontrol update NodeName={node} State=RESUME 2> /dev/null || true")
    until(lambda: set(cluster.login("sinfo -hN -p main -o %T").split()) == {"idle"}, str)


@pytest.mark.usefixtures("resume")
def test_a_node_is_drained_and_the_others_go_on(cluster, training, alone):
    training.submit("launch/slurm/elastic.sbatch", "--pace 0.1")
    training.until_step(5, nodes=2)
    cluster.login("scontrol update NodeName=n2 State=DRAIN Reason=repair")
    until(lambda: cluster.login("sinfo -hN -n n2 -p main -o %T") == "drained\n", str)
    assert cluster.states(training.job) == ["RUNNING"]
    said = training.finish()
    assert said.count("elastic: n2 is told to end") == said.count("n2 is given back") == 1
    assert not training.problems(alone)
    assert world_sizes(training.events()) == {1, 2}
    assert training.once()


@pytest.mark.usefixtures("resume")
def test_a_node_dies_and_the_others_go_on(cluster, training, alone):
    training.submit("launch/slurm/elastic.sbatch", "--pace 0.1 --save-every 4")
    training.until_step(6, nodes=2)
    cluster.login("scontrol update NodeName=n2 State=DOWN Reason=dead")
    assert "Node failure on n2" in training.finish()
    assert not training.problems(alone)
    assert world_sizes(training.events()) == {1, 2}


@pytest.mark.usefixtures("resume")
def test_the_first_node_is_drained_and_the_job_goes_on_elsewhere(cluster, training, alone):
    training.submit("launch/slurm/elastic.sbatch", "--pace 0.1")
    training.until_step(5, nodes=2)
    cluster.login("scontrol update NodeName=n1 State=DRAIN Reason=repair")
    training.start_again_now()
    said = training.finish()
    assert said.count("elastic: not done; to be started again") == 1
    assert not training.problems(alone)
    assert world_sizes(training.events()) == {1, 2} and training.once()


def test_put_aside_for_an_urgent_job_it_ends_with_the_same_bits(cluster, training):
    whole = Training(cluster, "whole")
    whole.submit("launch/slurm/fixed.sbatch")
    whole.finish()

    training.submit("launch/slurm/preempt.sbatch", "--pace 0.1")
    training.until_step(5, nodes=2)
    urgent = cluster.submit("--partition=urgent", "--nodes=2", "--exclusive", "--wrap", "hostname")
    cluster.wait(urgent, "COMPLETED", SOON)
    training.start_again_now()
    said = training.finish()
    assert said.count("preempt: told to end") == said.count("to be started again") == 1
    assert not training.problems(whole.result(), exactly=True)
    attempts = {event["attempt"] for event in training.events() if event["event"] == "step"}
    assert len(attempts) == 2 and world_sizes(training.events()) == {2} and training.once()


@pytest.fixture(scope="module")
def limited(cluster):
    """A job on the second node, nearly at its time limit, that may not be started again."""
    training = Training(cluster, "limited")
    words = "--nodes=1 --nodelist=n2 --time=60 --signal=B:USR1@115 launch/slurm/preempt.sbatch"
    training.submit(words, f"--pace 0.5 --steps {10 * STEPS}", "LAUNCH_REQUEUES=0")
    training.until_step(1)  # however long the start takes
    used = cluster.login(f"squeue -h -j {training.job} -O TimeUsed").strip()  # as 1:05
    limit = int(used.split(":")[-2]) + 2  # a minute or two more: it is to be told now
    cluster.login(f"scontrol update JobId={training.job} TimeLimit={limit}")
    return training


@pytest.mark.usefixtures("limited")
def test_tasks_of_a_sweep_do_not_meet_on_one_node(cluster, alone):
    rates = {0.05: Training(cluster, "rate1"), 0.01: Training(cluster, "rate2")}
    lines = cluster.folder / "rates.txt"
    lines.write_text(
        "".join(f"--lr {lr} {each.words.partition(' ')[2]}\n" for lr, each in rates.items())
    )
    words = f"--array=1-2 --nodelist=n1 launch/slurm/sweep.sbatch {lines} rankbook.programs.elastic"
    job = int(cluster.login(f"{SETTINGS} sbatch --parsable {words} --pace 0.2"))
    cluster.wait(job, "COMPLETED", SOON)
    assert cluster.log(job).count("elastic: done") == 2
    one, other = (each.events() for each in rates.values())
    assert max(one[0]["time"], other[0]["time"]) < min(one[-1]["time"], other[-1]["time"])
    assert not rates[0.05].problems(alone)
    assert rates[0.01].result().losses != alone.losses


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "submit it with --array=1-N"),
        ("--array=2", "has no line 2, or an empty one"),
    ],
)
def test_a_sweep_says_what_is_missing(cluster, words, sentence):
    lines = cluster.folder / "one.txt"
    lines.write_text("--lr 0.1\n")
    job = cluster.submit(*words.split(), "launch/slurm/sweep.sbatch", lines, "some.module")
    cluster.wait(job, "FAILED", SOON)
    assert sentence in cluster.log(job) and cluster.log(job).count("\n") == 1


@pytest.mark.usefixtures("limited")
def test_what_fails_by_itself_is_not_started_again(cluster):
    words = ("--nodes=1", "--nodelist=n1", "launch/slurm/preempt.sbatch", "no.such.module")
    job = cluster.submit(*words)
    cluster.wait(job, "FAILED", SOON)
    assert "finds no module" in cluster.log(job) and "started again" not in cluster.log(job)


def test_before_the_time_limit_it_saves_and_is_not_started_again_for_ever(cluster, limited):
    """Slurm looks at time limits every half minute; the other tests run meanwhile."""
    cluster.wait(limited.job, "FAILED", SOON)
    said = cluster.log(limited.job)
    assert "preempt: told to end" in said
    assert "started again 0 times and not done yet; LAUNCH_REQUEUES allows no more" in said
    events = limited.events()
    (saved,) = [event["step"] for event in events if event["event"] == "save"]
    assert saved == max(limited.steps()) < 10 * STEPS
