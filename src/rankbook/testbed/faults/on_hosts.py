"""One job on two hosts: a session of torchrun on each, and one rendezvous for both."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rankbook.live.torchrun.launch import Launch
from rankbook.live.torchrun.launch_forkserver import LaunchForkServer
from rankbook.live.torchrun.process import Starter
from rankbook.live.torchrun.session import Rendezvous, Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.testbed.faults.clocks import Clocks
from rankbook.testbed.hosts import Host

CLONE_NEWNET = 0x40000000  # of linux/sched.h
FIRST_PORT = 29400  # of a host: it has all ports to itself
RETRIES = 4  # 6 s: an agent that is cut off would ask its store for a quarter of an hour


class Meeting(Rendezvous):
    """The rendezvous of one job's agents, at an address of a host."""

    def __init__(self, endpoint: str, name: str):
        self.endpoint, self.id = endpoint, name
        self.launches: dict[str, Launch] = {}

    def close(self) -> None:
        """Nothing is reserved."""


class OnHosts:
    """What `ElasticJob` needs of a session, with node "a" on one host and all others on the other.

    The first agent of a job hosts its store, wherever it is.
    """

    def __init__(self, hosts: tuple[Host, Host], clocks: Clocks):
        self.hosts, self.clocks = hosts, clocks
        for host in hosts:
            host.give_up_after(RETRIES)
        self._sessions = [_HostSession(host, clocks) for host in hosts]
        self._meetings = 0
        self._met = Meeting("", "")
        for session in self._sessions:  # torch is loaded before the first job, not in it
            session.run(LaunchSpec(["--nproc-per-node", "1"], []), "pass", lambda *said: None)

    def run_node(self, spec: LaunchSpec, cell: str, *more, **options) -> None:
        """As `Torchrun.run_node`, on the node's host."""
        host, session = self.hosts[spec.node != "a"], self._sessions[spec.node != "a"]
        if not self._met.running:
            self._meetings += 1
            endpoint = f"{host.address}:{FIRST_PORT + self._meetings}"
            self._met = Meeting(endpoint, f"job-{self._meetings}")
        for each in self._sessions:
            each.meeting = self._met
        ours = replace(spec, options=["--local-addr", host.address, *spec.options])
        cell = f"import os\nos.environ['GLOO_SOCKET_IFNAME'] = {host.interface!r}\n{cell}"
        session.run_node(ours, cell, *more, **options)

    def node(self, name: str) -> Launch:
        """As `Torchrun.node`."""
        return self._met.launches[name]

    def kill(self, name: str, signum: int) -> str:
        """As `Torchrun.kill`, of an agent."""
        return self._sessions[0].kill(name, signum)

    def close(self) -> None:
        """End all of it."""
        for session in self._sessions:
            session.close()


class ClockedStarter(Starter):
    """Starts processes whose clocks are `clocks`, on the host of that name, if any."""

    def __init__(self, clocks: Clocks, host: str = ""):
        super().__init__()
        self._clocks = clocks
        if host:
            self._thread = ThreadPoolExecutor(1, f"rankbook-{host}", enter_network, (host,))

    def start(self, command: list[str], **options):
        """As `Starter.start`."""
        given = options.get("env") or dict(os.environ)
        return super().start(command, **options | {"env": self._clocks.environment(given)})


def enter_network(name: str) -> None:
    """Move the calling thread, and what it starts, into a named network namespace; needs root.

    Unlike ``ip netns exec`` that leaves the mounts shared. Source:
    https://man7.org/linux/man-pages/man2/setns.2.html
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", name).open("rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), name)


class _HostSession(Torchrun):
    """A session whose processes run on a host, and whose agents meet those of the other one."""

    def __init__(self, host: Host, clocks: Clocks):
        super().__init__()
        self._starter = ClockedStarter(clocks, host.name)
        self._forkserver = LaunchForkServer(self._starter)
        self.meeting = Meeting("", "")

    def _meeting(self) -> Meeting:
        return self.meeting

    def _nodes(self) -> dict[str, Launch]:
        return self.meeting.launches
