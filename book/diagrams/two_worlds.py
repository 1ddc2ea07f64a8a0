"""Two worlds that share a folder: the page 45_two_worlds."""

from diagrams.kit import say

SIZE = (40, 37)


def draw(p):
    """The store lists only b; a trains on all the same, and both rank 0 write to one folder."""
    store = p.store(17, 0.5, 6, 5.2, "store", "b")
    p.node(0.5, 9, 19, 18, say("node a", "节点 a"), failed=True)
    p.node(20.5, 9, 19, 18, say("node b", "节点 b"))
    one = say("one folder of checkpoints", "同一个 checkpoint 文件夹")
    harm = say("each world removes the other's", "两个 world 互相删掉对方的")
    disk = p.disk(1, 30.5, 38, 6, one, harm)
    late = p.process(None, 6.5, 13.5, 7, 4, "agent")
    agent = p.process(None, 26.5, 13.5, 7, 4, "agent")
    p.message(late.port("top"), store.port("left"), dashed=True, rank="bad")
    p.fault(10, 5.5)
    gone = say("struck off,\nnot told", "已除名，\n却不知情")
    p.words(8.4, 5.5, gone, align="end", tone="bad")
    p.message(agent.port("top"), store.port("right"), "keep-alive", share=0.7)
    for rank, x, starter in ((0, 6.5, late), (0, 21.8, agent), (1, 31.2, agent)):
        worker = p.process(rank, x, 20.7, 7, 4, f"rank {rank}")
        p.message(starter.port("bottom"), worker.port("top"))
        if rank == 0:  # of each world: it alone saves
            p.message(worker, disk, rank=rank)
