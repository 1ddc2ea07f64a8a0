"""The network interfaces of this machine, and the one that gloo and NCCL each take."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FLAGS, ADDRESS = 0x8913, 0x8915  # SIOCGIFFLAGS and SIOCGIFADDR of netdevice(7)
UP, LOOPBACK = 0x1, 0x8
IPV6 = Path("/proc/net/if_inet6")


class Interface(NamedTuple):
    """One interface. addresses: IPv4 first; those of IPv6 that hold on the link only are left out.

    bridge: whether it joins others, as those of containers and virtual machines do.
    """

    name: str
    addresses: tuple[str, ...]
    up: bool
    loopback: bool
    bridge: bool = False


def interfaces() -> list[Interface]:
    """Those of this machine (Linux), as this process sees them."""
    sixth = _ipv6()
    return [_about(name, sixth.get(name, [])) for _, name in socket.if_nameindex()]


def _about(name: str, sixth: Sequence[str]) -> Interface:
    request = struct.pack("256s", name.encode())
    fourth, flags = [], 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        with contextlib.suppress(OSError):
            flags = struct.unpack_from("H", fcntl.ioctl(asking, FLAGS, request), 16)[0]
        with contextlib.suppress(OSError):  # it has none
            fourth = [socket.inet_ntoa(fcntl.ioctl(asking, ADDRESS, request)[20:24])]
    bridge = Path("/sys/class/net", name, "bridge").is_dir()
    return Interface(name, (*fourth, *sixth), bool(flags & UP), bool(flags & LOOPBACK), bridge)


def _ipv6() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in IPV6.read_text().splitlines() if IPV6.is_file() else []:
        number, _, _, _, _, name = line.split()
        address = ipaddress.ip_address(bytes.fromhex(number))
        if not address.is_link_local:
            found.setdefault(name, []).append(str(address))
    return found


def usable(all_of_them: Sequence[Interface]) -> list[Interface]:
    """Those that reach another machine: up, with an address."""
    return [i for i in all_of_them if i.up and i.addresses and not i.loopback]


def gloo_takes(
    all_of_them: Sequence[Interface], named: str | None, resolved: Sequence[str]
) -> Interface | None:
    """The interface of gloo; None where it would find none, and fall back to the loopback.

    named: GLOO_SOCKET_IFNAME. resolved: the addresses of this machine's host name, in order; gloo
    takes the first that is an address of its own. Source: torch, ProcessGroupGloo.cpp,
    createDefaultDevice.
    """
    if named:
        return next((i for i in all_of_them if i.name == named.split(",")[0]), None)
    for address in resolved:
        for interface in all_of_them:
            # the whole network 127.0.0.0/8 belongs to the loopback, with whatever address it has
            if address in interface.addresses or (interface.loopback and loops(address)):
                return interface
    return None


def nccl_takes(all_of_them: Sequence[Interface], named: str | None) -> list[Interface]:
    """The interfaces of NCCL, the first first; empty where it finds none.

    named: NCCL_SOCKET_IFNAME: beginnings of names, whole names after "=", not these after "^".
    Without it InfiniBand's, then all but docker's and loopback, then docker's, then loopback.
    Source: NCCL, src/misc/socket.cc, ncclFindInterfaces.
    """
    up = [i for i in all_of_them if i.up and i.addresses]
    if named:
        but, exact = named.startswith("^"), named.lstrip("^").startswith("=")
        names = tuple(named.lstrip("^=").split(","))
        fits = [i.name in names if exact else i.name.startswith(names) for i in up]
        return [i for i, fit in zip(up, fits, strict=True) if fit != but]
    low = ("docker", "lo", "virbr")
    tiers = (
        [i for i in up if i.name.startswith("ib")],
        [i for i in up if not i.name.startswith(low)],
        [i for i in up if i.name.startswith("docker")],
        [i for i in up if i.loopback],
    )
    return next((tier for tier in tiers if tier), [])


def loops(address: str) -> bool:
    """Whether `address` is one that every machine has for itself."""
    return ipaddress.ip_address(address).is_loopback


def addresses(host: str) -> list[str]:
    """The addresses of `host`, in the order in which programs try them; none where unknown."""
    try:
        told = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]).split("%")[0] for entry in told))
