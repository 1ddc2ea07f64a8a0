"""One agent of torchrun, from its start to the report on it."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rankbook.live.failure.ending import RankOutcome
from rankbook.live.failure.report import agent_failed, agent_killed, agent_left
from rankbook.live.torchrun import witness
from rankbook.live.torchrun.follower import Follower
from rankbook.live.torchrun.launch_forkserver import WarmStartFailed
from rankbook.live.torchrun.notes import find_note
from rankbook.live.torchrun.process import ColdAgent, ForkedAgent
from rankbook.live.torchrun.publish import read_published
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.live.torchrun.traces import collect, exited

Agent = ColdAgent | ForkedAgent
START_SECONDS = 120.0  # until every worker of a warm start has begun; it takes less than one
TICK = 0.03  # seconds between two looks at the files
SHUTDOWN_SECONDS = 3.5  # torchrun itself kills what does not end within 2


@dataclass
class Launch:
    """A launch that runs in the background, in a thread that follows it. `start` it first.

    prepare: makes a directory ready for the processes. starts: ways to start the agent there;
    the next is taken when one does not get going (the warm start, then the cold one).
    """

    spec: LaunchSpec
    prepare: Callable[[], Path]
    starts: Sequence[Callable[[Path], Agent]]
    events: list = field(default_factory=list)  # (seconds since the epoch, kind, content)
    shown: int = 0  # how many of the events the reader has seen
    agent: Agent | None = None
    code: int | None = None
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    killed_by_reader: str = ""
    endings: list[RankOutcome] = field(default_factory=list)
    published: dict[str, dict] = field(default_factory=dict)
    usage: str = ""
    trouble: str = ""
    directory: Path | None = None  # of the processes, while they run

    def __post_init__(self):
        self.done = threading.Event()
        self._give_up = False
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
        name = self.spec.node or "torchrun"
        if self.trouble:
            return agent_failed(name, self.trouble)
        if self.code is not None and self.code < 0:
            return agent_killed(name, -self.code)
        if all(ending.finished for ending in self.endings):
            return agent_left(name, self.code, self.log.strip().splitlines()[-15:])
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
                directory = self.directory = self.prepare()
                self.follower = Follower(directory, self.spec.node, self._event)
                try:
                    self.agent = start(directory)
                    if self._give_up:
                        self.agent.destroy()
                    self._follow(self.agent, self.follower)
                    if self.code is not None:
                        self._collect(directory, self.follower)
                        shutil.rmtree(directory, ignore_errors=True)
                    break
                except WarmStartFailed as error:
                    self._event("stderr", f"the warm start failed ({error}); starting cold")
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
        finally:
            self.seconds = time.monotonic() - self.began
            self.done.set()

    def _follow(self, agent: Agent, follower: Follower) -> None:
        """Show what it prints until it ends; raises WarmStartFailed if it does not get going."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            self.code = agent.poll()  # before reading: the last words must not be lost
            if self.code is not None:
                break
            follower.hurry = self._give_up
            more = follower.read()
            late = time.monotonic() > deadline
            if late and isinstance(agent, ForkedAgent) and not self._got_going(follower):
                agent.destroy()
                if self._give_up:  # the reader has seen it end
                    return
                raise WarmStartFailed(f"not all ranks began within {START_SECONDS:.0f} s")
            if not more:
                time.sleep(TICK)
        follower.hurry = self._give_up
        follower.finish()

    def _got_going(self, follower: Follower) -> bool:
        if self.spec.rdzv_endpoint is not None:  # it may have to wait for other agents
            return self.planned
        return bool(follower.attempts) and follower.attempts[0].complete

    def _event(self, kind: str, content: object) -> None:
        self.events.append((time.time(), kind, content))

    def _collect(self, directory: Path, follower: Follower) -> None:
        """Read what the processes left."""
        self.published = read_published(directory / "published")
        end = find_note(directory / "end.json") or {}
        self.usage, self.trouble = end.get("usage", ""), end.get("error", "")
        if self.code == 0:
            return
        self.endings = collect(directory, self.spec.node, follower.workers, end)

    @property
    def log(self) -> str:
        """What torchrun itself has logged so far."""
        return self.follower.agent_log if self.follower else ""

    def label(self, worker: dict) -> str:
        """How the output of `worker` begins: ``[1]``, or ``[left:1]`` of the node "left"."""
        return self.follower.label({worker["rank"]}) if self.follower else ""

    def workers(self) -> list[dict]:
        """The workers of the latest attempt, by rank."""
        workers = list(self.follower.workers) if self.follower else []
        return sorted(workers, key=lambda worker: worker["rank"])

    def ask(self) -> None:
        """Ask the workers that run where they are; `answer` has what they say, a moment later."""
        for worker in self.alive():
            if self.directory:
                witness.ask(self.directory, worker["pid"])

    def answer(self, worker: dict, since: float) -> dict | None:
        """What `worker` said of where it is (`witness`); None if nothing, or nothing `since`."""
        return witness.answer(self.directory, worker["pid"], since) if self.directory else None

    def left_well(self, worker: dict) -> bool:
        """Whether `worker` has come to the end of the program."""
        return self.directory is not None and exited(self.directory, worker["pid"]) is not None

    def say(self, text: str) -> None:
        """Have the notebook's own words shown among what the launch prints."""
        self._event("stderr", text)

    def alive(self) -> list[dict]:
        """The workers of the latest attempt that still run."""
        return [w for w in self.workers() if exists(w["pid"])] if self.running else []


def exists(pid: int) -> bool:
    """Whether a process with this id runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
