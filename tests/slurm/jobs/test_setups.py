"""The launch files on a Slurm set up as others are: proctrack, preemption, GPUs, containers."""

import re
import shutil

import pytest

from rankbook.programs.elastic import run as elastic
from rankbook.testbed.faults.audit import world_sizes
from rankbook.testbed.slurm import Cluster
from rankbook.testbed.slurm.setups import changes
from tests.slurm.jobs.training import SOON, Training, until

pytestmark = pytest.mark.long

SETUPS = ["contain", "default_preemption", "gpus"]
contain, default_preemption, gpus = (
    pytest.mark.parametrize("cluster", [name], indirect=True, scope="module") for name in SETUPS
)


@pytest.fixture(scope="module")
def cluster(possible, request):
    """Two nodes with the set-up that is asked for; tests with the same one share them."""
    with Cluster(setup=request.param) as cluster:
        for key, value in changes(request.param).items():
            assert value is None or re.search(rf"{key}\s.*{value}", cluster.login(
                "scontrol show config"), re.IGNORECASE)  # fmt: skip
        yield cluster


@pytest.fixture(scope="session")
def alone(tmp_path_factory):
    """The same training in one process, which nothing happens to."""

    class Here:
        folder = tmp_path_factory.mktemp("alone")

    reference = Training(Here, "alone")
    elastic.main(reference.words.split()[1:])
    return reference.result()


@pytest.fixture
def training(cluster, request):
    return Training(cluster, request.node.originalname)


def state(cluster, node: str) -> str:
    return cluster.login(f"sinfo -hN -n {node} -p main -o %T").strip()


@contain
def test_every_job_has_an_extern_that_is_not_told(cluster, training, alone):
    """Drained and back in time: an agent again. Then it dies, and its srun ends with status 0."""
    training.submit("launch/slurm/elastic.sbatch", "--pace 2", "LAUNCH_HOLD=3600")
    training.until_step(3, nodes=2)
    steps = cluster.login(f"squeue -h --steps --jobs={training.job} --format=%i").split()
    assert f"{training.job}.extern" in steps
    cluster.login("scontrol update NodeName=n2 State=DRAIN Reason=mistake")
    training.until_worlds(2, 1)
    cluster.login("scontrol update NodeName=n2 State=RESUME")
    training.until_worlds(2, 1, 2)
    assert training.once()
    cluster.login("scontrol update NodeName=n2 State=DOWN Reason=dead")
    training.until_worlds(2, 1, 2, 1)
    said = training.finish()
    assert said.count("n2 is told to end") == said.count("n2 gets an agent again") == 1
    assert not training.problems(alone) and training.worlds() == [2, 1, 2, 1]
    until(lambda: state(cluster, "n2") == "idle", str)  # ReturnToService


@contain
@pytest.mark.skipif(not shutil.which("bwrap"), reason="no container without root: bubblewrap")
def test_a_container_around_the_agent(cluster, training, alone):
    """bwrap is a container runtime that needs no root; the job's signals get through it."""
    wrap = "launch/forward.sh bwrap --dev-bind / / --tmpfs /mnt"
    training.submit("launch/slurm/elastic.sbatch", "--pace 1", f"LAUNCH_SRUN='{wrap}'")
    training.until_step(3, nodes=2)
    assert "bwrap" in cluster.login("ps -eo comm")
    cluster.login("scontrol update NodeName=n2 State=DRAIN Reason=repair")
    until(lambda: state(cluster, "n2") == "drained", lambda: cluster.log(training.job))
    said = training.finish()
    cluster.login("scontrol update NodeName=n2 State=RESUME")
    assert said.count("n2 is given back") == 1
    assert not training.problems(alone) and training.once()
    assert training.worlds() == [2, 1]


@default_preemption
def test_nobody_tells_the_script_and_it_goes_by_the_checkpoint(cluster, training, alone):
    training.submit("--nodes=2 launch/slurm/elastic.sbatch", "--pace 1", "LAUNCH_MIN=2")
    training.until_step(3, nodes=2)
    urgent = cluster.submit("--partition=urgent", "--nodes=2", "--exclusive", "--wrap", "hostname")
    cluster.wait(urgent, "COMPLETED", SOON)
    training.start_again_now()
    said = training.finish()
    assert "told to end;" not in said and said.count("to be started again") == 1
    assert not training.problems(alone)
    assert world_sizes(training.events()) == {2} and training.once()


@default_preemption
def test_a_job_that_was_cancelled_does_not_come_back(cluster, training):
    training.submit("launch/slurm/elastic.sbatch", "--pace 1 --save-every 1")
    training.until_step(2)
    cluster.login(f"scancel {training.job}")
    cluster.wait(training.job, "CANCELLED", SOON)
    until(lambda: "torch" not in cluster.login("ps -eo args"), str)
    assert cluster.states(training.job) == ["CANCELLED"]


# in one piece: unbuffered, print writes each argument by itself, and two ranks' may be mixed
WHO = """import os, sys
sys.stdout.write("who " + " ".join(str(os.environ.get(n)) for n in (
    "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "CUDA_VISIBLE_DEVICES",
    "NCCL_IB_HCA")) + chr(10))
sys.stdout.flush()
"""


@gpus
@pytest.mark.parametrize(
    ("script", "ranks", "cards"),
    [
        ("--nodes=2 --gpus=4 launch/slurm/fixed.sbatch", 4, "0,1"),
        ("--nodes=2 --gpus-per-node=2 launch/slurm/elastic.sbatch", 4, "0,1"),
        ("--nodes=2 --gpus=4 launch/slurm/elastic.sbatch", 4, "0,1"),
        ("--array=1 --gpus=1 launch/slurm/sweep.sbatch $SHARED/one.txt", 1, "0"),
    ],
)
def test_a_rank_for_each_gpu_however_they_were_asked_for(cluster, script, ranks, cards):
    (cluster.folder / "who.py").write_text(WHO)
    (cluster.folder / "one.txt").write_text("--nothing\n")
    # another module's PYTHONPATH is kept, and the checkout's own comes first
    env = "PYTHONPATH=$SHARED LAUNCH_INTERFACE=eth0 LAUNCH_HCA=mlx5_0 OMP_NUM_THREADS=1"
    job = int(cluster.login(f"{env} sbatch --parsable {script} who"))
    cluster.wait(job, "COMPLETED", SOON)
    said = re.findall(r"who (\d) (\d) (\d) (\S+) (\S+) (\S+)", cluster.log(job))
    assert sorted(line[0] for line in said) == [str(rank) for rank in range(ranks)]
    local = "2" if ranks == 4 else "1"
    everywhere = {(str(ranks), local, cards, "mlx5_0")}
    assert {(world, here, seen, hca) for _, world, here, _, seen, hca in said} == everywhere
    assert len({address for *_, address, _, _ in said}) == 1
    assert said[0][3] in {cluster.host(node).address for node in cluster.nodes}
