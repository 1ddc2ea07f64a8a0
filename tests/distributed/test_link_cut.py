"""The link between two hosts is cut while they train: one goes on alone, the other ends.

Plain torchrun on two network namespaces, with the elastic program and a folder that both see.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.testbed.hosts import Host, two_hosts, why_not
from rankbook.training.elastic.events import audit, losses, read_events
from tests.waiting import SOON, until

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")},
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}
# What ends the waiting after the cut, and is too long to end any before. An agent beats every
# second or two; read_timeout: what it waits for the store, at its start too.
CONF = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=15"
CONF += f",join_timeout={SOON:.0f},read_timeout=60"
SILENT = 30  # seconds after which a rank that says nothing is taken for lost
SAMPLES, STEPS, PACE = 64, 1000, 0.1  # with the pace, none of it is over before the cut

REASON = why_not()
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(REASON), reason=REASON)]


def test_the_cable_of_a_host_is_pulled_and_put_back():
    with two_hosts() as (one, other):
        reach = [sys.executable, "-c", "import socket, sys; s = socket.socket(); "
                 f"sys.exit(s.connect_ex(('{other.address}', 9)))"]  # fmt: skip

        def said() -> int:
            """By the other host, that nobody listens there; or by the kernel, which gives up."""
            return subprocess.run(one.command(*reach), check=False).returncode

        until(lambda: said() == errno.ECONNREFUSED)
        other.cut()
        assert said() in (errno.EHOSTUNREACH, errno.ETIMEDOUT)
        other.mend()
        until(lambda: said() == errno.ECONNREFUSED)


def test_the_survivor_goes_on_alone_and_the_cut_side_ends(tmp_path):
    def said() -> list[str]:
        return [path.read_text() for path in tmp_path.glob("rb*")]

    with two_hosts() as hosts:
        hosts[1].give_up_after(3)  # or its agent asks the store until the system says it is gone
        agents = [agent(host, hosts[0], tmp_path) for host in hosts]
        try:
            until(lambda: steps(tmp_path, world_size=2) > 10, said, lambda: running(*agents))
            hosts[1].cut()
            until(lambda: steps(tmp_path, world_size=1) > 5, said, lambda: running(agents[0]))
            (tmp_path / "go").touch()
            codes = [process.wait(timeout=SOON) for process in agents]
        finally:
            for process in agents:
                process.kill()
                process.wait()
        until(lambda: not hosts[1].processes(), lambda: "a rank stays on the host that is cut off")
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
                "--pace-until", str(folder / "go"), "--timeout", str(SILENT)]  # fmt: skip
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
    """How many steps rank 0 has made since the world has that size; 0 if it has another one."""
    path = folder / "events"
    events = read_events(path) if path.exists() else []
    sizes = [e["world_size"] for e in events if (e["event"], e["rank"]) == ("step", 0)]
    return next((i for i, size in enumerate(reversed(sizes)) if size != world_size), len(sizes))


def running(*agents: subprocess.Popen) -> bool:
    return all(agent.poll() is None for agent in agents)
