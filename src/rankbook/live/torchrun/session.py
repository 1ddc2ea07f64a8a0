"""Launches of the real torchrun from a notebook: one at a time, or several agents by name."""

import atexit
import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rankbook.core.ports import ReservedPort
from rankbook.live.errors import UsageError
from rankbook.live.private import private_directory
from rankbook.live.torchrun.launch import TICK, Launch
from rankbook.live.torchrun.launch_forkserver import LaunchForkServer, gpus_visible
from rankbook.live.torchrun.lookout import whereabouts
from rankbook.live.torchrun.notes import read_note
from rankbook.live.torchrun.process import ColdAgent, Starter
from rankbook.live.torchrun.publish import Published, gather
from rankbook.live.torchrun.report import explain
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.live.torchrun.watch import watch

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)
PLAN_SECONDS = 120.0  # until torchrun has read its options: a cold start loads torch first


class Rendezvous:
    """Agents that meet at one c10d rendezvous on this machine, under names: a job of torchrun's."""

    def __init__(self):
        self._port = ReservedPort()  # until the first agent takes it
        self.endpoint = f"127.0.0.1:{self._port.number}"
        self.id = uuid.uuid4().hex
        self.launches: dict[str, Launch] = {}

    @property
    def running(self) -> bool:
        """Whether an agent runs."""
        return any(launch.running for launch in self.launches.values())

    def close(self) -> None:
        """Give the port back."""
        self._port.close()


