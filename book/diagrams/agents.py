"""Agents, workers and the store of an elastic job: the page 41_elastic."""

from diagrams.kit import say

SIZE = (40, 30.5)
RENDEZVOUS = say("rendezvous", "会合")


def draw(p):
    """Two nodes: the agents meet in the store that a's agent hosts; all ranks share a disk."""
    p.node(0.5, 0.5, 19, 19.5, say("node a", "节点 a"))
    p.node(20.5, 0.5, 19, 19.5, say("node b", "节点 b"))
    store = p.store(11.7, 3.5, 6, 5.2, "store", "a, b")
    disk = p.disk(
        1, 24, 38, 6, say("checkpoints", "checkpoint"), say("seen by all nodes", "所有节点都看得到")
    )
    agents = [p.process(None, x, 4.2, 7, 4, "agent") for x in (1.8, 30.7)]
    p.message(agents[0], store, dashed=True, both=True)
    p.message(agents[1], store, RENDEZVOUS, dashed=True, both=True, share=0.33)
    for node, agent in enumerate(agents):
        for place in (0, 1):
            rank = 2 * node + place
            x = (1.8, 10.7)[place] + 20 * node
            worker = p.process(rank, x, 13.5, 7, 4, f"rank {rank}")
            p.message(agent.port("bottom"), worker.port("top"))
            p.message(worker, disk, rank=rank, both=True)
