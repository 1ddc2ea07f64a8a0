"""How fast and how far apart the nodes are, and what an all_reduce between them would take.

Two doctors at once are needed: of a Slurm step's nodes, which tell each other their addresses in
the checkpoint folder (each then measures the way to the next one, round a ring), or of hosts that
name each other by ``--peer``. They listen for as long as this takes.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rankbook.comm.ring_model import Link, ring
from rankbook.doctor.disk import lasting
from rankbook.doctor.finding import Finding, Options, number, ok, skipped, warning
from rankbook.doctor.interfaces import addresses, gloo_takes, interfaces
from rankbook.doctor.link_speed import LinkSpeed, Listening, measure
from rankbook.doctor.meeting import Board
from rankbook.doctor.network import VARIABLES, chosen
from rankbook.predict.cost_model.network import steps_between

SHARE = 0.1  # of the time may be spent in meetings


class Asked(NamedTuple):
    """What is worked out from the ways: for how many nodes, and for which model and step."""

    nodes: int
    parameters: float
    step_seconds: float


def findings(options: Options) -> Iterator[Finding]:
    """Measure, where there is somebody to measure with."""
    count = number(os.environ, "SLURM_STEP_NUM_NODES") or 1
    end = time.monotonic() + options.seconds - 1
    try:
        if count > 1 and os.environ.get("SLURM_LOCALID", "0") == "0":
            ways = round_a_ring(options, count, end, os.environ)
        elif options.peers and count == 1:
            ways = to_each_peer(options, end)
            count = len(options.peers) + 1
        else:
            yield skipped("links", "Links: run it on all nodes at once (srun, or --peer on each).")
            return
    except OSError as error:
        yield skipped("links", f"Links: nothing could be measured ({error.strerror or error}).")
        return
    if not ways:
        says = "Links: nobody was there to measure with; run it on all nodes at the same time."
        yield skipped("links", says)
        return
    yield slowest(ways, Asked(count, options.parameters, options.step_seconds))


def to_each_peer(options: Options, end: float) -> dict[str, LinkSpeed]:
    """The ways to those of `options.peers` that are examined meanwhile, too."""
    with Listening("", options.port) as listening:
        found = {}
        for host in filter(addresses, options.peers):  # what has none is `network`'s to say
            if way := measure(host, options.port, end):
                found[host] = way
        listening.serve_until(len(options.peers), end)
    return found


def round_a_ring(
    options: Options, count: int, end: float, slurm: Mapping[str, str]
) -> dict[str, LinkSpeed]:
    """The ways from each node to the next one, as each node has measured its own."""
    step = f"{slurm['SLURM_JOB_ID']}.{slurm['SLURM_STEP_ID']}"
    own, folder = slurm["SLURMD_NODENAME"], lasting(options.checkpoints)
    with (
        Board(Path(folder, f".rankbook-doctor-links-{step}"), own, count, end) as board,
        Listening(address(options), 0) as listening,
    ):
        places = board.share("place", listening.place)
        names = sorted(places)
        following = names[(names.index(own) + 1) % len(names)]
        host, port = places[following]
        way = measure(host, port, end) if len(names) == count else None
        listening.serve_until(1, end)
        told = board.share("way", [following, way._asdict() if way else None])
    return {f"{name} to {far}": LinkSpeed(**way) for name, (far, way) in told.items() if way}


def address(options: Options) -> str:
    """By which others reach this node: that of the interface which gloo takes."""
    named = chosen(os.environ, options.interface)
    taken = gloo_takes(interfaces(), named.get(VARIABLES[0]), addresses(socket.gethostname()))
    return taken.addresses[0] if taken and taken.addresses else ""


def slowest(ways: Mapping[str, LinkSpeed], asked: Asked) -> Finding:
    """The way that a ring of `asked.nodes` would wait for, and what that costs a training."""
    nbytes = 4 * asked.parameters
    seconds = {
        name: ring(asked.nodes, nbytes, Link(name, way.seconds, 1 / way.bytes_per_second))
        for name, way in ways.items()
    }
    name = max(seconds, key=seconds.__getitem__)
    way, takes = ways[name], seconds[name]
    every = steps_between(takes, asked.step_seconds, SHARE)
    value = {
        "links": {n: way._asdict() for n, way in ways.items()},
        "slowest": name,
        "parameters": asked.parameters,
        "all_reduce_seconds": takes,
        "every": every,
    }
    says = f"The slowest link is {named(name)}: {bits(way.bytes_per_second)}, "
    says += f"{1000 * way.seconds:.3g} ms away; an all_reduce of {asked.parameters / 1e6:,.3g} "
    says += f"million gradients over {asked.nodes} nodes takes {takes:,.3g} s"
    if takes <= asked.step_seconds:
        return ok("links", f"{says}.", value)
    says += f", longer than a step of {asked.step_seconds:g} s (--parameters, --step-seconds say "
    says += f"which model): with train_lm --sync diloco:{every}, meetings take at most {SHARE:.0%} "
    says += "of the time."
    return warning("links", says, value)


def named(way: str) -> str:
    """A way between two nodes, or to a peer."""
    return f"from {way}" if " to " in way else f"to {way}"


def bits(bytes_per_second: float) -> str:
    """In the unit of networks."""
    rate = 8 * bytes_per_second
    for unit in ("bit/s", "kbit/s", "Mbit/s"):
        if rate < 1000:
            return f"{rate:.3g} {unit}"
        rate /= 1000
    return f"{rate:.3g} Gbit/s"
