"""The failures that people meet on a cluster, each provoked, read, and cured.

All jobs are submitted first, by the fixture `submitted`: most of their time is spent waiting.
"""

import json
import re

import pytest

from rankbook.testbed.slurm import ScriptFailed
from tests.waiting import SOON, until

pytestmark = pytest.mark.long

FIXED = "--oversubscribe launch/slurm/fixed.sbatch"
STORE_GONE = "The connection to the C10d store has failed"

# An agent on each node, by hand within a job: NNODES of n1 and of n2, and n1 meets first.
MIXED = """
nnodes=($1 $2)
port=$((LAUNCH_PORT + SLURM_JOB_ID % 1000))
first=$SHARED/first-$SLURM_JOB_ID
export LAUNCH_RANKS=$((1 + SLURM_NODEID))
if [ $SLURM_NODEID = 0 ]; then
  (until ss -Htn "sport = :$port" | grep -q ESTAB; do sleep 0.1; done; touch $first) &
else
  until [ -e $first ]; do sleep 0.1; done
fi
exec launch/torchrun.sh n1 ${nnodes[SLURM_NODEID]} world
"""
# What a node does before its agent starts: a module to load, a cold cache.
SLOW = '[ -z "$SLURM_STEP_ID" ] || [ $(hostname) != $LATE ] || sleep ${SECONDS_LATE:-600}'
SUBMITTED = {
    "stuck": f"{FIXED} stuck",
    "asked": f"{FIXED} stuck",
    "slow": f"{FIXED} world",
    "slow-head": f"{FIXED} world",
    "2-3": "--nodes=2 --wrap 'srun --label bash $SHARED/mixed.sh 2 3'",
    "3-2": "--nodes=2 --wrap 'srun --label bash $SHARED/mixed.sh 3 2'",
    "late": f"{FIXED} world",
    "told": f"--nodes=1 {FIXED} world $SHARED/never",
    "too-many": f"--nodes=3 {FIXED} world",
}
SETTINGS = {
    "stuck": "WAIT_FOR=$SHARED/looked",
    "asked": "TORCH_DISTRIBUTED_DEBUG=DETAIL",
    "slow": "LATE=n2 LAUNCH_VENV=$SHARED/slow LAUNCH_RDZV=join_timeout=2",
    "slow-head": "LATE=n1 LAUNCH_VENV=$SHARED/slow LAUNCH_RDZV=join_timeout=600,read_timeout=2",
    "late": "LATE=n2 SECONDS_LATE=5 LAUNCH_VENV=$SHARED/slow LAUNCH_INTERFACE=eth0",
    "2-3": "LAUNCH_PORT=29400 LAUNCH_RDZV=join_timeout=6",
    "3-2": "LAUNCH_PORT=29400",
}


@pytest.fixture(scope="module")
def submitted(cluster):
    """The jobs' ids, by name."""
    folder = cluster.folder
    (folder / "mixed.sh").write_text(MIXED)
    (folder / "slow" / "bin").mkdir(parents=True)
    (folder / "slow" / "bin" / "activate").write_text(SLOW)
    (folder / "part-0").write_text("1")
    cluster.login("mkfifo $SHARED/part-1")  # its reader waits until somebody writes
    where = "export PYTHONPATH=$PWD/tests/slurm/jobs/troubles:$PYTHONPATH"
    lines = [
        f"{SETTINGS.get(name, '')} sbatch --parsable --job-name={name} {words}"
        for name, words in SUBMITTED.items()
    ]
    ids = cluster.login("\n".join([where, *lines])).split()
    return dict(zip(SUBMITTED, map(int, ids), strict=True))


@pytest.fixture
def log(cluster, submitted):
    """Waits for the job of that name; its log, without the C++."""

    def log(name: str, state: str = "FAILED") -> str:
        cluster.wait(submitted[name], state, SOON)
        lines = cluster.log(submitted[name]).splitlines()
        return "\n".join(line for line in lines if not re.match(r"\d: frame #", line))

    return log


def of_node(node: int, log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(f"{node}: ")]


def test_a_hang_is_blamed_on_the_node_that_waited(cluster, submitted, log):
    # the first test: it looks at the job while it hangs
    job, line = submitted["stuck"], "ps -eo wchan:20,args"
    said_so_far = lambda: cluster.log(job)  # noqa: E731
    until(lambda: "in load" in said_so_far(), said_so_far)
    seen = cluster.login(f"srun --overlap --jobid={job} {line}")
    assert re.search(r"^wait_for_partner +.*stuck", seen, re.MULTILINE)  # a pipe nobody writes to
    (cluster.folder / "looked").touch()  # from now on, n1 waits for 12 seconds

    said = log("stuck")
    blamed = re.search(r"Root Cause.*?host +: (\w+)", said, re.DOTALL)
    assert blamed[1] == "n1" and "Timed out waiting 12000ms for recv operation" in said
    stacks = [[x for x in of_node(node, said) if "stuck.py" in x] for node in (0, 1)]
    assert not any("in load" in line for line in stacks[0])
    assert any("in load" in line for line in stacks[1])


