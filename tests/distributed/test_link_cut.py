"""The link between two hosts is cut while they train: one goes on alone, the other ends.

Plain torchrun on two network namespaces, with the elastic program and a folder that both see.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankbook.elastic.events import audit, losses, read_events
from rankbook.testbed.hosts import Host, two_hosts, why_not

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")},
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}
# read_timeout: what an agent waits for the store; the one that is cut off ends by it.
CONF = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5,join_timeout=60"
CONF += ",read_timeout=5"
SILENT = 4  # seconds after which a rank that says nothing is taken for lost
SAMPLES, STEPS, PACE = 64, 60, 0.1

REASON = why_not()
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(REASON), reason=REASON)]


def test_the_cable_of_a_host_is_pulled_and_put_back():
    with two_hosts() as (one, other):
        reach = [sys.executable, "-c", "import socket, sys; s = socket.socket(); s.settimeout(1); "
                 f"sys.exit(s.connect_ex(('{other.address}', 9)))"]  # fmt: skip
        refused = 111  # the other host answers that nobody listens there

        def answers() -> bool:
            return subprocess.run(one.command(*reach), check=False).returncode == refused

        assert until(answers)
        other.cut()
        assert not answers()
        other.mend()
        assert until(answers)


def test_the_survivor_goes_on_alone_and_the_cut_side_ends(tmp_path):
    with two_hosts() as hosts:
        hosts[1].give_up_after(3)  # or its agent asks the store until the system says it is gone
        agents = [agent(host, hosts[0], tmp_path) for host in hosts]
        try:
            assert until(lambda: steps(tmp_path, world_size=2) > 10, agents)
            hosts[1].cut()
            began = time.monotonic()
            alone = 5  # steps after which the survivor has surely gone on
            assert until(lambda: steps(tmp_path, world_size=1) > alone, agents[:1])
            print(f"on again {time.monotonic() - began:.1f} s after the cut")
            codes = [process.wait(timeout=900) for process in agents]
            print(f"both ended {time.monotonic() - began:.1f} s after the cut")
        finally:
            for process in agents:
                process.kill()
                process.wait()
        assert not hosts[1].processes(), "a rank stays on the host that is cut off"
    survivor, cut = [(tmp_path / host.name).read_text() for host in hosts]
    assert codes == [0, 1], (survivor, cut)
    assert "RendezvousConnectionError" in cut or "RendezvousTimeoutError" in cut, cut
    events = read_events(tmp_path / "events")
    assert sorted(losses(events)) == list(range(1, STEPS + 1))
    assert all(seen.exactly_once for seen in audit(events, SAMPLES).values())
    last = [event for event in events if event["event"] == "end"]
    assert [(event["step"], event["world_size"]) for event in last] == [(STEPS, 1)]


def agent(host: Host, first: Host, folder: Path) -> subprocess.Popen:
    """torchrun on `host`, with one rank; all meet at `first`, and write to `folder`."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2",
                "--nproc-per-node", "1", "--max-restarts", "20", "--monitor-interval", "0.1",
                "--rdzv-backend", "c10d", "--rdzv-id", "cut",
                "--rdzv-endpoint", f"{first.address}:29400", "--local-addr", host.address,
                "--rdzv-conf", f"{CONF},is_host={int(host == first)}",
                "-m", "rankbook.programs.elastic", "--checkpoint", str(folder / "kept"),
                "--save-every", "2", "--events", str(folder / "events"), "--steps", str(STEPS),
                "--samples", str(SAMPLES), "--pace", str(PACE),
                "--timeout", str(SILENT)]  # fmt: skip
    with (folder / host.name).open("wb") as log:
        return subprocess.Popen(
            host.command(*torchrun),
            env={
                **ENVIRONMENT,
                "GLOO_SOCKET_IFNAME": host.interface,
                "TMPDIR": str(folder),  # an agent that is killed leaves its logs
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def steps(folder: Path, world_size: int) -> int:
    """How many steps rank 0 has made in a world of that size."""
    path = folder / "events"
    events = read_events(path) if path.exists() else []
    return sum(
        event["event"] == "step" and (event["rank"], event["world_size"]) == (0, world_size)
        for event in events
    )


def until(happened, agents: list[subprocess.Popen] = (), seconds: float = 120) -> bool:
    """Whether it happens before the deadline, while all agents run."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happened():
            return True
        if any(process.poll() is not None for process in agents):
            return happened()
        time.sleep(0.1)
    return False
