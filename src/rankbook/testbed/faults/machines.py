"""A session of torchrun for jobs that are to suffer: its nodes' clocks can be set."""

import contextlib
from pathlib import Path

from rankbook.live.torchrun.launch_forkserver import LaunchForkServer
from rankbook.live.torchrun.session import Torchrun
from rankbook.testbed.faults.clocks import Clocks
from rankbook.testbed.faults.disk import CannotInject
from rankbook.testbed.faults.on_hosts import ClockedStarter, OnHosts
from rankbook.testbed.hosts import two_hosts, why_not


class Machines(Torchrun):
    """A session whose nodes have clocks that can be set, and that can live on two hosts.

    It serves one job after the other.
    """

    def __init__(self):
        super().__init__()
        self.clocks = Clocks(Path(self._root) / "clocks")
        self._starter = ClockedStarter(self.clocks)
        self._forkserver = LaunchForkServer(self._starter)
        self._stack = contextlib.ExitStack()
        self._on_hosts: OnHosts | None = None

    def on_hosts(self) -> OnHosts:
        """The same on two hosts with a cable between them. Raises CannotInject."""
        if self._on_hosts is None:
            if why := why_not():
                raise CannotInject(why)
            hosts = self._stack.enter_context(two_hosts())
            closing = contextlib.closing(OnHosts(hosts, self.clocks))
            self._on_hosts = self._stack.enter_context(closing)
        return self._on_hosts

    def close(self) -> None:
        """End all of it, and leave neither files nor hosts."""
        self._stack.close()
        self._on_hosts = None
        super().close()
