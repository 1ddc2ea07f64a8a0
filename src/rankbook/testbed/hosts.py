"""Hosts on this machine: network namespaces with an address each, with cables to pull or to slow.

A `Host` is what two plain hosts (`two_hosts`) and the nodes of a Slurm cluster have in common.
Needs root, Linux and ``ip``; a slow cable needs ``tc`` as well, and one with a delay
``/dev/net/tun``. Sources:
https://man7.org/linux/man-pages/man7/network_namespaces.7.html
https://man7.org/linux/man-pages/man8/tc-tbf.8.html
"""

import ipaddress
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from uuid import uuid4

import psutil

# the retransmissions of a silent connection, of each namespace: 15 take a quarter of an hour
RETRIES = "/proc/sys/net/ipv4/tcp_retries2"
FRAME = 1514  # bytes of a full Ethernet frame, as the kernel counts it
SLOWEST = 10_000  # bits per second: a frame takes more than a second
LONGEST = 10.0  # seconds of a delay; TCP gives a connection's first packet up to a second
DELAYING = "delay0"  # the device that holds packets back


class Host:
    """A network namespace with `address` on `interface`, its only one besides the loopback.

    enter: a command that runs the words after it on the host, as ``ip netns exec NAME`` does.
    What is done to a host raises CalledProcessError where there is none.
    """

    def __init__(self, name: str, address: str, enter: list[str], interface: str = "eth0"):
        self.name, self.address, self.interface = name, address, interface
        self._enter = enter
        self._delaying: subprocess.Popen | None = None

    def command(self, *words: str) -> list[str]:
        """`words` as a command that runs on this host."""
        return [*self._enter, *words]

    def processes(self) -> list[int]:
        """The processes that run on this host, by the numbers that this machine gives them."""
        return [pid for pid in psutil.pids() if _namespace(pid) == self._namespace]

    @cached_property
    def _namespace(self) -> str:
        """As the kernel numbers it: known also when it has lost its name."""
        return _run(*self.command("readlink", "/proc/self/ns/net"))

    def kill_processes(self, seconds: float = 10.0) -> None:
        """SIGKILL to all that runs on this host, until nothing does or `seconds` are over."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def cut(self) -> None:
        """Pull its cable: nothing comes or goes, and nobody is told that connections are gone."""
        _run(*self.command("ip", "link", "set", self.interface, "down"))

    def mend(self) -> None:
        """Put the cable back in."""
        _run(*self.command("ip", "link", "set", self.interface, "up"))

    def limit(self, bits_per_second: float, delay: float = 0.0) -> None:
        """Let no more leave by its cable than `bits_per_second`; what comes in, others limit.

        delay: seconds that each packet is held back besides, on its way out; a process on this host
        does it (`rankbook.testbed.delay`). With the same on both sides, an answer takes two.

        A bucket of tokens: what goes out at once, before the rate counts, is a millisecond's worth
        and two frames at least. A queue of half a second keeps what waits. Raises ValueError for
        what no cable has, RuntimeError where cables cannot be slow (`why_not_slow`).
        """
        if not bits_per_second >= SLOWEST:
            raise ValueError(
                f"a cable of {bits_per_second:g} bits per second; use {SLOWEST:,} or more"
            )
        if not 0 <= delay <= LONGEST:
            raise ValueError(f"a delay of {delay:g} seconds; use 0 to {LONGEST:g}")
        _need_tc()
        burst = max(2 * FRAME, round(bits_per_second / 8 / 1000))
        words = f"tbf rate {round(bits_per_second)}bit burst {burst} latency 500ms".split()
        try:
            _run(*self._traffic("replace", *words))
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"this kernel cannot slow a cable: {_said(error)}") from None
        self._stop_delaying()
        if delay:
            self._delay(delay)

    def _delay(self, seconds: float) -> None:
        """Lead what leaves through a device that gives it on `seconds` later."""
        words = DELAYING, self.interface, str(seconds)
        self._delaying = subprocess.Popen(
            self.command(sys.executable, "-m", "rankbook.testbed.delay", *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        assert self._delaying.stdout and self._delaying.stderr
        if self._delaying.stdout.readline() != "ready\n":
            said = self._delaying.stderr.read().strip().splitlines() or ["no word"]
            self._stop_delaying()
            raise RuntimeError(f"this machine cannot delay a cable: {said[-1]}")
        _run(*self.command("ip", "link", "set", DELAYING, "txqueuelen", "10000", "up"))
        # an answer comes in by the cable itself, which a strict host would not believe
        words = [f"echo 0 > /proc/sys/net/ipv4/conf/{n}/rp_filter" for n in ("all", self.interface)]
        _run(*self.command("sh", "-c", "; ".join(words)))
        for half in self._network().subnets():  # the narrower route is taken
            route = ["ip", "route", "add", str(half), "dev", DELAYING, "src", self.address]
            _run(*self.command(*route))

    def _network(self) -> ipaddress.IPv4Network:
        """Who can be reached by the cable."""
        shown = _run(*self.command("ip", "-o", "-4", "addr", "show", "dev", self.interface))
        return ipaddress.IPv4Interface(shown.split()[3]).network

    def _stop_delaying(self) -> None:
        """The device goes with its process, and the routes go with the device."""
        process, self._delaying = self._delaying, None
        if process:
            with process:  # closes its pipes, and waits
                process.kill()

    def _traffic(self, what: str, *words: str) -> list[str]:
        return self.command("tc", "qdisc", what, "dev", self.interface, "root", *words)

    def give_up_after(self, retries: int) -> None:
        """Have the system give a silent connection up sooner than after its quarter of an hour.

        The setting is this host's alone; each of the retries waits twice as long as the one
        before, from 0.2 s on. Source: tcp_retries2 in
        https://docs.kernel.org/networking/ip-sysctl.html
        """
        _run(*self.command("sh", "-c", f"echo {retries} > {RETRIES}"))


def why_not() -> str:
    """Why this machine cannot have such hosts; an empty string if it can."""
    if not shutil.which("ip", path=search_path()):
        return "network namespaces need the command ip (iproute2), which is not here"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with two_hosts():
            return ""
    except subprocess.CalledProcessError as error:
        return f"this kernel permits no network namespaces: {_said(error)}"


def why_not_slow(delay: float = 0.0) -> str:
    """Why this machine cannot have hosts with slow cables (`Host.limit`); "" if it can."""
    if reason := why_not():
        return reason
    try:
        with two_hosts() as (one, _):
            one.limit(1e6, delay)
            return ""
    except RuntimeError as error:
        return str(error)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts that reach each other and nothing else, for the length of a ``with`` block.

    What is made has names of its own, and is gone afterwards, with every process on it.
    """
    with _namespaces(2) as (one, other):
        # a cable between the two; nothing of it is in the machine's own namespace
        _cable(one.name, "eth0", other.name, "eth0")
        _plug_in(one, other)
        yield one, other


