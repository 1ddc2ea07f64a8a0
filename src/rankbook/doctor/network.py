"""Which way ranks of two machines would find each other: interface, host name, port, peers."""

import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence

from rankbook.doctor.finding import Finding, Options, nodes, ok, problem, skipped, warning
from rankbook.doctor.interfaces import (
    Interface,
    addresses,
    gloo_takes,
    interfaces,
    loops,
    nccl_takes,
    usable,
)
from rankbook.doctor.ports import peer, port

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def findings(options: Options) -> Iterator[Finding]:
    """What a job that is started from here would find on the network."""
    many = nodes(os.environ) > 1 or bool(options.peers)
    if not sys.platform.startswith("linux"):
        yield skipped("interface", "Interfaces: how they are asked is known for Linux only.")
    else:
        here = interfaces()
        named = chosen(os.environ, options.interface)
        resolved = addresses(socket.gethostname())
        wrong = list(existing(here, named))
        yield from wrong or [interface(here, named, resolved, many)]
    own = socket.getfqdn()
    yield host_name(own, addresses(own), many)
    yield port(options.port)
    for host in options.peers:
        yield peer(host, addresses(host), options.port)


def chosen(environment: Mapping[str, str], interface: str | None) -> dict[str, str]:
    """The variables that name an interface; `interface`, if given, is taken in place of them."""
    if interface:
        return dict.fromkeys(VARIABLES, interface)
    return {name: environment[name] for name in VARIABLES if environment.get(name)}


def existing(here: Sequence[Interface], named: Mapping[str, str]) -> Iterator[Finding]:
    """Is what the variables name an interface of this machine, up, with an address?"""
    names = ", ".join(i.name for i in here)
    gloo, nccl = (named.get(name) for name in VARIABLES)
    if nccl and not nccl_takes(here, nccl) and nccl != gloo:
        says = f"NCCL_SOCKET_IFNAME={nccl} fits no interface that is up: here are {names}."
        yield problem("named interface", says, nccl)
    if gloo:
        found = gloo_takes(here, gloo, ())
        if found is None:
            says = f"There is no interface {gloo}: here are {names}; name one of them."
            yield problem("named interface", says, gloo)
        elif not (found.up and found.addresses):
            lacks = "has no address" if found.up else "is down"
            says = f"Interface {gloo} {lacks}: name another one of {names}."
            yield problem("named interface", says, gloo)


def interface(
    here: Sequence[Interface], named: Mapping[str, str], resolved: Sequence[str], many: bool
) -> Finding:
    """What gloo and NCCL take. resolved: addresses of the host name. many: more than one node."""
    gloo = gloo_takes(here, named.get(VARIABLES[0]), resolved)
    nccl = nccl_takes(here, named.get(VARIABLES[1]))
    others = usable(here)
    value = {
        "gloo": gloo and gloo.name,
        "nccl": [i.name for i in nccl],
        "candidates": {i.name: list(i.addresses) for i in others},
    }
    bad = problem if many else warning
    if not others:
        says = "No interface reaches another machine: jobs can have one node only."
        return bad("interface", says, value)
    best = next((i for i in others if not i.bridge), others[0]).name
    remedy = f"export GLOO_SOCKET_IFNAME={best} NCCL_SOCKET_IFNAME={best}"
    if gloo is None or gloo.loopback:
        why = f"this machine's name means {resolved[0]}" if resolved else "its name is unknown"
        why = f"GLOO_SOCKET_IFNAME={named[VARIABLES[0]]}" if VARIABLES[0] in named else why
        says = f"gloo takes the loopback ({why}), which no other machine reaches: {remedy}."
        return bad("interface", says, value)
    if not nccl or nccl[0].loopback:
        return bad("interface", f"NCCL takes no interface but loopback: {remedy}.", value)
    if len(nccl) > 1 and VARIABLES[1] not in named:
        among = ", ".join(i.name + " (a bridge)" * i.bridge for i in nccl)
        says = f"NCCL may take any of {among}, gloo takes {gloo.name}: name the one that the nodes "
        return warning("interface", f"{says}share; {remedy}.", value)
    if gloo.name != nccl[0].name:
        says = f"gloo takes {gloo.name}, NCCL {nccl[0].name}."
        return ok("interface", says, value)
    return ok("interface", f"gloo and NCCL take {gloo.name} ({gloo.addresses[0]}).", value)


def host_name(name: str, resolved: Sequence[str], many: bool) -> Finding:
    """The name under which an agent of torchrun tells the others to find rank 0.

    name: socket.getfqdn(), which torchrun uses. resolved: its addresses.
    """
    value = {"name": name, "addresses": list(resolved)}
    remedy = "torchrun --local-addr ADDRESS, or correct /etc/hosts"
    if not resolved:
        says = f"This machine calls itself {name}, a name without address: {remedy}."
    elif loops(resolved[0]):
        says = f"This machine calls itself {name} ({resolved[0]}), so other nodes would look for "
        says += f"rank 0 on themselves: {remedy}."
    else:
        return ok("host name", f"Others will find it as {name} ({resolved[0]}).", value)
    return (problem if many else warning)("host name", says, value)
