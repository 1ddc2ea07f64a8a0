"""An epoch of the tutorial, and where a restart begins: the page T62_restarts_checked."""

from itertools import pairwise

from diagrams.kit import say

SIZE = (37, 31.5)
STEPS = (
    "`backward`",
    say("print the loss", "打印损失"),
    "`optimizer.step`",
    say("all ranks save", "所有 rank 保存"),
)


def draw(p):
    """The file says n when epoch n is done, and the restart begins at n."""
    p.words(8.5, 1.4, "epoch n", bold=True)
    steps = [p.step(1, 3 + 7.5 * number, 15, 4, said) for number, said in enumerate(STEPS)]
    for one, other in pairwise(steps):
        p.message(one, other)
    saved = p.disk(23.5, 24.3, 12, 6.4, "checkpoint", "epoch: n")
    p.message(steps[3], saved)
    restart = say("restart: load,\nbegin at n", "重启：加载，\n从 n 开始")
    look = {"rank": "bad", "dashed": True, "side": "left", "share": 0.35}
    p.message(saved.port("top"), steps[0].port("right"), restart, **look)
    p.words(28.6, 9, say("n is done twice", "n 做了两遍"), align="end", tone="bad")
