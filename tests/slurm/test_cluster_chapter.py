"""What the cluster chapter says of Slurm and torch's waits, and nothing else holds."""

import inspect
import re
from datetime import timedelta

import pytest
from torch.distributed import constants
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as backend
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as rendezvous

from tests.waiting import SOON

# Notes the step's SIGTERM and saves: that takes until the file is there.
TASK = """save() {
  until [ -e $SHARED/may-end ]; do sleep 0.1; done
  echo "saved on $(hostname)"
  exit
}
trap save TERM
echo ready
while true; do sleep 0.1; done"""
JOB = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --requeue --signal=B:USR1@60
srun bash $SHARED/task.sh &
step=$!
trap '%s' USR1
wait $step; wait $step
%s
"""


@pytest.fixture(scope="module", autouse=True)
def task(cluster):
    (cluster.folder / "task.sh").write_text(TASK)


@pytest.fixture(autouse=True)
def may_end(cluster):
    """The file without which no task has saved."""
    (file := cluster.folder / "may-end").unlink(missing_ok=True)
    return file


def start(cluster, name: str, on_notice: str, at_end: str = "") -> int:
    """Submit a job that does `on_notice` when it is told to end; wait until both tasks are up."""
    path = cluster.folder / name
    path.write_text(JOB % (on_notice, at_end))
    job = cluster.submit(str(path))
    log = cluster.folder / f"slurm-{job}.out"
    ready = f"[ $(grep -c ready {log} 2> /dev/null || true) = 2 ]"
    cluster.login(f"until {ready}; do sleep 0.1; done", SOON)
    return job


def test_a_signal_to_srun_kills_its_tasks_one_through_scancel_lets_them_save(cluster, may_end):
    killed = start(cluster, "kill.sbatch", "kill -TERM $step")
    cluster.login(f"scancel --batch --signal=USR1 {killed}")
    cluster.wait(killed, {"COMPLETED", "FAILED", "CANCELLED"}, seconds=SOON)
    assert "forcing job termination" in cluster.log(killed)
    assert "saved" not in cluster.log(killed)

    may_end.touch()
    told = start(cluster, "told.sbatch", "scancel --signal=TERM $SLURM_JOB_ID.0")
    cluster.login(f"scancel --batch --signal=USR1 {told}")
    cluster.wait(told, {"COMPLETED", "FAILED"}, seconds=SOON)
    assert sorted(re.findall(r"saved on (n\d)", cluster.log(told))) == ["n1", "n2"]


def test_who_ends_within_the_grace_is_completed_unless_it_asks_to_be_requeued(cluster, may_end):
    may_end.touch()
    tell = "scancel --signal=TERM $SLURM_JOB_ID.0"
    for name, at_end, state in (
        ("quiet", "exit 0", "COMPLETED"),
        ("asks", "date +%s > $SHARED/asked; scontrol requeue $SLURM_JOB_ID; sleep 600", "PENDING"),
    ):
        job = start(cluster, f"{name}.sbatch", tell, at_end)
        urgent = cluster.submit("--partition=urgent", "--nodes=2", "--exclusive", "--wrap=true")
        cluster.wait(urgent, seconds=SOON)
        cluster.wait(job, state, seconds=SOON)
    again, now = map(int, cluster.login(
        f"scontrol show job {job} | grep -o 'EligibleTime=[^ ]*' | cut -d= -f2 | "
        "{ read t; date -d $t +%s; date +%s; }"
    ).split())  # fmt: skip
    asked = int((cluster.folder / "asked").read_text())
    assert again - asked >= 115 and again - now <= 125  # two minutes, out of caution
    cluster.login(f"scancel {job}")


def test_slurm_and_torchrun_count_nodes_in_another_order(cluster):
    slurm = cluster.login("scontrol show hostnames n[1-12]").split()
    torch = sorted(rendezvous._NodeDesc(host, 1, 1) for host in slurm)
    assert slurm == [f"n{i}" for i in range(1, 13)]
    assert [each.addr for each in torch][:3] == ["n1", "n10", "n11"]


def test_the_defaults_of_the_table_of_waits():
    waits = rendezvous.RendezvousTimeout()
    assert (waits.join, waits.last_call) == (timedelta(seconds=600), timedelta(seconds=30))
    assert constants.default_pg_timeout == timedelta(minutes=30)  # gloo's
    # None in a torch without NCCL
    assert constants.default_pg_nccl_timeout in (None, timedelta(minutes=10))
    assert 'get_as_int("read_timeout", 60)' in inspect.getsource(backend._create_tcp_store)
