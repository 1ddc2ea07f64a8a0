"""What the launch files say when something is missing or in the way: one sentence, and they end."""

import pytest

from rankbook.testbed.slurm import ScriptFailed
from tests.waiting import SOON


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("n1 2", "say HEAD_HOST NNODES MODULE"),
        ("n7 2 rankbook.programs.elastic", "no host is called n7 here"),
        ("n1 two rankbook.programs.elastic", "NNODES is a number, or MIN:MAX, not two"),
        ("n1 2 rankbook.programs.elstic", "finds no module rankbook.programs.elstic"),
        ("n1 2 no.such.module", "finds no module no.such.module"),
    ],
)
def test_torchrun_says_what_is_missing(cluster, words, sentence):
    with pytest.raises(ScriptFailed) as failed:
        cluster.on("n2", f"launch/torchrun.sh {words}")
    assert sentence in failed.value.output and failed.value.output.count("\n") == 1
    assert failed.value.output.startswith("torchrun.sh on n2: ")


@pytest.mark.parametrize(("host", "found"), [("n1", 1), ("n2", 0)])
def test_the_head_is_known_by_its_address(cluster, host, found):
    said = cluster.on(host, "python launch/look.py 10.77.0.1 29400 rankbook")
    assert said == f"is_host={found} {cluster.host(host).address}\n"


def listening(port: int, then: str) -> str:
    """A script that does `then` while another program listens at `port` of its host."""
    listen = f"python -m http.server {port} & server=$!; trap 'kill $server' EXIT"
    return f"{listen}; until ss -ltn | grep -q :{port}; do sleep 0.05; done; {then}"


def test_a_port_that_is_taken_is_said_and_only_where_the_agents_meet(cluster):
    look = "python launch/look.py {} 29400 rankbook"
    with pytest.raises(ScriptFailed, match="port 29400 is taken here"):
        cluster.on("n1", listening(29400, look.format("n1")))
    assert "is_host=0" in cluster.on("n1", listening(29400, look.format("n2")))


@pytest.mark.parametrize("name", ["fixed", "elastic"])
def test_a_port_that_is_taken_ends_the_job_and_nobody_waits(cluster, name):
    """The agent of the second node would wait for ever for the program that listens there."""
    words = (
        f"launch/slurm/{name}.sbatch rankbook.programs.elastic --checkpoint {cluster.folder}/none"
    )
    submit = f"LAUNCH_WATCH=0.5 LAUNCH_WAIT=1 sbatch --parsable --nodes=2 --hold {words}"
    job = int(cluster.login(submit))
    until_ended = f'until [ -z "$(squeue -h -j {job} -t PD,R,CG)" ]; do sleep 0.2; done'
    port = 29400 + job % 1000
    cluster.on("n1", listening(port, f"scontrol release {job}; {until_ended}"), SOON)
    cluster.wait(job, "FAILED", SOON)
    assert f"port {port} is taken here" in cluster.log(job)
    assert "torch" not in cluster.login("ps -eo args")


def test_a_shared_folder_that_a_host_lacks_is_said(cluster):
    with pytest.raises(ScriptFailed, match="the shared folder /nowhere is not there"):
        cluster.on("n1", "SHARED=/nowhere launch/torchrun.sh n1 1 rankbook.programs.elastic")


@pytest.mark.parametrize("name", ["fixed", "elastic", "sweep"])
def test_a_batch_script_says_what_is_missing(cluster, name):
    with pytest.raises(ScriptFailed, match="submit this file with sbatch"):
        cluster.login(f"bash launch/slurm/{name}.sbatch rankbook.programs.elastic")
    job = cluster.submit("--nodes=1", f"launch/slurm/{name}.sbatch")
    cluster.wait(job, "FAILED", SOON)
    assert cluster.log(job).startswith(f"{name}: no module is named")


def test_a_module_that_is_unknown_ends_the_job(cluster):
    job = cluster.submit("--nodes=1", "launch/slurm/fixed.sbatch", "rankbook.programs.elstic")
    cluster.wait(job, "FAILED", SOON)
    said = [line for line in cluster.log(job).splitlines() if "torchrun.sh" in line]
    assert len(said) == 1 and "finds no module rankbook.programs.elstic" in said[0]
