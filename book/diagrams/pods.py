"""From a TrainJob to the ranks: the page 55_kubernetes."""

from diagrams.kit import say

SIZE = (42, 44.5)


def draw(p):
    """In each pod torchrun starts a rank, and its orphans go to PID 1; the store is in pod 0."""
    you = p.step(0.5, 1, 5.5, 4, say("you", "你"))
    job = p.file(17.6, 1, 9, 4, "TrainJob")
    jobs = p.step(35, 1, 6.5, 4, "JobSet")
    p.message(you, job, "`kubectl apply`")
    p.message(job, jobs, "operator")
    pods = [p.node(x, 10, 20, 23.5, f"pod {pod}") for pod, x in enumerate((0.5, 21.5))]
    p.message(jobs.port("bottom"), pods[0].port("top"))
    p.message(jobs, pods[1])
    store = p.store(13.3, 20.4, 5.6, 5.2, "store", "0, 1")
    disk = p.disk(
        1, 37.5, 40, 6, say("volume", "卷"), say("seen by all ranks", "所有 rank 都看得到")
    )
    agents = [p.process(None, x, 21, 9, 4, "`torchrun`") for x in (2, 31)]
    p.message(agents[0], store, dashed=True, both=True)
    p.message(agents[1], store, say("rendezvous", "会合"), dashed=True, both=True, share=0.36)
    for rank, (agent, x) in enumerate(zip(agents, (2, 31), strict=True)):
        pause = p.process(None, x, 13.3, 9, 5.2, "pause", "PID 1")
        worker = p.process(rank, x, 28, 9, 4, f"rank {rank}")
        p.message(agent, pause, dashed=True)
        p.message(agent, worker)
        p.message(worker, disk, rank=rank, both=True)
