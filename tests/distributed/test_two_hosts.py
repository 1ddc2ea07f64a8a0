"""Hosts with addresses of their own, under torchrun's agents: the Trainer's program on two of them,
and the elastic program, whose store stands on a third one, so that any agent may die.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.data.embedded import prose
from rankbook.testbed.hosts import Host, three_hosts, two_hosts, why_not
from rankbook.training.elastic import audit, losses, read_events
from tests.waiting import SOON, until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ["-m", "rankbook.programs.train_lm_trainer"]
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")},
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = ["--train-file", "text.txt", "--read", "first", "--steps", "4", "--log-every", "1"]

REASON = why_not()
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(REASON), reason=REASON)]


@pytest.fixture
def folder(tmp_path):
    lines = [line for line in prose()["valid"].split("\n") if line.strip()][:40]
    (tmp_path / "text.txt").write_text("\n".join(lines), "utf-8")
    return tmp_path


@pytest.fixture
def hosts():
    with two_hosts() as pair:
        yield pair
        until(lambda: not any(host.processes() for host in pair), lambda: "processes stay")
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert not [host.name for host in pair if host.name in left.stdout]


def agent(host: Host, first: Host, folder: Path, *options: str) -> subprocess.Popen:
    """torchrun on `host`, with one rank; all meet at `first`."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2",
                "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "hosts",
                "--rdzv-endpoint", f"{first.address}:29400", "--local-addr", host.address,
                # said, not guessed: names are the same in both namespaces
                "--rdzv-conf", f"is_host={int(host == first)}"]  # fmt: skip
    return subprocess.Popen(
        host.command(*torchrun, *PROGRAM, *OPTIONS, "--timeout", "600", *options),
        env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": host.interface},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(agents: list[subprocess.Popen]) -> list[str]:
    """What each has said, once all have ended; none is left running."""
    try:
        return [a.communicate(timeout=SOON)[0] for a in agents]
    finally:
        for process in agents:
            process.kill()
            process.wait()


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def logged(path: Path) -> list[float]:
    return [record["loss"] for record in records(path) if "loss" in record]


def test_two_hosts_train_as_one_process(hosts, folder):
    """Whichever host gets rank 0: both log to the same folder, and rank 0 does."""
    logs = ("--log-file", str(folder / "two.jsonl"))
    agents = [agent(host, hosts[0], folder, *logs) for host in hosts]
    said = finish(agents)
    assert [a.returncode for a in agents] == [0, 0], said
    assert records(folder / "two.jsonl")[0]["start"]["world size"] == 2
    assert records(folder / "two.jsonl")[0]["start"]["nodes"] == 2
    alone = [sys.executable, *PROGRAM, *OPTIONS, "--log-file", str(folder / "one.jsonl")]
    subprocess.run(alone, env=ENVIRONMENT, cwd=folder, check=True, timeout=SOON)
    assert len(logged(folder / "one.jsonl")) == 4
    assert logged(folder / "two.jsonl") == pytest.approx(logged(folder / "one.jsonl"), abs=1e-4)


def test_a_file_that_one_host_lacks_ends_both(hosts, folder):
    empty = folder / "empty"
    empty.mkdir()
    agents = [agent(host, hosts[0], at) for host, at in zip(hosts, (folder, empty), strict=True)]
    said = finish(agents)  # long before the time-out of a collective
    assert all(a.returncode != 0 for a in agents)
    sentences = [
        line for text in said for line in text.splitlines() if line.startswith("train_lm_trainer")
    ]
    assert sentences and all("there is no file text.txt" in line for line in sentences), said
    assert all(line.endswith(("(rank 0)", "(rank 1)")) for line in sentences)


# An agent beats every second or two: only one that is gone, not one on a busy machine, is so late
# that it is struck off.
CONF = "is_host=0,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=15"
SAMPLES = 32  # two steps an epoch
STORE = [sys.executable, "-m", "rankbook.programs.rendezvous_store"]


def test_with_a_store_on_a_host_that_stays_any_agent_may_die(tmp_path):
    """First the one that began, whose host has the store by default; then the other one."""
    with three_hosts() as (stays, *nodes):
        store = subprocess.Popen(stays.command(*STORE, "--host", stays.address),
                                 env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)  # fmt: skip
        assert store.stdout.readline().split()[-1] == f"{stays.address}:29400"
        first, second = (elastic(node, stays, tmp_path) for node in nodes)
        until_steps(tmp_path, 2, first, second)
        nodes[0].kill_processes()
        until_steps(tmp_path, 1, second)
        back = elastic(nodes[0], stays, tmp_path)
        until_steps(tmp_path, 2, second, back)
        nodes[1].kill_processes()
        until_steps(tmp_path, 1, back)
        assert store.poll() is None
    done = losses(read(tmp_path))
    assert sorted(done) == list(range(1, len(done) + 1))
    *epochs, _ = audit(read(tmp_path), SAMPLES).values()
    assert epochs and all(epoch.exactly_once for epoch in epochs)


def elastic(host: Host, stays: Host, folder: Path) -> subprocess.Popen:
    """An agent on `host` with one rank; all write to `folder`, and meet on the host that stays."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2",
               "--nproc-per-node", "1", "--max-restarts", "9", "--monitor-interval", "0.1",
               "--rdzv-backend", "c10d", "--rdzv-id", "any", "--rdzv-conf", CONF,
               "--rdzv-endpoint", f"{stays.address}:29400", "--local-addr", host.address,
               "-m", "rankbook.programs.elastic", "--checkpoint", str(folder / "kept"),
               "--save-every", "2", "--events", str(folder / "events"), "--steps", "9999",
               "--samples", str(SAMPLES), "--pace", "0.1", "--timeout", "600"]  # fmt: skip
    with (folder / host.name).open("ab") as log:
        return subprocess.Popen(
            host.command(*command),
            env={
                **ENVIRONMENT,
                "GLOO_SOCKET_IFNAME": host.interface,
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                "TMPDIR": str(folder),  # an agent that is killed leaves its logs
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def read(folder: Path) -> list[dict]:
    return read_events(folder / "events") if (folder / "events").exists() else []


def last_steps(folder: Path, world_size: int) -> int:
    """How many steps rank 0 has done since the world has that size; 0 if it has another one."""
    sizes = [e["world_size"] for e in read(folder) if (e["event"], e["rank"]) == ("step", 0)]
    return next((i for i, size in enumerate(reversed(sizes)) if size != world_size), len(sizes))


def until_steps(folder: Path, world_size: int, *agents: subprocess.Popen) -> None:
    """Until a world of that size has made some steps; fails when one of `agents` ends before."""
    until(
        lambda: last_steps(folder, world_size) > 3,
        lambda: [log.read_text() for log in folder.glob("rb*")],
        lambda: all(agent.poll() is None for agent in agents),
    )
