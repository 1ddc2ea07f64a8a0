"""A job of plain torchrun agents on this machine, which train while things go wrong.

Each agent stands for a node, with some workers. Its processes start cold, as on a cluster: a forked
process that has torch loaded would not show what a restart costs. The rendezvous is at 127.0.0.1;
the stores of plain torchrun listen on every interface all the same, without a password.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from rankbook.core.ports import ReservedPort
from rankbook.training.elastic.events import read_events

SOURCE = Path(__file__).resolve().parent.parent / "src"
PACE = 0.2  # seconds of a step
SILENT = 5  # seconds after which a rank that says nothing is taken for lost
PATIENCE = 180.0  # seconds for anything to happen
NODES = ("a", "b")
FAULTS = {
    "worker, SIGKILL": "a worker of node b is killed",
    "worker, SIGSTOP": f"it stands still; after {SILENT} s of silence it is taken for lost",
    "agent, SIGTERM": "node b is told to leave",
    "agent, SIGTERM, hung worker": "node b is told to leave, and a worker of it does not",
    "node, SIGKILL": "node b's agent and workers are killed",
    "join": "node b is started while a trains, its torchrun included",
}


@dataclass(frozen=True)
class Recovery:
    """Seconds from a fault to the next step, between the steps before and after, and from the
    birth of the workers to their first step (the slowest of them)."""

    fault: str
    seconds: float
    pause: float
    cold_start: float


class TorchrunJob:
    """Agents that train until the ``with`` block ends. conf: of the rendezvous (torchrun's
    ``--rdzv-conf``); options: others of torchrun; folder: for all that it writes; workers: of each
    node."""

    def __init__(self, folder: Path, conf: dict, options: dict, workers: int = 1):
        self.folder, self.agents, self.workers = Path(folder), {}, workers
        self.port = ReservedPort()
        self.endpoint = f"127.0.0.1:{self.port.number}"
        self.conf, self.options = conf, options

    def __enter__(self):
        self.folder.mkdir(parents=True)
        return self

    def __exit__(self, *_):
        for name in NODES:
            self.kill(name)
        self.port.close()

    def start(self, name: str) -> None:
        """Start torchrun as node `name`; a hosts the store."""
        conf = self.conf | {"is_host": int(name == "a")}
        options = {
            "nnodes": "1:3", "nproc-per-node": self.workers, "max-restarts": 99,
            "rdzv-backend": "c10d", "rdzv-endpoint": self.endpoint, "rdzv-id": "job",
            "local-addr": "127.0.0.1",
            "rdzv-conf": ",".join(f"{k}={v}" for k, v in conf.items()),
        } | self.options  # fmt: skip
        program = ["-m", "rankbook.programs.elastic", "--checkpoint", self.folder / "kept",
                   "--events", self.folder / "events", "--steps", 1_000_000, "--save-every", 10,
                   "--pace", PACE, "--timeout", SILENT]  # fmt: skip
        command = [sys.executable, "-m", "torch.distributed.run",
                   *[f"--{name}={value}" for name, value in options.items()], *program]  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as log:
            self.agents[name] = subprocess.Popen(
                [str(word) for word in command],
                env=environment(name) | {"TMPDIR": str(self.folder)},  # agents leave logs
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )

    def start_together(self) -> None:
        """Start both nodes at once, and wait until they train."""
        for name in NODES:
            self.start(name)
        self.wait("the first steps", lambda: self.trains(len(NODES) * self.workers))

    def steps(self) -> list[dict]:
        """The events of all steps so far, by time."""
        path = self.folder / "events"
        return [e for e in read_events(path) if e["event"] == "step"] if path.exists() else []

    def trains(self, world_size: int, since: float = 0.0) -> bool:
        """Whether each rank of a world of that size has made some steps after `since`."""
        made = [s["rank"] for s in self.steps()
                if s["time"] > since and s["world_size"] == world_size]  # fmt: skip
        return all(made.count(rank) > 5 for rank in range(world_size))

    def strike(self, fault: str) -> Recovery:
        """Let `fault` (of FAULTS) happen while the job trains; wait until it trains again."""
        before = self.steps()[-1]["attempt"]
        at = time.time()
        if fault == "join":
            self.start("b")
        elif fault == "node, SIGKILL":
            self.kill("b")
        elif fault == "worker, SIGKILL":
            os.kill(self.worker("b"), signal.SIGKILL)
        else:
            if fault != "agent, SIGTERM":
                os.kill(self.worker("b"), signal.SIGSTOP)
            if fault != "worker, SIGSTOP":
                self.agents["b"].terminate()

        def next_steps() -> list[dict]:
            return [s for s in self.steps() if s["time"] > at and s["attempt"] != before]

        self.wait(f"a step after {fault}", next_steps)
        after = next_steps()[0]
        nodes = 2 if fault == "join" or fault.startswith("worker") else 1
        wanted = nodes * self.workers
        if after["world_size"] != wanted:
            raise RuntimeError(f"a world of {after['world_size']} after {fault}, not {wanted}")
        self.wait("all ranks", lambda: len({s["rank"] for s in next_steps()}) == wanted)
        cold = [
            min(s["time"] for s in next_steps() if s["pid"] == pid) - born(pid)
            for pid in {s["pid"] for s in next_steps()}
        ]
        last = max(s["time"] for s in self.steps() if s["attempt"] == before)
        self.wait("steady steps", lambda: self.trains(wanted, since=after["time"]))
        return Recovery(fault, after["time"] - at, after["time"] - last, max(cold))

    def worker(self, name: str) -> int:
        """A process that is a worker of node `name` now."""
        return [s["pid"] for s in self.steps() if s["node"] == name][-1]

    def kill(self, name: str) -> None:
        """Kill an agent and all that it has started, at once."""
        agent = self.agents.get(name)
        if agent is None or agent.poll() is not None:
            return
        for process in [*psutil.Process(agent.pid).children(recursive=True), agent]:
            process.kill()
        agent.wait()

    def wait(self, what: str, happened: Callable) -> None:
        """Until it happened; RuntimeError with the agents' last words if it does not."""
        end = time.monotonic() + PATIENCE
        while not happened():
            if time.monotonic() > end or self.agents["a"].poll() is not None:
                logs = [path.read_text()[-2000:] for path in sorted(self.folder.glob("*.log"))]
                raise RuntimeError("\n".join([f"{what} did not come", *logs]))
            time.sleep(0.1)


def environment(node: str) -> dict[str, str]:
    """For torchrun and the ranks of a node: what plain torchrun needs to take nodes in."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TORCH", "RANK"))}
    return inherited | {
        "PYTHONPATH": str(SOURCE),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "RANKBOOK_NODE": node,
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # a join kills both agents otherwise
    }


def born(pid: int) -> float:
    """When a process that still runs was started, in seconds since 1970."""
    return psutil.Process(pid).create_time()
