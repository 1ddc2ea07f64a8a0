"""One round of DiLoCo with two replicas: the page 68_slow_links."""

from diagrams.kit import say

SIZE = (42, 31)


def draw(p):
    """Parameters that all agree on, twenty steps alone, then one outer step."""
    agreed = p.step(11, 0.5, 20, 4, say("agreed parameters", "共同的参数"))
    gone = say("outer gradient", "外层梯度")
    mean = p.step(8, 18, 26, 4, say("mean of the outer gradients", "外层梯度求平均"))
    for rank, x in enumerate((2, 25)):
        work = say("20 steps of AdamW", "用 AdamW 走 20 步")
        own = p.process(rank, x, 8.5, 15, 4.6, f"rank {rank}", work)
        p.message(agreed.port("bottom", (0.2, 0.8)[rank]), own, rank=rank)
        side = ("left", "right")[rank]
        p.message(own, mean.port("top", (0.2, 0.8)[rank]), gone, rank=rank, side=side)
    outer = p.step(
        8, 25.5, 26, 4.6, say("outer optimizer", "外层优化器"),
        say("new agreed parameters", "新的共同参数"),
    )  # fmt: skip
    p.message(mean, outer)
