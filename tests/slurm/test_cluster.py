"""The cluster is a real one: hosts with networks of their own, and a Slurm that runs their jobs."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rankbook.testbed.slurm import Cluster, ScriptFailed, script
from tests.waiting import SOON

ROOT = Path(__file__).resolve().parents[2]
LISTENS = "0A"  # the state in /proc/net/tcp


def listening(table: str) -> set[str]:
    """Addresses (in hexadecimal digits) at which something listens, of lines of /proc/net/tcp."""
    rows = [line.split() for line in table.splitlines()]
    return {row[1] for row in rows if len(row) > 3 and row[3] == LISTENS}


def ports_on_this_machine(cluster: Cluster) -> list:
    """What processes of the cluster listen at in this machine's own network."""
    ours = {process.pid for process in psutil.Process(cluster._rack.pid).children(recursive=True)}
    assert len(ours) > len(cluster.nodes), "slurmctld and the hosts' slurmd"
    found = [each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    return [each for each in found if each.pid in ours]


@pytest.fixture
def job(cluster):
    """Submits a script, of two nodes unless `words` say else."""

    def submit(script: str, *words: str) -> int:
        path = cluster.folder / "job.sbatch"
        path.write_text(f"#!/bin/bash\n{script}\n")
        return cluster.submit("--nodes=2", "--ntasks-per-node=1", *words, path)

    return submit


def test_it_opens_no_port_and_two_at_once_do_not_meet(cluster):
    with Cluster() as other:
        assert ports_on_this_machine(cluster) == ports_on_this_machine(other) == []
        assert listening(cluster.on("n1", "cat /proc/net/tcp"))  # slurmd, on a network of its own
        assert other.login("sinfo -hN -p main -o %T").split() == ["idle", "idle"]
        assert other.folder != cluster.folder
        other.login("scontrol update NodeName=n1 State=DRAIN Reason=test")
    assert cluster.login("sinfo -hN -p main -o %T").split() == ["idle", "idle"]


def test_nodes_reach_each_other_and_nothing_else(cluster):
    routes = cluster.on("n1", "ip -4 route").split("\n")
    assert [route.split()[0] for route in routes if route] == ["10.77.0.0/24"]
    assert cluster.on("n2", "hostname; hostname -I").split() == ["n2", "10.77.0.2"]
    knock = "timeout 50 bash -c '</dev/tcp/{}/6818' && echo open"
    assert "open" in cluster.on("n1", knock.format("n2"))  # its slurmd
    with pytest.raises(ScriptFailed, match="Connection refused"):
        cluster.on("n1", knock.format("127.0.0.1").replace("6818", "6817"))  # the login node's
    with pytest.raises(ValueError, match="no host 'n3' in this cluster; there are n1, n2"):
        cluster.on("n3", "hostname")


def test_the_cable_of_a_node_is_pulled_and_put_back(cluster):
    host = cluster.host("n2")
    assert "slurmd" in {psutil.Process(pid).name() for pid in host.processes()}
    knock = "timeout {} bash -c '</dev/tcp/n2/6818'"
    host.cut()
    try:
        with pytest.raises(ScriptFailed):
            cluster.on("n1", knock.format(1))
    finally:
        host.mend()
    cluster.on("n1", f"until {knock.format(20)}; do sleep 0.1; done", SOON)


def test_a_job_runs_on_both_nodes_with_the_callers_environment(cluster, job):
    asked = "os.uname().nodename, os.getcwd(), sys.prefix, os.environ['SHARED']"
    number = job(f"""srun python -c "import json, os, sys; print(json.dumps([{asked}]))" """)
    assert cluster.wait(number) == "COMPLETED"
    said = sorted(json.loads(line) for line in cluster.log(number).splitlines())
    own = json.loads(cluster.login("python -c 'import json, sys; print(json.dumps(sys.prefix))'"))
    assert said == [[node, str(ROOT), own, str(cluster.folder)] for node in ("n1", "n2")]
    assert (cluster.folder / f"slurm-{number}.out").exists()


def test_what_the_caller_set_travels_and_another_slurms_words_do_not(possible, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SBATCH_PARTITION", "theirs")
    with Cluster(nodes=1) as cluster:
        said = cluster.login("srun bash -c 'echo $OMP_NUM_THREADS $SLURM_JOB_ID'")
    assert said.split() == ["7", "1"]


def test_an_array_is_one_job_with_a_log_of_all_tasks(cluster, job):
    number = job("echo task $SLURM_ARRAY_TASK_ID", "--array=0-2")
    cluster.wait(number, seconds=SOON)
    assert sorted(cluster.log(number).splitlines()) == ["task 0", "task 1", "task 2"]


def test_a_job_that_ends_otherwise_is_told_at_once_with_its_log(cluster, job):
    number = job("echo something broke; exit 3")
    with pytest.raises(TimeoutError, match=f"job {number} is FAILED, not COMPLETED") as error:
        cluster.wait(number, seconds=SOON)
    assert "something broke" in str(error.value) and "after" not in str(error.value)


def test_waiting_has_a_deadline(cluster, job):
    number = job("echo begun; sleep 600")
    cluster.wait(number, "RUNNING", seconds=SOON)
    with pytest.raises(TimeoutError, match=r"is RUNNING, not COMPLETED, after 0\.5 s"):
        cluster.wait(number, seconds=0.5)
    cluster.login(f"scancel {number}")
    assert cluster.wait(number, "CANCELLED", seconds=SOON) == "CANCELLED"


def late_when(monkeypatch, said) -> None:
    """The clock of scripts stands until `said` is true; then all their time is over."""
    monkeypatch.setattr(script, "time", SimpleNamespace(monotonic=lambda: SOON if said() else 0.0))


def test_a_script_that_takes_too_long_is_ended_with_its_step(cluster, monkeypatch):
    shown = []
    late_when(monkeypatch, lambda: {"n1", "n2"} <= set("".join(shown).split()))
    with pytest.raises(ScriptFailed, match="had not ended after 2 s; it said:") as error:
        cluster.login("srun --nodes=2 bash -c 'hostname; sleep 600'", 2, shown.append)
    assert sorted(error.value.output.split()[:2]) == ["n1", "n2"]
    assert "n1" in "".join(shown)
    [number] = re.findall(r"JobId=(\d+)", cluster.login("scontrol show job | tail -40"))[-1:]
    cluster.wait(int(number), ("FAILED", "CANCELLED", "COMPLETED"), seconds=SOON)
    assert "sleep 600" not in cluster.login("ps ax")


def test_a_script_that_does_not_want_to_end_is_ended_for_good(possible, monkeypatch):
    shown = []
    monkeypatch.setattr(script, "POLITE_SECONDS", 0.5)
    with Cluster(nodes=1) as cluster:
        late_when(monkeypatch, lambda: shown)
        with pytest.raises(ScriptFailed, match=r"had not ended after 0\.5 s"):
            stays = "sleep 600 & trap '' TERM; echo deaf; while true; do sleep 0.1; done"
            cluster.login(stays, 0.5, shown.append)
        rows = [row.split() for row in cluster.login("ps -e -o stat=,comm=").splitlines()]
        left = [name for stat, name, *_ in rows if not stat.startswith("Z")]
        assert "bash" in left and "sleep" not in left and "nsenter" not in left
        killed, kill = [], cluster._rack.kill
        monkeypatch.setattr(cluster._rack, "kill", lambda: [killed.append(True), kill()])
    assert not killed, "the namespaces stayed for a process, maybe a dead one"


def test_stopping_twice_is_harmless_and_afterwards_it_says_so(possible):
    with Cluster(nodes=1) as cluster:
        folder = cluster.folder
        cluster.login("sleep 600 & echo in the background")  # nobody waits for it
    cluster.stop()
    assert not folder.exists() and not folder.parent.exists()
    with pytest.raises(RuntimeError, match="this cluster has ended; start another"):
        cluster.login("hostname")


def test_a_slurm_that_does_not_start_gives_its_last_words(possible, monkeypatch):
    monkeypatch.setattr(Cluster, "_conf", lambda self, cpus: "ClusterName=\nNonsense=1\n")
    before = set(Path("/tmp").glob("rankbook-cluster-*"))
    with pytest.raises(RuntimeError, match="Slurm did not start") as error:
        Cluster()
    assert "Nonsense" in str(error.value)
    assert set(Path("/tmp").glob("rankbook-cluster-*")) <= before


def test_switched_off(monkeypatch):
    monkeypatch.setenv("RANKBOOK_NO_CLUSTER", "1")
    with pytest.raises(RuntimeError, match="switched off by RANKBOOK_NO_CLUSTER"):
        Cluster()


def test_nothing_was_written_into_the_checkout(cluster, job):
    before = set(ROOT.iterdir())
    cluster.wait(job("echo x"))
    assert set(ROOT.iterdir()) == before
