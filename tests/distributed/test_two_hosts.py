"""The Trainer's program on two hosts with addresses of their own, under torchrun's two agents."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankbook.data.embedded import prose
from rankbook.testbed.hosts import Host, two_hosts, why_not

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ["-m", "rankbook.programs.train_lm_trainer"]
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")},
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = ["--train-file", "text.txt", "--read", "first", "--steps", "4", "--log-every", "1"]
DEADLINE = 180

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def folder(tmp_path):
    lines = [line for line in prose()["valid"].split("\n") if line.strip()][:40]
    (tmp_path / "text.txt").write_text("\n".join(lines), "utf-8")
    return tmp_path


@pytest.fixture
def hosts():
    with two_hosts() as pair:
        yield pair
        busy = [pid for host in pair for pid in host.processes()]
    assert not busy, "the hosts still have processes"
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
    end = time.monotonic() + DEADLINE
    try:
        return [a.communicate(timeout=max(1, end - time.monotonic()))[0] for a in agents]
    finally:
        for process in agents:
            process.kill()
            process.wait()


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def losses(path: Path) -> list[float]:
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
    subprocess.run(alone, env=ENVIRONMENT, cwd=folder, check=True, timeout=DEADLINE)
    assert len(losses(folder / "one.jsonl")) == 4
    assert losses(folder / "two.jsonl") == pytest.approx(losses(folder / "one.jsonl"), abs=1e-4)


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
