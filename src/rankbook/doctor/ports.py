"""The rendezvous port here, and on another node."""

import contextlib
import errno
import socket
from collections.abc import Sequence
from pathlib import Path

from rankbook.doctor.finding import Finding, ok, problem, warning

LISTENING = "0A"  # the state in /proc/net/tcp
PATIENCE = 3.0  # seconds: a node that is reached answers within milliseconds
ENDS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def port(number: int) -> Finding:
    """Is `number` free for the rendezvous? It is bound for a moment, and nobody can connect."""
    families = [(socket.AF_INET, "0.0.0.0")]
    families += [(socket.AF_INET6, "::")] if socket.has_ipv6 else []
    for family, everywhere in families:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as here:
                here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as TCPStore does
                if family == socket.AF_INET6:
                    here.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                here.bind((everywhere, number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return taken(number, holder(number))
            if error.errno == errno.EACCES:
                says = f"Port {number} is the system's: take one above 1023 (--rdzv-endpoint)."
                return problem("port", says, number)
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
    if ENDS.is_file():
        first, last = map(int, ENDS.read_text().split())
        if first <= number <= last:
            says = f"Port {number} is free now, but outgoing connections take theirs from "
            says += f"{first} to {last}: take one outside."
            return warning("port", says, number)
    return ok("port", f"Port {number} is free.", number)


def taken(number: int, who: str) -> Finding:
    """who: the process that listens there, as `holder` tells; it may be empty."""
    held = f"by {who}" if who else "by a process of another user or container"
    says = f"Port {number} is taken {held}: end it, or take another (--rdzv-endpoint HOST:PORT)."
    return problem("port", says, {"port": number, "holder": who})


def holder(number: int) -> str:
    """Which process listens on port `number`; empty where this user may not know."""
    sockets = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.is_file() else []:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENING and int(local.rsplit(":", 1)[1], 16) == number:
                sockets.add(f"socket:[{inode}]")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if any(_target(file) in sockets for file in (process / "fd").iterdir()):
                program, *words = (process / "cmdline").read_bytes().decode().split("\0")
                command = " ".join([Path(program).name, *words]).strip()
                return f"process {process.name} ({command[:80]})"
    return ""


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # closed since
        return ""


def peer(host: str, resolved: Sequence[str], number: int) -> Finding:
    """Is another node reached, and by which address of ours? resolved: its addresses.

    A connection that is refused has reached the node, too: nothing listens there, yet.
    """
    check = f"peer {host}"
    if not resolved:
        says = f"{host} has no address here: correct the name, or /etc/hosts and the name server."
        return problem(check, says)
    try:
        with socket.create_connection((host, number), timeout=PATIENCE) as line:
            says = f"{host}:{number} answers, from {line.getsockname()[0]}: something listens "
            return ok(check, f"{says}there already.", {"from": line.getsockname()[0], "open": True})
    except ConnectionRefusedError:
        source = source_to(resolved[0], number)
        says = f"{host} ({resolved[0]}) is reached from {source}; nothing listens on {number} yet."
        return ok(check, says, {"from": source, "open": False})
    except OSError as error:
        silent = f"no answer in {PATIENCE:g} s"
        why = silent if isinstance(error, TimeoutError) else error.strerror
        says = f"{host}:{number} ({resolved[0]}) is not reached ({why}): see its interface, the "
        return problem(check, f"{says}route and the firewalls of both.", why)


def source_to(address: str, number: int) -> str:
    """Our address on the way to `address`: what the routes say; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((address, number))
        return way.getsockname()[0]
