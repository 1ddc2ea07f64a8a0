"""Two nodes without --nnodes: the page 16_several_nodes."""

from diagrams.kit import say

SIZE = (38, 34)


def draw(p):
    """Node 0 has everything it needs; node 1 asks its store for a number."""
    p.node(0.5, 0.5, 37, 19, say("node 0", "节点 0"), say("trains alone", "独自训练"))
    p.node(
        0.5,
        25,
        37,
        8,
        say("node 1", "节点 1"),
        say("starts no rank at all", "一个 rank 也没有启动"),
    )
    launcher = say("launcher", "启动器")
    first = p.process(None, 24, 6, 11, 4, launcher)
    store = p.store(24, 12.5, 11, 5.5, "store", say("1 node", "1 个节点"))
    p.message(first, store)
    for rank, y in enumerate((6, 12.5)):
        one = p.process(rank, 3, y, 13, 4, say(f"rank {rank} of 2", f"rank {rank}，共 2 个"))
        p.message(first, one, across=True)
    second = p.process(None, 24, 27, 11, 4, launcher)
    p.message(
        second,
        store,
        say("waits for its number", "等自己的编号"),
        rank="bad",
        dashed=True,
        side="left",
        share=0.55,
    )
