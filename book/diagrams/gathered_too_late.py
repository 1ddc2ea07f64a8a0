"""Where the gradients are lost: the page 25_wrappings."""

from diagrams.kit import say

SIZE = (40, 36.5)
WHOLE, PIECE = say("gathered", "已聚合"), say("sharded", "已分片")
STEPS = (  # what is done, the layer meanwhile, what to know about it
    (say("**F** forward pass", "**F** 前向"), True, WHOLE),
    (say("after it", "用完之后"), False, PIECE),
    (say("**I** lists parameters", "**I** 列出参数"), False, say("not in the graph", "不在图里")),
    (say("**I** runs backward", "**I** 运行反向"), True, say("too late", "太晚了")),
)


def draw(p):
    """The layer on rank 0, from F to W: of its four parameters two are rank 0's own."""
    p.words(0.5, 1.4, say("time goes down", "时间向下"), align="start", tone="quiet")
    p.words(18, 1.4, say("the layer on rank 0", "rank 0 上的这一层"), align="start", tone="quiet")
    before = None
    for row, (done, gathered, note) in enumerate(STEPS):
        y = 3.3 + 6.8 * row
        step = p.step(0.5, y, 15.8, 4, done)
        if before:
            p.message(before, step)
        before = step
        for cell in range(4):
            faint = cell > 1 and not gathered
            p.block(int(cell > 1), 18 + 2.3 * cell, y + 1, 2, 2, faint=faint)
        tone = "bad" if row == 2 else "quiet"
        p.words(27.8, y + 2, note, align="start", tone=tone)
    last = p.step(
        0.5,
        31,
        39,
        4.5,
        say("**W** gradients of what was listed: none", "**W** 求所列参数的梯度：一个也没有"),
        tone="bad",
    )
    p.message(before, last)
