"""Nodes that are drained, jobs that are put aside, arrays: the launch files lose nothing."""

import pytest

from rankbook.programs.elastic import run as elastic
from rankbook.testbed.faults.audit import world_sizes
from tests.slurm.jobs.training import SETTINGS, STEPS, Training
from tests.waiting import SOON, until

pytestmark = pytest.mark.long


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
    until(lambda: set(cluster.login("sinfo -hN -p main -o %T").split()) == {"idle"})


@pytest.mark.usefixtures("resume")
def test_a_node_is_drained_and_the_others_go_on(cluster, training, alone):
    training.submit("launch/slurm/elastic.sbatch", "--pace 1")
    training.until_step(3, nodes=2)
    cluster.login("scontrol update NodeName=n2 State=DRAIN Reason=repair")
    until(lambda: cluster.login("sinfo -hN -n n2 -p main -o %T") == "drained\n")
    assert cluster.states(training.job) == ["RUNNING"]
    said = training.finish()
    assert said.count("elastic: n2 is told to end") == said.count("n2 is given back") == 1
    assert not training.problems(alone)
    assert world_sizes(training.events()) == {1, 2}
    assert training.once()


@pytest.mark.usefixtures("resume")
def test_a_node_dies_and_the_others_go_on(cluster, training, alone):
    training.submit("launch/slurm/elastic.sbatch", "--pace 1 --save-every 4")
    training.until_step(6, nodes=2)
    cluster.login("scontrol update NodeName=n2 State=DOWN Reason=dead")
    training.until_worlds(2, 1)
    assert "Node failure on n2" in training.finish()
    assert not training.problems(alone)
    assert world_sizes(training.events()) == {1, 2}


@pytest.mark.usefixtures("resume")
def test_the_first_node_is_drained_and_the_job_goes_on_elsewhere(cluster, training, alone):
    training.submit("launch/slurm/elastic.sbatch", "--pace 1")
    training.until_step(3, nodes=2)
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

    training.submit("--nodes=2 launch/slurm/elastic.sbatch", "--pace 1", "LAUNCH_MIN=2")
    training.until_step(3, nodes=2)
    urgent = cluster.submit("--partition=urgent", "--nodes=2", "--exclusive", "--wrap", "hostname")
    cluster.wait(urgent, "COMPLETED", SOON)
    training.start_again_now()
    said = training.finish()
    assert said.count("elastic: told to end;") == said.count("to be started again") == 1
    assert not training.problems(whole.result(), exactly=True)
    attempts = {event["attempt"] for event in training.events() if event["event"] == "step"}
    assert len(attempts) == 2 and world_sizes(training.events()) == {2} and training.once()


@pytest.fixture(scope="module")
def limited(cluster):
    """A job on the second node, nearly at its time limit, that may not be started again."""
    training = Training(cluster, "limited")
    words = "--nodes=1 --nodelist=n2 --time=60 --signal=B:USR1@115 launch/slurm/elastic.sbatch"
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
    words = ("--nodes=1", "--nodelist=n1", "launch/slurm/elastic.sbatch", "no.such.module")
    job = cluster.submit(*words)
    cluster.wait(job, "FAILED", SOON)
    assert "finds no module" in cluster.log(job) and "started again" not in cluster.log(job)


def test_before_the_time_limit_it_saves_and_is_not_started_again_for_ever(cluster, limited):
    """Slurm looks at time limits every half minute; the other tests run meanwhile."""
    cluster.wait(limited.job, "FAILED", SOON)
    said = cluster.log(limited.job)
    assert "elastic: told to end;" in said
    assert "started again 0 times and not done yet; LAUNCH_REQUEUES allows no more" in said
    events = limited.events()
    (saved,) = [event["step"] for event in events if event["event"] == "save"]
    assert saved == max(limited.steps()) < 10 * STEPS
