"""Eight ranks in three dimensions, and what goes along each: the page 62_three_dimensions."""

from diagrams.kit import say

SIZE = (42, 47.5)
COLUMNS, WIDE, HIGH = (3, 28), 10, 4


def draw(p):
    """Two stages; in each, replicas below each other, parts of a layer side by side."""
    stages = []
    for stage, y in enumerate((0.5, 27)):
        stages.append(p.node(0.5, y, 41, 20, f"stage {stage}"))
        ranks = []
        for rank in range(4):
            place = COLUMNS[rank % 2], y + (3.2, 13.6)[rank // 2]
            ranks.append(
                p.process(4 * stage + rank, *place, WIDE, HIGH, f"rank {4 * stage + rank}")
            )
        for replica in range(2):
            one, other = ranks[2 * replica : 2 * replica + 2]
            p.message(one, other, both=True)
        for part in range(2):
            p.message(ranks[part], ranks[2 + part], both=True)
        if stage == 0:
            p.words(20.5, y + 7.8, say("**tp** in every layer", "**tp** 每一层都有"), tone="quiet")
            p.words(20.5, y + 10.4, say("**dp** once a step", "**dp** 每步一次"), tone="quiet")
    p.message(*stages, both=True)
    often = say("**pp** once a microbatch,\neach way", "**pp** 每个 microbatch\n往返各一次")
    p.words(22.5, 23.7, often, align="start")