class Torchrun:
    """Everything that one notebook launches. `show` takes what launches print (see Follower)."""

    def __init__(self):
        self._root = private_directory("torchrun")
        self._starter = Starter()
        self._forkserver = LaunchForkServer(self._starter)
        self._rendezvous: Rendezvous | None = None
        self._last: Launch | None = None
        self._count = 0
        atexit.register(self.close)

    def run(self, spec: LaunchSpec, cell: str, show: Callable, cold: bool = False) -> Published:
        """Launch `cell` and wait for the end; raises CellFailed."""
        launch = self._launch(spec, cell, cold)
        return self._wait([launch], show)

    def run_node(
        self,
        spec: LaunchSpec,
        cell: str,
        show: Callable,
        cold: bool = False,
        background: bool = False,
    ) -> Published | None:
        """Launch one agent of a job; in the background, return when torchrun has its options."""
        meeting = self._meeting()
        if spec.node in meeting.launches and meeting.launches[spec.node].running:
            raise UsageError(
                f"{spec.node} is running already; end it with %torchrun kill {spec.node}, "
                "or take another name"
            )
        endpoint, host = meeting.endpoint, not meeting.running
        spec = replace(spec, rdzv_endpoint=endpoint, rdzv_id=meeting.id, rdzv_host=host)
        launch = meeting.launches[spec.node] = self._launch(spec, cell, cold)
        if not background:
            return self._wait([launch], show)
        deadline = time.monotonic() + PLAN_SECONDS
        while launch.running and not launch.planned and time.monotonic() < deadline:
            time.sleep(TICK)
        if launch.done.is_set() and launch.failed:
            self._raise_failure([launch])
        return None

    def join(self, name: str | None, show: Callable) -> Published:
        """Wait for the agents of the job (or for one), show what they print; raises CellFailed."""
        launches = [self.node(name)] if name else list(self._nodes().values())
        if not launches:
            raise UsageError("%torchrun join: no agents; start one with --node NAME --background")
        return self._wait(launches, show)

    def kill(self, name: str, signum: int, rank: int | None = None) -> str:
        """Send `signum` to the agent `name`, or to its worker of global rank `rank`."""
        launch = self.node(name)
        word = signal.Signals(signum).name
        if not launch.running:
            raise UsageError(f"%torchrun kill: {name} has ended already")
        if rank is None:
            launch.killed_by_reader = word if signum in ENDING else ""
            launch.send_signal(signum)
            return f"{name}: {word} to its agent"
        workers = {worker["rank"]: worker["pid"] for worker in launch.alive()}
        if rank not in workers:
            ranks = ", ".join(map(str, sorted(workers))) or "none"
            raise UsageError(f"%torchrun kill: {name} has no rank {rank}; its ranks: {ranks}")
        os.kill(workers[rank], signum)
        return f"{name}: {word} to rank {rank}"

    def logs(self, name: str | None) -> tuple[Launch, str]:
        """A launch (the last one without a name), and torchrun's own log of it."""
        launch = self.node(name) if name else self._last
        if launch is None:
            raise UsageError("%torchrun logs: nothing was launched yet")
        return launch, launch.log

    def status(self) -> list[str]:
        """A line for each agent of the job, and for each rank that runs: where it is."""
        nodes = self._nodes()
        places = whereabouts([launch for launch in nodes.values() if launch.running])
        return [line for item in nodes.items() for line in self._status(*item, places)]

    def stop(self) -> None:
        """End every launch, and the fork server."""
        launches = [*self._nodes().values(), *filter(None, [self._last])]
        running = [launch for launch in launches if launch.running]
        for launch in running:
            launch.killed_by_reader = "%torchrun stop"
            launch.send_signal(signal.SIGTERM)
        for launch in running:
            launch.end()
        self._forkserver.stop()

    def close(self) -> None:
        """For the end of the notebook's kernel: `stop`, and leave no files."""
        self.stop()
        shutil.rmtree(self._root, ignore_errors=True)

    def node(self, name: str) -> Launch:
        """The agent `name` of the job; raises UsageError."""
        nodes = self._nodes()
        if name not in nodes:
            names = ", ".join(nodes) or "none; start one with --node NAME --background"
            raise UsageError(f"there is no agent {name!r}; the agents: {names}")
        return nodes[name]

    def _nodes(self) -> dict[str, Launch]:
        return self._rendezvous.launches if self._rendezvous else {}

    def _meeting(self) -> Rendezvous:
        """The rendezvous of the agents that run; a new one if none does."""
        if self._rendezvous is None or not self._rendezvous.running:
            if self._rendezvous is not None:
                self._rendezvous.close()
            self._rendezvous = Rendezvous()
        return self._rendezvous

    def _launch(self, spec: LaunchSpec, cell: str, cold: bool) -> Launch:
        def prepare() -> Path:
            self._count += 1
            directory = self._root / f"{self._count}-{spec.node or 'launch'}"
            spec.write(directory, cell)
            return directory

        def start_warm(directory: Path):
            environment = read_note(directory / "request.json")["environment"]
            return self._forkserver.launch(directory, environment)

        def start_cold(directory: Path):
            return ColdAgent(directory, self._starter)

        def start_instead(directory: Path):
            self._forkserver.give_up()
            return start_cold(directory)

        warm = not cold and sys.platform.startswith("linux") and not gpus_visible()
        warm = warm and not {"--run-path", "--run_path"} & set(spec.options)
        starts = [start_warm, start_instead] if warm else [start_cold]
        self._last = Launch(spec, prepare, starts)
        self._last.start()
        return self._last

    def _wait(self, launches: list[Launch], show: Callable) -> Published:
        """Until all have ended; returns what the job published, raises CellFailed."""
        job = self._nodes().values() if launches[0].spec.rdzv_endpoint else launches
        watch(launches, job, show)
        if failed := [launch for launch in launches if launch.failed]:
            self._raise_failure(failed)
        return gather({k: v for launch in job for k, v in launch.published.items()})

    def _raise_failure(self, failed: list[Launch]) -> None:
        for launch in failed:
            if launch.usage:
                raise UsageError(launch.usage)
        agents = [launch.agent_failure for launch in failed if launch.agent_failure]
        raise explain([ending for launch in failed for ending in launch.endings], agents)

    def _status(self, name: str, launch: Launch, places: dict[int, str]) -> list[str]:
        if launch.running:
            agent = launch.agent.pid if launch.agent else None
            ranks = [
                f"  rank {w['rank']} (process {w['pid']}): {places.get(w['pid'], 'no answer')}"
                for w in launch.alive()
            ]
            none = "" if ranks else ", no ranks yet"
            return [f"{name}: running, agent process {agent}{none}", *ranks]
        how = f"ended by {launch.killed_by_reader}" if launch.killed_by_reader else "ended"
        return [f"{name}: {how} after {launch.seconds:.1f} s, exit code {launch.code}"]
