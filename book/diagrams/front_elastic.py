"""A node is killed, another joins, the first comes back: a picture of the front page."""

from diagrams.kit import say

SIZE = (32, 21)
# (start, length) of the times in which each node trains
TRAINS = (((7, 5.5), (13, 6.5), (21, 10)), ((7, 5.5), (21, 10)), ((13, 6.5), (21, 10)))


def draw(p):
    """After each change of the nodes all of them begin anew, from the same step."""
    p.words(19, 1.5, say("the world grows and shrinks", "节点有增有减"), tone="quiet")
    for node, spans in enumerate(TRAINS):
        y = 3.4 + node * 4.2
        p.words(1, y + 1.6, say(f"node {'abc'[node]}", f"节点 {'abc'[node]}"), align="start")
        for x, length in spans:
            p.block(node, x, y, length, 3.2)
    p.fault(13.5, 9.2)
    p.words(
        19,
        18.2,
        say("and every sample counts once", "每个样本仍然恰好算一次"),
        tone="quiet",
    )
