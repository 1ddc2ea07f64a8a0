"""A training job of several agents on this machine, made to be disturbed, and its record."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rankbook.live.torchrun.launch import TICK, Launch
from rankbook.live.torchrun.spec import LaunchSpec

# Short waits: an agent that is gone is missed after 5 to 6 s, and a new world waits 1 s for more.
QUICK = ("--nnodes", "1:3", "--max-restarts", "12", "--monitor-interval", "0.1", "--rdzv-conf",
         "read_timeout=15,"  # for an agent that dies while ranks are dealt out
         "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5,join_timeout=60",
         )  # fmt: skip
PATIENCE = 600.0  # seconds, for what takes a few on a free machine
REVIVALS = 3  # times that a job is started anew after its agents gave up
CELL = "from rankbook.programs.elastic import main\nmain()\n"
NAME = "import os\nos.environ['RANKBOOK_NODE'] = {node!r}  # who it is in the record\n"

T = TypeVar("T")


class Stuck(Exception):
    """What was waited for did not come; the message says what, and what came last."""


class Session(Protocol):
    """What launches the agents of a job by name: `Torchrun` is one, and so is `OnHosts`."""

    def run_node(
        self, spec: LaunchSpec, cell: str, show: Callable, cold: bool, background: bool
    ) -> Any: ...

    def node(self, name: str) -> Launch: ...

    def kill(self, name: str, signum: int) -> str: ...


class ElasticJob:
    """Agents by name under the real torchrun, running the elastic program on one record of events.

    torchrun: what launches them; it may serve many jobs, one after the other.
    folder: for the record ``events.jsonl`` and, with `write_logs`, what the agents said.
    program: the arguments of `rankbook.programs.elastic`; ``--events`` is added.
    workers: ranks of each agent. cold: every process loads torch itself, as on a cluster.
    options: of torchrun. cell: what the workers run.
    """

    def __init__(
        self,
        torchrun: Session,
        folder: Path,
        program: list[str],
        workers: int = 1,
        cold: bool = False,
        options: tuple[str, ...] = QUICK,
        cell: str = CELL,
    ):
        self.folder, self.workers = Path(folder), workers
        self.record = self.folder / "events.jsonl"
        self.events: list[dict] = []
        self.launches: list[Launch] = []
        self.host = ""  # the node whose agent hosts the rendezvous' store
        self._torchrun, self._cold, self._cell = torchrun, cold, cell
        self._options = [*options, "--nproc-per-node", str(workers)]
        self._program = [*program, "--events", str(self.record)]
        self._read = 0  # bytes of the record
        self._first = 0  # the first launch since the job was last started anew
        self.given_up: list[str] = []  # why agents gave up, each time that it was started anew

    def start(self, node: str) -> None:
        """Start the agent `node`: the first of a job hosts the store, the others join."""
        if not self.running:  # those before it, if any, are history
            self.host, self._first = node, len(self.launches)
        spec = LaunchSpec(self._options, self._program, node)
        cell = NAME.format(node=node) + self._cell
        self._torchrun.run_node(spec, cell, _unseen, self._cold, background=True)
        self.launches.append(self._torchrun.node(node))

    @property
    def running(self) -> list[str]:
        """The nodes whose agents run, the longest running first."""
        return [launch.spec.node for launch in self.launches if launch.running]

    @property
    def staying(self) -> list[str]:
        """The running nodes that nobody has told to end."""
        killed = {x.spec.node for x in self.launches if x.running and x.killed_by_reader}
        return [node for node in self.running if node not in killed]

    def alive(self, node: str | None = None) -> dict[int, int]:
        """The process id of each rank that runs now, of one node or of all."""
        nodes = [node] if node else self.running
        found = [worker for name in nodes for worker in self._torchrun.node(name).alive()]
        return {worker["rank"]: worker["pid"] for worker in found}

    def signal_worker(self, rank: int, signum: int) -> int:
        """Send a signal to the worker `rank`; return its process id."""
        pid = self.alive()[rank]
        os.kill(pid, signum)
        return pid

    def signal_agent(self, node: str, signum: int) -> None:
        """Send a signal to the agent of `node`; what it ends by then counts as wanted."""
        self._torchrun.kill(node, signum)

    def kill_node(self, node: str) -> None:
        """SIGKILL to the agent of `node` and to its workers at once, as when a machine dies."""
        workers = self.alive(node).values()
        self.signal_agent(node, signal.SIGKILL)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):  # it has ended with its agent
                os.kill(pid, signal.SIGKILL)

    def now(self) -> float:
        """The time (unix seconds) before which all events so far are "seen"."""
        self.read()
        return time.time()

    def let_end(self, node: str, seconds: float = PATIENCE) -> None:
        """Wait until the agent of `node` ends by itself; however it does counts as wanted."""
        launch = self._torchrun.node(node)
        launch.killed_by_reader = "nobody, but it was cut off"
        if not launch.done.wait(seconds):
            raise Stuck(f"{node} still ran {seconds:.0f} s after it was cut off")

    def read(self) -> list[dict]:
        """All events so far; a line that is not written to its end yet comes the next time.

        Each has its "time", by the clock of its node, and when it was "seen" here.
        """
        if self.record.exists():
            with self.record.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            new = new[: new.rfind(b"\n") + 1]
            self._read += len(new)
            # by our own clock: those of the nodes may be wrong, on purpose
            self.events += [json.loads(line) | {"seen": time.time()} for line in new.splitlines()]
        return self.events

    def wait(
        self, for_what: str, condition: Callable[[], T | None], seconds: float = PATIENCE
    ) -> T:
        """The first true value of `condition()`; raises Stuck after `seconds`.

        Raises Stuck at once when no agent runs any more, unless they gave up: see `revive`.
        """
        deadline = time.monotonic() + seconds
        while True:
            running = self.running  # before the look: what is written last must not be missed
            self.read()
            if found := condition():
                return found
            if not running and self.revive():
                continue
            if not running or time.monotonic() >= deadline:
                why = f"for {seconds:.0f} s" if running else "and no agent runs any more"
                last = self.events[-1] if self.events else "nothing"
                raise Stuck(f"waited for {for_what} {why}; the last event: {last}")
            time.sleep(TICK)

    def wait_step(self, step: int, seconds: float = PATIENCE) -> dict:
        """Wait until any rank has done `step` (or a later one); return its event."""
        return self.wait(
            f"step {step}",
            lambda: next((e for e in self.steps() if e["step"] >= step), None),
            seconds,
        )

    def steps(self) -> list[dict]:
        """The events of steps, as far as read."""
        return [event for event in self.events if event["event"] == "step"]

    def revive(self) -> bool:
        """Start the agents that gave up anew, as a scheduler does; whether there are any.

        When one dies while the others are dealt their ranks, those wait for its word and then end
        with an error of their store. An agent that ends because of its workers is left as it is.
        """
        ended = [x for x in self.launches[self._first :] if x.code and not x.killed_by_reader]
        why = [launch.trouble for launch in ended if launch.trouble]
        if self.running or not why or len(self.given_up) == REVIVALS:
            return False
        self.given_up.append(why[0])
        for launch in ended:
            self.start(launch.spec.node)
        return True

    def finish(self, seconds: float = PATIENCE) -> dict[str, int | None]:
        """Wait until the job is done; return the exit code of each agent that nobody killed.

        None: it left no code. Of those that were started since all had ended the last time.
        """
        codes = self.wait_ended(seconds)
        while self.revive():
            codes = self.wait_ended(seconds)
        return codes

    def wait_ended(self, seconds: float = PATIENCE) -> dict[str, int | None]:
        """Wait until all agents have ended, however that was; the result is that of `finish`."""
        deadline = time.monotonic() + seconds
        for launch in self.launches:
            if not launch.done.wait(max(0.0, deadline - time.monotonic())):
                raise Stuck(f"{launch.spec.node} still ran after {seconds:.0f} s")
        self.read()
        launches = [x for x in self.launches[self._first :] if not x.killed_by_reader]
        return {launch.spec.node: launch.code for launch in launches}

    def close(self) -> None:
        """End what still runs, now."""
        for launch in self.launches:
            if launch.running:
                launch.killed_by_reader = "the end of the job"
                launch.destroy()
                launch.done.wait(10.0)

    def write_logs(self) -> None:
        """Write what each agent and its workers said to ``NUMBER-NODE.log`` in the folder."""
        for number, launch in enumerate(self.launches):
            said = [f"{when:.3f} {content}" for when, _, content in launch.events]
            log = launch.follower.agent_log if launch.follower else ""
            text = "\n".join([*said, "", "torchrun's own log:", log])
            path = self.folder / f"{number}-{launch.spec.node}.log"
            path.write_text(text, encoding="utf-8")


def _unseen(kind: str, content: object) -> None:
    """What is launched in the background shows nothing."""
