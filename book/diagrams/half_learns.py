"""Two stages, and a backward pass that ends at the first edge: the page 21_pipelines."""

from diagrams.kit import say

SIZE = (40, 17)


def draw(p):
    """Forward above, backward below; what does not cross has the mark of a fault."""
    first = p.process(0, 0.5, 2, 10, 9, "rank 0", "stage 0")
    second = p.process(1, 20, 2, 10, 9, "rank 1", "stage 1")
    loss = p.step(34.3, 2, 5.2, 9, say("loss", "损失"))
    forward, back = (first.port("right", 0.25), first.port("right", 0.7))
    p.message(forward, second, say("activations", "激活值"), rank=0)
    p.message(second.port("right", 0.25), loss, rank=1)
    p.message(loss.port("left", 0.7), second, rank=1)
    p.message(second.port("left", 0.7), back, rank="bad", dashed=True)
    p.fault(15.25, 8.3)
    p.words(15.25, 10.3, say("nothing", "什么也没有"), tone="bad")
    p.fault(1.4, 14.5)
    p.words(
        3.1,
        14.5,
        say("no gradient,\nnever learns", "没有梯度，\n学不到东西"),
        align="start",
        tone="bad",
    )
    p.held(20.9, 14.5)
    p.words(22.5, 14.5, say("a gradient,\nlearns", "有梯度，\n能学习"), align="start")
