"""Two hosts on this machine: network namespaces with an address each, joined by a cable.

Needs root, Linux and ``ip``. What is made here has names of its own, and is removed again.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4


@dataclass(frozen=True)
class Host:
    """A network namespace `name`, with `address` on its only interface besides the loopback."""

    name: str
    address: str
    interface: str = "eth0"

    def command(self, *words: str) -> list[str]:
        """`words` as a command that runs on this host."""
        return ["ip", "netns", "exec", self.name, *words]

    def processes(self) -> list[int]:
        """The processes that run on this host; none where there is no such host."""
        listed = ["ip", "netns", "pids", self.name]
        found = subprocess.run(listed, capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def cut(self) -> None:
        """Pull its cable: nothing comes or goes, and nobody is told that connections are gone."""
        _ip("-n", self.name, "link", "set", self.interface, "down")

    def give_up_after(self, retries: int) -> None:
        """Have the system give a silent connection up sooner than after its quarter of an hour.

        The setting (``net.ipv4.tcp_retries2``, 15) is this host's alone; each of the retries waits
        twice as long as the one before, from 0.2 s on.
        """
        setting = "/proc/sys/net/ipv4/tcp_retries2"
        write = self.command("sh", "-c", f"echo {retries} > {setting}")
        subprocess.run(write, capture_output=True, text=True, check=True, timeout=20)

    def mend(self) -> None:
        """Put the cable back in."""
        _ip("-n", self.name, "link", "set", self.interface, "up")


def why_not() -> str:
    """Why this machine cannot have such hosts; an empty string if it can."""
    if not shutil.which("ip"):
        return "network namespaces need the command ip (iproute2), which is not here"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with two_hosts():
            return ""
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"status {error.returncode}"]
        return f"this kernel permits no network namespaces: {said[-1]}"


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that reach each other and nothing else, for the length of a ``with`` block."""
    mark = uuid4().hex[:6]  # the name of an interface has 15 characters at most
    third = int(mark[:2], 16)
    hosts = tuple(Host(f"rb{mark}h{i}", f"10.77.{third}.{i}") for i in (1, 2))
    try:
        for host in hosts:
            _ip("netns", "add", host.name)
        # a cable between the two; nothing of it is in the machine's own namespace
        ends = [word for host in hosts for word in ("name", host.interface, "netns", host.name)]
        _ip("link", "add", *ends[:4], "type", "veth", "peer", *ends[4:])
        for host in hosts:
            _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", host.interface)
            for interface in (host.interface, "lo"):
                _ip("-n", host.name, "link", "set", interface, "up")
        yield hosts
    finally:
        for host in hosts:
            for pid in host.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, text=True, check=True, timeout=20)
