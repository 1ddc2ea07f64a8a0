"""One finding of the judgement, and what its parts share."""

from collections.abc import Iterable
from dataclasses import dataclass

from rankbook.autopsy import stacks, words
from rankbook.autopsy.reading import Job, RankRecord

STILL = 3.0  # seconds without a move after which a rank is taken for one that waits


@dataclass(frozen=True)
class Finding:
    """What is wrong. kind: one word for a program; ranks: whom it is about, the culprits where
    they are known; text: a sentence or two; lines: the line of each rank that matters, by rank.
    """

    kind: str
    ranks: tuple[int, ...]
    text: str
    lines: dict[int, str]


def waits(rank: RankRecord) -> bool:
    """Whether a rank stood still in a call of torch.distributed, or in backward, to the last.

    One that was told to end was in it, however short the time.
    """
    if rank.ended not in ("told", "died", "silent", None):
        return False
    inside = stacks.call(rank.lines) or stacks.in_backward(rank.lines)
    undone = any(not entry.done for entry in rank.entries)
    return bool(inside or undone) and (rank.still >= STILL or rank.ended == "told")


def lines_of(job: Job, numbers: Iterable[int]) -> dict[int, str]:
    return {r: words.line(stacks.last_line(job.ranks[r].lines)) for r in numbers if r in job.ranks}


def network_hint(job: Job) -> str:
    """Where to look when nobody is missing."""
    variables = "GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME"
    nodes = {rank.node: rank.host for rank in job.ranks.values()}
    if len(nodes) == 1:
        return f"Look at the interface that they use ({variables})."
    names = ", ".join(f"{number} ({host})" for number, host in sorted(nodes.items()))
    return (f"Look at the network between the nodes {names}, and at the interface that they use "
            f"({variables}).")  # fmt: skip
