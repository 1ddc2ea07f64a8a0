"""Who starts whom on a cluster: the page 51_slurm."""

from diagrams.kit import say

SIZE = (42, 36)


def draw(p):
    """The scheduler starts the batch script, its srun the agents, they the ranks."""
    you = p.step(1, 0.5, 12, 5.6, say("you", "你"), "`sbatch`")
    scheduler = p.process(None, 21, 0.5, 16, 5.6, say("scheduler", "调度系统"), "`slurmctld`")
    p.node(0.5, 10.5, 20, 25, say("node n1", "节点 n1"))
    p.node(21.5, 10.5, 20, 25, say("node n2", "节点 n2"))
    script = p.file(2.3, 13.9, 16, 5.6, say("batch script", "批处理脚本"), "`srun`")
    agents = [p.process(None, x, 22.5, 8, 4, "agent") for x in (2.3, 31.7)]
    p.message(you, scheduler)
    p.message(scheduler, script, via=((29, 8.4), (10.3, 8.4)))
    p.message(script, agents[0])
    p.message(script.port("right"), agents[1].port("top"), say("job step", "作业步"), share=0.67)
    p.message(agents[0], agents[1], say("rendezvous", "会合"), dashed=True, both=True, share=0.74)
    for node, agent in enumerate(agents):
        for place in (0, 1):
            x = (2.3, 11.2)[place] + 20.5 * node
            worker = p.process(2 * node + place, x, 30.3, 8, 4, f"rank {2 * node + place}")
            p.message(agent.port("bottom"), worker.port("top"))
