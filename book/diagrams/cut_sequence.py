"""A sequence cut among four ranks, and the one place where they meet: the page 66_long_context."""

from diagrams.kit import say

SIZE = (42, 27)


def draw(p):
    """Each rank takes its two tokens through the layer; to attention, keys come from the left."""
    attention = []
    for rank in range(4):
        left = 0.5 + 10.6 * rank
        p.process(rank, left, 0.5, 9.2, 23, f"rank {rank}", top=True)
        p.tensor(left + 2.5, 3.4, [rank] * 2, [str(2 * rank), str(2 * rank + 1)])
        p.step(left + 0.6, 7.2, 8, 4.4, say("norm", "归一化"), "q, k, v")
        meet = p.step(left + 0.6, 13, 8, 3.4, say("attention", "注意力"), tone="bad")
        p.step(left + 0.6, 17.8, 8, 4.6, say("matrices,\nloss", "矩阵、\n损失"))
        attention.append(meet)
    for rank in range(3):
        p.message(attention[rank], attention[rank + 1], rank="bad")
    crossing = say(
        "only here ranks meet: keys and values of all tokens before",
        "只有这里要跨 rank：之前所有 token 的键和值",
    )
    p.words(21, 25.4, crossing, tone="quiet")
