"""Ring attention of four ranks, step by step: the page 66_long_context."""

from diagrams.kit import Port, say
from diagrams.kit.geometry import UNIT

SIZE = (44, 35)
LEFT, APART, HIGH = 7, 9.4, 7.2


def draw(p):
    """Queries stay in their column; keys and values go to the right, and round to rank 0."""
    before = []
    for step in range(4):
        top = 5 + HIGH * step
        p.words(0.5, top + 1.6, say(f"step {step}", f"第 {step} 步"), align="start", bold=True)
        there = []
        for rank in range(4):
            owner, x = (rank - step) % 4, LEFT + APART * rank
            if step == 0:
                p.words(x + 3.6, 1.4, f"rank {rank}", bold=True)
            p.block(rank, x, top, 3.3, 3.2, f"q{rank}", faint=True)
            look = {"faint": owner > rank}
            there.append(p.block(owner, x + 4, top, 3.3, 3.2, f"k{owner}", **look))
        for rank, start in enumerate(before):
            _send(p, start, there, rank, (rank - step + 1) % 4)
        before = there
    unseen = say(
        "pale k: later than these queries, only passed on", "浅色 k：比这些查询都晚，只是路过"
    )
    p.words(22, 33.6, unseen, tone="quiet")


def _send(p, start, there, rank, owner):
    """From the row above to the next rank; from the last one over the edge to rank 0."""
    leaves = start.port("bottom", 0.7)
    if rank < 3:
        p.message(leaves, there[rank + 1].port("top", 0.3), rank=owner)
        return
    y = start.bottom + (HIGH - 3.2) * UNIT / 2
    p.message(leaves, Port((SIZE[0] - 0.3) * UNIT, y, "left"), rank=owner)
    p.message(Port(0.3 * UNIT, y, "right"), there[0].port("top", 0.3), rank=owner)
