"""How N agents of torchrun meet: a simulation of its c10d rendezvous, in time that costs none.

All agents keep one state, a list of who is there, in one key of one store. To join, an agent
sends the whole list with itself added, and the list that it knew: the store takes it only if
nobody was faster (`compare_set`). Who was too late gets the new list and tries again. So each
joining is a race of all who are not in yet. Source: torch 2.13,
torch/distributed/elastic/rendezvous/dynamic_rendezvous.py; its makers know it, see
https://github.com/pytorch/pytorch/pull/117066.
"""

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

POLL, HEARTBEAT = 1.0, 5.0  # seconds; torch's own


@dataclass(frozen=True)
class RendezvousCosts:
    """What was measured of single agents: seconds and bytes; pairs are (fixed, for each member).

    first: until an agent is ready to write for the first time. client: to make a new list out of
    the one that came. store: until the store has answered; it serves one after the other. nbytes:
    of the list.
    """

    first: float
    client: tuple[float, float]
    store: tuple[float, float]
    nbytes: tuple[float, float]

    @classmethod
    def of(cls, result: Mapping) -> "RendezvousCosts":
        """Of a result of benchmarks/rendezvous.py."""
        costs = result["costs"]
        return cls(costs["first"], *(tuple(costs[k]) for k in ("client", "store", "nbytes")))


@dataclass(frozen=True)
class Joining:
    """How it went: seconds until the last agent knew (inf: given up), writes tried, bytes sent."""

    agents: int
    seconds: float
    writes: int
    nbytes: float


def watching(agents: int, costs: RendezvousCosts) -> float:
    """Bytes a second that the store sends later: every agent reads the list once a second."""
    return agents * _line(costs.nbytes, agents) / POLL


def join(
    agents: int,
    costs: RendezvousCosts,
    spread: float = 0.3,
    cores: int | None = None,
    seed: int = 0,
    give_up: float = 60.0,
) -> Joining:
    """Let `agents` meet that start within `spread` seconds (torch's own random delay: 0.3).

    cores: that all agents share, as on the machine of the benchmark; None: each has its own.
    The wait of elastic sizes for more agents (last_call_timeout, 30 s) would come on top.
    Without: the time on the network, and that agents silent for 15 s are taken for dead.
    Against benchmarks/rendezvous.py on two cores it holds up to 32 agents; at 64 it is too fast, at
    128 far too slow (*On many nodes* prints by how much). Nothing should rest on it for more.
    """
    return _Meeting(agents, costs, cores).run(random.Random(seed), spread, give_up)


def _line(pair: tuple[float, float], members: int) -> float:
    return pair[0] + pair[1] * members


class _Meeting:
    """The store, and agents that each have one request under way."""

    def __init__(self, agents: int, costs: RendezvousCosts, cores: int | None):
        self.agents, self.costs = agents, costs
        self.cores = [0.0] * cores if cores else None  # when each is free again
        self.requests: list[
            tuple[float, int, str]
        ] = []  # (when it reaches the store, agent, what it wants)
        self.members = self.version = self.writes = 0
        self.sent = 0.0  # bytes
        self.known = [0] * agents  # the version that each agent has seen
        self.beaten = [0.0] * agents  # when each has last written
        self.end = 0.0

    def run(self, chance: random.Random, spread: float, give_up: float) -> Joining:
        for agent in range(self.agents):
            self.ask(chance.uniform(0, spread), agent, "look")
        free = 0.0
        while self.requests:
            arrived, agent, wants = heapq.heappop(self.requests)
            free = max(arrived, free) + _line(self.costs.store, self.members)
            if free > give_up:
                self.end = inf
                break
            self.serve(free, agent, wants)
        return Joining(self.agents, self.end, self.writes, self.sent)

    def ask(self, when: float, agent: int, wants: str) -> None:
        heapq.heappush(self.requests, (when, agent, wants))

    def serve(self, now: float, agent: int, wants: str) -> None:
        """The store's answer has come `now`; what the agent does next."""
        nbytes = _line(self.costs.nbytes, self.members)
        if wants in ("join", "beat"):
            self.writes, self.sent = self.writes + 1, self.sent + 3 * nbytes  # old, new, answer
            if self.known[agent] == self.version:  # nobody was faster
                self.version += 1
                self.members += wants == "join"
                self.beaten[agent], wants = now, "in"
        else:
            self.sent += nbytes
        self.known[agent] = self.version
        if self.members == self.agents and wants != "join":
            self.end = max(self.end, now)
        elif wants == "look":
            self.ask(self.thought(now, self.costs.first), agent, "join")
        elif wants in ("join", "beat"):  # too late: again, with the list that came
            self.again(now, agent, wants)
        elif wants == "poll" and now - self.beaten[agent] > HEARTBEAT:
            self.again(now, agent, "beat")
        else:
            self.ask(now + POLL, agent, "poll")

    def again(self, now: float, agent: int, wants: str) -> None:
        self.ask(self.thought(now, _line(self.costs.client, self.members)), agent, wants)

    def thought(self, now: float, seconds: float) -> float:
        """When work of so many seconds is done that starts now, or when a core is free."""
        if self.cores is None:
            return now + seconds
        done = max(now, heapq.heappop(self.cores)) + seconds
        heapq.heappush(self.cores, done)
        return done
