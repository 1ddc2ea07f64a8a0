"""One agent of torchrun, from its start to the report on it."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rankbook.live.publish import DIRECTORY, read_published
from rankbook.live.torchrun import failure as failure
from rankbook.live.torchrun.follower import Follower
from rankbook.live.torchrun.notes import read_note, read_notes, write_note
from rankbook.live.torchrun.process import LAUNCH, ColdAgent, ForkedAgent
from rankbook.live.torchrun.report import Ending
from rankbook.live.torchrun.warm import WarmStartFailed

NODE = "RANKBOOK_NODE"
START_SECONDS = 30.0  # until every worker of a warm start has begun; it takes less than one
TICK = 0.03  # seconds between two looks at the files
SHUTDOWN_SECONDS = 3.5  # torchrun itself kills what does not end within 2


@dataclass(frozen=True)
class Order:
    """What to launch: torchrun's options and the program's arguments, as the reader gave them.

    node: a name among several agents, or "". endpoint, job, host: the rendezvous that the agents
    of one job share, and whether this one hosts it; endpoint is None for a launch by itself.
    """

    options: list[str]
    program: list[str]
    node: str = ""
    endpoint: str | None = None
    job: str = ""
    host: bool = False

    def write(self, directory: Path, cell: str) -> None:
        """Fill a new, private directory with all that the processes of a launch read."""
        directory.mkdir(mode=0o700)
        (directory / "cell.py").write_text(cell, encoding="utf-8")
        environment = {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"} | dict(os.environ)
        if environment.get("MPLBACKEND", "").startswith("module://"):
            del environment["MPLBACKEND"]  # it draws into a notebook; a program has none
        environment |= {LAUNCH: str(directory), DIRECTORY: str(directory / "published")}
        if self.node:
            environment[NODE] = self.node  # programs write it into their records
        about = asdict(self) | {
            "environment": environment,
            "cwd": str(Path.cwd()),
            "path": sys.path,
        }
        write_note(directory / "request.json", about)


@dataclass
class Launch:
    """A launch that runs in the background, in a thread that follows it. `start` it first.

    prepare: makes a directory ready for the processes. starts: ways to start the agent there;
    the next is taken when one does not get going (the warm start, then the cold one).
    """

    order: Order
    prepare: Callable[[], Path]
    starts: list[Callable[[Path], ColdAgent | ForkedAgent]]
    events: list = field(default_factory=list)  # (seconds since the epoch, kind, content)
    shown: int = 0  # how many of the events the reader has seen
    agent: ColdAgent | ForkedAgent | None = None
    code: int | None = None
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    killed_by_reader: str = ""
    endings: list[Ending] = field(default_factory=list)
    published: dict[str, dict] = field(default_factory=dict)
    usage: str = ""
    trouble: str = ""

    def __post_init__(self):
        self.done = threading.Event()
        self._give_up = False
        self._directory: Path | None = None
        self.follower: Follower | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start the agent, and follow it."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended, or not been read to its end."""
        return not self.done.is_set()

    @property
    def planned(self) -> bool:
        """Whether torchrun took its options."""
        return self.follower is not None and self.follower.plan is not None

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than the reader wanted."""
        return self.done.is_set() and self.code != 0 and not self.killed_by_reader

    @property
    def agent_failure(self) -> str:
        """What became of an agent that did not fail because of a worker, in words."""
        name = self.order.node or "torchrun"
        if self.trouble:
            return f"{name} failed: {self.trouble}"
        if self.code is not None and self.code < 0:
            word = signal.Signals(-self.code).name
            return f"the agent of {name} was killed by {word}; its workers ended with it"
        if not self.endings:
            log = self.follower.agent_log.strip().splitlines()[-15:] if self.follower else []
            return "\n".join([f"{name} failed with exit code {self.code}; its last words:", *log])
        return ""

    def send_signal(self, signum: int) -> None:
        """Send the agent a signal."""
        if self.agent is not None:
            self.agent.send_signal(signum)

    def end(self, signum: int = signal.SIGTERM) -> float:
        """End the agent and its workers: politely, then surely. Return the seconds it took."""
        began = time.monotonic()
        self._give_up = True  # before the look at the agent: a start that is under way sees it
        if self.agent is None:
            self.done.wait(1.0)
            return time.monotonic() - began
        self.send_signal(signum)
        if not self.done.wait(SHUTDOWN_SECONDS):
            self.agent.destroy()
            self.done.wait(1.0)
        return time.monotonic() - began

    def destroy(self) -> None:
        """End the agent and its workers, now."""
        self._give_up = True
        if self.agent is not None:
            self.agent.destroy()

    def _run(self) -> None:
        try:
            for start in self.starts:
                self._directory = self.prepare()
                self.follower = Follower(self._directory, self.order.node, self._event)
                try:
                    self.agent = start(self._directory)
                    if self._give_up:
                        self.agent.destroy()
                    self._follow(time.monotonic() + START_SECONDS)
                    break
                except WarmStartFailed as error:
                    self._event("stderr", f"the warm start failed ({error}); starting cold")
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
        finally:
            self.seconds = time.monotonic() - self.began
            self.done.set()

    def _follow(self, deadline: float) -> None:
        warm = isinstance(self.agent, ForkedAgent)
        while True:
            self.code = self.agent.poll()  # before reading: the last words must not be lost
            if self.code is not None:
                break
            self.follower.read()
            if warm and not self._got_going() and time.monotonic() > deadline:
                self.agent.destroy()
                if self._give_up:  # the reader has seen it end
                    return
                raise WarmStartFailed(f"not all ranks began within {START_SECONDS:.0f} s")
            time.sleep(TICK)
        self.follower.finish()
        self._collect()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _got_going(self) -> bool:
        if self.order.endpoint is not None:  # it may have to wait for other agents
            return self.planned
        return bool(self.follower.attempts) and self.follower.attempts[0].complete

    def _event(self, kind: str, content) -> None:
        self.events.append((time.time(), kind, content))

    def _collect(self) -> None:
        """Read what the processes left."""
        self.published = read_published(self._directory / "published")
        end = read_note(self._directory / "end.json") or {}
        self.usage, self.trouble = end.get("usage", ""), end.get("error", "")
        if self.code == 0:
            return
        told = {worker["pid"]: worker for worker in end.get("workers", [])}
        notes = read_notes(self._directory / "reports").values()
        reports = {report["pid"]: report for report in notes}
        for worker in self.follower.workers:
            pid = worker["pid"]
            if end.get("workers") is None or pid in told:
                self.endings.append(self._ending(worker, told.get(pid), reports.get(pid)))

    def _ending(self, worker: dict, told: dict | None, report: dict | None) -> Ending:
        stack = self._directory / "stacks" / str(worker["pid"])
        return Ending(
            node=self.order.node,
            rank=worker["rank"],
            code=told["code"] if told else None,
            time=report["time"] if report else told["time"] if told else time.time(),
            report=report,
            stack=failure.where(stack, str(self._directory / "cell.py")),
        )

    def alive(self) -> list[dict]:
        """The workers of the latest attempt that still run."""
        if not self.running or self.follower is None:
            return []
        workers = sorted(self.follower.workers, key=lambda worker: worker["rank"])
        return [worker for worker in workers if exists(worker["pid"])]


def exists(pid: int) -> bool:
    """Whether a process with this id runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