@contextmanager
def three_hosts() -> Iterator[tuple[Host, Host, Host]]:
    """Three hosts, as `two_hosts`: with a switch between them, in a namespace of its own."""
    with _namespaces(4) as (switch, *hosts):
        _run("ip", "-n", switch.name, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", switch.name, "link", "set", "switch", "up")
        for i, host in enumerate(hosts):
            _cable(host.name, "eth0", switch.name, f"port{i}")
            _run("ip", "-n", switch.name, "link", "set", f"port{i}", "master", "switch", "up")
        _plug_in(*hosts)
        one, two, three = hosts
        yield one, two, three


@contextmanager
def _namespaces(count: int) -> Iterator[list[Host]]:
    """Hosts without a cable, each with the address that it shall have."""
    mark = uuid4().hex[:6]  # the name of an interface has 15 characters at most
    third = int(mark[:2], 16)
    names = [f"rb{mark}h{i}" for i in range(1, count + 1)]
    hosts = [
        Host(name, f"10.77.{third}.{i}", ["ip", "netns", "exec", name])
        for i, name in enumerate(names, 1)
    ]
    made: list[Host] = []
    try:
        for host in hosts:
            _run("ip", "netns", "add", host.name)
            made.append(host)
        yield hosts
    finally:
        for host in made:
            host.kill_processes()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _cable(one: str, its_end: str, other: str, others_end: str) -> None:
    ends = ["name", its_end, "netns", one], ["name", others_end, "netns", other]
    _run("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])


def _plug_in(*hosts: Host) -> None:
    for host in hosts:
        where = ["ip", "-n", host.name]
        _run(*where, "addr", "add", f"{host.address}/24", "dev", "eth0")
        for interface in ("eth0", "lo"):
            _run(*where, "link", "set", interface, "up")


def _need_tc() -> None:
    if not shutil.which("tc", path=search_path()):
        raise RuntimeError("a slow cable needs the command tc (iproute2), which is not here")


def search_path() -> str:
    """PATH with the folders of the system's commands, which a notebook's user may not have."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:  # it has ended
        return ""


def _run(*words: str) -> str:
    environment = {**os.environ, "PATH": search_path()}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def _said(error: subprocess.CalledProcessError) -> str:
    """The last line of what a command complained."""
    return (error.stderr.strip().splitlines() or [f"status {error.returncode}"])[-1]
