"""The machines of a plan: a card, how many, what links them, and what is assumed of them."""

import tomllib
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files

from rankbook.comm.ring_model import Link

INSIDE_ALPHA, BETWEEN_ALPHA = 3e-6, 10e-6  # seconds a step of a ring; NCCL's own model is near


@dataclass(frozen=True)
class Card:
    """A card: memory in bytes, flops in FLOP/s of bf16 products, bandwidth in B/s.

    inside: the link to the next card of the node. between: to the next node, a card's own share.
    """

    name: str
    memory: float
    flops: float
    bandwidth: float
    inside: Link
    between: Link
    per_node: int = 8
    source: str = "given by you"


@dataclass(frozen=True)
class Assumptions:
    """What no data sheet says; each can be replaced, and a plan's errors are measured with these.

    matmul, link and workspace were chosen with what others measured: torchtitan on A100, DLPerf on
    V100 (`rankbook.predict.plan.published`, "fitted"). The rest are guesses that those did not
    contradict; fragments is near the mean of nanotron's 30 logs. No row that is "held out" chose
    anything.

    matmul: the share of a card's peak that large products reach. attention: the same of attention
    itself. memory: the share of its bandwidth that everything else reaches. link: of a link's.
    hidden: the share of a backward pass behind which messages of replicas can hide. workspace:
    bytes that CUDA, NCCL, cuBLAS and a framework's own buffers take beside what is counted.
    fragments: the share of the card that is lost between blocks.
    """

    matmul: float = 0.60
    attention: float = 0.45
    memory: float = 0.80
    link: float = 0.60
    hidden: float = 0.90
    workspace: float = 4.0e9
    fragments: float = 0.05

    def __post_init__(self):
        for each in fields(self):
            if not getattr(self, each.name) >= 0:
                raise ValueError(f"Assumptions: {each.name} is below 0; give 0 or more")


@dataclass(frozen=True)
class Machines:
    """`gpus` cards in nodes of `per_node` (0: as the card comes). Raises ValueError."""

    card: Card
    gpus: int
    per_node: int = 0
    assumed: Assumptions = field(default_factory=Assumptions)

    def __post_init__(self):
        if self.gpus < 1:
            raise ValueError(f"gpus is {self.gpus}; it must be 1 or more")
        if self.gpus > self.node and self.gpus % self.node:
            raise ValueError(
                f"{self.gpus} GPUs are not whole nodes of {self.node}; "
                f"use a multiple of {self.node}, or say how many a node has (--gpus-per-node)"
            )

    @property
    def node(self) -> int:
        """Cards of a node."""
        return self.per_node or self.card.per_node

    @property
    def usable(self) -> float:
        """Bytes of a card that are left for tensors."""
        return self.card.memory * (1 - self.assumed.fragments) - self.assumed.workspace

    def link(self, ranks: int, stride: int = 1) -> Link:
        """Of a ring of `ranks` that stand `stride` apart: the slowest of its hops.

        Members on one node share its network cards: as many rings run side by side. Groups that do
        not fill nodes, as of three on nodes of eight, lie across two of them here and there.
        """
        share = self.assumed.link
        inside, between = self.card.inside, self.card.between
        together = max(1, self.node // stride)  # members on one node
        if ranks <= together and self.gpus > self.node and self.node % (ranks * stride):
            together = 1
        elif ranks <= together:
            return Link(inside.name, inside.alpha, inside.beta / share)
        slowest = max(inside.beta, between.beta / min(together, ranks))
        return Link(between.name, between.alpha, slowest / share)

    def hops(self, stages: int, stride: int) -> list[Link]:
        """Of messages from each of `stages` that stand `stride` apart to the next one."""
        starts = (stage * stride for stage in range(stages - 1))
        ends = ((first // self.node, (first + 2 * stride - 1) // self.node) for first in starts)
        far = sum(first != last for first, last in ends)  # some member's next one is elsewhere
        links = [self.card.inside] * (stages - 1 - far) + [self.card.between] * far
        share = self.assumed.link
        return [Link(link.name, link.alpha, link.beta / share) for link in links]


@cache
def cards() -> dict[str, Card]:
    """All that cards.toml knows, by name."""
    known = tomllib.loads((files("rankbook.predict.plan") / "cards.toml").read_text("utf-8"))
    return {name: make_card(name, **entry) for name, entry in known.items()}


def make_card(
    name: str,
    memory: float,
    flops: float,
    bandwidth: float,
    inside: float,
    between: float,
    per_node: int = 8,
    source: str = "given by you",
) -> Card:
    """A card from plain numbers: bytes, FLOP/s, and B/s one way for both links. Raises ValueError.

    Latencies are the same for all: 3 µs a step inside a node, 10 µs between nodes.
    """
    for word, value in {
        "memory": memory,
        "flops": flops,
        "bandwidth": bandwidth,
        "inside": inside,
        "between": between,
        "per_node": per_node,
    }.items():
        if not value > 0:
            raise ValueError(f"the card {name}: {word} is {value}; give more than 0")
    near = Link("inside a node", INSIDE_ALPHA, 1 / inside)
    far = Link("between nodes", BETWEEN_ALPHA, 1 / between)
    return Card(name, memory, flops, bandwidth, near, far, int(per_node), source)


def find_card(name: str) -> Card:
    """The card called `name`. Raises ValueError, with how to describe another."""
    if name.lower() not in cards():
        raise ValueError(
            f"the card {name!r} is unknown; known are {', '.join(cards())}. Describe another: "
            "--gpu name=x,memory=48e9,flops=360e12,bandwidth=864e9,inside=32e9,between=12.5e9"
        )
    return cards()[name.lower()]