def test_an_interface_that_reaches_nobody_is_refused_on_one_node_and_silent_on_the_other(cluster):
    for node in cluster.nodes:  # as Docker makes it: the same address on every host
        cluster.on(node, "ip link add docker0 type veth peer name cable; ip link set cable up")
        cluster.on(node, "ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up")
    meet = "HEAD=n1 srun --oversubscribe --nodes=2 python tests/slurm/jobs/troubles/meet.py"
    said = cluster.login(f"{meet} eth9 lo docker0 eth0={SOON} 2> /dev/null", SOON)
    both = {name: [] for name in ("eth9", "lo", "docker0", "eth0")}
    for result in map(json.loads, said.splitlines()):
        both[result["interface"]].append((result["seconds"], result["error"]))

    assert all("Unable to find address for: eth9" in error for _, error in both["eth9"])
    for name, address in (("lo", "127.0.0.1"), ("docker0", "172.17.0.1")):
        refused, silent = sorted(both[name], key=lambda one: "Connection refused" not in one[1])
        assert "Connection refused" in refused[1] and f"remote=[{address}]" in refused[1]
        assert "Connect timeout" in silent[1] and silent[0] > 2.9  # five times 0.6 s
    assert [error for _, error in both["eth0"]] == ["", ""]  # the cure


def test_a_port_that_another_program_has_is_waited_for_in_silence(cluster):
    agent = "torchrun --nnodes 1 --rdzv-backend c10d --rdzv-endpoint n1:29300 --no-python"
    short, busy = "join_timeout=1,read_timeout=1", "ss -Htn state established 'dport = :29300'"
    # the cure: the agent on the first node is told that it is the first
    said = cluster.on(
        "n1",
        f"""
        # a web server answers now and then: to an agent in whose process id is the end of a line
        python -c 'import socket, time; s = socket.create_server(("", 29300)); time.sleep(600)' &
        until ss -Hltn 'sport = :29300' | grep -q .; do sleep 0.1; done
        {agent} --rdzv-conf {short} true &> $SHARED/port & agent=$!
        until {busy} | grep -q .; do sleep 0.1; done
        {agent} --rdzv-conf {short},is_host=1 true || echo "told: $?"
        kill -0 $agent
        echo "the first said $(wc -c < $SHARED/port) bytes and waits"
        kill -KILL $agent %1
        """,
        SOON,
    )
    assert "EADDRINUSE" in said and "told: 1" in said
    assert "the first said 0 bytes and waits" in said


def test_of_two_jobs_in_one_store_one_ends_with_the_other(cluster):
    agent = "torchrun --nnodes 1 --rdzv-backend c10d --rdzv-endpoint n1:29301 --no-python"
    with pytest.raises(ScriptFailed) as failed:
        cluster.on(
            "n1",
            f"""
            {agent} --rdzv-id host bash -c 'until [ -e $SHARED/go ]; do sleep 0.1; done' &
            until ss -Hltn 'sport = :29301' | grep -q .; do sleep 0.1; done
            {agent} --rdzv-id guest bash -c 'touch $SHARED/go; exec sleep 600'
            """,
            SOON,
        )
    assert STORE_GONE in failed.value.output


def test_a_slow_node_is_waited_for_as_long_as_join_timeout_says(log):
    said = log("slow")
    assert "RendezvousTimeoutError" in said
    assert not [line for line in of_node(1, said) if "Error" in line]  # who is missing is silent
    assert log("late", "COMPLETED").count("world of 2") == 2  # 5 s, with the default of 600


def test_a_slow_first_node_is_waited_for_as_long_as_read_timeout_says(log):
    said = log("slow-head")  # join_timeout is 600 s
    assert "The client socket has timed out after 2000ms while trying to connect to (n1," in said
    assert STORE_GONE in said and "RendezvousTimeoutError" not in said


def test_agents_with_different_nnodes_time_out_or_meet_by_their_order(log):
    last_wants_more, last_wants_fewer = log("2-3"), log("3-2", "COMPLETED")
    assert "RendezvousTimeoutError" in last_wants_more and "world of" not in last_wants_more
    # and nobody minds that n2 has two ranks, either
    # (if the node whose agent holds the store is gone first, the other one complains, rightly)
    worlds = sorted(re.findall(r"^\d: world of \d+$", last_wants_fewer, re.MULTILINE))
    assert worlds == ["0: world of 3", *["1: world of 3"] * 2]


def test_a_job_for_more_nodes_than_there_are_waits_and_squeue_says_why(cluster, submitted):
    job = submitted["too-many"]
    until(lambda: "Limit" in cluster.login(f"squeue -ho %r -j {job}"))
    assert cluster.states(job) == ["PENDING"]


def test_torch_names_the_rank_that_does_not_come_if_it_is_asked_to(log):
    assert "Ranks 1 failed to pass monitoredBarrier in 12000 ms" in log("asked")


def test_usr1_to_the_step_kills_the_agents_and_leaves_their_workers(cluster, submitted):
    def running(what: str) -> str:
        return cluster.login(f"pgrep -f -- '{what}' || true").strip()

    job = submitted["told"]
    until(lambda: "world of 1" in cluster.log(job), lambda: cluster.log(job))
    cluster.login(
        f"scancel --signal=USR1 {job}.0 || true"
    )  # it complains where it has sent it, too
    until(lambda: not running("distributed[.]run .*never"))
    assert running("-m [w]orld .*never")
    (cluster.folder / "never").touch()
    until(lambda: not running("-m [w]orld .*never"))
